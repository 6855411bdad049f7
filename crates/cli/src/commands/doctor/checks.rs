//! What the machine's answers mean: functions of plain data, each with the exact command that helps.

use std::time::Duration;

use holm_sandbox_linux::cgroup::{Availability, Controller, Reason, Version};
use serde::Serialize;

use super::facts::{DataDirFacts, Facts, NamespaceFacts};
use crate::commands::sandbox_export::size;
use crate::environment::UserKind;

/// Overlays without root, which everything stands on, came with this one.
const KERNEL_MIN: (u32, u32) = (5, 11);
/// Mounts with translated owners, which `--dir` and repositories use as root, came with this one.
const KERNEL_FOR_OWNERS: (u32, u32) = (5, 12);
/// `git worktree add --lock --reason` came with this one.
const GIT_MIN: (u32, u32) = (2, 33);
/// Less than this is soon used up by a checkout.
const FREE_BYTES_MIN: u64 = 1 << 30;

/// One line of the screen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) verdict: Verdict,
    pub(super) detail: String,
    /// The command or the change that helps.
    pub(super) fix: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Good,
    /// Sandboxes work, but something that one may want does not.
    Limited,
    /// Sandboxes do not work.
    Missing,
}

impl Check {
    fn good(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Verdict::Good,
            detail: detail.into(),
            fix: None,
        }
    }

    fn limited(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Verdict::Limited,
            detail: detail.into(),
            fix: Some(fix.into()),
        }
    }

    fn missing(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Missing,
            ..Self::limited(name, detail, fix)
        }
    }
}

/// Everything that does not need the backend.
pub(super) fn of_host(facts: &Facts) -> Vec<Check> {
    vec![
        kernel(facts.kernel.as_deref()),
        user(facts.user),
        namespaces(&facts.namespaces, facts.user),
        overlay(facts.filesystems.as_deref(), facts.user),
        seccomp(facts.seccomp_actions.as_deref()),
        git(facts.git.as_deref(), facts.user),
        bubblewrap(facts.bubblewrap.as_deref(), facts.user),
    ]
}

/// A command as this user has to type it.
fn as_root(user: UserKind, command: &str) -> String {
    match user {
        UserKind::Root => command.to_owned(),
        UserKind::Ordinary => format!("sudo {command}"),
    }
}

/// The first two numbers of a version.
fn two_numbers(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn kernel(release: Option<&str>) -> Check {
    const NAME: &str = "kernel";
    let Some(release) = release else {
        return Check::missing(NAME, "there is no /proc to ask", "mount -t proc proc /proc");
    };
    match two_numbers(release) {
        Some(version) if version < KERNEL_MIN => Check::missing(
            NAME,
            release,
            format!("install Linux {}.{} or newer", KERNEL_MIN.0, KERNEL_MIN.1),
        ),
        Some(version) if version < KERNEL_FOR_OWNERS => Check::limited(
            NAME,
            format!("{release}: no mounts with translated owners"),
            format!(
                "install Linux {}.{} or newer",
                KERNEL_FOR_OWNERS.0, KERNEL_FOR_OWNERS.1
            ),
        ),
        Some(_) | None => Check::good(NAME, release),
    }
}

fn user(user: UserKind) -> Check {
    Check::good(
        "user",
        match user {
            UserKind::Root => "root: a box's root is an unprivileged user of the machine",
            UserKind::Ordinary => "ordinary: boxes are made through user namespaces",
        },
    )
}

fn namespaces(facts: &NamespaceFacts, user: UserKind) -> Check {
    const NAME: &str = "user namespaces";
    if facts.count_max == Some(0) {
        return Check::missing(
            NAME,
            "user.max_user_namespaces is 0",
            as_root(user, "sysctl -w user.max_user_namespaces=15000"),
        );
    }
    match user {
        UserKind::Root => {}
        UserKind::Ordinary if facts.unprivileged_clone == Some(0) => {
            return Check::missing(
                NAME,
                "kernel.unprivileged_userns_clone is 0",
                as_root(user, "sysctl -w kernel.unprivileged_userns_clone=1"),
            );
        }
        UserKind::Ordinary if facts.apparmor_restricts == Some(1) => {
            return Check::limited(
                NAME,
                "kernel.apparmor_restrict_unprivileged_userns is 1",
                as_root(
                    user,
                    "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
                ),
            );
        }
        UserKind::Ordinary => {}
    }
    match facts.count_max {
        Some(count) => Check::good(NAME, format!("allowed, up to {count}")),
        None => Check::missing(
            NAME,
            "the kernel does not have them",
            "use a kernel with CONFIG_USER_NS",
        ),
    }
}

fn overlay(filesystems: Option<&str>, user: UserKind) -> Check {
    const NAME: &str = "overlayfs";
    let is_there = filesystems.is_some_and(|list| {
        list.lines()
            .any(|line| line.split_whitespace().last() == Some("overlay"))
    });
    if is_there {
        Check::good(NAME, "there")
    } else {
        Check::missing(
            NAME,
            "the kernel has not loaded it",
            as_root(user, "modprobe overlay"),
        )
    }
}

fn seccomp(actions: Option<&str>) -> Check {
    const NAME: &str = "seccomp";
    if actions.is_some_and(|actions| actions.contains("errno")) {
        Check::good(NAME, "there")
    } else {
        Check::missing(
            NAME,
            "the kernel does not have filters",
            "use a kernel with CONFIG_SECCOMP_FILTER",
        )
    }
}

fn git(version: Option<&str>, user: UserKind) -> Check {
    const NAME: &str = "git";
    let install = as_root(user, "apt-get install git");
    match version.map(|version| (version, two_numbers(version))) {
        None => Check::limited(NAME, "not installed: --repo does not work", install),
        Some((version, Some(numbers))) if numbers < GIT_MIN => Check::limited(
            NAME,
            format!(
                "{version} is older than {}.{}: --repo does not work",
                GIT_MIN.0, GIT_MIN.1
            ),
            install,
        ),
        Some((version, _)) => Check::good(NAME, version),
    }
}

fn bubblewrap(version: Option<&str>, user: UserKind) -> Check {
    const NAME: &str = "bubblewrap";
    match version {
        Some(version) => Check::good(NAME, format!("{version}, for use inside --profile nested")),
        None => Check::limited(
            NAME,
            "not installed; only agents with a sandbox of their own need it",
            as_root(user, "apt-get install bubblewrap"),
        ),
    }
}

/// The limits that users can set, of all that control groups can do.
pub(super) fn limits(available: &[Availability], user: UserKind) -> Check {
    const NAME: &str = "limits";
    let wanted = [Controller::Memory, Controller::Cpu, Controller::Pids];
    let mut held = Vec::new();
    let mut missing = Vec::new();
    for controller in wanted {
        let place = available
            .iter()
            .find(|found| found.controller == controller)
            .map(|found| &found.place);
        let counted_otherwise = controller == Controller::Pids && user == UserKind::Ordinary;
        match place {
            Some(Ok((version, _))) => held.push((controller.name(), *version)),
            // The box's user namespace counts its processes where no control group can.
            Some(Err(_)) | None if counted_otherwise => {}
            Some(Err(reason)) => missing.push((controller.name(), reason.clone())),
            None => missing.push((controller.name(), Reason::NoController)),
        }
    }
    let Some((_, reason)) = missing.first() else {
        return Check::good(NAME, format!("{} ({})", names(&held), versions(&held)));
    };
    let detail = format!("{} cannot be limited: {reason}", names(&missing));
    let fix = match (reason, user) {
        (Reason::NotPermitted, UserKind::Ordinary) => {
            "run Holm as root, or on cgroup v2 in a delegated group: \
             systemd-run --user --scope -p Delegate=yes holm …"
        }
        (Reason::NoController, UserKind::Root | UserKind::Ordinary) => {
            "mount the controllers: mount -t cgroup2 none /sys/fs/cgroup"
        }
        (Reason::NotPermitted, UserKind::Root) | (Reason::Refused { .. }, _) => {
            "run Holm outside of a container, or give the container its control groups"
        }
    };
    Check::limited(NAME, detail, fix)
}

fn names<T>(found: &[(&'static str, T)]) -> String {
    let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn versions(held: &[(&'static str, Version)]) -> &'static str {
    let is = |version| held.iter().all(|(_, found)| *found == version);
    if is(Version::V1) {
        "cgroup v1"
    } else if is(Version::V2) {
        "cgroup v2"
    } else {
        "cgroup v1 and v2"
    }
}

pub(super) fn data_dir(facts: &DataDirFacts) -> Check {
    const NAME: &str = "data folder";
    const CHOOSE: &str = "choose another one with --data-dir or HOLM_DATA_DIR";
    let path = match &facts.path {
        Ok(path) => path.display(),
        Err(error) => return Check::missing(NAME, error.clone(), CHOOSE),
    };
    if let Some(refusal) = &facts.refusal {
        return Check::missing(NAME, format!("{path}: {refusal}"), CHOOSE);
    }
    let filesystem = facts.filesystem.unwrap_or("another file system");
    let Some(free_bytes) = facts.free_bytes else {
        return Check::good(NAME, format!("{path} ({filesystem})"));
    };
    let detail = format!("{path} ({filesystem}, {} free)", size(free_bytes));
    if free_bytes < FREE_BYTES_MIN {
        Check::limited(NAME, detail, "free some space, or use --data-dir")
    } else {
        Check::good(NAME, detail)
    }
}

pub(super) fn proof_succeeded(took: Duration) -> Check {
    let milliseconds = took.as_secs_f64() * 1000.0;
    Check::good(
        "a real sandbox",
        format!("made, used and removed in {milliseconds:.1} ms"),
    )
}

pub(super) fn proof_failed(detail: String, hint: Option<String>) -> Check {
    Check {
        name: "a real sandbox",
        verdict: Verdict::Missing,
        detail,
        // The doctor cannot send to the doctor.
        fix: hint.filter(|hint| !hint.contains("holm doctor")),
    }
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
