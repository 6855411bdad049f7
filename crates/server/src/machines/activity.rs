//! What keeps a sandbox awake: a request, an open stream, a running process.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::clock::{self, Millis};

/// When something last happened in a sandbox, and what still goes on.
#[derive(Debug)]
pub struct Activity {
    last: AtomicI64,
    open: AtomicU64,
}

impl Activity {
    pub(crate) fn since(last: Millis) -> Arc<Self> {
        Arc::new(Self {
            last: AtomicI64::new(last),
            open: AtomicU64::new(0),
        })
    }

    /// Something happened just now.
    pub fn touch(&self) {
        self.last.store(clock::now(), Ordering::Relaxed);
    }

    /// Something goes on until the guard is dropped: a request, a stream, a command.
    pub fn begin(self: &Arc<Self>) -> ActivityGuard {
        self.touch();
        self.open.fetch_add(1, Ordering::Relaxed);
        ActivityGuard {
            activity: Arc::clone(self),
        }
    }

    /// When it was last active: now, while something goes on.
    pub fn last(&self) -> Millis {
        if self.open.load(Ordering::Relaxed) > 0 {
            self.touch();
        }
        self.last.load(Ordering::Relaxed)
    }
}

/// Keeps its sandbox awake.
#[derive(Debug)]
pub struct ActivityGuard {
    activity: Arc<Activity>,
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        self.activity.touch();
        self.activity.open.fetch_sub(1, Ordering::Relaxed);
    }
}
