//! Volumes: folders that outlive sandboxes and can be in several of an organisation's.

use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Json, Router};
use holm_daytona_wire::volume::{CreateVolume, Volume, VolumeState};

use super::Body;
use super::sandbox_create::checked_name;
use crate::auth::Caller;
use crate::clock::{self, rfc3339};
use crate::error::{ApiError, Result};
use crate::records::VolumeRecord;
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
        let count = writing
            .store
            .list::<VolumeRecord>(&record.organization)?
            .len();
        if count >= VOLUMES_MAX {
            return Err(ApiError::new(
                holm_daytona_wire::error::ErrorCode::Forbidden,
                format!("an organisation has at most {VOLUMES_MAX} volumes: delete some"),
            ));
        }
        // The folder first: a row without one would be a volume that does not work.
        writing.sandboxes.making.make_volume(&record.id, ids)?;
        writing.store.put(&record).map_err(|error| {
            writing.sandboxes.making.remove_volume(&record.id);
            match error {
                holm_store::StoreError::NameTaken { name } => {
                    ApiError::conflict(format!("Volume with name {name} already exists"))
                }
                error => error.into(),
            }
        })?;
        Ok(record)
    })
    .await??;
    Ok(Json(show(&record)))
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
    let user = state
        .sandboxes
        .of(&caller.organization)
        .into_iter()
        .find(|sandbox| {
            sandbox.peek(|record| {
                let mut mounted = record.volumes.iter();
                mounted.any(|mount| mount.volume_id == volume.id)
            })
        });
    if let Some(sandbox) = user {
        return Err(ApiError::conflict(format!(
            "Volume is in use by sandbox {}: delete that first",
            sandbox.id
        )));
    }
    let removing = state.clone();
    let removed = volume.id.clone();
    tokio::task::spawn_blocking(move || {
        removing.store.delete::<VolumeRecord>(&removed)?;
        removing.sandboxes.making.remove_volume(&removed);
        Ok::<(), ApiError>(())
    })
    .await??;
    Ok(Json(Volume {
        state: VolumeState::Deleted,
        ..show(&volume)
    }))
}
