//! The control plane: sandboxes, snapshots, volumes, keys.
//!
//! One module per resource. Handlers check and translate; [`crate::sandboxes`] acts.

mod body;
pub(crate) mod health;
pub(crate) mod metrics;
mod query;
mod sandbox_create;
mod sandbox_list;
mod sandbox_show;
mod sandboxes;

use axum::Router;

use crate::state::AppState;

pub(crate) use body::Body;
pub(crate) use query::Pairs;
pub(crate) use sandbox_show::show;

/// The routes below `/api`.
pub(crate) fn router() -> Router<AppState> {
    Router::new()
        .merge(health::router())
        .merge(sandboxes::router())
}
