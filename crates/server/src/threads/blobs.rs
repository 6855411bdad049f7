//! What is too big for an entry: files named by their hash, below the thread that they belong to.
//!
//! ```text
//!     blobs/incoming/RANDOM ──hash is right, synced──▶ blobs/ORGANISATION/THREAD/SHA256
//! ```
//!
//! A file that has its name is complete, verified, on the disk, and never changes. What is on its way is locked by whoever writes
//! it; what nobody writes any more is removed when a server starts. So servers over one database can share one folder. Each thread may have so many bytes: they are reserved as they come, so uploads at the same time cannot exceed it together.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use holm_thread_log::StreamStore;
use holm_thread_log::threads::{ThreadId, row_key};
use sha2::{Digest, Sha256};

use crate::keys;

const INCOMING: &str = "incoming";
/// Threads whose sizes are remembered.
const REMEMBERED_MAX: usize = 16_384;

/// A hash in hexadecimal, as blobs are named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BlobName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a blob is named by its SHA-256: 64 digits and letters from `a` to `f`")]
pub(super) struct BlobNameError;

impl std::str::FromStr for BlobName {
    type Err = BlobNameError;

    fn from_str(text: &str) -> Result<Self, BlobNameError> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_good = text.len() == 64 && text.bytes().all(is_digit);
        is_good.then(|| Self(text.to_owned())).ok_or(BlobNameError)
    }
}

impl BlobName {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whose blobs.
type Owner = (String, ThreadId);

#[derive(Debug, Clone)]
pub(super) struct Blobs {
    root: PathBuf,
    /// Bytes of each thread's blobs, those on their way included.
    sizes: Arc<Mutex<HashMap<Owner, u64>>>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum BlobError {
    #[error("could not {doing}")]
    Io {
        doing: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("the blobs of a thread have at most {bytes_max} bytes together")]
    Quota { bytes_max: u64 },
    #[error("the content has the SHA-256 {found}")]
    Mismatch { found: String },
}

fn io(doing: &'static str) -> impl FnOnce(io::Error) -> BlobError {
    move |source| BlobError::Io { doing, source }
}

impl Blobs {
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            root,
            sizes: Arc::default(),
        }
    }

    fn folder(&self, owner: &Owner) -> PathBuf {
        self.root.join(&owner.0).join(owner.1.as_str())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Owner, u64>> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A blob that is there, and its size. Blocks.
    pub(super) fn open(&self, owner: &Owner, name: &BlobName) -> io::Result<Option<(File, u64)>> {
        match File::open(self.folder(owner).join(name.as_str())) {
            Ok(file) => {
                let size_bytes = file.metadata()?.len();
                Ok(Some((file, size_bytes)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Begins a blob. Blocks.
    pub(super) fn begin(&self, owner: Owner, bytes_max: u64) -> Result<Incoming, BlobError> {
        let incoming = self.root.join(INCOMING);
        fs::create_dir_all(&incoming).map_err(io("make a folder for blobs"))?;
        let folder = self.folder(&owner);
        {
            let mut sizes = self.lock();
            if sizes.len() >= REMEMBERED_MAX {
                sizes.clear();
            }
            if !sizes.contains_key(&owner) {
                let size = folder_size(&folder).map_err(io("measure a thread's blobs"))?;
                sizes.insert(owner.clone(), size);
            }
        }
        let path = incoming.join(crate::keys::random_token());
        let file = File::create_new(&path).map_err(io("make a file for a blob"))?;
        file.lock().map_err(io("lock a file for a blob"))?;
        Ok(Incoming {
            blobs: self.clone(),
            owner,
            path: Some(path),
            file,
            hash: Sha256::new(),
            size_bytes: 0,
            bytes_max,
        })
    }

    /// Removes a thread's blobs. Blocks.
    pub(super) fn remove(&self, owner: &Owner) -> io::Result<()> {
        let mut sizes = self.lock();
        sizes.remove(owner);
        match fs::remove_dir_all(self.folder(owner)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    pub(super) async fn remove_all(&self, organization: &str, id: &ThreadId) {
        let (blobs, owner) = (self.clone(), (organization.to_owned(), id.clone()));
        let removed = tokio::task::spawn_blocking(move || blobs.remove(&owner)).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!(%error, thread = %id, "blobs of a deleted thread were not removed");
        }
    }

    /// Removes what uploads of servers that are gone have left. Blocks.
    pub(super) fn clear_incoming(&self) -> io::Result<()> {
        let entries = match fs::read_dir(self.root.join(INCOMING)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let path = entry?.path();
            let file = match File::open(&path) {
                Ok(file) => file,
                // It has its name by now, or is given up.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            match file.try_lock() {
                Ok(()) => fs::remove_file(&path)?,
                // A server that shares the folder writes it.
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes blobs of threads that are gone: deleted by their streams' own address, or by a server that died in the middle.
    pub(super) async fn collect(&self, streams: &dyn StreamStore) {
        let root = self.root.clone();
        let owners = tokio::task::spawn_blocking(move || owners(&root)).await;
        let Ok(Ok(owners)) = owners else {
            tracing::warn!("the blobs of threads could not be listed");
            return;
        };
        for owner in owners {
            let row = streams.document(&row_key(&owner.0, &owner.1)).await;
            if !matches!(row, Ok(None)) {
                continue;
            }
            let blobs = self.clone();
            let removed = tokio::task::spawn_blocking(move || blobs.remove_unused(&owner)).await;
            if let Ok(Err(error)) = removed {
                tracing::warn!(%error, "blobs of a thread that is gone were not removed");
            }
        }
    }

    /// Removes a thread's blobs, unless somebody has used them since this server began: the thread may have been made anew.
    fn remove_unused(&self, owner: &Owner) -> io::Result<()> {
        let sizes = self.lock();
        if sizes.contains_key(owner) {
            return Ok(());
        }
        fs::remove_dir_all(self.folder(owner))
    }
}

fn folder_size(folder: &Path) -> io::Result<u64> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut size = 0;
    for entry in entries {
        size += entry?.metadata()?.len();
    }
    Ok(size)
}

fn owners(root: &Path) -> io::Result<Vec<Owner>> {
    let mut owners = Vec::new();
    for organization in fs::read_dir(root)? {
        let organization = organization?;
        let Ok(name) = organization.file_name().into_string() else {
            continue;
        };
        if name == INCOMING {
            continue;
        }
        for thread in fs::read_dir(organization.path())? {
            let thread = thread?.file_name().into_string().ok();
            if let Some(id) = thread.and_then(|id| id.parse().ok()) {
                owners.push((name.clone(), id));
            }
        }
    }
    Ok(owners)
}

/// A blob on its way. Dropped, it is gone.
#[derive(Debug)]
pub(super) struct Incoming {
    blobs: Blobs,
    owner: Owner,
    path: Option<PathBuf>,
    file: File,
    hash: Sha256,
    size_bytes: u64,
    /// Of all the thread's blobs.
    bytes_max: u64,
}

impl Incoming {
    /// Blocks.
    pub(super) fn write(&mut self, piece: &Bytes) -> Result<(), BlobError> {
        let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        {
            let mut sizes = self.blobs.lock();
            let size = sizes.entry(self.owner.clone()).or_default();
            let after = size.saturating_add(length);
            if after > self.bytes_max {
                let bytes_max = self.bytes_max;
                return Err(BlobError::Quota { bytes_max });
            }
            *size = after;
        }
        self.size_bytes += length;
        self.hash.update(piece);
        self.file.write_all(piece).map_err(io("write a blob"))
    }

    /// Gives the blob its name, if it is what its name says. Blocks.
    pub(super) fn finish(mut self, name: &BlobName) -> Result<u64, BlobError> {
        let found = keys::hex(&self.hash.clone().finalize());
        if found != name.as_str() {
            return Err(BlobError::Mismatch { found });
        }
        self.file.sync_all().map_err(io("sync a blob"))?;
        let folder = self.blobs.folder(&self.owner);
        fs::create_dir_all(&folder).map_err(io("make a thread's folder for blobs"))?;
        let target = folder.join(name.as_str());
        let Some(path) = self.path.as_ref() else {
            return Ok(self.size_bytes);
        };
        match fs::hard_link(path, &target) {
            Ok(()) => {}
            // Another upload of the same was quicker; its bytes are counted.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Ok(self.size_bytes);
            }
            Err(error) => return Err(io("name a blob")(error)),
        }
        // Also the folders that may have been made for it.
        for folder in folder.ancestors().take(3) {
            File::open(folder)
                .and_then(|folder| folder.sync_all())
                .map_err(io("sync a thread's folder for blobs"))?;
        }
        // It has its name now, and its bytes stay counted.
        let size_bytes = std::mem::take(&mut self.size_bytes);
        Ok(size_bytes)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            // What cannot be removed now is removed when the next server starts.
            drop(fs::remove_file(path));
        }
        if let Some(size) = self.blobs.lock().get_mut(&self.owner) {
            *size = size.saturating_sub(self.size_bytes);
        }
    }
}

#[cfg(test)]
mod tests;
