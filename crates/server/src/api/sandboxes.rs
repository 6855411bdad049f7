//! Sandboxes: made, shown, listed, changed, deleted.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post, put};
use axum::{Json, Router};
use holm_daytona_wire::sandbox::{
    CreateSandbox, PaginatedSandboxes, Sandbox, SandboxLabels, SandboxState,
};
use holm_daytona_wire::snapshot::SnapshotState;
use holm_daytona_wire::version::SdkVersion;
use serde_json::json;

use super::sandbox_create::{
    self, Asked, DEFAULT_SNAPSHOT, NewSnapshot, archive_interval, check_labels, destroy_at,
    resources, stop_interval,
};
use super::sandbox_list::Listing;
use super::{Body, Pairs, secrets, show, volumes};
use crate::auth::Caller;
use crate::clock;
use crate::error::{ApiError, Result};
use crate::keys::{self, random_token};
use crate::machines::outside;
use crate::missing;
use crate::records::{SandboxRecord, SnapshotRecord};
use crate::sandboxes::NewSandbox;
use crate::snapshots::{Wanted, find_or_add_build};
use crate::state::{AppState, Shared};

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/sandbox", post(create).get(list))
        // SDKs before 0.190 list here.
        .route("/sandbox/paginated", get(list_pages))
        // Not the sandbox of that name.
        .route("/sandbox/for-runner", any(missing::of_control))
        .route("/sandbox/{sandbox}", get(show_one).delete(delete))
        .route("/sandbox/{sandbox}/start", post(start))
        .route("/sandbox/{sandbox}/stop", post(stop))
        .route("/sandbox/{sandbox}/archive", post(archive))
        .route("/sandbox/{sandbox}/pause", post(pause))
        .route("/sandbox/{sandbox}/labels", put(set_labels))
        .route("/sandbox/{sandbox}/public/{public}", post(set_public))
        .route("/sandbox/{sandbox}/autostop/{minutes}", post(set_autostop))
        .route(
            "/sandbox/{sandbox}/autopause/{minutes}",
            post(set_autopause),
        )
        .route(
            "/sandbox/{sandbox}/autoarchive/{minutes}",
            post(set_autoarchive),
        )
        .route(
            "/sandbox/{sandbox}/autodelete/{minutes}",
            post(set_autodelete),
        )
        .route("/sandbox/{sandbox}/ttl/{minutes}", post(set_ttl))
        .route("/sandbox/{sandbox}/last-activity", post(touch))
        .route("/sandbox/{sandbox}/signing-key", get(signing_key))
        .route(
            "/sandbox/{sandbox}/signing-key/rotate",
            post(rotate_signing_key),
        )
        .route(
            "/sandbox/{sandbox}/toolbox-proxy-url",
            get(toolbox_proxy_url),
        )
}

/// A request of a key's owner about one of the owner's sandboxes.
type One = (State<AppState>, HeaderMap, Caller, Path<String>);
/// The same with a number of minutes.
type OneWithMinutes = (State<AppState>, HeaderMap, Caller, Path<(String, i32)>);

fn shown(state: &Shared, headers: &HeaderMap, record: &SandboxRecord) -> Json<Sandbox> {
    Json(show(record, &state.public_url(headers)))
}

async fn create(
    State(state): State<AppState>,
    headers: HeaderMap,
    caller: Caller,
    Body(request): Body<CreateSandbox>,
) -> Result<Json<Sandbox>> {
    let organization = &caller.organization;
    let snapshot = match &request.build_info {
        Some(_) => build_snapshot(&state, organization, &request).await?,
        None => named_snapshot(&state, organization, &request)?,
    };
    let asked = Asked {
        organization,
        now: clock::now(),
        minute: state.config.limits.minute,
    };
    let mut record = sandbox_create::record(&request, &snapshot, asked)?;
    for volume in &mut record.volumes {
        volume.volume_id = volumes::find(&state, organization, &volume.volume_id)?.id;
    }
    secrets::check_references(&state, organization, &record.secrets)?;
    outside::policy(&record.network).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let sandbox = if snapshot.state == SnapshotState::Active {
        let sandbox = state.sandboxes.create(NewSandbox { record }).await?;
        state.sandboxes.note_use(snapshot).await;
        sandbox
    } else {
        record.state = SandboxState::PendingBuild;
        record.build = Some(snapshot.id);
        state
            .sandboxes
            .create_pending(record, &state.builds)
            .await?
    };
    Ok(shown(&state, &headers, &sandbox.record()))
}

fn named_snapshot(
    state: &Shared,
    organization: &str,
    request: &CreateSandbox,
) -> Result<SnapshotRecord> {
    let name = request.snapshot.as_deref().filter(|name| !name.is_empty());
    let asks_for_size = request.cpu.is_some() || request.memory.is_some() || request.disk.is_some();
    if asks_for_size && name.is_some() {
        return Err(ApiError::bad_request(
            "Cannot specify Sandbox resources when using a snapshot",
        ));
    }
    let mut snapshot = find_snapshot(state, organization, name.unwrap_or(DEFAULT_SNAPSHOT))?;
    if snapshot.state != SnapshotState::Active {
        return Err(ApiError::bad_request(format!(
            "Snapshot {} is {}",
            snapshot.name, snapshot.state
        )));
    }
    if asks_for_size {
        snapshot.resources = resources(request.cpu, request.memory, request.disk)?;
    }
    Ok(snapshot)
}

/// The snapshot behind a Dockerfile: the same text is built once.
async fn build_snapshot(
    state: &AppState,
    organization: &str,
    request: &CreateSandbox,
) -> Result<SnapshotRecord> {
    if request
        .snapshot
        .as_deref()
        .is_some_and(|name| !name.is_empty())
    {
        return Err(ApiError::bad_request(
            "Cannot use both a snapshot and build info",
        ));
    }
    let dockerfile = request
        .build_info
        .as_ref()
        .map(|build| build.dockerfile_content.as_str())
        .unwrap_or_default();
    let name = format!("build-{}", &keys::hash(dockerfile)[..32]);
    let wanted = sandbox_create::snapshot_record(NewSnapshot {
        organization,
        name: &name,
        image: None,
        build: request.build_info.as_ref(),
        entrypoint: Vec::new(),
        resources: resources(request.cpu, request.memory, request.disk)?,
    })?;
    let state = state.clone();
    let found = tokio::task::spawn_blocking(move || {
        let resources = wanted.resources;
        let found = match find_or_add_build(&state.store, wanted)? {
            Wanted::New(new) => {
                state.builds.begin(new.clone());
                new
            }
            Wanted::Known(known) => known,
        };
        Ok(SnapshotRecord { resources, ..found })
    });
    found.await?
}

/// An organisation's own snapshot goes before one for all.
pub(crate) fn find_snapshot(
    state: &Shared,
    organization: &str,
    name: &str,
) -> Result<SnapshotRecord> {
    for owner in [organization, ""] {
        if let Some(found) = state.store.find_by_name(owner, name)? {
            return Ok(found);
        }
    }
    Err(ApiError::bad_request(format!(
        "Snapshot {name} not found. Did you add it through the Daytona Dashboard?"
    )))
}

async fn list(
    State(state): State<AppState>,
    headers: HeaderMap,
    caller: Caller,
    query: Pairs,
) -> Result<Response> {
    let listing = Listing::parse(&query)?;
    let records = state.sandboxes.of(&caller.organization);
    let (page, next) = listing.page(records.iter().map(|sandbox| sandbox.record()));
    let url = state.public_url(&headers);
    let items: Vec<Sandbox> = page.iter().map(|record| show(record, &url)).collect();
    Ok(Json(json!({ "items": items, "nextCursor": next })).into_response())
}

async fn list_pages(
    State(state): State<AppState>,
    headers: HeaderMap,
    caller: Caller,
    query: Pairs,
) -> Result<Json<PaginatedSandboxes>> {
    let listing = Listing::parse(&query)?;
    let page: u32 = query.parsed("page")?.unwrap_or(1).max(1);
    let limit: u32 = query.parsed("limit")?.unwrap_or(100).clamp(1, 200);
    let all = listing.all(
        state
            .sandboxes
            .of(&caller.organization)
            .iter()
            .map(|sandbox| sandbox.record()),
    );
    let url = state.public_url(&headers);
    let skipped = (page as usize - 1).saturating_mul(limit as usize);
    let items = all.iter().skip(skipped).take(limit as usize);
    Ok(Json(PaginatedSandboxes {
        items: items.map(|record| show(record, &url)).collect(),
        total: all.len() as u64,
        page,
        total_pages: u32::try_from(all.len().div_ceil(limit as usize)).unwrap_or(u32::MAX),
    }))
}

async fn show_one((State(state), headers, caller, Path(id)): One) -> Result<Json<Sandbox>> {
    match state.sandboxes.find(&caller.organization, &id) {
        Ok(sandbox) => Ok(shown(&state, &headers, &sandbox.record())),
        Err(gone) => {
            let version = headers
                .get("x-daytona-sdk-version")
                .and_then(|version| SdkVersion::parse(version.to_str().ok()?));
            let looks_again = version.is_some_and(SdkVersion::looks_at_what_it_deleted);
            let departed = state.sandboxes.departed(&caller.organization, &id);
            match departed.filter(|_| looks_again) {
                Some(record) => Ok(shown(&state, &headers, &record)),
                None => Err(gone),
            }
        }
    }
}

async fn delete((State(state), headers, caller, Path(id)): One) -> Result<Json<Sandbox>> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    let record = state.sandboxes.delete(&sandbox).await?;
    Ok(shown(&state, &headers, &record))
}

async fn start((State(state), headers, caller, Path(id)): One) -> Result<Json<Sandbox>> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    let record = state.sandboxes.start(&sandbox).await?;
    Ok(shown(&state, &headers, &record))
}

async fn stop((State(state), headers, caller, Path(id)): One) -> Result<Json<Sandbox>> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    let record = state.sandboxes.stop(&sandbox).await?;
    Ok(shown(&state, &headers, &record))
}

async fn archive((State(state), headers, caller, Path(id)): One) -> Result<Json<Sandbox>> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    let record = state.sandboxes.archive(&sandbox).await?;
    Ok(shown(&state, &headers, &record))
}

async fn pause((State(state), headers, caller, Path(id)): One) -> Result<Json<Sandbox>> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    let record = state.sandboxes.pause(&sandbox).await?;
    Ok(shown(&state, &headers, &record))
}

/// Changes the record of one sandbox and shows it.
async fn change(
    (State(state), headers, caller, id): (State<AppState>, HeaderMap, Caller, String),
    change: impl FnOnce(&mut SandboxRecord) + Send + 'static,
) -> Result<Json<Sandbox>> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    sandbox.activity.touch();
    let record = state.sandboxes.update(&sandbox, change).await?;
    Ok(shown(&state, &headers, &record))
}

async fn set_labels(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Body(labels): Body<SandboxLabels>,
) -> Result<Json<SandboxLabels>> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    check_labels(&labels.labels)?;
    let given = labels.clone();
    state
        .sandboxes
        .update(&sandbox, |record| record.labels = given.labels)
        .await?;
    Ok(Json(labels))
}

async fn set_public(
    State(state): State<AppState>,
    headers: HeaderMap,
    caller: Caller,
    Path((id, public)): Path<(String, bool)>,
) -> Result<Json<Sandbox>> {
    change((State(state), headers, caller, id), move |record| {
        record.public = public;
    })
    .await
}

async fn set_autostop(
    (state, headers, caller, Path((id, minutes))): OneWithMinutes,
) -> Result<Json<Sandbox>> {
    let minutes = stop_interval(minutes)?;
    change((state, headers, caller, id), move |record| {
        record.intervals.stop = minutes;
    })
    .await
}

async fn set_autopause(
    (state, headers, caller, Path((id, minutes))): OneWithMinutes,
) -> Result<Json<Sandbox>> {
    let minutes = stop_interval(minutes)?;
    change((state, headers, caller, id), move |record| {
        record.intervals.pause = minutes;
    })
    .await
}

async fn set_autoarchive(
    (state, headers, caller, Path((id, minutes))): OneWithMinutes,
) -> Result<Json<Sandbox>> {
    let minutes = archive_interval(minutes)?;
    change((state, headers, caller, id), move |record| {
        record.intervals.archive = minutes;
    })
    .await
}

async fn set_autodelete(
    (state, headers, caller, Path((id, minutes))): OneWithMinutes,
) -> Result<Json<Sandbox>> {
    change((state, headers, caller, id), move |record| {
        record.intervals.delete = minutes;
    })
    .await
}

/// Zero takes the end back.
async fn set_ttl(
    (state, headers, caller, Path((id, minutes))): OneWithMinutes,
) -> Result<Json<Sandbox>> {
    let end = destroy_at(minutes, clock::now(), state.config.limits.minute)?;
    change((state, headers, caller, id), move |record| {
        record.destroy_at = end;
    })
    .await
}

async fn touch((State(state), _, caller, Path(id)): One) -> Result<StatusCode> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    sandbox.activity.touch();
    Ok(StatusCode::CREATED)
}

async fn signing_key((State(state), _, caller, Path(id)): One) -> Result<Json<String>> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    Ok(Json(
        sandbox.peek(|record| record.signing_key.expose().to_owned()),
    ))
}

/// Addresses that were signed with the old key open nothing from now on.
async fn rotate_signing_key((State(state), _, caller, Path(id)): One) -> Result<Json<String>> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    let record = state
        .sandboxes
        .update(&sandbox, |record| {
            record.signing_key = random_token().into();
        })
        .await?;
    Ok(Json(record.signing_key.into_inner()))
}

async fn toolbox_proxy_url((State(state), headers, caller, Path(id)): One) -> Result<Response> {
    state.sandboxes.find(&caller.organization, &id)?;
    let url = format!("{}/toolbox", state.public_url(&headers));
    Ok(Json(json!({ "url": url })).into_response())
}
