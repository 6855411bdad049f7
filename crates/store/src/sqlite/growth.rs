//! Streams that have only grown since their rows were written.
//!
//! Most appends change nothing of a stream but its end, and nothing of their producer but a number. Kept with the entry, that takes no
//! page of its own. The rows follow when the entries move, or when something else of the stream changes.
//!
//! - `recent_entries` has it durably: in each transaction, the last entry of a stream carries it. An entry behind the tail that the row
//!   of its stream has is one that the row does not know of; a new process reads those, and has to write nothing to begin.
//! - Memory has what the rows would be. Readers look here *before* their snapshot begins: a row is brought up to date before the stream
//!   is forgotten here, so who finds nothing here finds it there. Who finds both takes the longer one.
//! - A commit is in the database a moment before it is in memory. What a reader finds there waits until memory has it too
//!   ([`GrownStreams::published`]): nobody hears of a document before the entry that it follows from.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use holm_thread_log::{
    Changes, Lifetime, ProducerId, ProducerState, StreamId, StreamName, StreamState, Timestamp,
};
use rusqlite::{Connection, Result};
use tokio::sync::watch;

use super::recent::ENTRY_BYTES_MAX;
use super::{lookup, row, write};

/// The part that readers see.
#[derive(Debug, Clone)]
pub(super) struct GrownStreams {
    states: Arc<RwLock<States>>,
    /// The last row of `recent_entries` that is known here.
    published: watch::Receiver<i64>,
}

pub(super) type States = BTreeMap<StreamName, Arc<StreamState>>;

impl GrownStreams {
    pub(super) fn get(&self, name: &StreamName) -> Option<Arc<StreamState>> {
        self.states().get(name).cloned()
    }

    /// All whose names begin so, after one of them.
    pub(super) fn below(&self, prefix: &str, after: Option<&StreamName>) -> States {
        let after = after.map(StreamName::as_str).filter(|name| *name > prefix);
        let from = after.map_or(Bound::Included(prefix), Bound::Excluded);
        let states = self.states();
        let below = states
            .range::<str, _>((from, Bound::Unbounded))
            .take_while(|(name, _)| name.as_str().starts_with(prefix));
        below
            .map(|(name, state)| (name.clone(), Arc::clone(state)))
            .collect()
    }

    /// Waits until all is known here that a snapshot with this last row has. Without the committer, no more comes.
    pub(super) async fn published(&self, row: i64) {
        let mut published = self.published.clone();
        drop(published.wait_for(|known| *known >= row).await);
    }

    fn states(&self) -> RwLockReadGuard<'_, States> {
        self.states.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a stream is, by its row and by what was found here before.
pub(super) fn longer(row: StreamState, grown: Option<&StreamState>) -> StreamState {
    match grown {
        Some(grown) if grown.id == row.id && grown.tail_position > row.tail_position => {
            grown.clone()
        }
        Some(_) | None => row,
    }
}

/// A row is written at the latest when so many rows of producers would be written with it.
const PRODUCERS_MAX: usize = 64;

/// A stream whose row is behind, with those of its producers whose rows are.
#[derive(Debug)]
struct Ahead {
    state: Arc<StreamState>,
    producers: BTreeMap<ProducerId, ProducerState>,
}

/// The committer's part. What a transaction does to it is settled by [`Growth::committed`] or [`Growth::rolled_back`].
#[derive(Debug)]
pub(super) struct Growth {
    shared: GrownStreams,
    publish: watch::Sender<i64>,
    ahead: HashMap<StreamId, Ahead>,
    /// What the transaction that is being made writes with entries only.
    carried: HashMap<StreamId, Option<(ProducerId, ProducerState)>>,
}

/// What an entry says of its stream and of who sent it.
#[derive(Debug)]
pub(super) struct Carried<'a> {
    pub(super) state: &'a StreamState,
    pub(super) producer: Option<&'a (ProducerId, ProducerState)>,
}

impl Growth {
    /// Reads what the last process has left.
    pub(super) fn read(connection: &Connection) -> Result<Self> {
        let mut all = HashMap::<StreamId, Ahead>::new();
        let mut statement = connection.prepare(
            "SELECT stream, position, length(data), recent.last_access, recent.stream_seq, producer, epoch, last_seq
             FROM recent_entries AS recent JOIN streams ON id = stream WHERE position > tail_position ORDER BY row",
        )?;
        let mut rows = statement.query([])?;
        while let Some(found) = rows.next()? {
            let id = StreamId(row::unsigned(found, 0)?);
            let mut ahead = match all.remove(&id) {
                Some(ahead) => ahead,
                None => Ahead {
                    state: Arc::new(lookup::stream_by_id(connection, id)?),
                    producers: BTreeMap::new(),
                },
            };
            let state = Arc::make_mut(&mut ahead.state);
            state.tail_position = row::unsigned(found, 1)?;
            state.size_bytes += row::unsigned(found, 2)?;
            if let Some(last_access) = found.get(3)? {
                state.last_access = Timestamp(last_access);
                state.last_stream_seq = found.get(4)?;
            }
            if found.get_ref(5)?.as_str_or_null()?.is_some() {
                let epoch = row::unsigned(found, 6)?;
                let last_seq = row::unsigned(found, 7)?;
                let producer = ProducerState { epoch, last_seq };
                ahead.producers.insert(row::parsed(found, 5)?, producer);
            }
            all.insert(id, ahead);
        }
        let states = all.values();
        let states = states.map(|ahead| (ahead.state.name.clone(), Arc::clone(&ahead.state)));
        let (publish, published) = watch::channel(lookup::last_recent_row(connection)?);
        let shared = GrownStreams {
            states: Arc::new(RwLock::new(states.collect())),
            published,
        };
        Ok(Self {
            shared,
            publish,
            ahead: all,
            carried: HashMap::new(),
        })
    }

    pub(super) fn shared(&self) -> GrownStreams {
        self.shared.clone()
    }

    pub(super) fn stream_of_name(&self, name: &StreamName) -> Option<StreamState> {
        let states = self.shared.states();
        states.get(name).map(|state| StreamState::clone(state))
    }

    pub(super) fn stream(&self, id: StreamId) -> Option<&StreamState> {
        self.ahead.get(&id).map(|ahead| &*ahead.state)
    }

    pub(super) fn producer(&self, id: StreamId, producer: &ProducerId) -> Option<ProducerState> {
        self.ahead.get(&id)?.producers.get(producer).copied()
    }

    /// Decides which of the changed streams go with their entries: those that have only grown, by entries that wait with the others
    /// and one producer. One that expires has a row that says when, and one with ever new producers gets its row now and then.
    pub(super) fn plan(&mut self, changes: &Changes) {
        let stays = |id: &&StreamId| {
            let state = changes.streams.get(id);
            state.is_some_and(|state| state.lifetime == Lifetime::Forever)
        };
        let mut carried: HashMap<_, _> = changes
            .grown
            .iter()
            .filter(stays)
            .map(|id| (*id, None))
            .collect();
        for entry in &changes.entries {
            if entry.data.len() > ENTRY_BYTES_MAX {
                carried.remove(&entry.stream);
            }
        }
        for ((id, producer), state) in &changes.producers {
            match carried.get_mut(id) {
                Some(None) if self.has_too_many(*id, producer) => drop(carried.remove(id)),
                Some(place @ None) => *place = Some((producer.clone(), *state)),
                Some(Some(_)) => drop(carried.remove(id)),
                None => {}
            }
        }
        self.carried = carried;
    }

    fn has_too_many(&self, id: StreamId, with: &ProducerId) -> bool {
        let producers = self.ahead.get(&id).map(|ahead| &ahead.producers);
        producers.is_some_and(|known| known.len() >= PRODUCERS_MAX && !known.contains_key(with))
    }

    pub(super) fn is_carried(&self, id: StreamId) -> bool {
        self.carried.contains_key(&id)
    }

    /// What the entry at this position carries: the last one of its stream, if the stream goes with it.
    pub(super) fn carried<'a>(
        &'a self,
        changes: &'a Changes,
        id: StreamId,
        position: u64,
    ) -> Option<Carried<'a>> {
        let producer = self.carried.get(&id)?.as_ref();
        let state = changes.streams.get(&id)?;
        (state.tail_position == position).then_some(Carried { state, producer })
    }

    /// Writes the rows of those producers that are behind, for a stream whose row is written.
    pub(super) fn write_producers(&self, connection: &Connection, id: StreamId) -> Result<()> {
        let Some(ahead) = self.ahead.get(&id) else {
            return Ok(());
        };
        for (producer, state) in &ahead.producers {
            write::producer(connection, id, producer, *state)?;
        }
        Ok(())
    }

    /// Brings the rows of streams up to date, whose entries move in the same transaction.
    pub(super) fn settle(
        &self,
        connection: &Connection,
        changes: &Changes,
        moved: &BTreeSet<StreamId>,
    ) -> Result<()> {
        for id in moved {
            let carried = self.carried.get(id);
            let state = match (changes.streams.get(id), carried) {
                // Its row is written already.
                (Some(_), None) => continue,
                (Some(state), Some(_)) => Some(state),
                (None, _) => self.stream(*id),
            };
            let Some(state) = state else {
                continue;
            };
            write::stream(connection, state)?;
            self.write_producers(connection, *id)?;
            if let Some(Some((producer, state))) = carried {
                write::producer(connection, *id, producer, *state)?;
            }
        }
        Ok(())
    }

    /// The transaction is durable: with these changes, the rows of these streams up to date, and this the last row of entries.
    pub(super) fn committed(&mut self, changes: &Changes, moved: &BTreeSet<StreamId>, row: i64) {
        let shared = Arc::clone(&self.shared.states);
        let mut states = shared.write().unwrap_or_else(PoisonError::into_inner);
        let carried = std::mem::take(&mut self.carried);
        let written = changes
            .streams
            .keys()
            .filter(|id| !carried.contains_key(id));
        for id in written.chain(changes.removed.keys()).chain(moved) {
            if let Some(ahead) = self.ahead.remove(id) {
                states.remove(&ahead.state.name);
            }
        }
        for (id, producer) in carried {
            let Some(state) = changes.streams.get(&id).filter(|_| !moved.contains(&id)) else {
                continue;
            };
            let state = Arc::new(state.clone());
            states.insert(state.name.clone(), Arc::clone(&state));
            let ahead = self.ahead.entry(id).or_insert_with(|| Ahead {
                state: Arc::clone(&state),
                producers: BTreeMap::new(),
            });
            ahead.state = state;
            ahead.producers.extend(producer);
        }
        drop(states);
        self.publish.send_replace(row);
    }

    pub(super) fn rolled_back(&mut self) {
        self.carried.clear();
    }
}
