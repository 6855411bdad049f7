//! The server's figures, for whoever has a key.

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;

use crate::auth::Caller;
use crate::state::AppState;

const TEXT_FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) fn router() -> Router<AppState> {
    Router::new().route("/metrics", get(metrics))
}

/// They tell how many sandboxes there are, of all organisations: nothing for strangers.
async fn metrics(State(state): State<AppState>, _caller: Caller) -> impl IntoResponse {
    let text = state.metrics.render(&state.sandboxes);
    ([(CONTENT_TYPE, TEXT_FORMAT)], text)
}
