//! Files of a sandbox.
//!
//! Everything goes through the machine's confined root, with the rights of the sandbox's user: what a path leads to and who
//! may use it is decided by the kernel. Blocking calls leave the async workers, and none of them waits for a client:
//! what comes and goes at a client's pace is moved in pieces ([`incoming`], [`outgoing`]).

mod download;
mod failure;
mod incoming;
mod listing;
mod manage;
mod outgoing;
mod owners;
mod path;
mod replace;
mod search;
mod signed;
mod upload;
mod upload_many;

use axum::Router;
use axum::routing::{get, post};

use crate::state::AppState;

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/files", get(listing::list).delete(manage::delete))
        .route("/files/info", get(listing::info))
        .route("/files/find", get(search::find))
        .route("/files/search", get(search::search))
        .route("/files/replace", post(replace::replace))
        .route("/files/folder", post(manage::create_folder))
        .route("/files/move", post(manage::move_entry))
        .route("/files/permissions", post(owners::set_permissions))
        .route("/files/bulk-upload", post(upload_many::upload_many))
        .route("/files/bulk-download", post(download::download_many))
        .route("/files/download", get(download::download))
        .route("/files/upload-v2", post(upload::upload))
        // SDKs before bulk uploads use this one.
        .route("/files/upload", post(upload::upload))
}
