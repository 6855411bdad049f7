//! What a sandbox's gateway has done: counters, and the last refusals.
//!
//! A box can make refusals as fast as it likes, so what is kept is a ring, and what is logged has a
//! rate.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use crate::policy::Reason;

/// A host and port are shorter; what is longer was not one.
const TARGET_LENGTH_MAX: usize = 280;
const LOGGED_PER_SECOND_MAX: u32 = 10;

/// Something that a sandbox wanted and did not get.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub at: SystemTime,
    /// `host:port`.
    pub target: String,
    pub reason: Reason,
}

/// Sums since the gateway began to serve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    pub connections: u64,
    pub connections_open: u64,
    pub requests: u64,
    pub tunnels: u64,
    pub refusals: u64,
    /// From the sandbox, as they came through its listener.
    pub bytes_from_box: u64,
    pub bytes_to_box: u64,
}

#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) connections: AtomicU64,
    pub(crate) connections_open: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) tunnels: AtomicU64,
    refusals: AtomicU64,
    pub(crate) bytes_from_box: AtomicU64,
    pub(crate) bytes_to_box: AtomicU64,
    ring: Mutex<Ring>,
    kept_max: usize,
    /// The span in which serving began: it says whose refusals these are.
    span: tracing::Span,
}

#[derive(Debug, Default)]
struct Ring {
    kept: VecDeque<Refusal>,
    logged_second: u64,
    logged_count: u32,
}

impl Record {
    pub(crate) fn new(kept_max: usize) -> Self {
        Self {
            connections: AtomicU64::new(0),
            connections_open: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            tunnels: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            bytes_from_box: AtomicU64::new(0),
            bytes_to_box: AtomicU64::new(0),
            ring: Mutex::new(Ring::default()),
            kept_max,
            span: tracing::Span::current(),
        }
    }

    pub(crate) fn refused(&self, target: &str, reason: &Reason) {
        let at = SystemTime::now();
        self.refusals.fetch_add(1, Ordering::Relaxed);
        let target: String = target.chars().take(TARGET_LENGTH_MAX).collect();
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        if ring.may_log(at) {
            let log = || tracing::info!(%target, %reason, "egress refused");
            self.span.in_scope(log);
        }
        ring.kept.push_back(Refusal {
            at,
            target,
            reason: reason.clone(),
        });
        while ring.kept.len() > self.kept_max {
            ring.kept.pop_front();
        }
    }

    pub(crate) fn recent(&self) -> Vec<Refusal> {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.kept.iter().cloned().collect()
    }

    pub(crate) fn counters(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            connections: read(&self.connections),
            connections_open: read(&self.connections_open),
            requests: read(&self.requests),
            tunnels: read(&self.tunnels),
            refusals: read(&self.refusals),
            bytes_from_box: read(&self.bytes_from_box),
            bytes_to_box: read(&self.bytes_to_box),
        }
    }
}

impl Ring {
    fn may_log(&mut self, at: SystemTime) -> bool {
        let since_epoch = at
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        if self.logged_second != since_epoch.as_secs() {
            self.logged_second = since_epoch.as_secs();
            self.logged_count = 0;
        }
        self.logged_count = self.logged_count.saturating_add(1);
        self.logged_count <= LOGGED_PER_SECOND_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_refusals_are_kept_and_all_are_counted() {
        let record = Record::new(3);
        for number in 0..10 {
            record.refused(&format!("h{number}:443"), &Reason::Blocked);
        }
        record.refused(&"x".repeat(10_000), &Reason::Blocked);
        let targets: Vec<String> = record
            .recent()
            .into_iter()
            .map(|found| found.target)
            .collect();
        assert_eq!(targets.len(), 3);
        assert_eq!(targets[0], "h8:443");
        assert_eq!(targets[2].len(), TARGET_LENGTH_MAX);
        assert_eq!(record.counters().refusals, 11);
    }

    #[test]
    fn a_flood_is_not_logged_whole() {
        let mut ring = Ring::default();
        let now = SystemTime::now();
        let logged = (0..1000).filter(|_| ring.may_log(now)).count();
        assert_eq!(logged, 10);
    }
}
