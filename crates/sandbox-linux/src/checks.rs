//! What is refused before a box is begun: combinations that could not work, or that would not be safe.

use crate::error::{EngineError, Result};
use crate::ids::{HeldIds, IdRange, RANGE_IDS};
use crate::plan::LAYERS_MAX;
use crate::power::Power;
use crate::prepared::PreparedSpec;
use crate::spec::Base;

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
