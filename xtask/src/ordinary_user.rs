//! The tests that need a user without privileges, when CI itself runs as root.
//!
//! The test binaries are not built again: nextest packs them into an archive, and the user `holm-test`
//! runs from it what [`ORDINARY_USER_FILTER`] selects. That user needs to read the repository (tests
//! look for files beside their package), but neither Cargo nor a toolchain.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use crate::process::{Context as _, Failure, Outcome, TestRun, cargo, program, run, run_tests};
use crate::workspace;

const USER: &str = "holm-test";

/// Selects the tests that say by their module that they want no privileges.
pub(crate) const ORDINARY_USER_FILTER: &str = "test(/^unprivileged::/) | test(/::unprivileged::/)";

/// Gives nothing when there is nothing to do: an ordinary user has run these tests with the others.
pub(crate) fn run_tests_as_ordinary_user() -> Outcome<Option<TestRun>> {
    if !workspace::is_root() {
        eprintln!("not root: these tests have already run with all others");
        return Ok(None);
    }
    let user = ensure_user()?;

    // In the system's folder for temporary files, because the user must be able to reach it.
    let folder = std::env::temp_dir().join(format!("holm-ordinary-user-{}", std::process::id()));
    fs::create_dir(&folder).context(format_args!("create `{}`", folder.display()))?;
    let outcome = run_from_archive(&user, &folder);
    fs::remove_dir_all(&folder).context(format_args!("remove `{}`", folder.display()))?;
    outcome.map(Some)
}

#[derive(Debug, PartialEq, Eq)]
struct User {
    uid: u32,
    gid: u32,
    home: String,
}

/// Finds the user of the tests, or makes it.
fn ensure_user() -> Outcome<User> {
    if let Some(user) = find_user()? {
        return Ok(user);
    }
    run(&mut program(
        "useradd",
        &["--system", "--create-home", USER],
    ))?;
    find_user()?.ok_or_else(|| Failure::new(format!("user `{USER}` is missing after `useradd`")))
}

fn find_user() -> Outcome<Option<User>> {
    let users = fs::read_to_string("/etc/passwd").context("read `/etc/passwd`")?;
    Ok(users.lines().find_map(|line| parse_user(line, USER)))
}

fn parse_user(line: &str, name: &str) -> Option<User> {
    let fields: Vec<&str> = line.split(':').collect();
    let [found, _, uid, gid, _, home, _] = fields.as_slice() else {
        return None;
    };
    if *found != name {
        return None;
    }
    Some(User {
        uid: uid.parse().ok()?,
        gid: gid.parse().ok()?,
        home: (*home).to_owned(),
    })
}

fn run_from_archive(user: &User, folder: &Path) -> Outcome<TestRun> {
    // `mkdir` leaves the mode to the umask, which may keep others out.
    make_reachable(folder)?;
    let archive = folder.join("tests.tar.zst");
    let mut pack = cargo(&["nextest", "archive", "--workspace", "--archive-file"]);
    run(pack.arg(&archive))?;
    make_readable(&archive)?;

    // Root's own programs are often in a folder that nobody else can enter.
    let nextest = workspace::find_program("cargo-nextest")
        .ok_or_else(|| Failure::new("cargo-nextest is not installed (`cargo xtask setup`)"))?;
    let nextest_copy = folder.join("cargo-nextest");
    fs::copy(&nextest, &nextest_copy).context(format_args!("copy `{}`", nextest.display()))?;
    make_reachable(&nextest_copy)?;

    let root = workspace::root();
    let home = fs::metadata(&user.home).context(format_args!("look at `{}`", user.home))?;
    if home.uid() != user.uid {
        return Err(Failure::new(format!(
            "`{}` does not belong to user `{USER}`",
            user.home
        )));
    }

    let mut command = as_user(user);
    command
        .arg(&nextest_copy)
        .args([
            "nextest",
            "run",
            "--profile",
            "ci",
            "--filterset",
            ORDINARY_USER_FILTER,
        ])
        .args(["--no-tests", "warn", "--archive-file"])
        .arg(&archive)
        .arg("--workspace-remap")
        .arg(&root)
        .current_dir(&root);
    Ok(run_tests(&mut command))
}

/// Starts what follows as the user, with an environment that has nothing of root's in it.
fn as_user(user: &User) -> Command {
    let mut command = Command::new("setpriv");
    command
        .arg(format!("--reuid={}", user.uid))
        .arg(format!("--regid={}", user.gid))
        .args(["--clear-groups", "--"])
        .env_clear()
        .env("HOME", &user.home)
        .env("USER", USER)
        .env("LOGNAME", USER)
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        );
    command
}

fn make_reachable(path: &Path) -> Outcome {
    set_mode(path, 0o755)
}

fn make_readable(path: &Path) -> Outcome {
    set_mode(path, 0o644)
}

fn set_mode(path: &Path, mode: u32) -> Outcome {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .context(format_args!("set the mode of `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_is_read_from_its_line_only() {
        let line = "holm-test:x:997:995::/home/holm-test:/bin/sh";
        let user = User {
            uid: 997,
            gid: 995,
            home: "/home/holm-test".to_owned(),
        };
        assert_eq!(parse_user(line, "holm-test"), Some(user));
        assert_eq!(parse_user(line, "holm"), None);
        assert_eq!(
            parse_user("holm-test:x:many:995::/home:/bin/sh", "holm-test"),
            None
        );
        assert_eq!(parse_user("holm-test", "holm-test"), None);
    }
}
