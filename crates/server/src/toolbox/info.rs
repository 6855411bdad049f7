//! Where things are inside a sandbox.

use axum::routing::get;
use axum::{Json, Router};
use holm_daytona_wire::system::DirResponse;

use super::Inside;
use crate::state::AppState;

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/user-home-dir", get(home))
        .route("/work-dir", get(work_dir))
        // SDKs before 0.103 ask for this one.
        .route("/project-dir", get(work_dir))
}

async fn home(inside: Inside) -> Json<DirResponse> {
    let dir = inside.machine.account.home.to_string_lossy().into_owned();
    Json(DirResponse { dir })
}

async fn work_dir(inside: Inside) -> Json<DirResponse> {
    let dir = inside.machine.work_dir().to_string_lossy().into_owned();
    Json(DirResponse { dir })
}
