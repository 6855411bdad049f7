//! Folders of the host that sandboxes of one organisation share.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use holm_sandbox_linux::files::ConfinedDir;
use holm_sandbox_linux::{Access, IdRange, MountSpec, Owners, Power};

use super::make::{MakeError, Making};
use crate::error::ApiError;
use crate::records::SandboxRecord;

/// Volumes as mounts, with the descriptors that keep their sources what they are until the mounts are made.
#[derive(Debug, Default)]
pub(crate) struct VolumeMounts {
    pub(crate) mounts: Vec<MountSpec>,
    _sources: Vec<ConfinedDir>,
}

impl Making {
    /// Makes the folder of a volume, for the organisation's boxes to use.
    pub(crate) fn make_volume(&self, id: &str, ids: IdRange) -> Result<(), ApiError> {
        let path = self.config.volumes().join(id);
        let owner = self.engine.power().box_user(ids);
        let made = fs::create_dir(&path).and_then(|()| match self.engine.power() {
            Power::Root => std::os::unix::fs::chown(&path, Some(owner.uid), Some(owner.gid)),
            Power::User { .. } => Ok(()),
        });
        made.map_err(|source| {
            ApiError::internal("the folder of the volume could not be made", source)
        })
    }

    /// Moves the folder of a volume out of the way; it is removed later.
    pub(crate) fn remove_volume(&self, id: &str) {
        self.throw_away(&self.config.volumes().join(id));
    }

    /// The volumes of a sandbox. Parts of a volume are found by the kernel beneath it: what boxes have put there leads
    /// nowhere else.
    pub(crate) fn volume_mounts(
        &self,
        record: &SandboxRecord,
        ids: IdRange,
    ) -> Result<VolumeMounts, MakeError> {
        let mut found = VolumeMounts::default();
        for volume in &record.volumes {
            let root = ConfinedDir::open(&self.config.volumes().join(&volume.volume_id))?;
            let source = match &volume.subpath {
                None => root,
                Some(subpath) => {
                    let owner = self.engine.power().box_user(ids);
                    let root = match self.engine.power() {
                        Power::Root => root.owned_by(owner.uid, owner.gid),
                        Power::User { .. } => root,
                    };
                    // What is in the way was put there by a box: the request names the wrong place.
                    let part = Path::new(subpath);
                    root.create_dir_all(part)
                        .and_then(|()| root.subdir(part))
                        .map_err(|source| MakeError::Volume {
                            mount_path: volume.mount_path.clone(),
                            subpath: subpath.clone(),
                            source,
                        })?
                }
            };
            found.mounts.push(MountSpec::Bind {
                source: descriptor_path(&source),
                place: volume.mount_path.clone().into(),
                access: Access::ReadWrite,
                owners: Owners::AsOnHost,
            });
            found._sources.push(source);
        }
        Ok(found)
    }
}

/// A path that means this very folder, whoever renames what. The process that makes the mounts has to find it in its
/// own table of descriptors, so it names ours.
fn descriptor_path(folder: &ConfinedDir) -> PathBuf {
    PathBuf::from(format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        folder.as_fd().as_raw_fd()
    ))
}
