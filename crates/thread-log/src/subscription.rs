//! Subscriptions: somebody is woken when streams have grown, and says how far it got.
//!
//! ```text
//!              something is pending              claimed, or delivered
//!     Idle ───────────────────────────▶ Woken ─────────────────────────▶ Held ◀──┐ acknowledged, not done
//!      ▲                                                                  │  └───┘
//!      └──────────── done, released, or the lease is over ────────────────┘
//! ```
//!
//! - Pending is what lies behind the acknowledged offset of a stream: nothing is lost by a wake that nobody hears.
//! - Each wake has a higher generation. Who answers to an earlier one is fenced off.
//! - Nothing here reads a clock, a stream or a random number: they are given.

mod pattern;
mod request;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::expiry::Timestamp;
use crate::name::StreamName;
use crate::offset::Offset;

pub use pattern::{Pattern, PatternError};
pub use request::{Acknowledge, AcknowledgeError, Acknowledgement, Define, DefineError};

/// Streams that one subscription may be for.
pub const LINKS_MAX: usize = 10_000;
/// The first pause before a call is tried again; each is twice the one before.
const RETRY_MILLISECONDS: i64 = 1_000;
const RETRY_MILLISECONDS_MAX: i64 = 60_000;

/// The ends of streams, by name. One that is missing is at its start.
pub type Tails = BTreeMap<String, Offset>;

/// What is stored. Its JSON is a stored format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    pub format: u32,
    pub id: String,
    pub organization: String,
    pub definition: Definition,
    /// What its owner called the server, for the addresses in calls.
    pub base_url: String,
    pub created_at: i64,
    pub links: BTreeMap<String, Link>,
    pub generation: u64,
    pub wake: Option<Wake>,
    /// Calls that failed in a row.
    pub failures: u32,
}

/// What it was asked to be. The same again is no change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    pub kind: Kind,
    pub pattern: Option<Pattern>,
    /// Those that were named when it was made, sorted.
    pub streams: Vec<String>,
    pub lease_milliseconds: i64,
    pub description: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The server calls.
    Webhook { url: String },
    /// Workers read this stream, and claim.
    PullWake { wake_stream: String },
}

/// A stream that it is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// By the pattern, by name, or both.
    pub by: Vec<LinkType>,
    pub acked: Offset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkType {
    Glob,
    Explicit,
}

/// Somebody was told, or is being told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    pub id: String,
    /// Where the streams ended then.
    pub snapshot: Tails,
    /// The stream that it was for.
    pub trigger: String,
    pub holder: Option<String>,
    /// When it is taken back from whoever has it.
    pub lease_until: Option<i64>,
    /// When it is to be called, if that has not succeeded yet.
    pub attempt_at: Option<i64>,
}

/// A stream as its subscriber sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub path: String,
    pub link_type: LinkType,
    pub acked: Offset,
    pub tail: Offset,
}

impl Standing {
    pub fn is_pending(&self) -> bool {
        self.tail > self.acked
    }
}

/// Why a subscriber is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("the subscription is not of the kind `pull-wake`")]
    NotPullWake,
    #[error("another worker holds it")]
    AlreadyClaimed { holder: String, generation: u64 },
    #[error("there is nothing to do")]
    NothingPending,
    #[error("the wake is over: another generation has begun")]
    Fenced,
    #[error("`{0}` is no stream of this subscription")]
    UnknownStream(String),
    #[error("the acknowledged offset of `{0}` lies before the one that is known")]
    OffsetBehind(String),
    #[error("the acknowledged offset of `{0}` lies behind the stream's end")]
    OffsetAhead(String),
}

/// What happens after a subscriber was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It goes on, or nothing is pending.
    Nothing,
    /// There is more: it is woken again.
    Wake,
}

impl Subscription {
    pub fn new(
        id: String,
        organization: String,
        definition: Definition,
        base_url: String,
        now: Timestamp,
    ) -> Self {
        Self {
            format: 1,
            id,
            organization,
            definition,
            base_url,
            created_at: now.0,
            links: BTreeMap::new(),
            generation: 0,
            wake: None,
            failures: 0,
        }
    }

    /// Whether its pattern is for this stream. Its own wake stream is not: it would wake itself for ever.
    pub fn wants(&self, name: &StreamName) -> bool {
        let is_own = match &self.definition.kind {
            Kind::PullWake { wake_stream } => wake_stream == name.as_str(),
            Kind::Webhook { .. } => false,
        };
        let pattern = self.definition.pattern.as_ref();
        !is_own && pattern.is_some_and(|pattern| pattern.matches(name))
    }

    /// Adds a stream, from an offset on. One that is there keeps its offset. False: there are too many.
    #[must_use]
    pub fn link(&mut self, name: &str, by: LinkType, acked: Offset) -> bool {
        if let Some(link) = self.links.get_mut(name) {
            if !link.by.contains(&by) {
                link.by.push(by);
            }
            return true;
        }
        if self.links.len() >= LINKS_MAX {
            return false;
        }
        let link = Link {
            by: vec![by],
            acked,
        };
        self.links.insert(name.to_owned(), link);
        true
    }

    /// Takes a name out that was given; the pattern may still be for it.
    pub fn unlink(&mut self, name: &str) {
        if let Some(link) = self.links.get_mut(name) {
            link.by.retain(|by| *by != LinkType::Explicit);
            if link.by.is_empty() {
                self.links.remove(name);
            }
        }
    }

    pub fn standings(&self, tails: &Tails) -> Vec<Standing> {
        let standing = |(path, link): (&String, &Link)| Standing {
            path: path.clone(),
            link_type: if link.by.contains(&LinkType::Explicit) {
                LinkType::Explicit
            } else {
                LinkType::Glob
            },
            acked: link.acked,
            tail: tails.get(path).copied().unwrap_or(Offset::START),
        };
        self.links.iter().map(standing).collect()
    }

    /// The stream to be woken for, if it is time.
    pub fn is_due(&self, tails: &Tails) -> Option<String> {
        if self.wake.is_some() {
            return None;
        }
        self.first_pending(tails)
    }

    fn first_pending(&self, tails: &Tails) -> Option<String> {
        let pending = |(path, link): &(&String, &Link)| {
            tails.get(*path).is_some_and(|tail| *tail > link.acked)
        };
        self.links
            .iter()
            .find(pending)
            .map(|(path, _)| path.clone())
    }

    /// Begins a wake, if something is pending and none is under way.
    pub fn begin(&mut self, tails: &Tails, wake_id: String, now: Timestamp) -> After {
        let Some(trigger) = self.is_due(tails) else {
            return After::Nothing;
        };
        let attempt_at = match self.definition.kind {
            Kind::Webhook { .. } => Some(now.0),
            Kind::PullWake { .. } => None,
        };
        let snapshot = tails
            .iter()
            .filter(|(path, _)| self.links.contains_key(*path))
            .map(|(path, tail)| (path.clone(), *tail))
            .collect();
        self.generation += 1;
        self.wake = Some(Wake {
            id: wake_id,
            snapshot,
            trigger,
            holder: None,
            lease_until: None,
            attempt_at,
        });
        After::Wake
    }

    /// Gives the work to a worker. A refusal may have changed something, too.
    pub fn claim(
        &mut self,
        worker: &str,
        tails: &Tails,
        wake_id: String,
        now: Timestamp,
    ) -> Result<(), Problem> {
        let lease_until = self.lease_from(now);
        let Kind::PullWake { .. } = self.definition.kind else {
            return Err(Problem::NotPullWake);
        };
        let holder = self.wake.as_ref().and_then(|wake| wake.holder.clone());
        if let Some(holder) = holder {
            return Err(Problem::AlreadyClaimed {
                holder,
                generation: self.generation,
            });
        }
        if self.first_pending(tails).is_none() {
            // What it was for is gone: the next thing that comes has to be told.
            self.wake = None;
            return Err(Problem::NothingPending);
        }
        if self.wake.is_none() {
            // A worker may come before it was told.
            self.begin(tails, wake_id, now);
        }
        if let Some(wake) = &mut self.wake {
            wake.holder = Some(worker.to_owned());
            wake.lease_until = Some(lease_until);
        }
        Ok(())
    }

    fn lease_from(&self, now: Timestamp) -> i64 {
        now.0.saturating_add(self.definition.lease_milliseconds)
    }

    /// Whether whoever speaks has the wake of this moment. `generation` is what its token says.
    fn check(&self, generation: u64, request: &Acknowledge) -> Result<(), Problem> {
        let is_current = self.wake.as_ref().is_some_and(|wake| {
            generation == self.generation
                && request.generation == Some(self.generation)
                && request.wake_id.as_deref() == Some(&wake.id)
        });
        if is_current {
            Ok(())
        } else {
            Err(Problem::Fenced)
        }
    }

    /// Notes how far the subscriber got, and whether it is done.
    pub fn acknowledge(
        &mut self,
        generation: u64,
        request: &Acknowledge,
        tails: &Tails,
        now: Timestamp,
    ) -> Result<After, Problem> {
        self.check(generation, request)?;
        for Acknowledgement { stream, offset } in &request.acks {
            let link = self.links.get(stream);
            let link = link.ok_or_else(|| Problem::UnknownStream(stream.clone()))?;
            if *offset < link.acked {
                return Err(Problem::OffsetBehind(stream.clone()));
            }
            if *offset > tails.get(stream).copied().unwrap_or(Offset::START) {
                return Err(Problem::OffsetAhead(stream.clone()));
            }
        }
        for Acknowledgement { stream, offset } in &request.acks {
            if let Some(link) = self.links.get_mut(stream) {
                link.acked = *offset;
            }
        }
        if request.done {
            return Ok(self.end(tails));
        }
        let lease_until = self.lease_from(now);
        if let Some(wake) = &mut self.wake {
            wake.lease_until = Some(lease_until);
            // Whoever answers was reached.
            wake.attempt_at = None;
        }
        Ok(After::Nothing)
    }

    /// Takes the work back from a worker that does not want it.
    pub fn release(
        &mut self,
        generation: u64,
        request: &Acknowledge,
        tails: &Tails,
    ) -> Result<After, Problem> {
        let Kind::PullWake { .. } = self.definition.kind else {
            return Err(Problem::NotPullWake);
        };
        self.check(generation, request)?;
        Ok(self.end(tails))
    }

    /// Ends the wake. If something is still pending, another one is due.
    fn end(&mut self, tails: &Tails) -> After {
        self.wake = None;
        self.failures = 0;
        match self.is_due(tails) {
            Some(_) => After::Wake,
            None => After::Nothing,
        }
    }

    /// When it has to be looked at again, though no stream changes.
    pub fn deadline(&self) -> Option<i64> {
        let wake = self.wake.as_ref()?;
        wake.attempt_at.or(wake.lease_until)
    }

    /// Takes the wake back if its lease is over.
    pub fn expire(&mut self, now: Timestamp) {
        let is_over = |wake: &Wake| {
            wake.attempt_at.is_none() && wake.lease_until.is_some_and(|until| until <= now.0)
        };
        if self.wake.as_ref().is_some_and(is_over) {
            self.wake = None;
        }
    }

    /// Takes a call that is due upon oneself, for so long. `None`: there is none, or another has it.
    pub fn take_attempt(&mut self, now: Timestamp, milliseconds: i64) -> Option<&Wake> {
        let wake = self.wake.as_mut()?;
        if wake.attempt_at? > now.0 {
            return None;
        }
        wake.attempt_at = Some(now.0.saturating_add(milliseconds));
        Some(wake)
    }

    /// A call of this generation was answered well. `done` says that there is nothing more to it.
    pub fn answered(
        &mut self,
        generation: u64,
        done: Done,
        tails: &Tails,
        now: Timestamp,
    ) -> After {
        if generation != self.generation || self.wake.is_none() {
            return After::Nothing;
        }
        self.failures = 0;
        let lease_until = self.lease_from(now);
        let Some(wake) = &mut self.wake else {
            return After::Nothing;
        };
        match done {
            Done::NotYet => {
                wake.attempt_at = None;
                wake.lease_until = Some(lease_until);
                After::Nothing
            }
            Done::All => {
                for (path, tail) in std::mem::take(&mut wake.snapshot) {
                    if let Some(link) = self.links.get_mut(&path) {
                        link.acked = link.acked.max(tail);
                    }
                }
                self.end(tails)
            }
        }
    }

    /// A call of this generation failed: it is tried again later, after a pause that is changed by up to a fifth.
    pub fn unanswered(&mut self, generation: u64, jitter_percent: i64, now: Timestamp) {
        if generation != self.generation {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        let doublings = self.failures.saturating_sub(1).min(16);
        let pause = (RETRY_MILLISECONDS << doublings).min(RETRY_MILLISECONDS_MAX);
        let pause = pause + pause * jitter_percent.clamp(-20, 20) / 100;
        if let Some(wake) = &mut self.wake {
            wake.attempt_at = Some(now.0.saturating_add(pause));
        }
    }
}

/// What an answered call says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    NotYet,
    /// Everything that the wake was about.
    All,
}
