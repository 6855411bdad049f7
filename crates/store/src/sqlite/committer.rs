//! The one thread that writes streams.
//!
//! ```text
//!     take what waits ─▶ decide ─▶ write ─▶ commit (durable) ─▶ wake readers ─▶ answer ─▶ checkpoint when due
//! ```
//!
//! **Invariants:** nothing is answered that is not durable. Facts are what the database says: nobody else writes these tables, and after
//! a failed batch they are forgotten. A commit of which nobody knows whether it is durable is the last thing that the thread does.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;

use holm_thread_log::{Batch, Changes, Decision, Facts, Hub, Need, Rules, StreamId};
use rusqlite::{Connection, TransactionBehavior};

use super::checkpoint::Log;
use super::failure::{Disk, Failure};
use super::faults::FaultPoint;
use super::growth::{GrownStreams, Growth};
use super::options::SqliteOptions;
use super::queue::{Job, Jobs, Patience};
use super::recent::{Recent, RecentEntries};
use super::remains::Remains;
use super::{lookup, write};

/// What is stored together. More would make those wait who came first.
const BATCH_COUNT_MAX: usize = 512;
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Of the database, in memory: twice what the entries that came last may be, if nobody says otherwise.
const CACHE_KIBIBYTES: i32 = 16 << 10;

/// Facts that are kept from batch to batch; then all are forgotten, and read again as they are needed.
const FACTS_MAX: usize = 100_000;

#[derive(Debug)]
pub(super) struct Committer {
    connection: Connection,
    /// Keeps other writers out for as long as it is open.
    lock: File,
    jobs: Jobs,
    hub: Hub,
    options: SqliteOptions,
    facts: Facts,
    /// No fewer than there are.
    facts_count: usize,
    recent: Recent,
    growth: Growth,
    remains: Remains,
    /// Removing them failed: wait until something else could be written.
    are_remains_stuck: bool,
    /// The last id that was given to a stream, and the last one that the database knows of.
    last_id: u64,
    stored_last_id: u64,
    log: Log,
}

impl Committer {
    pub(super) fn new(
        connection: Connection,
        log: Log,
        lock: File,
        jobs: Jobs,
        hub: Hub,
        options: SqliteOptions,
    ) -> rusqlite::Result<Self> {
        connection.set_prepared_statement_cache_capacity(64);
        // What was written a moment ago moves in a moment: it need not be read again for that.
        connection.pragma_update(None, "cache_size", -CACHE_KIBIBYTES)?;
        let last_id = lookup::last_id(&connection)?;
        let recent = Recent::read(&connection, options.recent_bytes_max)?;
        let growth = Growth::read(&connection)?;
        let remains = Remains::read(&connection)?;
        Ok(Self {
            connection,
            lock,
            jobs,
            hub,
            options,
            facts: Facts::new(),
            facts_count: 0,
            recent,
            growth,
            remains,
            are_remains_stuck: false,
            last_id,
            stored_last_id: last_id,
            log,
        })
    }

    /// What readers need to see of it.
    pub(super) fn recent_entries(&self) -> RecentEntries {
        self.recent.shared()
    }

    pub(super) fn grown_streams(&self) -> GrownStreams {
        self.growth.shared()
    }

    /// Works until nobody can ask any more, or until it must not go on.
    pub(super) fn run(mut self) {
        loop {
            let patience = if self.remains.is_empty() || self.are_remains_stuck {
                Patience::UntilSomethingComes
            } else {
                Patience::None
            };
            let Ok(jobs) = self.jobs.take(patience, BATCH_COUNT_MAX, BATCH_BYTES_MAX) else {
                return;
            };
            let outcome = self.batch(jobs).and_then(|()| {
                // After the answers: nobody waits for it who came before.
                self.log.write_back_when_due(&self.connection)
            });
            if let Err(failure) = outcome {
                self.options.fail(&failure);
                return;
            }
        }
    }

    /// An error is the end; then nobody is answered.
    fn batch(&mut self, jobs: Vec<Job>) -> Result<(), Failure> {
        let failure = match self.store(&jobs) {
            Ok(decisions) => {
                for (job, decision) in jobs.into_iter().zip(decisions) {
                    // Who has gone away does not hear it.
                    drop(job.answer.send(Ok(decision)));
                }
                return Ok(());
            }
            Err(failure) => failure,
        };
        self.facts.clear();
        self.facts_count = 0;
        self.last_id = self.stored_last_id;
        self.are_remains_stuck = true;
        if failure.answer().is_none() {
            return Err(failure);
        }
        for job in jobs {
            if let Some(error) = failure.answer() {
                drop(job.answer.send(Err(error)));
            }
        }
        Ok(())
    }

    /// Decides, makes it durable, and wakes readers.
    fn store(&mut self, jobs: &[Job]) -> Result<Vec<Decision>, Failure> {
        let (decisions, changes) = self.decide(jobs)?;
        if !changes.is_empty() || (jobs.is_empty() && !self.remains.is_empty()) {
            self.write(&changes)?;
            self.options.reach(FaultPoint::Committed)?;
            self.hub.wake(&changes.woken);
            self.options.reach(FaultPoint::Woken)?;
        }
        Ok(decisions)
    }

    fn decide(&mut self, jobs: &[Job]) -> Result<(Vec<Decision>, Changes), Failure> {
        if self.facts_count > FACTS_MAX {
            self.facts.clear();
            self.facts_count = 0;
        }
        let rules: Arc<dyn Rules> = Arc::clone(&self.options.rules);
        let recent = self.recent.shared();
        let mut batch = Batch::new(&mut self.facts, &*rules);
        let mut decisions = Vec::with_capacity(jobs.len());
        for job in jobs {
            let decision = loop {
                match batch.run(&job.command, job.now) {
                    Ok(decision) => break decision,
                    Err(need) => {
                        self.facts_count += weight(&need);
                        let known = lookup::Known {
                            connection: &self.connection,
                            recent: &recent,
                            growth: &self.growth,
                            last_id: &mut self.last_id,
                        };
                        known.answer(need, batch.facts()).map_err(|source| {
                            Failure::before_commit("read what a command needs", source)
                        })?;
                    }
                }
            };
            decisions.push(decision);
        }
        let changes = batch.finish();
        self.facts_count += changes.streams.len()
            + changes.removed.len()
            + changes.producers.len()
            + changes.keys.len()
            + changes.documents.len();
        Ok((decisions, changes))
    }

    /// One transaction, durable when it returns.
    fn write(&mut self, changes: &Changes) -> Result<(), Failure> {
        let (moved, nothing_left_of) = match self.transact(changes) {
            Ok(done) => done,
            Err(failure) => {
                self.recent.rolled_back();
                self.growth.rolled_back();
                return Err(failure);
            }
        };
        self.options.reach(FaultPoint::Visible)?;
        // First of all: some see it already, and wait for this.
        self.growth
            .committed(changes, &moved, self.recent.last_row());
        self.recent.committed(&changes.removed);
        self.stored_last_id = self.last_id;
        self.are_remains_stuck = false;
        if let Some(stream) = nothing_left_of {
            self.remains.forget(stream);
        }
        self.remains.extend(changes.removed.keys());
        Ok(())
    }

    /// Says the entries of which streams have moved, and which removed stream has nothing left.
    fn transact(
        &mut self,
        changes: &Changes,
    ) -> Result<(BTreeSet<StreamId>, Option<StreamId>), Failure> {
        let before = |source| Failure::before_commit("write streams", source);
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(before)?;
        self.growth.plan(changes);
        write::changes(&transaction, changes, &mut self.recent, &self.growth).map_err(before)?;
        if self.last_id != self.stored_last_id {
            write::last_id(&transaction, self.last_id).map_err(before)?;
        }
        let moved = self.recent.move_some(&transaction, &changes.removed);
        let moved = moved.map_err(before)?;
        let settled = self.growth.settle(&transaction, changes, &moved);
        settled.map_err(before)?;
        let nothing_left_of = self.remains.remove_some(&transaction).map_err(before)?;
        self.options.reach(FaultPoint::Written)?;
        if let Err(source) = transaction.commit() {
            let failure = Failure::of_commit(source, Disk::of(&self.lock));
            return match self.connection.is_autocommit() {
                true => Err(failure),
                // What was written could not be taken back.
                false => Err(failure.made_unknown()),
            };
        }
        Ok((moved, nothing_left_of))
    }
}

/// How many facts the answer is.
fn weight(need: &Need) -> usize {
    match need {
        Need::Keys(_, keys) => keys.len(),
        Need::Name(_) => 2,
        Need::Stream(_)
        | Need::Producer(..)
        | Need::Entry { .. }
        | Need::Document(_)
        | Need::FreshId => 1,
    }
}
