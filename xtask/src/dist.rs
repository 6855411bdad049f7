//! `cargo xtask dist`: the program as it is shipped, one static file.
//!
//! Static, because the same file is meant to run on any Linux, and because there is less to load: a
//! command of a few milliseconds notices the difference.

use std::path::PathBuf;
use std::process::Command;

use crate::process::{Context as _, Failure, Outcome, cargo, run};
use crate::workspace;

/// Builds it and says where it is.
pub(crate) fn build() -> Outcome<PathBuf> {
    let triple = host_triple()?;
    // With the target named, the flags reach the program only and not the compiler's plugins.
    let mut command = cargo(&[
        "build",
        "--release",
        "--package",
        "holm",
        "--target",
        &triple,
    ]);
    command.env(
        "RUSTFLAGS",
        "-C target-feature=+crt-static -C relocation-model=static",
    );
    run(&mut command)?;
    Ok(workspace::target().join(triple).join("release/holm"))
}

fn host_triple() -> Outcome<String> {
    let version = Command::new("rustc")
        .arg("-vV")
        .current_dir(workspace::root())
        .output()
        .context("run `rustc -vV`")?;
    let text = String::from_utf8_lossy(&version.stdout).into_owned();
    text.lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .ok_or_else(|| Failure::new("`rustc -vV` names no host"))
}
