//! Whose power a file operation has.
//!
//! The host process is root, and a box shows files of the host that are root's alone. An operation for a client of the box
//! must be able to do what the box's user may do, and nothing more. The kernel keeps a separate identity for file
//! access in every thread; while an [`Acting`] lives, that of its thread is the box user's, without supplementary groups,
//! and the kernel has taken the capabilities away that override permissions (`CAP_DAC_OVERRIDE`, `CAP_CHOWN` and their like).
//!
//! **Invariants:** a thread is never left with a foreign identity: a way back that fails ends the process. While an
//! [`Acting`] lives, no code of a caller runs (content is read before it begins): a thread that such code
//! started would inherit the identity for good.
//!
//! Two things the kernel does besides: the process becomes undumpable, and the thread's parent-death signal is cleared.

use std::io;
use std::marker::PhantomData;
use std::path::Path;

use rustix::fs::Gid;

use super::FilesError;
use crate::sys;

/// The ids to act as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ActAs {
    uid: u32,
    gid: u32,
}

impl ActAs {
    /// `None` when there is nothing to change: only root can act as another, and an ordinary user has no more power
    /// than the boxes that it makes.
    pub(super) fn new(uid: u32, gid: u32) -> Option<Self> {
        let own = rustix::process::geteuid();
        (own.is_root() && own.as_raw() != uid).then_some(Self { uid, gid })
    }

    /// Changes the calling thread until the guard is dropped.
    fn begin(self) -> io::Result<Acting> {
        let before = Acting {
            uid: sys::file_access_uid(),
            gid: sys::file_access_gid(),
            groups: rustix::process::getgroups()?,
            stays_on_its_thread: PhantomData,
        };
        // From here on dropping `before` restores, whatever was reached. The user comes last: it takes the power away.
        rustix::thread::set_thread_groups(&[])?;
        sys::set_file_access_gid(self.gid)?;
        sys::set_file_access_uid(self.uid)?;
        Ok(before)
    }
}

/// [`ActAs::begin`], where there is somebody to act as.
pub(super) fn begin(act_as: Option<ActAs>, path: &Path) -> Result<Option<Acting>, FilesError> {
    act_as
        .map(ActAs::begin)
        .transpose()
        .map_err(|source| FilesError::from_io("act as the owner of", path, source))
}

/// The identity that the thread had, and gets back.
#[derive(Debug)]
pub(super) struct Acting {
    uid: u32,
    gid: u32,
    groups: Vec<Gid>,
    /// Dropped elsewhere it would restore another thread.
    stays_on_its_thread: PhantomData<*const ()>,
}

impl Drop for Acting {
    fn drop(&mut self) {
        let restored = sys::set_file_access_uid(self.uid)
            .and_then(|()| sys::set_file_access_gid(self.gid))
            .and_then(|()| Ok(rustix::thread::set_thread_groups(&self.groups)?));
        if restored.is_err() {
            // Going on would give somebody's work to somebody else.
            std::process::abort();
        }
    }
}
