//! The one writer of this server: takes what waits, decides it, stores it in one transaction, wakes and answers.
//!
//! ```text
//!     queue ─▶ batch ─▶ attempt ──committed──▶ wake readers ─▶ answer
//!                        ▲  │ error before COMMIT: nothing happened ──▶ again, or answered with the error
//!                        │  │ no answer to COMMIT ──▶ its fate is read ──committed──▶ wake, answer
//!                        └──┴──────────────────────────────undone───────────────┘
//! ```
//!
//! **Invariant:** nobody hears of a success that is not committed, and nobody of a failure that is.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use holm_thread_log::{Batch, Decision, Facts, Hub, Rules, StoreError, StreamId, StreamName};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep};

use super::address::Address;
use super::error::{PostgresError, Remedy, all, failed};
use super::listener::Announcement;
use super::queue::{Job, next_batch};
use super::session::{Role, Session};
use super::turn::{Fate, Turn};
use super::{facts, write};

/// How many facts are kept from turn to turn.
const FACTS_MAX: usize = 200_000;
const BACKOFF_MIN: Duration = Duration::from_millis(20);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Committer {
    pub(super) address: Address,
    pub(super) rules: Arc<dyn Rules>,
    pub(super) hub: Hub,
    pub(super) announcement: Announcement,
    pub(super) patience: Duration,
    /// Told when there are streams whose entries have to be removed.
    pub(super) garbage: Arc<Notify>,
    pub(super) session: Option<Session>,
    pub(super) memory: Memory,
}

/// What is known without asking, as long as the last turn was ours.
#[derive(Debug, Default)]
pub(super) struct Memory {
    facts: Facts,
    /// Ids that were given to us, of streams that are not in the table yet.
    fresh: HashSet<StreamId>,
    /// The turn after which this is true.
    turn: i64,
}

impl Memory {
    fn forget(&mut self) {
        *self = Self::default();
    }
}

/// How an attempt ended that did not store the batch.
enum Setback {
    /// Before the commit: nothing happened.
    Error(PostgresError),
    /// The commit was not confirmed.
    InDoubt(Turn, Stored),
}

impl From<PostgresError> for Setback {
    fn from(error: PostgresError) -> Self {
        Self::Error(error)
    }
}

/// What is to be said once it is certain.
struct Stored {
    decisions: Vec<Decision>,
    woken: BTreeSet<StreamName>,
    has_garbage: bool,
}

/// Whether the committer goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Stop,
}

impl Committer {
    /// Runs until nobody can send commands any more.
    pub(super) async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        loop {
            let batch = next_batch(&mut jobs).await;
            if batch.is_empty() {
                return;
            }
            if self.store(batch).await == Next::Stop {
                return;
            }
        }
    }

    /// Stores a batch, and answers all of it.
    async fn store(&mut self, batch: Vec<Job>) -> Next {
        let started = Instant::now();
        let mut backoff = BACKOFF_MIN;
        loop {
            let error = match self.attempt(&batch).await {
                Ok(stored) => {
                    self.announce(batch, stored);
                    return Next::GoOn;
                }
                Err(Setback::Error(error)) => error,
                Err(Setback::InDoubt(turn, stored)) => {
                    self.let_go();
                    match self.find_out(turn).await {
                        Some(Fate::Committed) => {
                            self.announce(batch, stored);
                            return Next::GoOn;
                        }
                        Some(Fate::Undone) => PostgresError::Silent,
                        // It may have happened or not: this is what `Stopped` says.
                        Some(Fate::Forgotten) | None => {
                            answer_all(batch, || StoreError::Stopped);
                            return Next::GoOn;
                        }
                    }
                }
            };
            self.let_go();
            match error.remedy() {
                Remedy::TryAgain if started.elapsed() < self.patience => {
                    tracing::debug!(
                        error = &error as &dyn std::error::Error,
                        "a batch is tried again"
                    );
                    sleep(backoff).await;
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                }
                Remedy::Stop => {
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "threads are no longer written"
                    );
                    answer_all(batch, || StoreError::Stopped);
                    return Next::Stop;
                }
                // One bad command must not fail its neighbours.
                Remedy::GiveUp if batch.len() > 1 => return self.store_each(batch).await,
                Remedy::TryAgain | Remedy::GiveUp | Remedy::Full => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "a batch was not stored"
                    );
                    let error = Arc::new(error);
                    answer_all(batch, || failed("store it", Arc::clone(&error)));
                    return Next::GoOn;
                }
            }
        }
    }

    async fn store_each(&mut self, batch: Vec<Job>) -> Next {
        for job in batch {
            if Box::pin(self.store(vec![job])).await == Next::Stop {
                return Next::Stop;
            }
        }
        Next::GoOn
    }

    async fn attempt(&mut self, batch: &[Job]) -> Result<Stored, Setback> {
        let session = match self.session.take() {
            Some(session) if !session.is_closed() => session,
            Some(_) | None => Session::connect(&self.address, Role::Committer).await?,
        };
        let session = self.session.insert(session);
        let memory = &mut self.memory;
        let turn = Turn::begin(session, &self.address).await?;
        if turn.last != memory.turn || memory.facts.count() > FACTS_MAX {
            memory.forget();
        }
        let mut decided = Batch::new(&mut memory.facts, &*self.rules);
        // Everything in as few questions as it takes; and then, seldom, what only running shows.
        loop {
            let missing = decided.missing(batch.iter().map(|job| (&job.command, job.now)));
            if missing.is_empty() {
                break;
            }
            memory
                .fresh
                .extend(Box::pin(facts::answer(session, missing, decided.facts())).await?);
        }
        let mut decisions = Vec::with_capacity(batch.len());
        for job in batch {
            let decision = loop {
                match decided.run(&job.command, job.now) {
                    Ok(decision) => break decision,
                    Err(need) => memory.fresh.extend(
                        Box::pin(facts::answer(session, vec![need], decided.facts())).await?,
                    ),
                }
            };
            decisions.push(decision);
        }
        let changes = decided.finish();
        let has_garbage = !changes.removed.is_empty();
        if changes.is_empty() {
            session.run("end a transaction", "ROLLBACK").await?;
            memory.turn = turn.last;
            let woken = BTreeSet::new();
            return Ok(Stored {
                decisions,
                woken,
                has_garbage,
            });
        }
        // Sent together, to wait only once for answers from far away.
        let written = tokio::join!(
            Box::pin(write::write(session, &changes, &memory.fresh)),
            self.announcement.send(session, &changes.woken),
            turn.write(session),
        );
        all(written.into())?;
        let stored = Stored {
            decisions,
            woken: changes.woken,
            has_garbage,
        };
        // Nothing is sent with it that could fail by itself: this is the only step whose outcome can be unknown.
        if let Err(error) = session.run("commit", "COMMIT").await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a commit was not confirmed"
            );
            return Err(Setback::InDoubt(turn, stored));
        }
        memory.turn = turn.number();
        for id in changes.streams.keys().chain(changes.removed.keys()) {
            memory.fresh.remove(id);
        }
        Ok(stored)
    }

    /// What became of a turn, or nothing if the database stays away for too long.
    async fn find_out(&self, turn: Turn) -> Option<Fate> {
        let started = Instant::now();
        let mut backoff = BACKOFF_MIN;
        loop {
            let error = match self.fate(turn).await {
                Ok(fate) => {
                    tracing::info!(?fate, "what became of a commit is known");
                    return Some(fate);
                }
                Err(error) => error,
            };
            if started.elapsed() >= self.patience {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "what became of a commit is unknown"
                );
                return None;
            }
            sleep(backoff).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    async fn fate(&self, turn: Turn) -> Result<Fate, PostgresError> {
        let session = Session::connect(&self.address, Role::Committer).await?;
        turn.fate(&session, &self.address).await
    }

    fn announce(&self, batch: Vec<Job>, stored: Stored) {
        self.hub.wake(&stored.woken);
        if stored.has_garbage {
            self.garbage.notify_one();
        }
        for (job, decision) in batch.into_iter().zip(stored.decisions) {
            job.answer(Ok(decision));
        }
    }

    /// Ends the session, and what was believed with it.
    fn let_go(&mut self) {
        self.session = None;
        self.memory.forget();
    }
}

fn answer_all(batch: Vec<Job>, error: impl Fn() -> StoreError) {
    for job in batch {
        job.answer(Err(error()));
    }
}
