//! Folders of the host that sandboxes of one organisation share.

use std::fs;
use std::io;
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
                    root.create_dir_all(Path::new(subpath))?;
                    root.subdir(Path::new(subpath))?
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

    /// Moves a tree to the trash, which is emptied in the background.
    pub(crate) fn throw_away(&self, path: &Path) {
        let trash = self.config.trash();
        let name = holm_sandbox_linux::random_hex();
        let doomed = trash.join(&name);
        match fs::rename(path, &doomed) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "what is not needed any more stays");
                return;
            }
        }
        // Big trees take their time, and nobody waits for them. Each thread has its own.
        std::thread::spawn(move || {
            let removed =
                ConfinedDir::open(&trash).and_then(|folder| folder.remove_tree(Path::new(&name)));
            if let Err(error) = removed {
                tracing::warn!(path = %doomed.display(), %error, "the next start removes what stays in the trash");
            }
        });
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

/// Removes what an earlier life of the server threw away. The trees are hostile: they are removed by descriptors,
/// following no link.
pub(crate) fn empty_trash(trash: &Path) {
    let emptied = ConfinedDir::open(trash).and_then(|folder| {
        for entry in folder.list(Path::new("."))? {
            if let Err(error) = folder.remove_tree(Path::new(&entry.name)) {
                tracing::warn!(?entry.name, %error, "something stays in the trash");
            }
        }
        Ok(())
    });
    if let Err(error) = emptied {
        tracing::warn!(%error, "the trash was not emptied");
    }
}
