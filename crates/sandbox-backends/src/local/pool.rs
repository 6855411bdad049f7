//! Boxes prepared ahead of time: a cache that can be off.
//!
//! A prepared box has its namespaces and the base's mounts, but no files, no limits and nothing that
//! ran in it. Taking one moves about two thirds of a box's start out of the caller's way. Only the most
//! common kind is prepared (throwaway, strict, no network); any other is made when it is asked for.
//!
//! **Invariant:** a prepared box has a folder and an owner lock like any other sandbox, and no record:
//! if this process is killed, the next one removes it.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use holm_sandbox::{Result, RunId};
use holm_sandbox_linux::{Durability, IdRange, Network, Prepared, PreparedSpec, Profile};

use super::checkout::remove_tree;
use super::create::new_directory;
use super::runtime::LocalRuntime;
use super::start::Lock;

/// A prepared box with its folder.
#[derive(Debug)]
pub(crate) struct Blank {
    pub(crate) run_id: RunId,
    pub(crate) directory: PathBuf,
    pub(crate) owner: Option<Lock>,
    pub(crate) prepared: Prepared,
}

/// The prepared boxes of a runtime.
#[derive(Debug)]
pub(crate) struct Pool {
    blanks: Mutex<Vec<Blank>>,
    size: usize,
    refill: SyncSender<()>,
}

impl Pool {
    /// A pool and the thread that keeps it full. The thread ends with the runtime.
    pub(crate) fn start(size: usize) -> (Self, Receiver<()>) {
        // One waiting wake-up is enough: the thread fills up to the brim each time.
        let (refill, wake) = sync_channel(1);
        (
            Self {
                blanks: Mutex::default(),
                size,
                refill,
            },
            wake,
        )
    }

    /// Takes a prepared box, if there is one, and has it replaced.
    pub(crate) fn take(&self) -> Option<Blank> {
        let blank = self
            .blanks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        self.wake();
        blank
    }

    /// Asks for a refill; one that is already asked for is enough.
    pub(crate) fn wake(&self) {
        let _already_asked = self.refill.try_send(());
    }

    /// How many boxes are ready.
    pub(crate) fn ready(&self) -> usize {
        self.blanks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Takes all of them, for removal.
    pub(crate) fn drain(&self) -> Vec<Blank> {
        std::mem::take(&mut *self.blanks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, blank: Blank) {
        self.blanks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(blank);
    }
}

/// Fills the pool whenever it is woken, until the runtime is gone.
pub(crate) fn keep_full(runtime: &Arc<LocalRuntime>, wake: Receiver<()>) -> std::io::Result<()> {
    let weak: Weak<LocalRuntime> = Arc::downgrade(runtime);
    std::thread::Builder::new()
        .name("holm-pool".into())
        .spawn(move || {
            while wake.recv().is_ok() {
                loop {
                    let Some(runtime) = weak.upgrade() else {
                        return;
                    };
                    let Some(pool) = &runtime.pool else { return };
                    if pool.ready() >= pool.size {
                        break;
                    }
                    match prepare(&runtime) {
                        Ok(blank) => pool.put(blank),
                        // Without a prepared box the next one is made cold, and tells its error then.
                        Err(_) => break,
                    }
                }
            }
        })?;
    Ok(())
}

fn prepare(runtime: &LocalRuntime) -> Result<Blank> {
    let (run_id, directory, owner) = new_directory(&runtime.config.boxes_dir())?;
    let spec = PreparedSpec {
        id: run_id.to_string(),
        directory: directory.clone(),
        base: runtime.base(Network::None)?.into(),
        layers: Vec::new(),
        profile: Profile::Strict,
        network: Network::None,
        durability: Durability::Volatile,
        ids: IdRange::FIRST,
    };
    match runtime.engine.prepare(spec) {
        Ok(prepared) => Ok(Blank {
            run_id,
            directory,
            owner,
            prepared,
        }),
        Err(error) => {
            remove_tree(&directory)?;
            Err(super::errors::engine_error(error))
        }
    }
}
