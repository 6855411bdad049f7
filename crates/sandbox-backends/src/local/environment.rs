//! The environment that commands start with.
//!
//! A box inherits nothing: not the caller's keys and tokens, not even names. It gets a home of its own,
//! the parts of the caller's `PATH` that exist inside, and what its toolchains need to find themselves.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use holm_sandbox_linux::HostBase;

use super::config::LocalConfig;

const SYSTEM_PATH: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// Passed on as they are: they describe the terminal and the language, not the user.
const PASSED_ON: [&str; 5] = ["COLORTERM", "LANG", "NO_COLOR", "TERM", "TZ"];

pub(crate) type Environment = Vec<(OsString, OsString)>;

/// The environment of a command in a box.
pub(crate) fn inside_box(config: &LocalConfig, base: &HostBase) -> Environment {
    let mut environment: Environment = vec![
        ("PATH".into(), path_inside(config, base)),
        ("HOME".into(), base.account.home().into()),
        ("USER".into(), base.account.name().into()),
        ("LOGNAME".into(), base.account.name().into()),
        ("SHELL".into(), "/bin/bash".into()),
        ("TMPDIR".into(), "/tmp".into()),
        ("HOLM_SANDBOX".into(), "1".into()),
    ];
    for name in PASSED_ON {
        if let Some(value) = config.variable(name) {
            environment.push((name.into(), value.to_owned()));
        }
    }
    for toolchain in &base.toolchains {
        if let Some(variable) = toolchain.variable {
            environment.push((variable.into(), toolchain.path.clone().into_os_string()));
        }
    }
    environment
}

fn path_inside(config: &LocalConfig, base: &HostBase) -> OsString {
    let callers = config
        .variable("PATH")
        .map(OsStrExt::as_bytes)
        .unwrap_or_default();
    let mut folders: Vec<&[u8]> = Vec::new();
    let visible = callers
        .split(|byte| *byte == b':')
        .filter(|folder| base.shows(Path::new(std::ffi::OsStr::from_bytes(folder))));
    for folder in visible.chain(SYSTEM_PATH.iter().map(|folder| folder.as_bytes())) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    OsString::from_vec(folders.join(&b':'))
}

/// The environment of a plain command: the caller's own.
pub(crate) fn plain(config: &LocalConfig) -> Environment {
    config.environment.clone()
}

/// Sets variables, replacing those of the same name.
pub(crate) fn extend(
    environment: &mut Environment,
    more: impl IntoIterator<Item = (OsString, OsString)>,
) {
    for (key, value) in more {
        environment.retain(|(known, _)| *known != key);
        environment.push((key, value));
    }
}
