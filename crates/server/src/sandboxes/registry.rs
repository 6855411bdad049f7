//! All sandboxes by id and by name, and the writing of their records.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use holm_daytona_wire::sandbox::SandboxState;
use holm_store::{Store, StoreError};
use tokio::sync::broadcast;

use super::departed::Departed;
use super::sandbox::{Existence, Sandbox};
use crate::clock;
use crate::error::{ApiError, Result};
use crate::machines::{Making, Pinned};
use crate::records::{OrganizationRecord, PreviewTokenRecord, SandboxRecord, SshAccessRecord};

/// Changes that a listener may be behind before it misses some.
const CHANGES_KEPT: usize = 1_024;

/// A sandbox was made, or went from one state to another.
#[derive(Debug, Clone)]
pub struct StateChange {
    pub record: Arc<SandboxRecord>,
    /// None: it was just made.
    pub old: Option<SandboxState>,
}

/// The sandboxes of a server.
#[derive(Debug)]
pub struct Sandboxes {
    pub(crate) store: Arc<Store>,
    pub(crate) making: Arc<Making>,
    changes: broadcast::Sender<StateChange>,
    known: RwLock<Known>,
    pub(super) departed: Departed,
    /// Held while the secrets of a box are read and put in place.
    pub(super) secrets_turn: Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    by_id: HashMap<String, Arc<Sandbox>>,
    /// Ids, and names that are being made, by organisation and name.
    names: HashMap<(String, String), String>,
}

impl Sandboxes {
    pub(crate) fn new(store: Arc<Store>, making: Arc<Making>) -> Arc<Self> {
        Arc::new(Self {
            store,
            making,
            changes: broadcast::Sender::new(CHANGES_KEPT),
            known: RwLock::default(),
            departed: Departed::default(),
            secrets_turn: Mutex::default(),
        })
    }

    /// Everything that changes from now on.
    pub(crate) fn changes(&self) -> broadcast::Receiver<StateChange> {
        self.changes.subscribe()
    }

    fn known<T>(&self, look: impl FnOnce(&Known) -> T) -> T {
        look(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change_known<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        change(&mut self.known.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// A sandbox of an organisation, by id or by name. Another's is as unknown as none.
    pub fn find(&self, organization: &str, id_or_name: &str) -> Result<Arc<Sandbox>> {
        let found = self.known(|known| {
            let by_id = known.by_id.get(id_or_name);
            let by_name = || {
                let key = (organization.to_owned(), id_or_name.to_owned());
                known.by_id.get(known.names.get(&key)?)
            };
            by_id
                .filter(|sandbox| sandbox.organization == organization)
                .or_else(by_name)
                .cloned()
        });
        found.ok_or_else(|| not_found(id_or_name))
    }

    /// A sandbox that was just deleted.
    pub(crate) fn departed(&self, organization: &str, id: &str) -> Option<SandboxRecord> {
        self.departed.find(organization, id)
    }

    /// A sandbox of whatever organisation, for callers that show something else than a key.
    pub(crate) fn by_id(&self, id: &str) -> Option<Arc<Sandbox>> {
        self.known(|known| known.by_id.get(id).cloned())
    }

    /// All sandboxes of an organisation, in no order.
    pub fn of(&self, organization: &str) -> Vec<Arc<Sandbox>> {
        self.known(|known| {
            let own = |sandbox: &&Arc<Sandbox>| sandbox.organization == organization;
            known.by_id.values().filter(own).cloned().collect()
        })
    }

    pub(crate) fn all(&self) -> Vec<Arc<Sandbox>> {
        self.known(|known| known.by_id.values().cloned().collect())
    }

    /// Takes a name for a sandbox that is being made, if it is free and the organisation may have one more.
    pub(super) fn reserve(self: &Arc<Self>, record: &SandboxRecord) -> Result<Reservation> {
        let sandboxes_max = self.making.config.limits.sandboxes_max;
        let key = name_key(record);
        self.change_known(|known| {
            if known.names.contains_key(&key) {
                return Err(ApiError::conflict(format!(
                    "Sandbox with name {} already exists",
                    record.name
                )));
            }
            let own = known.names.keys().filter(|(owner, _)| *owner == key.0);
            if own.count() >= sandboxes_max {
                return Err(ApiError::new(
                    holm_daytona_wire::error::ErrorCode::Forbidden,
                    format!(
                        "The organisation has {sandboxes_max} sandboxes already: delete some, or raise `--sandboxes-max`"
                    ),
                ));
            }
            known.names.insert(key.clone(), record.id.clone());
            Ok(())
        })?;
        Ok(Reservation {
            sandboxes: Arc::clone(self),
            key,
        })
    }

    pub(super) fn insert(&self, sandbox: &Arc<Sandbox>) {
        let key = sandbox.peek(name_key);
        self.change_known(|known| {
            known.names.insert(key, sandbox.id.clone());
            known.by_id.insert(sandbox.id.clone(), Arc::clone(sandbox));
        });
    }

    pub(super) fn forget(&self, sandbox: &Sandbox) {
        let key = sandbox.peek(name_key);
        self.change_known(|known| {
            known.names.remove(&key);
            known.by_id.remove(&sandbox.id);
        });
    }

    /// Changes a record: in the store, then in memory, then told to listeners. Done to the end even if nobody waits.
    pub(crate) async fn update(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        change: impl FnOnce(&mut SandboxRecord) + Send + 'static,
    ) -> Result<SandboxRecord> {
        let (sandboxes, writing) = (Arc::clone(self), Arc::clone(sandbox));
        let written = tokio::task::spawn_blocking(move || sandboxes.write(&writing, change));
        written.await??.ok_or_else(|| not_found(&sandbox.id))
    }

    /// The same on a thread that may block; none if the sandbox is gone.
    pub(super) fn write(
        &self,
        sandbox: &Sandbox,
        change: impl FnOnce(&mut SandboxRecord),
    ) -> Result<Option<SandboxRecord>, StoreError> {
        let existence = sandbox.pen();
        if *existence == Existence::Gone {
            return Ok(None);
        }
        let mut record = sandbox.record();
        let old = record.state.clone();
        change(&mut record);
        record.updated_at = clock::now();
        self.store.put(&record)?;
        sandbox.replace_record(record.clone());
        if record.state != old {
            self.tell(&record, Some(old));
        }
        Ok(Some(record))
    }

    /// Writes down when a sandbox was last active. Nobody is told, and nothing else about it has changed.
    pub(super) fn write_activity(&self, sandbox: &Sandbox) -> Result<(), StoreError> {
        let existence = sandbox.pen();
        if *existence == Existence::Gone {
            return Ok(());
        }
        let record = sandbox.record();
        self.store.put(&record)?;
        sandbox.replace_record(record);
        Ok(())
    }

    /// Removes a record, with the doors that lead to its sandbox. Nothing writes it again.
    pub(super) fn erase(&self, sandbox: &Sandbox) -> Result<(), StoreError> {
        let mut existence = sandbox.pen();
        let id = &sandbox.id;
        self.store.write(|transaction| {
            for access in transaction.list::<SshAccessRecord>(id)? {
                transaction.delete::<SshAccessRecord>(&access.hash)?;
            }
            for token in transaction.list::<PreviewTokenRecord>(id)? {
                transaction.delete::<PreviewTokenRecord>(&token.hash)?;
            }
            transaction.delete::<SandboxRecord>(id)
        })?;
        *existence = Existence::Gone;
        Ok(())
    }

    pub(super) fn tell(&self, record: &SandboxRecord, old: Option<SandboxState>) {
        // Nobody listens: nobody misses it.
        drop(self.changes.send(StateChange {
            record: Arc::new(record.clone()),
            old,
        }));
    }

    /// Keeps what a sandbox stands on from being removed, until the pin is dropped.
    pub(super) async fn pin(&self, names: Vec<String>) -> Result<Pinned> {
        let pins = Arc::clone(&self.making.pins);
        // Waits while something is being removed.
        Ok(tokio::task::spawn_blocking(move || pins.pin(names)).await?)
    }

    /// The user ids of an organisation's boxes.
    pub(crate) fn ids(&self, organization: &str) -> Result<holm_sandbox_linux::IdRange> {
        let found: Option<OrganizationRecord> = self.store.get(organization)?;
        let found = found.ok_or_else(|| ApiError::unauthorized("the organisation is gone"))?;
        Ok(self.making.ids(found.id_range))
    }
}

/// A name that is taken until this is dropped; for good once its sandbox is there.
#[derive(Debug)]
pub(super) struct Reservation {
    sandboxes: Arc<Sandboxes>,
    key: (String, String),
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.sandboxes.change_known(|known| {
            let is_there = |id: &String| known.by_id.contains_key(id);
            if !known.names.get(&self.key).is_some_and(is_there) {
                known.names.remove(&self.key);
            }
        });
    }
}

pub(super) fn not_found(id_or_name: &str) -> ApiError {
    ApiError::not_found(format!("Sandbox with ID or name {id_or_name} not found"))
}

fn name_key(record: &SandboxRecord) -> (String, String) {
    (record.organization.clone(), record.name.clone())
}
