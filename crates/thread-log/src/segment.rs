//! Which entries a stream consists of: its own, and what a fork has inherited.
//!
//! A fork does not copy. It keeps the list of stretches of other streams that it begins with, made once when it is created.

use serde::{Deserialize, Serialize};

use crate::offset::{Offset, StreamId};

/// Entries that one stream wrote: those with positions above `after`, up to `through`. Its JSON is what stores keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    pub writer: StreamId,
    pub after: u64,
    pub through: u64,
}

/// The most stretches that a fork may inherit, so that reading it stays bounded.
pub const SEGMENTS_MAX: usize = 64;

/// The position of an offset, if these segments have it.
pub fn locate(segments: &[Segment], offset: Offset) -> Option<u64> {
    if offset == Offset::START {
        return Some(0);
    }
    segments
        .iter()
        .find(|segment| segment.writer == offset.writer())
        .filter(|segment| (segment.after + 1..=segment.through).contains(&offset.position()))
        .map(|_| offset.position())
}

/// The entries above a position.
pub fn after(segments: &[Segment], position: u64) -> Vec<Segment> {
    clip(segments, |segment| Segment {
        after: segment.after.max(position),
        ..segment
    })
}

/// The entries up to a position.
pub fn through(segments: &[Segment], position: u64) -> Vec<Segment> {
    clip(segments, |segment| Segment {
        through: segment.through.min(position),
        ..segment
    })
}

fn clip(segments: &[Segment], cut: impl Fn(Segment) -> Segment) -> Vec<Segment> {
    let cut = segments.iter().map(|segment| cut(*segment));
    cut.filter(|segment| segment.after < segment.through)
        .collect()
}

/// The end of the last entry.
pub fn tail(segments: &[Segment]) -> Offset {
    segments
        .last()
        .map_or(Offset::START, |last| Offset::new(last.writer, last.through))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(writer: u64, after: u64, through: u64) -> Segment {
        Segment {
            writer: StreamId(writer),
            after,
            through,
        }
    }

    #[test]
    fn a_fork_of_a_fork() {
        let chain = [segment(1, 0, 4), segment(3, 4, 6), segment(9, 6, 8)];
        assert_eq!(tail(&chain), Offset::new(StreamId(9), 8));
        assert_eq!(after(&chain, 5), [segment(3, 5, 6), segment(9, 6, 8)]);
        assert_eq!(after(&chain, 8), []);
        assert_eq!(through(&chain, 4), [segment(1, 0, 4)]);
        assert_eq!(through(&chain, 0), []);
        assert_eq!(tail(&[]), Offset::START);
    }

    #[test]
    fn offsets_of_others_are_not_found() {
        let chain = [segment(1, 0, 4), segment(3, 4, 6)];
        assert_eq!(locate(&chain, Offset::START), Some(0));
        assert_eq!(locate(&chain, Offset::new(StreamId(1), 4)), Some(4));
        assert_eq!(locate(&chain, Offset::new(StreamId(3), 5)), Some(5));
        for foreign in [(1, 5), (3, 4), (3, 7), (2, 3), (0, 3), (1, 0)] {
            assert_eq!(
                locate(&chain, Offset::new(StreamId(foreign.0), foreign.1)),
                None,
                "{foreign:?}"
            );
        }
    }
}
