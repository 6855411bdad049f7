//! `holm sandbox cp`: files and folders in and out, by the rules of `cp -r`.
//!
//! Files are streamed, so their size does not matter, and appear at their destination whole or not at
//! all. A destination that is a folder takes the source under its own name.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use holm_sandbox::{SandboxError, confine_from};
use holm_sandbox_backends::local::LocalSandbox;
use holm_sandbox_linux::files::{
    ConfinedDir, CopyLimits, EntryKind, FilesError, Permissions, WriteOptions,
};

use super::Context;
use super::daytona::{self, Way};
use super::sandbox_export::tell_skipped;
use crate::args::{CopyArgs, SandboxKind};
use crate::error::CliError;

const PERMISSION_BITS: u32 = 0o777;

/// One side of a copy, as it was written.
#[derive(Debug, PartialEq, Eq)]
enum Side {
    Host(PathBuf),
    Sandbox { name: String, path: PathBuf },
}

/// What stands before the first colon is a sandbox's name, unless it cannot be one.
fn parse_side(text: &OsStr) -> Side {
    let bytes = text.as_bytes();
    let split = bytes
        .iter()
        .position(|byte| *byte == b':')
        .map(|at| bytes.split_at(at));
    match split {
        Some((name, rest))
            if !name.is_empty() && !name.starts_with(b".") && !name.contains(&b'/') =>
        {
            Side::Sandbox {
                name: String::from_utf8_lossy(name).into_owned(),
                path: OsStr::from_bytes(rest.get(1..).unwrap_or_default()).into(),
            }
        }
        _ => Side::Host(text.into()),
    }
}

pub(crate) fn run(context: &Context, args: &CopyArgs) -> Result<u8, CliError> {
    let refused = |what: &str| CliError::Refused {
        what: what.to_owned(),
        hint: Some("write one of them as NAME:PATH, where NAME is a sandbox".to_owned()),
    };
    match (parse_side(&args.source), parse_side(&args.destination)) {
        (Side::Host(_), Side::Host(_)) => Err(refused("neither path is in a sandbox")),
        (Side::Sandbox { .. }, Side::Sandbox { .. }) => Err(refused(
            "both paths are in sandboxes, and only one can be copied to or from the machine",
        )),
        (Side::Host(source), Side::Sandbox { name, path }) => {
            let (source, path) = (&source, &path);
            match context.backend(args.backend)? {
                SandboxKind::Local => copy_in(&context.start()?.open(&name)?, source, path),
                SandboxKind::Daytona => daytona::copy(context, &name, &Way::In { source, path }),
            }
        }
        (Side::Sandbox { name, path }, Side::Host(destination)) => {
            let (path, destination) = (&path, &destination);
            match context.backend(args.backend)? {
                SandboxKind::Local => copy_out(&context.start()?.open(&name)?, path, destination),
                SandboxKind::Daytona => {
                    daytona::copy(context, &name, &Way::Out { path, destination })
                }
            }
        }
    }?;
    Ok(0)
}

fn copy_in(sandbox: &LocalSandbox, source: &Path, destination: &Path) -> Result<(), CliError> {
    let files = sandbox.files()?;
    let found = fs::metadata(source).map_err(at("open", source))?;
    let wanted = confined(sandbox, destination)?;
    let target = match (kind_in(files, &wanted)?, must_be_folder(destination)) {
        (Some(EntryKind::Directory), _) | (None, true) => wanted.join(name_of(source, "")),
        (None, false) | (Some(EntryKind::File | EntryKind::Symlink | EntryKind::Other), _) => {
            wanted
        }
    };
    if found.is_dir() {
        let report = files.copy_tree_in(source, &target, CopyLimits::default())?;
        tell_skipped(&report);
        return Ok(());
    }
    let mut content = File::open(source).map_err(at("open", source))?;
    let options = WriteOptions {
        permissions: Permissions::KeepOr(found.permissions().mode() & PERMISSION_BITS),
        ..WriteOptions::default()
    };
    files.write_from(&target, &mut content, options)?;
    Ok(())
}

fn copy_out(sandbox: &LocalSandbox, source: &Path, destination: &Path) -> Result<(), CliError> {
    let files = sandbox.files()?;
    let from = confined(sandbox, source)?;
    let found = files.metadata(&from).map_err(|error| {
        if matches!(error, FilesError::NotFound { .. }) {
            // Said so that nobody looks for it on the machine.
            let path = source.to_path_buf();
            CliError::Sandbox(SandboxError::NotFound { path })
        } else {
            CliError::Files(error)
        }
    })?;
    let is_folder = destination.is_dir();
    let target = if is_folder {
        destination.join(name_of(&from, &sandbox.record().title()))
    } else {
        destination.to_path_buf()
    };
    if found.kind == EntryKind::Directory {
        let report = files.copy_tree_out(&from, &target, CopyLimits::default())?;
        tell_skipped(&report);
        return Ok(());
    }
    if must_be_folder(destination) && !is_folder {
        return Err(CliError::HostFile {
            doing: "copy into the folder",
            path: destination.to_path_buf(),
            source: io::ErrorKind::NotFound.into(),
        });
    }
    let mut content = files.open_read(&from)?;
    write_host_file(&target, &mut content, found.mode & PERMISSION_BITS)
}

/// A path in the sandbox, relative to its work folder.
fn confined(sandbox: &LocalSandbox, path: &Path) -> Result<PathBuf, CliError> {
    let work_dir = &sandbox.record().work_dir;
    Ok(confine_from(work_dir, work_dir, path)?)
}

fn kind_in(files: &ConfinedDir, path: &Path) -> Result<Option<EntryKind>, CliError> {
    match files.metadata(path) {
        Ok(found) => Ok(Some(found.kind)),
        Err(FilesError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn must_be_folder(path: &Path) -> bool {
    path.as_os_str().is_empty() || path.as_os_str().as_bytes().ends_with(b"/")
}

/// The name that a source keeps. One that names no entry (`.`, `..`, `/`) brings its content: a name
/// is made up for it where it needs one.
pub(super) fn name_of(path: &Path, otherwise: &str) -> OsString {
    // `a/.` has the file name `a` in the eyes of the standard library, but means what is in it.
    if path.as_os_str().as_bytes().ends_with(b"/.") {
        return OsString::from(otherwise);
    }
    path.file_name()
        .map_or_else(|| OsString::from(otherwise), OsStr::to_owned)
}

/// Writes a file of the host: whole or not at all where it is a regular one, directly where it is a
/// device or a pipe.
pub(super) fn write_host_file(
    path: &Path,
    content: &mut impl io::Read,
    mode: u32,
) -> Result<(), CliError> {
    // A link leads to the file that is meant.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            let mut file = File::options()
                .write(true)
                .open(path)
                .map_err(at("open", path))?;
            io::copy(content, &mut file).map_err(at("write", path))?;
            return Ok(());
        }
        Ok(_) | Err(_) => {}
    }
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}", holm_sandbox_linux::random_hex()));
    let temporary = path.with_file_name(name);
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)
        .map_err(at("write", path))?;
    let written = io::copy(content, &mut file)
        .and_then(|_| fs::rename(&temporary, path))
        .map_err(at("write", path));
    if written.is_err() {
        // The failure to tell is the first one.
        drop(fs::remove_file(&temporary));
    }
    written
}

pub(super) fn at<'a>(doing: &'static str, path: &'a Path) -> impl Fn(io::Error) -> CliError + 'a {
    move |source| CliError::HostFile {
        doing,
        path: path.to_path_buf(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_told_apart() {
        let host = |path: &str| Side::Host(path.into());
        let inside = |name: &str, path: &str| Side::Sandbox {
            name: name.into(),
            path: path.into(),
        };
        for (text, side) in [
            ("a", host("a")),
            ("./a:b", host("./a:b")),
            ("/x/a:b", host("/x/a:b")),
            (":b", host(":b")),
            ("box:", inside("box", "")),
            ("box:a:b", inside("box", "a:b")),
            ("box:/abs", inside("box", "/abs")),
        ] {
            assert_eq!(parse_side(OsStr::new(text)), side, "{text}");
        }
    }

    #[test]
    fn a_dot_brings_the_content() {
        for (path, name) in [
            ("a/b", "b"),
            ("a/b/", "b"),
            ("a/.", ""),
            (".", ""),
            ("/", ""),
        ] {
            assert_eq!(name_of(Path::new(path), ""), OsStr::new(name), "{path}");
        }
    }
}
