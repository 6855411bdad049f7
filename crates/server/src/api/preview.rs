//! Addresses of what listens in a sandbox.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use holm_daytona_wire::preview::{PortPreviewUrl, SignedPortPreviewUrl};

use super::Pairs;
use crate::auth::Caller;
use crate::clock;
use crate::error::{ApiError, Result};
use crate::preview::tokens;
use crate::state::AppState;

/// A signed address opens for this long, unless asked otherwise.
const SECONDS_DEFAULT: i64 = 60;
const SECONDS_MAX: i64 = 24 * 60 * 60;

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route(
            "/sandbox/{sandbox}/ports/{port}/preview-url",
            get(preview_url),
        )
        .route(
            "/sandbox/{sandbox}/ports/{port}/signed-preview-url",
            get(signed_preview_url),
        )
        .route(
            "/sandbox/{sandbox}/ports/{port}/signed-preview-url/{token}/expire",
            post(expire),
        )
}

/// Ports are numbers in the specification, also with a fraction of zero.
fn port(text: &str) -> Result<u16> {
    let whole = text.strip_suffix(".0").unwrap_or(text);
    match whole.parse() {
        Ok(0) | Err(_) => Err(ApiError::bad_request(format!(
            "`{text}` is no port: they go from 1 to 65535"
        ))),
        Ok(port) => Ok(port),
    }
}

async fn preview_url(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, text)): Path<(String, String)>,
) -> Result<Json<PortPreviewUrl>> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    let port = port(&text)?;
    Ok(Json(PortPreviewUrl {
        sandbox_id: sandbox.id.clone(),
        url: state.preview_url(port, &sandbox.id),
        token: sandbox.peek(|record| record.auth_token.clone()),
    }))
}

async fn signed_preview_url(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, text)): Path<(String, String)>,
    query: Pairs,
) -> Result<Json<SignedPortPreviewUrl>> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    let port = port(&text)?;
    let seconds: i64 = query.parsed("expiresInSeconds")?.unwrap_or(SECONDS_DEFAULT);
    if !(1..=SECONDS_MAX).contains(&seconds) {
        return Err(ApiError::bad_request(format!(
            "expiresInSeconds goes from 1 to {SECONDS_MAX}"
        )));
    }
    let expires_at = clock::now().saturating_add(seconds * 1000);
    let store = std::sync::Arc::clone(&state.store);
    let sandbox_id = sandbox.id.clone();
    let token = {
        let id = sandbox_id.clone();
        tokio::task::spawn_blocking(move || tokens::issue(&store, &id, port, expires_at)).await??
    };
    Ok(Json(SignedPortPreviewUrl {
        sandbox_id,
        port: port.into(),
        url: state.preview_url(port, &token).into(),
        token: token.into(),
    }))
}

async fn expire(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, text, token)): Path<(String, String, String)>,
) -> Result<StatusCode> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    let port = port(&text)?;
    let store = std::sync::Arc::clone(&state.store);
    let id = sandbox.id.clone();
    let expired =
        tokio::task::spawn_blocking(move || tokens::expire(&store, &id, port, &token)).await??;
    if expired {
        Ok(StatusCode::OK)
    } else {
        Err(ApiError::not_found(
            "there is no such token for this port, or it has expired",
        ))
    }
}
