//! Finding and signalling everything that a command started.
//!
//! A process group is not enough: a command may have made sessions of its own or left orphans that now
//! belong to init. Three marks are followed: parent links, the command's session, and a random marker
//! in the environment that every descendant inherits unless it throws its environment away. A process
//! that evades all three is still inside its box and ends with it.

use std::collections::HashSet;
use std::fs;
use std::io::Read;

use crate::sys;

/// The environment variable that carries the marker.
pub const MARKER_VARIABLE: &str = "HOLM_JOB";

/// Scans until nothing new appears, so that a tree that forks while it is being killed dies too.
const ROUNDS_MAX: usize = 50;
/// An environment block is read up to here: more than the kernel allows. Shells put the marker anywhere.
const ENVIRONMENT_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Signals the tree of `root`. With SIGKILL, goes on until no member is left.
pub(crate) fn signal(root: i32, marker: &str, signal: i32) {
    signal_all(Some(root), marker, signal);
}

/// Signals what a command left behind that has ended and whose number may be another's by now.
pub(crate) fn signal_leftovers(marker: &str, signal: i32) {
    signal_all(None, marker, signal);
}

fn signal_all(root: Option<i32>, marker: &str, signal: i32) {
    let mut done = HashSet::new();
    for _ in 0..ROUNDS_MAX {
        let members = members(root, marker);
        let fresh: Vec<i32> = members
            .into_iter()
            .filter(|pid| done.insert(*pid))
            .collect();
        if fresh.is_empty() {
            return;
        }
        for pid in fresh {
            // One that has just ended, or that we may not signal, is none of ours any more.
            drop(sys::kill(pid, signal));
        }
        if signal != libc::SIGKILL {
            return;
        }
    }
}

/// What `/proc/PID/stat` tells about relations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Relations {
    pid: i32,
    parent: i32,
    session: i32,
    alive: Liveness,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Liveness {
    Running,
    Zombie,
}

fn members(root: Option<i32>, marker: &str) -> Vec<i32> {
    let own = std::process::id();
    let all: Vec<Relations> = numeric_entries()
        .filter(|pid| u32::try_from(*pid) != Ok(own))
        .filter_map(|pid| parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?))
        .collect();
    let mut found: HashSet<i32> = root.into_iter().collect();
    found.extend(
        all.iter()
            .filter(|process| Some(process.session) == root)
            .map(|process| process.pid),
    );
    add_descendants(&mut found, &all);
    let marked = all
        .iter()
        .filter(|process| !found.contains(&process.pid) && has_marker(process.pid, marker))
        .map(|process| process.pid)
        .collect::<Vec<_>>();
    found.extend(marked);
    // A marked orphan's child may have thrown its own marker away.
    add_descendants(&mut found, &all);
    all.into_iter()
        .filter(|process| found.contains(&process.pid) && process.alive == Liveness::Running)
        .map(|process| process.pid)
        .collect()
}

fn add_descendants(found: &mut HashSet<i32>, all: &[Relations]) {
    loop {
        let before = found.len();
        for process in all {
            if found.contains(&process.parent) {
                found.insert(process.pid);
            }
        }
        if found.len() == before {
            return;
        }
    }
}

fn numeric_entries() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Reads `pid (name) state ppid pgrp session …`; the name may hold anything, so it is skipped from the
/// last parenthesis.
fn parse_stat(stat: &[u8]) -> Option<Relations> {
    let pid = std::str::from_utf8(stat.split(|byte| *byte == b' ').next()?)
        .ok()?
        .parse()
        .ok()?;
    let after = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(after + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let alive = match fields.next()? {
        "Z" | "X" => Liveness::Zombie,
        _ => Liveness::Running,
    };
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some(Relations {
        pid,
        parent,
        session,
        alive,
    })
}

fn has_marker(pid: i32, marker: &str) -> bool {
    let Ok(file) = fs::File::open(format!("/proc/{pid}/environ")) else {
        return false;
    };
    let mut environment = Vec::new();
    if file
        .take(ENVIRONMENT_BYTES_MAX)
        .read_to_end(&mut environment)
        .is_err()
    {
        return false;
    }
    let wanted = format!("{MARKER_VARIABLE}={marker}");
    environment
        .split(|byte| *byte == 0)
        .any(|entry| entry == wanted.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_past_a_hostile_name() {
        let stat = b"42 (a) Z 1 (b c)) S 7 42 9 0 -1";
        assert_eq!(
            parse_stat(stat),
            Some(Relations {
                pid: 42,
                parent: 7,
                session: 9,
                alive: Liveness::Running
            })
        );
    }

    #[test]
    fn a_cut_stat_is_no_process() {
        assert_eq!(parse_stat(b"42 (a"), None);
        assert_eq!(parse_stat(b""), None);
    }
}
