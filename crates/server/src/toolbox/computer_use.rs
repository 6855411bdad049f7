//! Screens, mice and keyboards: boxes have none, and say so as Daytona's daemon does when its plugin is not there.

use axum::Router;
use axum::routing::any;
use holm_daytona_wire::error::ErrorCode;

use super::Inside;
use crate::error::ApiError;
use crate::state::AppState;

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/computeruse", any(unavailable))
        .route("/computeruse/{*operation}", any(unavailable))
}

async fn unavailable(_inside: Inside) -> ApiError {
    ApiError::new(
        ErrorCode::ServiceUnavailable,
        "Computer-use functionality is not available: this sandbox has no display and no computer-use plugin",
    )
}
