//! Snapshots: what sandboxes start from.

use axum::body::Body as HttpBody;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::sandbox::SandboxClass;
use holm_daytona_wire::snapshot::{
    BuildInfo, CreateSnapshot, PaginatedSnapshots, Snapshot, SnapshotState,
};
use serde_json::json;

use super::build_log;
use super::sandbox_create::{NewSnapshot, resources, snapshot_record};
use super::{Body, Pairs};
use crate::auth::Caller;
use crate::clock::rfc3339;
use crate::error::{ApiError, Result};
use crate::records::SnapshotRecord;
use crate::snapshots::add_snapshot;
use crate::state::{AppState, Shared};

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/snapshots", get(list).post(create))
        .route("/snapshots/{snapshot}", get(show_one).delete(delete))
        .route("/snapshots/{snapshot}/activate", post(activate))
        .route("/snapshots/{snapshot}/deactivate", post(deactivate))
        .route("/snapshots/{snapshot}/build-logs-url", get(build_logs_url))
        .route("/snapshots/{snapshot}/build-logs", get(build_logs))
}

pub(super) fn show(record: &SnapshotRecord) -> Snapshot {
    let general = record.organization.is_empty();
    Snapshot {
        id: record.id.clone(),
        organization_id: (!general).then(|| record.organization.clone()),
        general,
        name: record.name.clone(),
        image_name: record.image_name.clone(),
        state: record.state.clone(),
        size: (record.size_bytes > 0).then(|| in_gib(record.size_bytes)),
        entrypoint: Some(record.entrypoint.clone()),
        cpu: record.resources.cpu,
        gpu: 0,
        mem: record.resources.memory_gib,
        disk: record.resources.disk_gib,
        error_reason: record.error_reason.clone(),
        created_at: rfc3339(record.created_at),
        updated_at: rfc3339(record.updated_at),
        last_used_at: record.last_used_at.map(rfc3339),
        build_info: record.dockerfile.as_ref().map(|dockerfile| BuildInfo {
            dockerfile_content: Some(dockerfile.clone()),
            created_at: rfc3339(record.created_at),
            updated_at: rfc3339(record.updated_at),
            snapshot_ref: record.id.clone(),
            ..BuildInfo::default()
        }),
        source_sandbox_id: record.source_sandbox.clone(),
        sandbox_class: Some(SandboxClass::Container),
        ..Snapshot::default()
    }
}

/// Hundredths are enough for a size that people read.
fn in_gib(bytes: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a size for people to read")]
    let gib = bytes as f64 / GIB;
    (gib * 100.0).round() / 100.0
}

/// All that an organisation may use, its own first.
fn all(state: &Shared, organization: &str) -> Result<Vec<SnapshotRecord>> {
    let mut found: Vec<SnapshotRecord> = state.store.list(organization)?;
    found.extend(state.store.list::<SnapshotRecord>("")?);
    Ok(found)
}

fn find(state: &Shared, organization: &str, id_or_name: &str) -> Result<SnapshotRecord> {
    let mut all = all(state, organization)?.into_iter();
    all.find(|snapshot| snapshot.id == id_or_name || snapshot.name == id_or_name)
        .ok_or_else(|| not_found(id_or_name))
}

fn not_found(id_or_name: &str) -> ApiError {
    ApiError::not_found(format!("Snapshot with ID or name {id_or_name} not found"))
}

/// One that the caller may change.
fn find_own(state: &Shared, organization: &str, id_or_name: &str) -> Result<SnapshotRecord> {
    let found = find(state, organization, id_or_name)?;
    if found.organization.is_empty() {
        return Err(ApiError::new(
            ErrorCode::Forbidden,
            "this snapshot belongs to the server: the operator changes it with `holm snapshot`",
        ));
    }
    Ok(found)
}

async fn list(
    State(state): State<AppState>,
    caller: Caller,
    query: Pairs,
) -> Result<Json<PaginatedSnapshots>> {
    let page: usize = query.parsed("page")?.unwrap_or(1).max(1);
    let limit: usize = query.parsed("limit")?.unwrap_or(100).clamp(1, 200);
    let name = query.get("name").unwrap_or_default();
    let mut found = all(&state, &caller.organization)?;
    found.retain(|snapshot| snapshot.name.contains(name));
    let items = found
        .iter()
        .skip((page - 1).saturating_mul(limit))
        .take(limit);
    Ok(Json(PaginatedSnapshots {
        items: items.map(show).collect(),
        total: found.len() as u64,
        page: u32::try_from(page).unwrap_or(u32::MAX),
        total_pages: u32::try_from(found.len().div_ceil(limit)).unwrap_or(u32::MAX),
    }))
}

async fn show_one(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Snapshot>> {
    Ok(Json(show(&find(&state, &caller.organization, &id)?)))
}

async fn create(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<CreateSnapshot>,
) -> Result<Json<Snapshot>> {
    if request.gpu.is_some_and(|gpu| gpu > 0) {
        return Err(ApiError::bad_request(
            "GPUs are not available on this server",
        ));
    }
    let record = snapshot_record(NewSnapshot {
        organization: &caller.organization,
        name: &request.name,
        image: request.image_name.as_deref(),
        build: request.build_info.as_ref(),
        entrypoint: request.entrypoint.clone(),
        resources: resources(request.cpu, request.memory, request.disk)?,
    })?;
    let shown = show(&record);
    let writing = state.clone();
    tokio::task::spawn_blocking(move || {
        add_snapshot(&writing.store, &record)?;
        writing.builds.begin(record);
        Ok::<(), ApiError>(())
    })
    .await??;
    Ok(Json(shown))
}

async fn delete(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<serde_json::Value>> {
    let snapshot = find_own(&state, &caller.organization, &id)?;
    tokio::task::spawn_blocking(move || {
        state.builds.cancel(&snapshot.id);
        state.store.delete::<SnapshotRecord>(&snapshot.id)?;
        state.sandboxes.making.collect()
    })
    .await??;
    Ok(Json(json!({})))
}

async fn activate(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Snapshot>> {
    set_state(
        state,
        &caller,
        &id,
        SnapshotState::Inactive,
        SnapshotState::Active,
    )
    .await
}

async fn deactivate(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Snapshot>> {
    set_state(
        state,
        &caller,
        &id,
        SnapshotState::Active,
        SnapshotState::Inactive,
    )
    .await
}

async fn set_state(
    state: AppState,
    caller: &Caller,
    id: &str,
    from: SnapshotState,
    to: SnapshotState,
) -> Result<Json<Snapshot>> {
    let found = find_own(&state, &caller.organization, id)?;
    let stored = tokio::task::spawn_blocking(move || {
        // Read where it is written: one that is deleted meanwhile does not come back.
        state.store.write(|transaction| {
            let snapshot: Option<SnapshotRecord> = transaction.get(&found.id)?;
            let mut snapshot = snapshot.ok_or_else(|| not_found(&found.name))?;
            if snapshot.state != from && snapshot.state != to {
                return Err(ApiError::bad_request(format!(
                    "Snapshot {} is {} and not {from}",
                    snapshot.name, snapshot.state
                )));
            }
            snapshot.state = to;
            snapshot.updated_at = crate::clock::now();
            transaction.put(&snapshot)?;
            Ok(snapshot)
        })
    });
    Ok(Json(show(&stored.await??)))
}

async fn build_logs_url(
    State(state): State<AppState>,
    headers: HeaderMap,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response> {
    let snapshot = find(&state, &caller.organization, &id)?;
    let url = format!(
        "{}/api/snapshots/{}/build-logs",
        state.public_url(&headers),
        snapshot.id
    );
    Ok(Json(json!({ "url": url })).into_response())
}

async fn build_logs(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    query: Pairs,
) -> Result<Response> {
    let snapshot = find(&state, &caller.organization, &id)?;
    Ok(answer_log(build_log::stream(&state, &snapshot.id, &query)))
}

/// A log as plain text, as far as it is written.
pub(super) fn answer_log(body: HttpBody) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response()
}
