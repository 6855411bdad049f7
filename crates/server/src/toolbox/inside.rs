//! A request for the toolbox of one sandbox: who asks, and the running box.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{FromRequestParts, OptionalFromRequestParts, Path};
use axum::http::request::Parts;

use crate::auth;
use crate::error::{ApiError, Result};
use crate::machines::{ActivityGuard, Machine};
use crate::sandboxes::Sandbox;
use crate::state::AppState;

/// Asks not to be counted as activity.
const SKIP_ACTIVITY: &str = "x-daytona-skip-last-activity-update";

/// An authenticated request for a running sandbox, which stays awake until this is dropped.
#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) state: AppState,
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) machine: Arc<Machine>,
    /// Pass it on to what goes on after the answer, such as a stream.
    pub(crate) awake: Option<ActivityGuard>,
}

impl FromRequestParts<AppState> for Inside {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self> {
        let id = sandbox_id(parts).await?;
        let sandbox = auth::toolbox_caller(state, parts, &id)?;
        Self::of(parts, state, sandbox)
    }
}

impl Inside {
    /// For a request that was authenticated in another way, such as by a signature.
    pub(crate) fn of(parts: &Parts, state: &AppState, sandbox: Arc<Sandbox>) -> Result<Self> {
        let machine = sandbox.machine()?;
        let skip = parts
            .headers
            .get(SKIP_ACTIVITY)
            .is_some_and(|value| value == "true");
        let awake = (!skip).then(|| sandbox.activity.begin());
        Ok(Self {
            state: state.clone(),
            sandbox,
            machine,
            awake,
        })
    }
}

/// The sandbox that a toolbox request names in its path.
pub(crate) async fn sandbox_id(parts: &mut Parts) -> Result<String> {
    let path = <Path<HashMap<String, String>> as OptionalFromRequestParts<()>>::from_request_parts(
        parts,
        &(),
    )
    .await;
    match path {
        Ok(Some(Path(mut names))) => names.remove("sandbox"),
        Ok(None) | Err(_) => None,
    }
    .ok_or_else(|| ApiError::not_found("no sandbox is named"))
}
