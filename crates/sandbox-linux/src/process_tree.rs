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

/// Scans until nothing new appears, so that a tree that forks while it is being ended dies too.
const ROUNDS_MAX: usize = 200;
/// An environment block is read up to here: more than the kernel allows. Shells put the marker anywhere.
const ENVIRONMENT_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// A process that nobody else is mistaken for: a number is given again, but not at the same moment.
type Member = (i32, u64);

/// Signals the tree of `root`. With SIGKILL, goes on until no member is left.
pub(crate) fn signal(root: i32, marker: &str, signal: i32) {
    signal_until_none_is_new(signal, |_| members(Some(root), marker));
}

/// Signals what a command left behind that has ended and whose number may be another's by now.
pub(crate) fn signal_leftovers(marker: &str, signal: i32) {
    signal_until_none_is_new(signal, |_| members(None, marker));
}

/// Signals the children of `root` that started at `ticks` or later, each with all that it started.
///
/// `root` is a shell that others use too: neither it nor its older children are meant, hence neither its session nor
/// its marker tell anything. What is followed besides parent links are groups and sessions that a
/// member leads. An orphan that is in neither is not found.
pub(crate) fn signal_started_since(root: i32, ticks: u64, signal: i32) {
    signal_until_none_is_new(signal, |known| {
        let known = known.iter().map(|(pid, _)| *pid).collect();
        members_started_since(&scan(), root, ticks, &known)
    });
}

/// Signals every member once. Those that shall die are stopped first, all of them: a stopped process forks no more and
/// keeps its place, so a fork bomb runs out of room, whereas each one killed alone would make room for another.
fn signal_until_none_is_new(signal: i32, find: impl Fn(&HashSet<Member>) -> Vec<Member>) {
    if signal != libc::SIGKILL {
        send(&find(&HashSet::new()), signal);
        return;
    }
    let mut killed = HashSet::new();
    let mut stopped = HashSet::new();
    for _ in 0..ROUNDS_MAX {
        let members = find(&stopped);
        let fresh: Vec<Member> = members
            .iter()
            .copied()
            .filter(|member| stopped.insert(*member))
            .collect();
        send(&fresh, libc::SIGSTOP);
        if fresh.is_empty() {
            let living: Vec<Member> = members
                .into_iter()
                .filter(|member| killed.insert(*member))
                .collect();
            if living.is_empty() {
                return;
            }
            send(&living, libc::SIGKILL);
        }
    }
    // Somebody lets them go on as fast as we stop them: what is known dies all the same.
    let known: Vec<Member> = stopped.into_iter().collect();
    send(&known, libc::SIGKILL);
}

fn send(members: &[Member], signal: i32) {
    for (pid, _) in members {
        // One that has just ended, or that we may not signal, is none of ours any more.
        drop(sys::kill(*pid, signal));
    }
}

fn members_started_since(
    all: &[Relations],
    root: i32,
    ticks: u64,
    known: &HashSet<i32>,
) -> Vec<Member> {
    let mut found = known.clone();
    found.extend(
        all.iter()
            .filter(|process| process.parent == root && process.started_ticks >= ticks)
            .map(|process| process.pid),
    );
    loop {
        let before = found.len();
        for process in all.iter().filter(|process| process.pid != root) {
            if [process.parent, process.group, process.session]
                .iter()
                .any(|relative| found.contains(relative))
            {
                found.insert(process.pid);
            }
        }
        if found.len() == before {
            break;
        }
    }
    living(all, &found)
}

fn living(all: &[Relations], found: &HashSet<i32>) -> Vec<Member> {
    all.iter()
        .filter(|process| found.contains(&process.pid) && process.alive == Liveness::Running)
        .map(|process| (process.pid, process.started_ticks))
        .collect()
}

/// The moment as the kernel writes it into `stat`: a process that starts from now on has this number or a higher one.
///
/// One that started in the same hundredth of a second has it too.
pub fn ticks_now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let nanos_per_tick = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(now.tv_nsec).unwrap_or_default();
    (seconds * 1_000_000_000 + nanos) / nanos_per_tick
}

/// Processes that this process sees, without itself and without the dead.
pub(crate) fn count_others() -> u64 {
    let alive = scan()
        .iter()
        .filter(|process| process.alive == Liveness::Running)
        .count();
    u64::try_from(alive).unwrap_or(u64::MAX)
}

/// What `/proc/PID/stat` tells about relations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Relations {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    started_ticks: u64,
    alive: Liveness,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Liveness {
    Running,
    Zombie,
}

/// Everybody but ourselves.
fn scan() -> Vec<Relations> {
    let own = std::process::id();
    numeric_entries()
        .filter(|pid| u32::try_from(*pid) != Ok(own))
        .filter_map(|pid| parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?))
        .collect()
}

fn members(root: Option<i32>, marker: &str) -> Vec<Member> {
    let all = scan();
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
    living(&all, &found)
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

/// Reads `pid (name) state ppid pgrp session …`, and field 22; the name may hold anything, so it is skipped from the
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
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    let started_ticks = fields.nth(22 - 7)?.parse().ok()?;
    Some(Relations {
        pid,
        parent,
        group,
        session,
        started_ticks,
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
        let numbers: Vec<String> = (4..30).map(|number| number.to_string()).collect();
        let stat = format!("42 (a) Z 1 (b c)) S {}", numbers.join(" "));
        assert_eq!(
            parse_stat(stat.as_bytes()),
            Some(Relations {
                pid: 42,
                parent: 4,
                group: 5,
                session: 6,
                started_ticks: 22,
                alive: Liveness::Running
            })
        );
    }

    #[test]
    fn a_cut_stat_is_no_process() {
        assert_eq!(parse_stat(b"42 (a"), None);
        assert_eq!(parse_stat(b""), None);
    }

    fn process(pid: i32, parent: i32, group: i32, started_ticks: u64) -> Relations {
        Relations {
            pid,
            parent,
            group,
            session: 10,
            started_ticks,
            alive: Liveness::Running,
        }
    }

    #[test]
    fn only_what_started_since_is_meant() {
        let shell = 10;
        let mut led_away = process(25, 1, 25, 60);
        led_away.session = 20;
        let all = [
            process(shell, 1, 10, 50),
            // Older, with a child that is young.
            process(11, shell, 11, 99),
            process(12, 11, 11, 150),
            // Young, with a child, an orphan of its group and one of its session.
            process(20, shell, 20, 100),
            process(21, 20, 20, 100),
            process(24, 1, 20, 130),
            led_away,
            // Another command's.
            process(30, 1, 30, 160),
        ];
        let mut found = members_started_since(&all, shell, 100, &HashSet::new());
        found.sort_unstable();
        assert_eq!(found, [(20, 100), (21, 100), (24, 130), (25, 60)]);
        assert!(members_started_since(&all, shell, 101, &HashSet::new()).is_empty());
    }

    #[test]
    fn a_process_starts_at_the_tick_that_is_now() {
        let before = ticks_now();
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let after = ticks_now();
        let pid = i32::try_from(child.id()).unwrap();
        let started = crate::ProcessIdentity::of(pid).unwrap().start_ticks;
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(
            (before..=after).contains(&started),
            "{before} {started} {after}"
        );
    }
}
