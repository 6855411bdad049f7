//! Changes of a sandbox that runs: its size, its network, copies of it.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use holm_daytona_wire::sandbox::{
    CreateSandboxSnapshot, ForkSandbox, ResizeSandbox, Sandbox, UpdateNetworkSettings,
};
use serde_json::json;

use super::sandbox_create::{checked_name, resources};
use super::snapshots::answer_log;
use super::{Body, Pairs, build_log, show};
use crate::auth::Caller;
use crate::error::{ApiError, Result};
use crate::records::{NetworkSettings, SnapshotRecord};
use crate::snapshots::already_exists;
use crate::state::AppState;

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/sandbox/{sandbox}/fork", post(fork))
        .route("/sandbox/{sandbox}/snapshot", post(save))
        .route("/sandbox/{sandbox}/resize", post(resize))
        .route("/sandbox/{sandbox}/recover", post(recover))
        .route("/sandbox/{sandbox}/network-settings", post(set_network))
        .route("/sandbox/{sandbox}/build-logs-url", get(build_logs_url))
        .route("/sandbox/{sandbox}/build-logs", get(build_logs))
}

async fn fork(
    State(state): State<AppState>,
    headers: HeaderMap,
    caller: Caller,
    Path(id): Path<String>,
    Body(request): Body<ForkSandbox>,
) -> Result<Json<Sandbox>> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    let name = request.name.filter(|name| !name.is_empty());
    let name = name.map(|name| checked_name(&name)).transpose()?;
    let forked = state.sandboxes.fork(&sandbox, name).await?;
    Ok(Json(show(&forked.record(), &state.public_url(&headers))))
}

async fn save(
    State(state): State<AppState>,
    headers: HeaderMap,
    caller: Caller,
    Path(id): Path<String>,
    Body(request): Body<CreateSandboxSnapshot>,
) -> Result<Json<Sandbox>> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    if request.include_memory {
        return Err(ApiError::not_implemented(
            "a snapshot holds files and no processes: leave `includeMemory` out",
        ));
    }
    if request.name.is_empty() {
        return Err(ApiError::bad_request("a snapshot needs a `name`"));
    }
    let name = checked_name(&request.name)?;
    // Before the copy, which takes its time; it is checked again when the snapshot is stored.
    for owner in [caller.organization.as_str(), ""] {
        let known: Option<SnapshotRecord> = state.store.find_by_name(owner, &name)?;
        if known.is_some() {
            return Err(already_exists(&name));
        }
    }
    state.sandboxes.save(&sandbox, name).await?;
    Ok(Json(show(&sandbox.record(), &state.public_url(&headers))))
}

async fn resize(
    State(state): State<AppState>,
    headers: HeaderMap,
    caller: Caller,
    Path(id): Path<String>,
    Body(request): Body<ResizeSandbox>,
) -> Result<Json<Sandbox>> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    let now = sandbox.peek(|record| record.resources);
    let wanted = resources(
        Some(request.cpu.unwrap_or(now.cpu)),
        Some(request.memory.unwrap_or(now.memory_gib)),
        Some(request.disk.unwrap_or(now.disk_gib)),
    )?;
    let record = state.sandboxes.resize(&sandbox, wanted).await?;
    Ok(Json(show(&record, &state.public_url(&headers))))
}

/// Brings a sandbox out of an error.
async fn recover(
    State(state): State<AppState>,
    headers: HeaderMap,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Sandbox>> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    let record = state.sandboxes.recover(&sandbox).await?;
    Ok(Json(show(&record, &state.public_url(&headers))))
}

async fn set_network(
    State(state): State<AppState>,
    headers: HeaderMap,
    caller: Caller,
    Path(id): Path<String>,
    Body(request): Body<UpdateNetworkSettings>,
) -> Result<Json<Sandbox>> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    let change = |network| changed_network(network, request);
    let record = state.sandboxes.set_network(&sandbox, change).await?;
    Ok(Json(show(&record, &state.public_url(&headers))))
}

/// Blocking everything clears the lists; so does asking only for not blocking.
fn changed_network(
    mut network: NetworkSettings,
    request: UpdateNetworkSettings,
) -> NetworkSettings {
    let given = |text: String| Some(text).filter(|text| !text.is_empty());
    if let Some(block_all) = request.network_block_all {
        network.block_all = block_all;
        if block_all
            || (request.network_allow_list.is_none() && request.domain_allow_list.is_none())
        {
            network.allow_list = None;
            network.domain_allow_list = None;
        }
    }
    if !network.block_all {
        if let Some(list) = request.network_allow_list {
            network.allow_list = given(list);
        }
        if let Some(list) = request.domain_allow_list {
            network.domain_allow_list = given(list);
        }
    }
    network
}

async fn build_logs_url(
    State(state): State<AppState>,
    headers: HeaderMap,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    let url = format!(
        "{}/api/sandbox/{}/build-logs",
        state.public_url(&headers),
        sandbox.id
    );
    Ok(Json(json!({ "url": url })).into_response())
}

async fn build_logs(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    query: Pairs,
) -> Result<Response> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    let build = sandbox.peek(|record| record.build.clone());
    let build = build.ok_or_else(|| ApiError::not_found("Sandbox was not built from an image"))?;
    Ok(answer_log(build_log::stream(&state, &build, &query)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether all is blocked, the addresses and the domains.
    type Settings = (bool, Option<&'static str>, Option<&'static str>);

    #[test]
    fn network_settings_change_by_daytonas_rules() {
        let open = (false, Some("10.0.0.0/8"), Some("a.b"));
        let cases: [(Settings, serde_json::Value, Settings); 9] = [
            (open, json!({}), open),
            // Blocking clears the lists, and wins over lists that come with it.
            (open, json!({ "networkBlockAll": true }), (true, None, None)),
            (
                open,
                json!({ "networkBlockAll": true, "networkAllowList": "1.0.0.0/8" }),
                (true, None, None),
            ),
            // So does asking only for not blocking.
            (
                open,
                json!({ "networkBlockAll": false }),
                (false, None, None),
            ),
            (
                open,
                json!({ "networkBlockAll": false, "networkAllowList": "1.0.0.0/8" }),
                (false, Some("1.0.0.0/8"), Some("a.b")),
            ),
            // An empty text clears one list.
            (
                open,
                json!({ "networkAllowList": "" }),
                (false, None, Some("a.b")),
            ),
            (
                open,
                json!({ "domainAllowList": "" }),
                (false, Some("10.0.0.0/8"), None),
            ),
            // What is blocked stays blocked until somebody says otherwise.
            (
                (true, None, None),
                json!({ "networkAllowList": "1.0.0.0/8" }),
                (true, None, None),
            ),
            (
                (true, None, None),
                json!({ "networkBlockAll": false, "domainAllowList": "c.d" }),
                (false, None, Some("c.d")),
            ),
        ];
        for ((block_all, addresses, domains), request, expected) in cases {
            let before = NetworkSettings {
                block_all,
                allow_list: addresses.map(str::to_owned),
                domain_allow_list: domains.map(str::to_owned),
            };
            let shown = format!("{before:?} {request}");
            let after = changed_network(before, serde_json::from_value(request).unwrap());
            let found = (
                after.block_all,
                after.allow_list.as_deref(),
                after.domain_allow_list.as_deref(),
            );
            assert_eq!(found, expected, "{shown}");
        }
    }
}
