//! Moving an entry to another name.

use std::path::Path;

use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;

use super::{ConfinedDir, FilesError, names};

/// What happens to an entry that has the new name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// The move fails with [`FilesError::AlreadyExists`].
    Never,
    /// It is replaced in the same step, as the kernel does it: a file by a file, an empty directory by a directory.
    Existing,
}

impl ConfinedDir {
    /// Moves what is at `from` (of a symlink, the link itself) to `to`, whose parent exists. One step: there is no moment
    /// without either name, and none in between.
    ///
    /// Only within one file system; between two, and for directories that an overlay has from a lower layer, the error's
    /// source is `CrossesDevices`, and the caller copies instead (`mv` in the box does).
    pub fn rename(&self, from: &Path, to: &Path, replace: Replace) -> Result<(), FilesError> {
        let (from_parent, from_name) = names::split(from)?;
        let (to_parent, to_name) = names::split(to)?;
        let _acting = self.act(from)?;
        let from_parent = self.open_parent(from_parent, from)?;
        let to_parent = self.open_parent(to_parent, to)?;
        let flags = match replace {
            Replace::Never => RenameFlags::NOREPLACE,
            Replace::Existing => RenameFlags::empty(),
        };
        renameat_with(&from_parent, from_name, &to_parent, to_name, flags).map_err(|errno| {
            let path = to.to_path_buf();
            match errno {
                Errno::EXIST if replace == Replace::Never => FilesError::AlreadyExists { path },
                Errno::NOTEMPTY | Errno::EXIST => FilesError::DestinationNotEmpty { path },
                Errno::ISDIR => FilesError::IsADirectory { path },
                Errno::NOTDIR => FilesError::NotADirectory { path },
                Errno::INVAL => FilesError::InvalidPath {
                    path,
                    reason: "lies in the directory that is to be moved",
                },
                errno => FilesError::from_errno("move", from, errno),
            }
        })
    }
}
