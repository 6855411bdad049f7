//! Which process a number meant when it was written down.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags};
use serde::{Deserialize, Serialize};

use crate::boxes::end_process;

/// A process that can be found again, and told from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
}

impl ProcessIdentity {
    /// The process that has this number now.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let start_ticks = running_since(&stat)?;
        Some(Self { pid, start_ticks })
    }

    /// A pidfd of it, if that very process still runs.
    pub fn open(self) -> Option<OwnedFd> {
        let process =
            rustix::process::pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // Compared after the descriptor was taken, so that it cannot be another process's.
        (Self::of(self.pid) == Some(self)).then_some(process)
    }

    /// Kills it, if that very process still runs, and waits until the kernel is done with it.
    pub fn kill(self) {
        if let Some(process) = self.open() {
            end_process(&process);
        }
    }
}

/// Field 22 of a stat line, unless the process has ended and only waits to be reaped: where PID 1 of a
/// container reaps nobody, that is for ever.
fn running_since(stat: &str) -> Option<u64> {
    // The name, which may hold anything, ends with the last parenthesis; field 3 follows.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    match fields.next()? {
        "Z" | "X" => None,
        _ => fields.nth(22 - 4)?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_again_and_another_is_not() {
        let me = i32::try_from(std::process::id()).unwrap();
        let identity = ProcessIdentity::of(me).unwrap();
        assert!(identity.open().is_some());
        let earlier = ProcessIdentity {
            start_ticks: identity.start_ticks - 1,
            ..identity
        };
        assert!(earlier.open().is_none());
    }

    #[test]
    fn a_zombie_runs_no_more() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while ProcessIdentity::of(pid).is_some() {
            assert!(std::time::Instant::now() < until, "`true` does not end");
            std::thread::yield_now();
        }
        assert!(fs::exists(format!("/proc/{pid}/stat")).unwrap());
        child.wait().unwrap();
    }

    #[test]
    fn a_hostile_name_moves_no_field() {
        let numbers: Vec<String> = (4..30).map(|number| number.to_string()).collect();
        let stat = format!("42 (a) Z 1 (b)) S {}", numbers.join(" "));
        assert_eq!(running_since(&stat), Some(22));
        assert_eq!(running_since(&stat.replace(" S ", " Z ")), None);
        assert_eq!(running_since("42 (a"), None);
    }
}
