//! Who asks.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::FromRequestParts;
use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::request::Parts;
use holm_daytona_wire::error::ErrorCode;

use crate::error::{ApiError, Result};
use crate::keys;
use crate::sandboxes::Sandbox;
use crate::state::AppState;

pub(crate) const PREVIEW_TOKEN: &str = "x-daytona-preview-token";
/// Browsers cannot set headers on WebSockets.
pub(crate) const TOKEN_PARAMETER: &str = "DAYTONA_SANDBOX_AUTH_KEY";

/// A caller with an API key.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) organization: String,
    pub(crate) key_name: String,
}

impl FromRequestParts<AppState> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self> {
        let Some(key) = bearer(parts) else {
            return Err(ApiError::unauthorized(
                "an API key is needed: send `Authorization: Bearer KEY`",
            ));
        };
        caller(state, key)?.ok_or_else(|| ApiError::unauthorized("the API key is not valid"))
    }
}

/// The caller behind a key, if it is one of ours.
pub(crate) fn caller(state: &AppState, key: &str) -> Result<Option<Caller>> {
    let hash = keys::hash(key);
    if let Some(caller) = state.known_keys.get(&hash) {
        return Ok(Some(caller));
    }
    let looked_up_at = Instant::now();
    let Some(key) = keys::find(&state.store, &hash)? else {
        return Ok(None);
    };
    let caller = Caller {
        organization: key.organization,
        key_name: key.name,
    };
    let known = caller.clone();
    state.known_keys.insert(hash, known, looked_up_at);
    Ok(Some(caller))
}

/// Lets a caller into one sandbox's toolbox: by an API key of its organisation, or by the sandbox's own token.
pub(crate) fn toolbox_caller(state: &AppState, parts: &Parts, id: &str) -> Result<Arc<Sandbox>> {
    if let Some(key) = bearer(parts)
        && let Some(caller) = caller(state, key)?
    {
        return state.sandboxes.find(&caller.organization, id);
    }
    let shown = [
        header(parts, PREVIEW_TOKEN).map(str::to_owned),
        query_parameter(parts.uri.query(), TOKEN_PARAMETER),
        cookie(parts, &format!("daytona-sandbox-auth-{id}")),
    ];
    // Unknown sandbox and wrong token are answered alike.
    let refused = || {
        ApiError::new(
            ErrorCode::Unauthorized,
            "an API key or the sandbox's token is needed",
        )
    };
    let sandbox = state.sandboxes.by_id(id).ok_or_else(refused)?;
    let ours = sandbox.record().auth_token;
    let is_right = shown
        .into_iter()
        .flatten()
        .any(|token| keys::same_secret(ours.expose(), &token));
    if is_right {
        Ok(sandbox)
    } else {
        Err(refused())
    }
}

pub(crate) fn bearer(parts: &Parts) -> Option<&str> {
    let value = parts.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

pub(crate) fn header<'a>(parts: &'a Parts, name: &str) -> Option<&'a str> {
    parts.headers.get(name)?.to_str().ok()
}

pub(crate) fn cookie(parts: &Parts, name: &str) -> Option<String> {
    let all = parts.headers.get_all(COOKIE);
    all.iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value.to_owned())
}

/// One parameter of a query, decoded.
pub(crate) fn query_parameter(query: Option<&str>, name: &str) -> Option<String> {
    query?
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(known, _)| *known == name)
        .and_then(|(_, value)| {
            let decoded = percent_encoding::percent_decode_str(value)
                .decode_utf8()
                .ok()?;
            Some(decoded.into_owned())
        })
}
