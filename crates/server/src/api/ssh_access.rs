//! Tokens for SSH: made, revoked, looked at.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::{get, post};
use axum::{Json, Router};
use holm_daytona_wire::sandbox::Sandbox;
use holm_daytona_wire::ssh::{SshAccess, SshAccessValidation};

use super::{Pairs, show};
use crate::auth::Caller;
use crate::clock::{self, minutes_after, rfc3339};
use crate::error::{ApiError, Result};
use crate::ssh::access;
use crate::state::{AppState, Shared};

const MINUTES_DEFAULT: i64 = 60;
const MINUTES_MAX: i64 = 365 * 24 * 60;

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/sandbox/{sandbox}/ssh-access", post(create).delete(revoke))
        .route("/sandbox/ssh-access/validate", get(validate))
}

/// How a client calls the door for SSH.
fn command(state: &Shared, headers: &HeaderMap, token: &str) -> Result<String> {
    let address = state.ssh.ok_or_else(|| {
        ApiError::not_implemented(
            "SSH is off: start the server with `--ssh-listen ADDRESS`, for example 127.0.0.1:2222",
        )
    })?;
    let url = state.public_url(headers);
    let host = url.split("://").nth(1).unwrap_or_default();
    let host = host.split('/').next().unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    };
    let name = name.trim_matches(['[', ']']);
    Ok(format!("ssh -p {} {token}@{name}", address.port()))
}

async fn create(
    State(state): State<AppState>,
    headers: HeaderMap,
    caller: Caller,
    Path(id): Path<String>,
    query: Pairs,
) -> Result<Json<SshAccess>> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    // Before a token is made that opens nothing.
    command(&state, &headers, "")?;
    let minutes: f64 = query
        .parsed("expiresInMinutes")?
        .unwrap_or(MINUTES_DEFAULT as f64);
    if !(1.0..=MINUTES_MAX as f64).contains(&minutes) {
        return Err(ApiError::bad_request(format!(
            "expiresInMinutes goes from 1 to {MINUTES_MAX}"
        )));
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to be in the range just above"
    )]
    let expires_at = minutes_after(clock::now(), minutes as i64);
    let store = Arc::clone(&state.store);
    let sandbox_id = sandbox.id.clone();
    let (token, record) =
        tokio::task::spawn_blocking(move || access::issue(&store, &sandbox_id, expires_at))
            .await??;
    Ok(Json(SshAccess {
        id: record.id,
        sandbox_id: record.sandbox,
        ssh_command: command(&state, &headers, &token)?.into(),
        token: token.into(),
        expires_at: rfc3339(record.expires_at),
        created_at: rfc3339(record.created_at),
        updated_at: rfc3339(record.created_at),
    }))
}

/// Without a token, all of the sandbox's end.
async fn revoke(
    State(state): State<AppState>,
    headers: HeaderMap,
    caller: Caller,
    Path(id): Path<String>,
    query: Pairs,
) -> Result<Json<Sandbox>> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    let store = Arc::clone(&state.store);
    let sandbox_id = sandbox.id.clone();
    let token = query.get("token").map(str::to_owned);
    tokio::task::spawn_blocking(move || access::revoke(&store, &sandbox_id, token.as_deref()))
        .await??;
    Ok(Json(show(&sandbox.record(), &state.public_url(&headers))))
}

/// Another organisation's token is as good as none.
async fn validate(
    State(state): State<AppState>,
    caller: Caller,
    query: Pairs,
) -> Result<Json<SshAccessValidation>> {
    let token = query.required("token")?.to_owned();
    let store = Arc::clone(&state.store);
    let found = tokio::task::spawn_blocking(move || access::find(&store, &token)).await??;
    let sandbox = found
        .and_then(|record| state.sandboxes.by_id(&record.sandbox))
        .filter(|sandbox| sandbox.organization == caller.organization);
    Ok(Json(SshAccessValidation {
        valid: sandbox.is_some(),
        sandbox_id: sandbox.map_or_else(String::new, |sandbox| sandbox.id.clone()),
    }))
}
