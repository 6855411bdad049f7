//! What is refused before a box is begun: combinations that could not work, or that would not be safe.

use crate::error::{EngineError, Result};
use crate::ids::{HeldIds, IdRange, RANGE_IDS};
use crate::plan::LAYERS_MAX;
use crate::power::Power;
use crate::prepared::PreparedSpec;
use crate::spec::{Base, BoxSpec, CommandUser, CommandUsers, MountSpec, Owners, Profile};
use crate::step::Access;

fn lacks(reason: String, hint: &str) -> EngineError {
    EngineError::HostLacks {
        reason,
        hint: hint.into(),
    }
}

/// Refuses a range that this process cannot give to boxes: files would be nobody's, or everybody's.
pub(crate) fn check_ids(power: Power, held: &[HeldIds; 2], ids: IdRange) -> Result<()> {
    match power {
        Power::Root if held.iter().all(|held| held.cover(ids)) => Ok(()),
        Power::Root => Err(lacks(
            format!(
                "the ids {} to {} are not mapped into this user namespace",
                ids.base(),
                ids.base() + (RANGE_IDS - 1)
            ),
            "run as the machine's own root, or map all ids below 2147483648 into the container",
        )),
        Power::User { .. } if ids == IdRange::FIRST => Ok(()),
        Power::User { .. } => Err(lacks(
            format!("id range {} needs root", ids.index()),
            "without root all boxes have the caller's id: run as root to keep users apart",
        )),
    }
}

/// Refuses to show an image where the kernel translates no owners.
pub(crate) fn check_images(power: Power) -> Result<()> {
    match power {
        Power::Root => Ok(()),
        Power::User { .. } => Err(lacks(
            "the files of an image belong to many users, and only root can show them so".into(),
            "run as root, or use the host's own system as the base",
        )),
    }
}

/// Refuses a base that does not fit the box.
pub(crate) fn check_base(spec: &PreparedSpec, power: Power) -> Result<()> {
    let count = match &spec.base {
        Base::Host(host) if host.ids != spec.ids => {
            return Err(EngineError::Invalid {
                what: format!(
                    "the base of box `{}` was made for id range {}, and the box has range {}",
                    spec.id,
                    host.ids.index(),
                    spec.ids.index()
                ),
                hint: "make a base for each range that is used".into(),
            });
        }
        Base::Host(_) => 1,
        Base::Image(image) => {
            check_images(power)?;
            image.all_layers().len()
        }
    };
    check_layers(&spec.id, count + spec.layers.len())
}

/// Refuses to let a box make setuid files where the host would honour them.
pub(crate) fn check_profile(spec: &BoxSpec) -> Result<()> {
    match (spec.profile, &spec.base) {
        (Profile::Strict | Profile::Nested, _) => return Ok(()),
        (Profile::Image, Base::Image(_)) => {}
        (Profile::Image, Base::Host(_)) => {
            return Err(EngineError::Invalid {
                what: format!(
                    "box `{}` has the profile of an image, and no image",
                    spec.id
                ),
                hint: "use the strict profile on the host's own system".into(),
            });
        }
    }
    let lends = |mount: &&MountSpec| {
        matches!(
            mount,
            MountSpec::Bind {
                access: Access::ReadWrite,
                owners: Owners::BoxUserIs { .. },
                ..
            }
        )
    };
    match spec.mounts.iter().find(lends) {
        None => Ok(()),
        Some(mount) => Err(EngineError::Invalid {
            what: format!(
                "box `{}` could make setuid files of a user of this host at `{}`",
                spec.id,
                mount.place().display()
            ),
            hint: "share the folder read-only, or use the strict profile".into(),
        }),
    }
}

/// The ids that a command changes to, if it changes any.
pub(crate) fn command_ids(
    id: &str,
    power: Power,
    users: CommandUsers,
    user: CommandUser,
) -> Result<Option<(u32, u32)>> {
    let refused = |user: String, hint: &str| EngineError::CommandUser {
        id: id.to_owned(),
        user,
        hint: hint.into(),
    };
    let (uid, gid) = match user {
        CommandUser::BoxUser => return Ok(power.command_ids()),
        CommandUser::Root => (0, 0),
        CommandUser::Ids { uid, gid } => (uid, gid),
    };
    match users {
        CommandUsers::All if uid < RANGE_IDS && gid < RANGE_IDS => Ok(Some((uid, gid))),
        CommandUsers::All => Err(refused(
            format!("user {uid} with group {gid}"),
            "ids inside go from 0 to 65535",
        )),
        CommandUsers::BoxUserOnly => Err(refused(
            match uid {
                0 => "root".into(),
                uid => format!("user {uid}"),
            },
            "other users exist in boxes on an image only",
        )),
    }
}

/// Refuses more layers than make sense, before overlayfs does so without saying why.
fn check_layers(id: &str, count: usize) -> Result<()> {
    if count <= LAYERS_MAX {
        return Ok(());
    }
    Err(EngineError::Invalid {
        what: format!("box `{id}` stands on {count} layers, and may stand on {LAYERS_MAX}"),
        hint:
            "a saved box of a saved box is one more layer: begin again from the base, and copy the \
               files over"
                .into(),
    })
}
