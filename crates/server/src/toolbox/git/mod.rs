//! Git in a sandbox.
//!
//! Everything is the git of the box, run as its user: the server neither reads a repository nor talks to a remote. What a
//! client names becomes an argument only where git takes it for a value, and transports that run commands are off.

mod branches;
mod credentials;
mod failure;
mod history;
mod remotes;
mod repository;
mod run;
mod settings;
mod status;
mod transfer;

use axum::Router;
use axum::routing::{get, post};

use crate::state::AppState;

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/git/clone", post(transfer::clone))
        .route("/git/push", post(transfer::push))
        .route("/git/pull", post(transfer::pull))
        .route("/git/status", get(status::status))
        .route("/git/history", get(history::history))
        .route("/git/add", post(repository::add))
        .route("/git/commit", post(repository::commit))
        .route("/git/init", post(repository::init))
        .route("/git/reset", post(repository::reset))
        .route("/git/restore", post(repository::restore))
        .route(
            "/git/branches",
            get(branches::list)
                .post(branches::create)
                .delete(branches::delete),
        )
        .route("/git/checkout", post(branches::checkout))
        .route("/git/remotes", get(remotes::list).post(remotes::add))
        .route("/git/config", get(settings::get).post(settings::set))
        .route("/git/config/user", post(settings::set_user))
        .route("/git/credentials", post(settings::authenticate))
}
