//! What is on its way to be removed. Big trees take their time, and nobody waits for them.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holm_sandbox_linux::files::ConfinedDir;

use super::make::Making;

/// Whether somebody empties the trash, and whether there is more by now.
#[derive(Debug, Default)]
pub(super) struct Trash {
    state: Arc<TrashState>,
}

#[derive(Debug, Default)]
struct TrashState {
    is_being_emptied: AtomicBool,
    has_more: AtomicBool,
}

impl Making {
    /// Moves a tree or a file to the trash, which is emptied in the background.
    pub(crate) fn throw_away(&self, path: &Path) {
        let doomed = self.config.trash().join(holm_sandbox_linux::random_hex());
        match fs::rename(path, &doomed) {
            Ok(()) => self.empty_trash(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "what is not needed any more stays");
            }
        }
    }

    /// Sees to it that the trash gets emptied. One thread does it, however many ask.
    pub(crate) fn empty_trash(&self) {
        let state = Arc::clone(&self.trash.state);
        state.has_more.store(true, Ordering::SeqCst);
        if state.is_being_emptied.swap(true, Ordering::SeqCst) {
            return;
        }
        let trash = self.config.trash();
        std::thread::spawn(move || {
            loop {
                while state.has_more.swap(false, Ordering::SeqCst) {
                    remove_all_in(&trash);
                }
                state.is_being_emptied.store(false, Ordering::SeqCst);
                // Somebody may have asked just before, and relied on us.
                if !state.has_more.load(Ordering::SeqCst)
                    || state.is_being_emptied.swap(true, Ordering::SeqCst)
                {
                    return;
                }
            }
        });
    }
}

/// The trees are hostile: they are removed by descriptors, following no link.
fn remove_all_in(trash: &Path) {
    let listed = ConfinedDir::open(trash)
        .and_then(|folder| folder.list(Path::new(".")).map(|entries| (folder, entries)));
    let (folder, entries) = match listed {
        Ok(listed) => listed,
        Err(error) => {
            tracing::warn!(%error, "the trash cannot be emptied");
            return;
        }
    };
    for entry in entries {
        // One that stays does not keep the others; the next start of the server tries again.
        if let Err(error) = folder.remove_tree(Path::new(&entry.name)) {
            tracing::warn!(%error, "something stays in the trash");
        }
    }
}
