//! Snapshots in the store: which names are taken, and how many an organisation may have.

use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::snapshot::SnapshotState;
use holm_store::{Store, StoreError};

use crate::clock::{self, Millis};
use crate::error::{ApiError, Result};
use crate::records::SnapshotRecord;

/// Snapshots of one organisation, those behind its Dockerfiles included.
const SNAPSHOTS_MAX: usize = 1_000;
const USE_NOTED_EVERY_MILLIS: Millis = 60_000;

/// A snapshot that was asked for by what it is built from.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// It was just added, and has to be built.
    New(SnapshotRecord),
    Known(SnapshotRecord),
}

/// Adds a snapshot under a name that neither its organisation nor the server has.
pub(crate) fn add_snapshot(store: &Store, record: &SnapshotRecord) -> Result<()> {
    store.write(|transaction| {
        let general: Vec<SnapshotRecord> = transaction.list("")?;
        let own: Vec<SnapshotRecord> = transaction.list(&record.organization)?;
        let mut known = general.iter().chain(&own);
        if known.any(|known| known.name == record.name) {
            return Err(already_exists(&record.name));
        }
        check_count(&own)?;
        Ok(transaction.put(record)?)
    })
}

/// The snapshot of this name, which says what it is built from; one that failed is built again.
pub(crate) fn find_or_add_build(store: &Store, mut wanted: SnapshotRecord) -> Result<Wanted> {
    store.write(|transaction| {
        let own: Vec<SnapshotRecord> = transaction.list(&wanted.organization)?;
        match own.iter().find(|known| known.name == wanted.name) {
            None => check_count(&own)?,
            // It may go better this time.
            Some(failed) if has_failed(failed) => wanted.id.clone_from(&failed.id),
            Some(known) => return Ok(Wanted::Known(known.clone())),
        }
        transaction.put(&wanted)?;
        Ok(Wanted::New(wanted))
    })
}

/// Writes down that sandboxes are made from a snapshot. Not each of them: the time is for people, and each note waits
/// for the disk.
pub(crate) fn note_use(store: &Store, used: &SnapshotRecord) -> Result<(), StoreError> {
    let now = clock::now();
    let is_noted = |snapshot: &SnapshotRecord| {
        let noted = snapshot.last_used_at;
        noted.is_some_and(|at| now.saturating_sub(at) < USE_NOTED_EVERY_MILLIS)
    };
    if is_noted(used) {
        return Ok(());
    }
    store.write(|transaction| {
        match transaction.get::<SnapshotRecord>(&used.id)? {
            Some(snapshot) if !is_noted(&snapshot) => transaction.put(&SnapshotRecord {
                last_used_at: Some(now),
                ..snapshot
            }),
            // Somebody was quicker, or has deleted it.
            Some(_) | None => Ok(()),
        }
    })
}

fn has_failed(snapshot: &SnapshotRecord) -> bool {
    matches!(
        snapshot.state,
        SnapshotState::BuildFailed | SnapshotState::Error
    )
}

fn check_count(own: &[SnapshotRecord]) -> Result<()> {
    if own.len() < SNAPSHOTS_MAX {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorCode::Forbidden,
        format!("an organisation has at most {SNAPSHOTS_MAX} snapshots: delete some"),
    ))
}

pub(crate) fn already_exists(name: &str) -> ApiError {
    ApiError::conflict(format!("Snapshot with name {name} already exists"))
}
