//! `holm thread export`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use holm_thread_client::{Client, ExportEnd, ExportError, ExportWriter};

use super::Context;
use super::thread::{read_whole, wait_for};
use crate::args::ThreadExportArgs;
use crate::error::CliError;
use crate::output::{self, output_error};

pub(crate) fn run(context: &Context, args: &ThreadExportArgs) -> Result<u8, CliError> {
    let client = context.thread_client()?;
    let Some(path) = &args.output else {
        let stdout = io::BufWriter::new(io::stdout());
        wait_for(export(client, &args.thread, stdout, to_stdout))?;
        return Ok(0);
    };
    let end = to_file(client, &args.thread, path)?;
    if args.json {
        output::json(&end)?;
    } else {
        output::say(&format!("{} entries in `{}`", end.entries, path.display()));
    }
    Ok(0)
}

fn to_stdout(error: ExportError) -> CliError {
    let doing = "write to standard output";
    match error {
        ExportError::Write(source) => output_error(doing, source),
        other @ (ExportError::Read(_)
        | ExportError::NoExport
        | ExportError::Version { .. }
        | ExportError::LineTooLong { .. }
        | ExportError::CutOff
        | ExportError::Checksum { .. }
        | ExportError::Count { .. }) => CliError::Io {
            doing,
            source: io::Error::other(other),
        },
    }
}

/// The file has its name when it is whole.
fn to_file(client: Client, thread: &str, path: &Path) -> Result<ExportEnd, CliError> {
    let failed = |doing, path: &Path| {
        let path = path.to_path_buf();
        move |source| CliError::HostFile {
            doing,
            path,
            source,
        }
    };
    if path.exists() {
        return Err(CliError::Refused {
            what: format!("`{}` exists already", path.display()),
            hint: Some("choose another name, or remove it".to_owned()),
        });
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    let opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&part);
    let file = opened.map_err(failed("write", &part))?;
    let in_file = |source| CliError::Export {
        path: path.to_path_buf(),
        source,
    };
    let written = wait_for(export(client, thread, io::BufWriter::new(file), in_file));
    let end = written.and_then(|(out, end)| {
        let file: File = out
            .into_inner()
            .map_err(io::IntoInnerError::into_error)
            .map_err(failed("write", &part))?;
        file.sync_all().map_err(failed("write", &part))?;
        // Not over a file that has come meanwhile.
        fs::hard_link(&part, path).map_err(failed("make", path))?;
        Ok(end)
    });
    // Half a file is of no use to anybody.
    drop(fs::remove_file(&part));
    end
}

async fn export<W: Write>(
    client: Client,
    thread: &str,
    out: W,
    failed: impl Fn(ExportError) -> CliError,
) -> Result<(W, ExportEnd), CliError> {
    let row = client.thread(thread).await?;
    let mut writer = ExportWriter::begin(out, row).map_err(&failed)?;
    let whole = read_whole(&client, thread, |entry| {
        writer.entry(&entry.data).map_err(&failed)
    });
    match whole.await? {
        Some(row) => writer.end(row).map_err(&failed),
        None => Err(CliError::Refused {
            what: format!("thread `{thread}` changes faster than it can be exported"),
            hint: Some("try again when less is written to it".to_owned()),
        }),
    }
}
