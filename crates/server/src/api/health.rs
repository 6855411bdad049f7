//! Whether the server is well. Asks for no key: a balancer has none.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::records::OrganizationRecord;
use crate::state::AppState;

pub(crate) fn router() -> Router<AppState> {
    Router::new().route("/health", get(health))
}

/// Well means: requests are answered, and the database can be read.
async fn health(State(state): State<AppState>) -> (StatusCode, Json<Value>) {
    let store = Arc::clone(&state.store);
    let read = tokio::task::spawn_blocking(move || store.get::<OrganizationRecord>("")).await;
    let (status, store) = match read {
        Ok(Ok(_)) => (StatusCode::OK, "ok"),
        Ok(Err(error)) => {
            tracing::error!(
                error = crate::error::chain(&error),
                "the store cannot be read"
            );
            (StatusCode::SERVICE_UNAVAILABLE, "error")
        }
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "error"),
    };
    let body = json!({ "status": store, "version": env!("CARGO_PKG_VERSION"), "store": store });
    (status, Json(body))
}
