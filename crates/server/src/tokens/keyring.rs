//! The keys that tokens are signed with.
//!
//! An organisation's keys are one document: the newest first, and the one before it. A rotation puts a new one in front; what
//! two rotations have left behind is good no more. Keys older than [`ROTATE_AFTER`] are rotated when the next token is made.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use holm_daytona_wire::Hidden;
use holm_thread_log::{
    Command, Content, DocumentKey, DocumentWrite, Expect, Outcome, StoreError, StreamStore,
    Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::keys;

const COLLECTION: &str = "token-keys";
/// Keys that are good at the same time.
const KEYS_MAX: usize = 2;
/// A token lives two hours: the key before the newest is long out of use when a third one comes.
pub(super) const ROTATE_AFTER: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long another server's rotation may go unnoticed here.
const FRESH_FOR: Duration = Duration::from_secs(10);
/// Organisations whose keys are remembered.
const REMEMBERED_MAX: usize = 4_096;

/// One organisation's keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeySet {
    /// The newest first.
    keys: Vec<SigningKey>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SigningKey {
    pub(super) number: u64,
    pub(super) secret: Hidden,
    pub(super) made_at: i64,
}

pub(crate) struct KeyRing {
    streams: Arc<dyn StreamStore>,
    remembered: Mutex<HashMap<String, Remembered>>,
}

/// A store may show the documents in it.
impl fmt::Debug for KeyRing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("KeyRing").finish_non_exhaustive()
    }
}

#[derive(Debug, Clone)]
struct Remembered {
    set: KeySet,
    version: u64,
    read_at: Instant,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyRingError {
    #[error("could not use the store of the keys")]
    Store {
        #[from]
        source: StoreError,
    },
    #[error("the stored keys of tokens cannot be read")]
    Malformed {
        #[from]
        source: serde_json::Error,
    },
    #[error("the keys were changed by others again and again")]
    Contended,
}

impl KeySet {
    fn rotated(set: Option<&Self>, now: Timestamp) -> Self {
        let old = set.map_or(&[][..], |set| &set.keys);
        let number = old.first().map_or(1, |newest| newest.number + 1);
        let fresh = SigningKey {
            number,
            secret: Hidden::new(keys::random_token()),
            made_at: now.0,
        };
        let kept = old.iter().take(KEYS_MAX - 1).cloned();
        Self {
            keys: std::iter::once(fresh).chain(kept).collect(),
        }
    }

    fn newest(&self) -> Option<&SigningKey> {
        self.keys.first()
    }

    fn is_old(&self, now: Timestamp) -> bool {
        let age_max = i64::try_from(ROTATE_AFTER.as_millis()).unwrap_or(i64::MAX);
        self.newest()
            .is_none_or(|newest| now.0.saturating_sub(newest.made_at) > age_max)
    }
}

impl KeyRing {
    pub(crate) fn new(streams: Arc<dyn StreamStore>) -> Self {
        Self {
            streams,
            remembered: Mutex::default(),
        }
    }

    /// The key to sign with; it is made, or replaced, when it is time.
    pub(super) async fn signing(
        &self,
        organization: &str,
        now: Timestamp,
    ) -> Result<SigningKey, KeyRingError> {
        let found = self.load(organization).await?;
        let set = match found {
            Some(found) if !found.set.is_old(now) => found.set,
            Some(_) | None => self.replace(organization, now, Replace::Old).await?,
        };
        set.newest().cloned().ok_or(KeyRingError::Contended)
    }

    /// A key by its number, if it is one of the good ones.
    pub(super) async fn find(
        &self,
        organization: &str,
        number: u64,
    ) -> Result<Option<SigningKey>, KeyRingError> {
        let with_number = |found: Remembered| {
            let mut keys = found.set.keys.into_iter();
            keys.find(|key| key.number == number)
        };
        if let Some(found) = self.fresh(organization) {
            let newest = found.set.newest().map_or(0, |newest| newest.number);
            if number <= newest {
                return Ok(with_number(found));
            }
            // Made by another server just now.
        }
        Ok(self.load(organization).await?.and_then(with_number))
    }

    /// Puts a new key in front. What was signed with the one before stays good.
    pub(crate) async fn rotate(
        &self,
        organization: &str,
        now: Timestamp,
    ) -> Result<(), KeyRingError> {
        self.replace(organization, now, Replace::Always)
            .await
            .map(drop)
    }

    async fn replace(
        &self,
        organization: &str,
        now: Timestamp,
        which: Replace,
    ) -> Result<KeySet, KeyRingError> {
        const ATTEMPTS_MAX: usize = 8;
        for _ in 0..ATTEMPTS_MAX {
            let found = self.load(organization).await?;
            if let (Replace::Old, Some(found)) = (which, &found)
                && !found.set.is_old(now)
            {
                return Ok(found.set.clone());
            }
            let set = KeySet::rotated(found.as_ref().map(|found| &found.set), now);
            let write = DocumentWrite {
                key: document_key(organization),
                expect: found.map_or(Expect::Absent, |found| Expect::Version(found.version)),
                content: Some(Content {
                    body: serde_json::to_vec(&set)?.into(),
                    terms: Vec::new(),
                }),
            };
            let command = Command::Write {
                documents: vec![write],
            };
            // Refused, if another server was quicker.
            if self.streams.apply(command, now).await? == Ok(Outcome::Written) {
                self.forget(organization);
                return Ok(set);
            }
        }
        Err(KeyRingError::Contended)
    }

    async fn load(&self, organization: &str) -> Result<Option<Remembered>, KeyRingError> {
        let Some(document) = self.streams.document(&document_key(organization)).await? else {
            return Ok(None);
        };
        let found = Remembered {
            set: serde_json::from_slice(&document.content.body)?,
            version: document.version,
            read_at: Instant::now(),
        };
        let mut remembered = self.lock();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(organization.to_owned(), found.clone());
        Ok(Some(found))
    }

    fn fresh(&self, organization: &str) -> Option<Remembered> {
        let remembered = self.lock();
        let found = remembered.get(organization)?;
        (found.read_at.elapsed() < FRESH_FOR).then(|| found.clone())
    }

    fn forget(&self, organization: &str) {
        self.lock().remove(organization);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Remembered>> {
        self.remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Clone, Copy)]
enum Replace {
    Always,
    /// Only if the newest key is too old, or there is none.
    Old,
}

fn document_key(organization: &str) -> DocumentKey {
    DocumentKey {
        collection: COLLECTION.to_owned(),
        id: organization.to_owned(),
    }
}
