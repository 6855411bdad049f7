//! Who may use one file: a caller of the sandbox, or whoever has a signed address of that file.

use axum::extract::FromRequestParts as _;
use axum::http::request::Parts;
use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::signature::{self, Expires, FileMethod, Refusal};

use crate::api::query::Pairs;
use crate::clock;
use crate::error::{ApiError, Result};
use crate::state::AppState;
use crate::toolbox::Inside;
use crate::toolbox::inside::sandbox_id;

/// Lets a request in and gives the path that it asks for.
pub(super) async fn enter(
    state: &AppState,
    parts: &mut Parts,
    method: FileMethod,
) -> Result<(Inside, String)> {
    let pairs = Pairs::parse(parts.uri.query().unwrap_or_default());
    let Some(signature) = pairs.get("signature") else {
        let inside = Inside::from_request_parts(parts, state).await?;
        return Ok((inside, pairs.required("path")?.to_owned()));
    };
    let id = sandbox_id(parts).await?;
    // Unknown sandbox and wrong signature are answered alike.
    let refused = || ApiError::unauthorized("the signature does not fit this address");
    let sandbox = state.sandboxes.by_id(&id).ok_or_else(refused)?;
    let path = pairs.get("path").ok_or_else(refused)?;
    let expires = Expires::at_unix_seconds(pairs.parsed("expires")?.unwrap_or(0));
    let now = u64::try_from(clock::now() / 1_000).unwrap_or(u64::MAX);
    let key = sandbox.peek(|record| record.signing_key.clone());
    match signature::verify(&key, method, path, expires, signature, now) {
        Ok(()) => Ok((Inside::of(parts, state, sandbox)?, path.to_owned())),
        Err(Refusal::Wrong) => Err(refused()),
        Err(Refusal::Expired) => Err(ApiError::new(
            ErrorCode::Forbidden,
            "this address has expired: make a new one",
        )),
    }
}
