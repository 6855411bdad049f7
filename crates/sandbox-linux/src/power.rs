//! With whose power boxes are made, and what that means for ids and namespaces.

use crate::ids::{IdRange, RANGE_IDS};
use crate::spawner::{IdMap, SetGroups, UserNamespace};
use crate::spec::{BOX_USER, Network};
use crate::step::{OverlayMarks, Owner};

/// With whose power a box is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// Real root: ids are mapped to an [`IdRange`] of their own.
    Root,
    /// An ordinary user, who becomes the box's user.
    User { uid: u32, gid: u32 },
}

impl Power {
    pub fn marks(self) -> OverlayMarks {
        match self {
            Self::Root => OverlayMarks::Trusted,
            Self::User { .. } => OverlayMarks::User,
        }
    }

    /// The box user's ids on the host.
    pub fn box_user(self, ids: IdRange) -> Owner {
        match self {
            Self::Root => Owner {
                uid: ids.base() + BOX_USER,
                gid: ids.base() + BOX_USER,
            },
            Self::User { uid, gid } => Owner { uid, gid },
        }
    }

    /// Who owns the box's `/` on the host.
    pub fn box_root(self, ids: IdRange) -> Owner {
        match self {
            Self::Root => Owner {
                uid: ids.base(),
                gid: ids.base(),
            },
            Self::User { uid, gid } => Owner { uid, gid },
        }
    }

    /// The user namespace of a box.
    pub(crate) fn user_namespace(self, ids: IdRange) -> UserNamespace {
        match self {
            Self::Root => {
                let all = IdMap {
                    inside: 0,
                    outside: ids.base(),
                    count: RANGE_IDS,
                };
                UserNamespace {
                    uids: vec![all],
                    gids: vec![all],
                    setgroups: SetGroups::Allow,
                }
            }
            Self::User { uid, gid } => {
                let only = |outside| {
                    vec![IdMap {
                        inside: BOX_USER,
                        outside,
                        count: 1,
                    }]
                };
                UserNamespace {
                    uids: only(uid),
                    gids: only(gid),
                    setgroups: SetGroups::Deny,
                }
            }
        }
    }

    /// The ids that commands change to; an ordinary user's box has only one to offer.
    pub(crate) fn command_ids(self) -> Option<(u32, u32)> {
        match self {
            Self::Root => Some((BOX_USER, BOX_USER)),
            Self::User { .. } => None,
        }
    }
}

/// A user namespace through which `uid`'s files appear as the box user's.
pub(crate) fn owner_translation(
    power: Power,
    ids: IdRange,
    uid: u32,
    gid: u32,
) -> Option<UserNamespace> {
    match power {
        Power::Root => {
            let to = power.box_user(ids);
            let only = |inside, outside| {
                vec![IdMap {
                    inside,
                    outside,
                    count: 1,
                }]
            };
            Some(UserNamespace {
                uids: only(uid, to.uid),
                gids: only(gid, to.gid),
                setgroups: SetGroups::Allow,
            })
        }
        // The box user is the caller already.
        Power::User { .. } => None,
    }
}

/// The namespaces that a box's init is born into.
pub(crate) fn clone_flags(power: Power, network: Network) -> u64 {
    let mut flags =
        libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    match network {
        Network::None => flags |= libc::CLONE_NEWNET,
        Network::Host => {}
    }
    match power {
        // Joined last instead, so that the box does not own its mounts and its network.
        Power::Root => {}
        Power::User { .. } => flags |= libc::CLONE_NEWUSER,
    }
    u64::from(flags.unsigned_abs())
}
