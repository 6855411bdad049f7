//! Which ids of the host a box's ids are.
//!
//! Inside, ids go from 0 to 65535. On the host they are a range of their own, above all ranges that systemd
//! and shadow hand out. Boxes of one range trust each other as users of one machine do; boxes of two ranges
//! share no id: neither files, nor signals, nor what the kernel counts by user.

use serde::{Deserialize, Serialize};

/// The first host id of the first range.
pub const HOST_ID_BASE: u32 = 0x7000_0000;
/// Ids in a range.
pub(crate) const RANGE_IDS: u32 = 65_536;

/// A range of host ids. As many as end below the sign bit, which old programs cannot read in an id.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(try_from = "u16", into = "u16")]
pub struct IdRange(u16);

/// There is no range with this index.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "there is no id range {index}: they go from 0 to {}",
    IdRange::INDEX_MAX
)]
pub struct NoSuchRange {
    pub index: u16,
}

impl IdRange {
    pub const INDEX_MAX: u16 = 4095;
    /// The range of boxes that need none of their own.
    pub const FIRST: Self = Self(0);

    pub fn new(index: u16) -> Result<Self, NoSuchRange> {
        if index > Self::INDEX_MAX {
            return Err(NoSuchRange { index });
        }
        Ok(Self(index))
    }

    pub fn index(self) -> u16 {
        self.0
    }

    /// The host's id of root inside.
    pub fn base(self) -> u32 {
        HOST_ID_BASE + u32::from(self.0) * RANGE_IDS
    }

    /// The host's id of an id inside, if there is such an id inside.
    pub fn host_id(self, inside: u32) -> Option<u32> {
        (inside < RANGE_IDS).then(|| self.base() + inside)
    }

    /// The id inside of an id of the host, if it is one of this range.
    pub fn inside_id(self, host: u32) -> Option<u32> {
        host.checked_sub(self.base()).filter(|id| *id < RANGE_IDS)
    }
}

impl TryFrom<u16> for IdRange {
    type Error = NoSuchRange;

    fn try_from(index: u16) -> Result<Self, NoSuchRange> {
        Self::new(index)
    }
}

impl From<IdRange> for u16 {
    fn from(range: IdRange) -> Self {
        range.0
    }
}

/// The ids that the calling process can give away: its `uid_map` or `gid_map`.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeldIds {
    lines: Vec<(u64, u64)>,
}

impl HeldIds {
    pub(crate) fn parse(map: &str) -> Self {
        let line = |line: &str| {
            let mut numbers = line
                .split_ascii_whitespace()
                .map(|number| number.parse::<u64>().ok());
            match (
                numbers.next()??,
                numbers.next()??,
                numbers.next()??,
                numbers.next(),
            ) {
                (inside, _, count, None) => Some((inside, inside.saturating_add(count))),
                _ => None,
            }
        };
        Self {
            lines: map.lines().filter_map(line).collect(),
        }
    }

    /// Whether one line holds the whole range.
    pub(crate) fn cover(&self, range: IdRange) -> bool {
        let first = u64::from(range.base());
        let after = first + u64::from(RANGE_IDS);
        self.lines
            .iter()
            .any(|(from, to)| *from <= first && after <= *to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_lie_side_by_side_below_the_sign_bit() {
        let range = |index| IdRange::new(index).unwrap();
        assert_eq!(range(0), IdRange::FIRST);
        assert_eq!(range(0).base(), 0x7000_0000);
        assert_eq!(range(1).base(), range(0).base() + 65_536);
        assert_eq!(range(4095).host_id(65_535), Some(0x7fff_ffff));
        assert_eq!(range(7).host_id(65_536), None);
        assert_eq!(IdRange::new(4096), Err(NoSuchRange { index: 4096 }));
        assert_eq!(IdRange::new(u16::MAX), Err(NoSuchRange { index: u16::MAX }));
    }

    #[test]
    fn an_id_of_another_range_is_nobody_inside() {
        let range = IdRange::new(3).unwrap();
        assert_eq!(range.inside_id(range.base() + 1000), Some(1000));
        assert_eq!(range.inside_id(range.base() - 1), None);
        assert_eq!(range.inside_id(range.base() + RANGE_IDS), None);
        assert_eq!(range.inside_id(0), None);
    }

    #[test]
    fn root_of_a_small_user_namespace_is_an_ordinary_user() {
        let covers = |map: &str| HeldIds::parse(map).cover(IdRange::FIRST);
        assert!(covers("         0          0 4294967295\n"));
        assert!(covers("0 100000 65536\n1879048192 5000000 65536\n"));
        for map in [
            "",
            "0 1000 1\n",
            "0 100000 65536\n",
            "1879048193 5000000 65536\n",
            "0 0\n",
            "0 0 1 4294967295\n",
            "x y z\n",
        ] {
            assert!(!covers(map), "{map}");
        }
        // Enough for the first range only.
        let small = HeldIds::parse("1879048192 5000000 65536\n");
        assert!(!small.cover(IdRange::new(1).unwrap()));
    }

    #[test]
    fn a_stored_range_is_checked_when_it_is_read() {
        let bytes = postcard::to_stdvec(&5000_u16).unwrap();
        assert!(postcard::from_bytes::<IdRange>(&bytes).is_err());
        let bytes = postcard::to_stdvec(&IdRange::new(9).unwrap()).unwrap();
        assert_eq!(postcard::from_bytes::<IdRange>(&bytes).unwrap().index(), 9);
    }
}
