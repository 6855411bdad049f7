//! The `.git` of a checkout: what the user's repository is inside a sandbox, and nothing more.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use holm_sandbox::Result;

use super::checkout::{at, write};
use super::repository::{Repository, read_optional};

/// A `.git` of its own for the checkout: no hooks, no credentials, no history of other worktrees.
pub(crate) fn write_private_git(git_dir: &Path, repository: &Repository) -> Result<()> {
    for folder in [
        "info",
        "objects/info",
        "objects/pack",
        "refs/heads",
        "refs/tags",
    ] {
        let folder = git_dir.join(folder);
        fs::create_dir_all(&folder).map_err(at("make folder", &folder))?;
    }
    write(
        &git_dir.join("HEAD"),
        format!("{}\n", repository.commit).as_bytes(),
    )?;
    write(
        &git_dir.join("config"),
        private_config(repository).as_bytes(),
    )?;
    if let Some(patterns) = &repository.sparse {
        write(&git_dir.join("info/sparse-checkout"), patterns)?;
    }
    if let Some(shallow) = &repository.shallow {
        write(&git_dir.join("shallow"), shallow)?;
    }
    for name in ["info/attributes", "info/exclude"] {
        if let Some(content) = read_optional(&repository.common_dir.join(name))? {
            write(&git_dir.join(name), &content)?;
        }
    }
    Ok(())
}

fn private_config(repository: &Repository) -> String {
    let mut lines = vec!["[core]".to_owned()];
    let is_sha256 = repository.object_format == "sha256";
    lines.push(format!(
        "\trepositoryformatversion = {}",
        u8::from(is_sha256)
    ));
    for fixed in [
        "bare = false",
        "logallrefupdates = true",
        "checkStat = minimal",
        "trustctime = false",
    ] {
        lines.push(format!("\t{fixed}"));
    }
    if is_sha256 {
        lines.push("[extensions]\n\tobjectFormat = sha256".to_owned());
    }
    // Work in the background would outlive the command that began it.
    lines.push("[gc]\n\tauto = 0\n[maintenance]\n\tauto = false".to_owned());
    let mut settings = repository.settings.clone();
    for (key, value) in [("user.name", "Holm"), ("user.email", "holm@localhost")] {
        if !settings.iter().any(|(known, _)| known == key) {
            settings.push((key.to_owned(), value.to_owned()));
        }
    }
    for (key, value) in &settings {
        if let Some((section, name)) = key.split_once('.')
            && key != "core.bare"
        {
            lines.push(format!("[{section}]\n\t{name} = {}", quoted(value)));
        }
    }
    for (remote, url) in &repository.remotes {
        let remote_quoted = quoted(remote);
        lines.push(format!("[remote {remote_quoted}]\n\turl = {}", quoted(url)));
        lines.push(format!(
            "\tfetch = {}",
            quoted(&format!("+refs/heads/*:refs/remotes/{remote}/*"))
        ));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Where a box sees its own layer over the checkout, to know whether anything has changed.
pub(crate) const CHANGES_PLACE: &str = "/run/holm/changes";

/// Lets git ask whether anything has changed since the checkout, before it looks at every file: a fresh
/// overlay makes the first look at a file several times as dear as the next.
///
/// The answer is "nothing" while the layer holds only `.git` and git has never been told otherwise: `$2`
/// is git's token, which a failure empties for good, so that a file which came, was noted in the index and
/// went is not forgotten. Any failure makes git look at the files. The command ends in `:` because
/// git appends its arguments.
pub(crate) fn monitoring_config() -> String {
    // In the shell alone, because a process more is a millisecond more. A pattern that matches nothing
    // stands for itself and does not exist.
    let untouched = format!(
        "cd {CHANGES_PLACE} && for f in * .[!.]* ..?*; do \
         test \"$f\" = .git || {{ test ! -e \"$f\" && test ! -L \"$f\"; }} || exit 1; done"
    );
    let command = format!("test \"$2\" = holm && {untouched} && {NOTHING_CHANGED} && :");
    format!(
        "[core]\n\tfsmonitor = {}\n\tfsmonitorHookVersion = 2\n",
        quoted(&command)
    )
}

/// The answer of a monitor to which nothing has happened: a token, and no path.
pub(crate) const NOTHING_CHANGED: &str = "printf 'holm\\0'";

/// A value of a git configuration file.
fn quoted(value: &str) -> String {
    let escaped = value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("\"{escaped}\"")
}

/// Paths for `GIT_ALTERNATE_OBJECT_DIRECTORIES`; git unquotes those that begin with a quote.
pub(crate) fn quoted_paths(paths: &[PathBuf]) -> OsString {
    let mut joined = Vec::new();
    for path in paths {
        if !joined.is_empty() {
            joined.push(b':');
        }
        joined.push(b'"');
        for &byte in path.as_os_str().as_bytes() {
            match byte {
                b'"' | b'\\' => joined.extend([b'\\', byte]),
                b'\n' => joined.extend(b"\\n"),
                _ => joined.push(byte),
            }
        }
        joined.push(b'"');
    }
    OsString::from_vec(joined)
}
