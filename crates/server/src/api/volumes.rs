//! Volumes: folders that outlive sandboxes and can be in several of an organisation's.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Json, Router};
use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::volume::{CreateVolume, Volume, VolumeState};

use super::Body;
use super::sandbox_create::checked_name;
use crate::auth::Caller;
use crate::clock::{self, rfc3339};
use crate::error::{ApiError, Result};
use crate::records::VolumeRecord;
use crate::sandboxes::Sandbox;
use crate::state::{AppState, Shared};

/// Volumes of one organisation.
const VOLUMES_MAX: usize = 100;

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/volumes", get(list).post(create))
        .route("/volumes/by-name/{name}", get(show_by_name))
        .route("/volumes/{volume}", get(show_one).delete(delete))
}

fn show(record: &VolumeRecord) -> Volume {
    Volume {
        id: record.id.clone(),
        name: record.name.clone(),
        organization_id: record.organization.clone(),
        state: record.state.clone(),
        created_at: rfc3339(record.created_at),
        updated_at: rfc3339(record.updated_at),
        last_used_at: record.last_used_at.map(rfc3339),
        error_reason: None,
    }
}

/// A volume of an organisation, by id or by name.
pub(super) fn find(state: &Shared, organization: &str, id_or_name: &str) -> Result<VolumeRecord> {
    let by_id: Option<VolumeRecord> = state.store.get(id_or_name)?;
    let own = by_id.filter(|volume| volume.organization == organization);
    let found = match own {
        Some(found) => Some(found),
        None => state.store.find_by_name(organization, id_or_name)?,
    };
    found.ok_or_else(|| {
        ApiError::not_found(format!("Volume with ID or name {id_or_name} not found"))
    })
}

async fn list(State(state): State<AppState>, caller: Caller) -> Result<Json<Vec<Volume>>> {
    let volumes: Vec<VolumeRecord> = state.store.list(&caller.organization)?;
    Ok(Json(volumes.iter().map(show).collect()))
}

async fn create(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<CreateVolume>,
) -> Result<Json<Volume>> {
    let id = uuid::Uuid::new_v4().to_string();
    let name = match request.name.as_str() {
        "" => id.clone(),
        name => checked_name(name)?,
    };
    let now = clock::now();
    let record = VolumeRecord {
        id,
        organization: caller.organization.clone(),
        name,
        state: VolumeState::Ready,
        created_at: now,
        updated_at: now,
        last_used_at: None,
    };
    let ids = state.sandboxes.ids(&caller.organization)?;
    let writing = state.clone();
    let record = tokio::task::spawn_blocking(move || {
        // The folder first: a row without one would be a volume that does not work.
        let _pinned = writing.sandboxes.making.pins.pin([record.id.clone()]);
        writing.sandboxes.making.make_volume(&record.id, ids)?;
        if let Err(error) = add(&writing, &record) {
            writing.sandboxes.making.remove_volume(&record.id);
            return Err(error);
        }
        Ok(record)
    })
    .await??;
    Ok(Json(show(&record)))
}

/// Writes a volume down, if its name is free and the organisation may have one more.
fn add(state: &Shared, record: &VolumeRecord) -> Result<()> {
    state.store.write(|transaction| {
        let own: Vec<VolumeRecord> = transaction.list(&record.organization)?;
        if own.iter().any(|known| known.name == record.name) {
            return Err(ApiError::conflict(format!(
                "Volume with name {} already exists",
                record.name
            )));
        }
        if own.len() >= VOLUMES_MAX {
            return Err(ApiError::new(
                ErrorCode::Forbidden,
                format!("an organisation has at most {VOLUMES_MAX} volumes: delete some"),
            ));
        }
        Ok(transaction.put(record)?)
    })
}

async fn show_one(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Volume>> {
    Ok(Json(show(&find(&state, &caller.organization, &id)?)))
}

async fn show_by_name(
    State(state): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Volume>> {
    let found: Option<VolumeRecord> = state.store.find_by_name(&caller.organization, &name)?;
    let found =
        found.ok_or_else(|| ApiError::not_found(format!("Volume with name {name} not found")))?;
    Ok(Json(show(&found)))
}

async fn delete(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Volume>> {
    let volume = find(&state, &caller.organization, &id)?;
    let removing = state.clone();
    let doomed = volume.clone();
    tokio::task::spawn_blocking(move || remove(&removing, &doomed)).await??;
    Ok(Json(Volume {
        state: VolumeState::Deleted,
        ..show(&volume)
    }))
}

fn remove(state: &Shared, volume: &VolumeRecord) -> Result<()> {
    let making = &state.sandboxes.making;
    // Held until it is gone: nobody begins to use it meanwhile.
    let held = making.pins.hold();
    let uses = |sandbox: &Arc<Sandbox>| {
        sandbox.peek(|record| {
            let mut mounted = record.volumes.iter();
            mounted.any(|mount| mount.volume_id == volume.id)
        })
    };
    let of_organization = state.sandboxes.of(&volume.organization);
    if let Some(sandbox) = of_organization.iter().find(|sandbox| uses(sandbox)) {
        return Err(ApiError::conflict(format!(
            "Volume is in use by sandbox {}: delete that first",
            sandbox.id
        )));
    }
    if held.has(&volume.id) {
        return Err(ApiError::conflict(
            "Volume is in use by a sandbox that is being made",
        ));
    }
    state.store.delete::<VolumeRecord>(&volume.id)?;
    making.remove_volume(&volume.id);
    Ok(())
}
