//! What must hold of the tables, whatever happened.

use std::collections::{HashMap, HashSet};

use super::MemoryStore;
use crate::offset::StreamId;
use crate::state::Existence;

impl MemoryStore {
    pub(crate) fn assert_same_tables(&self, other: &Self) {
        let (one, two) = (self.lock(), other.lock());
        assert_eq!(one.streams, two.streams);
        assert_eq!(one.names, two.names);
        assert_eq!(one.entries, two.entries);
        assert_eq!(one.producers, two.producers);
    }

    /// Nothing is left of what is gone, forks are counted right, and positions have no gaps.
    pub(crate) fn assert_sound(&self) {
        let tables = self.lock();
        let mut forks: HashMap<StreamId, u64> = HashMap::new();
        for stream in tables.streams.values() {
            assert_eq!(tables.names[&stream.name], stream.id);
            if let Some(origin) = &stream.origin {
                *forks.entry(origin.source).or_default() += 1;
            }
            for segment in stream.segments() {
                for position in segment.after + 1..=segment.through {
                    assert!(
                        tables.entries.contains_key(&(segment.writer, position)),
                        "{stream:?}"
                    );
                }
            }
        }
        for stream in tables.streams.values() {
            assert_eq!(
                forks.remove(&stream.id).unwrap_or(0),
                stream.forks,
                "{stream:?}"
            );
            assert!(
                stream.existence == Existence::Live || stream.forks > 0,
                "{stream:?}"
            );
        }
        assert!(forks.is_empty());
        let ids: HashSet<&StreamId> = tables.streams.keys().collect();
        assert!(
            tables
                .entries
                .keys()
                .all(|(stream, _)| ids.contains(stream))
        );
        assert!(
            tables
                .producers
                .keys()
                .all(|(stream, _)| ids.contains(stream))
        );
    }
}
