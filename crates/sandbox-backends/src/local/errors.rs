//! From errors of the engine to errors of the contract, in one place.

use std::path::Path;

use holm_sandbox::SandboxError;
use holm_sandbox_linux::EngineError;
use holm_sandbox_linux::cgroup::CgroupError;
use holm_sandbox_linux::files::FilesError;

pub(crate) fn engine_error(error: EngineError) -> SandboxError {
    match error {
        EngineError::Cgroup {
            source: limit @ CgroupError::InvalidLimit { .. },
        } => SandboxError::Invalid {
            what: limit.to_string(),
            hint: "sizes take a unit, for instance 512m or 2g".into(),
        },
        EngineError::Invalid { what, hint } => SandboxError::Invalid { what, hint },
        EngineError::CommandUser { ref hint, .. } => SandboxError::Invalid {
            what: error.to_string(),
            hint: hint.clone(),
        },
        EngineError::CommandNotFound { program } => SandboxError::CommandNotFound { program },
        EngineError::CommandNotExecutable { program, source } => {
            SandboxError::CommandNotExecutable { program, source }
        }
        EngineError::NotRunning { .. } => SandboxError::Backend {
            doing: "reach the sandbox".into(),
            hint: Some(
                "it may have been stopped or removed; `holm sandbox list` shows what runs".into(),
            ),
            source: error.into(),
        },
        EngineError::HostLacks { ref hint, .. } => {
            let hint = Some(hint.clone());
            SandboxError::Backend {
                doing: "make an isolated box".into(),
                hint,
                source: error.into(),
            }
        }
        EngineError::Step { .. } => SandboxError::Backend {
            doing: "make an isolated box".into(),
            hint: Some("`holm doctor` shows what this host gives and what is missing".into()),
            source: error.into(),
        },
        EngineError::Spawner { .. }
        | EngineError::CannotPark { .. }
        | EngineError::Control { .. }
        | EngineError::NothingListens { .. }
        | EngineError::Launch { .. }
        | EngineError::HostFile { .. }
        | EngineError::Seccomp { .. }
        | EngineError::Cgroup { .. } => SandboxError::Backend {
            doing: "use the isolation engine".into(),
            hint: None,
            source: error.into(),
        },
    }
}

/// `base` is the sandbox's work directory, for messages.
pub(crate) fn files_error(error: FilesError, base: &Path) -> SandboxError {
    match error {
        FilesError::Escapes { path } => SandboxError::PathConfinement {
            path,
            base: base.to_path_buf(),
        },
        FilesError::NotFound { path } => SandboxError::NotFound { path },
        FilesError::NotAFile { path }
        | FilesError::NotAFifo { path }
        | FilesError::IsADirectory { path }
        | FilesError::KernelInterface { path } => SandboxError::NotAFile { path },
        FilesError::NotADirectory { path } => SandboxError::NotADirectory { path },
        FilesError::TooLarge { path, bytes_max } => SandboxError::TooLarge { path, bytes_max },
        FilesError::DestinationNotEmpty { path } => SandboxError::Invalid {
            what: format!("`{}` exists and is not an empty folder", path.display()),
            hint: "choose a folder that does not exist yet".into(),
        },
        FilesError::AlreadyExists { path } => SandboxError::Invalid {
            what: format!("`{}` exists already", path.display()),
            hint: "choose a name that is not in use".into(),
        },
        FilesError::Io {
            operation,
            path,
            source,
        } => SandboxError::Io {
            doing: operation.into(),
            path,
            source,
        },
        FilesError::InvalidPath { path, reason } => SandboxError::Invalid {
            what: format!("path `{}` {reason}", path.display()),
            hint: "give the path of a file or folder below the work directory".into(),
        },
        FilesError::TooManyEntries { .. }
        | FilesError::Unsettled { .. }
        | FilesError::KernelTooOld
        | FilesError::TwoIdentities { .. }
        | FilesError::ReadSource { .. } => SandboxError::Backend {
            doing: "work on the sandbox's files".into(),
            hint: None,
            source: error.into(),
        },
    }
}
