//! Snapshots that every server has from the start: the host's root, in three sizes.

use holm_daytona_wire::snapshot::SnapshotState;
use holm_store::{Store, StoreError};

use crate::clock;
use crate::records::{Foundation, Resources, SnapshotRecord};

/// Daytona's names and sizes.
const SNAPSHOTS: [(&str, Resources); 3] = [
    ("daytona-small", sized(1, 1, 3)),
    ("daytona-medium", sized(2, 4, 8)),
    ("daytona-large", sized(4, 8, 10)),
];

const fn sized(cpu: u32, memory_gib: u32, disk_gib: u32) -> Resources {
    Resources {
        cpu,
        memory_gib,
        disk_gib,
    }
}

/// Whether every server has a snapshot of this name.
pub(crate) fn has(name: &str) -> bool {
    SNAPSHOTS.iter().any(|(known, _)| *known == name)
}

/// Adds those that are missing.
pub(crate) fn add_snapshots(store: &Store) -> Result<(), StoreError> {
    let now = clock::now();
    for (name, resources) in SNAPSHOTS {
        if store.find_by_name::<SnapshotRecord>("", name)?.is_some() {
            continue;
        }
        store.put(&SnapshotRecord {
            id: uuid::Uuid::new_v4().to_string(),
            organization: String::new(),
            name: name.to_owned(),
            state: SnapshotState::Active,
            foundation: Foundation::Host,
            layers: Vec::new(),
            layers_id_range: 0,
            image_name: None,
            image_user: None,
            entrypoint: Vec::new(),
            dockerfile: None,
            resources,
            size_bytes: 0,
            error_reason: None,
            created_at: now,
            updated_at: now,
            last_used_at: None,
            source_sandbox: None,
        })?;
    }
    Ok(())
}
