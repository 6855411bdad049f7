//! Snapshots in the store: which names are taken, and how many an organisation may have.

use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::snapshot::SnapshotState;
use holm_store::Store;

use crate::error::{ApiError, Result};
use crate::records::SnapshotRecord;

/// Snapshots of one organisation, those behind its Dockerfiles included.
const SNAPSHOTS_MAX: usize = 1_000;

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
