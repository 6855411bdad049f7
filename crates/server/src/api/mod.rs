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
#[cfg(test)]
mod sandbox_create_tests;
mod sandbox_list;
#[cfg(test)]
mod sandbox_list_tests;
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
pub(crate) use sandbox_create::{checked_image_name as checked_snapshot_name, resources as sizes};
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
