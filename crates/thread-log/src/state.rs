//! What is known of a stream, apart from its entries.
//!
//! ```text
//!     Live ──close──▶ Live, Closed
//!       │ delete or expiry          │
//!       ├── no forks ──▶ removed    │ (the same)
//!       └── forks ─────▶ Deleted ──last fork removed──▶ removed
//! ```

use crate::content_type::ContentType;
use crate::expiry::{Lifetime, Timestamp};
use crate::name::StreamName;
use crate::offset::{Offset, StreamId};
use crate::segment::{self, Segment};

/// Whether entries may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    Open,
    Closed,
}

/// Whether a stream is there for clients, or only for its forks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Existence {
    Live,
    Deleted,
}

/// What a fork was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub source: StreamId,
    pub source_name: StreamName,
    pub at: Offset,
    pub sub_offset: u64,
}

/// One row in the table of streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamState {
    pub id: StreamId,
    pub name: StreamName,
    pub content_type: ContentType,
    pub lifetime: Lifetime,
    pub created_at: Timestamp,
    /// The last read or write that renewed a sliding lifetime.
    pub last_access: Timestamp,
    /// The last heartbeat of a writer.
    pub last_seen: Option<Timestamp>,
    pub ending: Ending,
    pub existence: Existence,
    pub origin: Option<Origin>,
    /// What comes before its own entries, the oldest first.
    pub inherited: Vec<Segment>,
    /// Position of the last entry, inherited or own.
    pub tail_position: u64,
    /// Bytes of its own entries.
    pub size_bytes: u64,
    /// How many streams were forked from it and are still there.
    pub forks: u64,
    /// The last `Stream-Seq`.
    pub last_stream_seq: Option<String>,
}

/// What clients see of a stream at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Live,
    /// Its time is over, and it is about to be removed: as if it were missing.
    Expired,
    /// Deleted, and kept for its forks.
    Gone,
}

impl StreamState {
    /// Where its own entries begin.
    fn base(&self) -> u64 {
        self.origin
            .as_ref()
            .map_or(0, |origin| origin.at.position())
    }

    /// Everything that a reader of this stream reads, in order.
    pub fn segments(&self) -> Vec<Segment> {
        let own = Segment {
            writer: self.id,
            after: self.base(),
            through: self.tail_position,
        };
        let mut segments = self.inherited.clone();
        if own.after < own.through {
            segments.push(own);
        }
        segments
    }

    /// The end of the last entry.
    pub fn tail(&self) -> Offset {
        if self.tail_position > self.base() {
            Offset::new(self.id, self.tail_position)
        } else {
            segment::tail(&self.inherited)
        }
    }

    /// When it expires, for the store's index; `None` is never, or already deleted.
    pub fn deadline(&self) -> Option<Timestamp> {
        match self.existence {
            Existence::Live => self.lifetime.deadline(self.last_access),
            Existence::Deleted => None,
        }
    }

    pub fn presence(&self, now: Timestamp) -> Presence {
        let is_over = self.deadline().is_some_and(|deadline| deadline <= now);
        match (self.existence, is_over) {
            (Existence::Deleted, _) => Presence::Gone,
            (Existence::Live, false) => Presence::Live,
            (Existence::Live, true) if self.forks > 0 => Presence::Gone,
            (Existence::Live, true) => Presence::Expired,
        }
    }
}
