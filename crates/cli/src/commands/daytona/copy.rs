//! `holm sandbox cp --sandbox daytona`, by the rules of `cp -r`.

use std::fs;
use std::path::Path;

use holm_sandbox::{ErrorKind, Sandbox};

use super::Remote;
use crate::commands::Context;
use crate::commands::sandbox_copy::{at, must_be_folder, name_of, write_host_file};
use crate::error::CliError;

const NEW_FILE_MODE: u32 = 0o644;

/// Which way a copy goes.
#[derive(Debug)]
pub(crate) enum Way<'a> {
    In {
        source: &'a Path,
        path: &'a Path,
    },
    Out {
        path: &'a Path,
        destination: &'a Path,
    },
}

pub(crate) fn run(context: &Context, name: &str, way: &Way<'_>) -> Result<(), CliError> {
    let remote = Remote::new(context)?;
    let sandbox = remote.attach(name)?;
    remote.runtime.block_on(async {
        match way {
            Way::In { source, path } => copy_in(&sandbox, source, path).await,
            Way::Out { path, destination } => copy_out(&sandbox, name, path, destination).await,
        }
    })
}

async fn copy_in(sandbox: &dyn Sandbox, source: &Path, path: &Path) -> Result<(), CliError> {
    let found = fs::metadata(source).map_err(at("open", source))?;
    let is_folder = match sandbox.list_directory(path).await {
        Ok(_) => true,
        Err(error) => match error.kind() {
            ErrorKind::NotFound => must_be_folder(path),
            ErrorKind::WrongFileKind => false,
            ErrorKind::InvalidInput
            | ErrorKind::Confinement
            | ErrorKind::TooLarge
            | ErrorKind::CommandNotFound
            | ErrorKind::CommandNotExecutable
            | ErrorKind::Unsupported
            | ErrorKind::TornDown
            | ErrorKind::Failed => return Err(error.into()),
        },
    };
    let target = if is_folder {
        path.join(name_of(source, ""))
    } else {
        path.to_path_buf()
    };
    if found.is_dir() {
        sandbox.refresh_from_host(source, &target).await?;
    } else {
        let content = fs::read(source).map_err(at("read", source))?;
        sandbox.write_file(&target, &content).await?;
    }
    Ok(())
}

async fn copy_out(
    sandbox: &dyn Sandbox,
    name: &str,
    path: &Path,
    destination: &Path,
) -> Result<(), CliError> {
    let target = if destination.is_dir() {
        destination.join(name_of(path, name))
    } else {
        destination.to_path_buf()
    };
    match sandbox.read_file(path).await {
        Ok(content) => write_host_file(&target, &mut content.as_slice(), NEW_FILE_MODE),
        Err(error) if error.kind() == ErrorKind::WrongFileKind => {
            sandbox.export_directory(path, &target).await?;
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
