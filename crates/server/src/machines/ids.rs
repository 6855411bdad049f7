//! Ids of the host as a box sees them.

use holm_sandbox_linux::{BOX_USER, IdRange, Power};

/// Whoever has no id inside.
const NOBODY: u32 = 65_534;

/// How a box's ids and the host's belong together.
#[derive(Debug, Clone, Copy)]
pub struct BoxIds {
    pub power: Power,
    pub range: IdRange,
}

impl BoxIds {
    /// A user's id as seen inside.
    pub fn user_inside(self, host: u32) -> u32 {
        match self.power {
            Power::Root => self.range.inside_id(host).unwrap_or(NOBODY),
            Power::User { uid, .. } => {
                if host == uid {
                    BOX_USER
                } else {
                    NOBODY
                }
            }
        }
    }

    /// A group's id as seen inside.
    pub fn group_inside(self, host: u32) -> u32 {
        match self.power {
            Power::Root => self.range.inside_id(host).unwrap_or(NOBODY),
            Power::User { gid, .. } => {
                if host == gid {
                    BOX_USER
                } else {
                    NOBODY
                }
            }
        }
    }

    /// The host's id of a user inside, if there is one.
    pub fn user_on_host(self, inside: u32) -> Option<u32> {
        match self.power {
            Power::Root => self.range.host_id(inside),
            Power::User { uid, .. } => (inside == BOX_USER).then_some(uid),
        }
    }

    /// The host's id of a group inside, if there is one.
    pub fn group_on_host(self, inside: u32) -> Option<u32> {
        match self.power {
            Power::Root => self.range.host_id(inside),
            Power::User { gid, .. } => (inside == BOX_USER).then_some(gid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_in_and_out() {
        let range = IdRange::new(2).unwrap();
        let ids = BoxIds {
            power: Power::Root,
            range,
        };
        assert_eq!(ids.user_inside(range.base() + 1_000), 1_000);
        assert_eq!(ids.user_inside(0), NOBODY);
        assert_eq!(ids.group_on_host(0), Some(range.base()));
        assert_eq!(ids.user_on_host(70_000), None);
        let power = Power::User { uid: 501, gid: 20 };
        let ids = BoxIds { power, range };
        assert_eq!((ids.user_inside(501), ids.group_inside(20)), (1_000, 1_000));
        assert_eq!(
            (ids.user_inside(20), ids.group_inside(501)),
            (NOBODY, NOBODY)
        );
        assert_eq!(
            (ids.user_on_host(1_000), ids.user_on_host(0)),
            (Some(501), None)
        );
    }
}
