//! The control plane: sandboxes, snapshots, volumes, keys.
//!
//! One module per resource. Handlers check and translate; [`crate::sandboxes`] acts.

mod account;
pub(crate) mod body;
mod build_log;
pub(crate) mod health;
pub(crate) mod metrics;
mod preview;
pub(crate) mod query;
mod sandbox_changes;
mod sandbox_create;
mod sandbox_list;
mod sandbox_show;
mod sandboxes;
mod secrets;
mod snapshots;
mod ssh_access;
mod volumes;

use axum::Router;

use crate::state::AppState;

pub(crate) use body::Body;
pub(crate) use query::Pairs;
pub(crate) use sandbox_show::show;

/// The routes below `/api`.
pub(crate) fn router() -> Router<AppState> {
    Router::new()
        .merge(account::router())
        .merge(health::router())
        .merge(preview::router())
        .merge(sandbox_changes::router())
        .merge(sandboxes::router())
        .merge(secrets::router())
        .merge(snapshots::router())
        .merge(ssh_access::router())
        .merge(volumes::router())
}
