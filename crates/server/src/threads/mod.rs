//! Threads over HTTP, below `/api/threads`: what a client wants to know and do that is more than reading and writing a stream.
//!
//! ```text
//! request ──▶ asking (key or token, which thread, which verb) ──▶ one file for each resource ──▶ Threads ──▶ StreamStore
//!                                                                                                   └──▶ blobs (files)
//! ```
//!
//! - What a thread is follows from its stream's entries (`thread-log`): nothing here writes a row. Making and changing a thread
//!   appends entries, as whoever uses the stream's own address does, and the same rules judge them.
//! - [`gate`] is what threads add to the protocol of streams: tokens, tickets, and the shape of entries.
//! - [`openapi`] is made from the same declarations as the routes.
//!
//! **Invariants:** an API key reaches its organisation's threads, another's are missing. A token reaches one thread, others are forbidden
//! whether or not they exist. Tokens make neither threads nor tokens.

mod asking;
mod blob_routes;
mod blobs;
mod create;
mod entries;
mod failure;
mod gate;
mod list;
mod openapi;
mod rebuild;
mod reconcile;
mod show;
mod threads_of;
mod token_routes;
mod update;
mod wire;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::state::AppState;
use crate::tokens::keep_place;

pub use openapi::document as openapi_document;
pub(crate) use threads_of::Threads;

/// The routes below `/api`, and what is said of them.
fn declared() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(create::create_thread, list::list_threads))
        .routes(routes!(
            show::get_thread,
            update::update_thread,
            update::delete_thread
        ))
        .routes(routes!(list::list_children))
        .routes(routes!(rebuild::rebuild_thread))
        .routes(routes!(entries::list_entries, entries::append_entries))
        .routes(routes!(entries::heartbeat))
        .routes(routes!(blob_routes::put_blob, blob_routes::get_blob))
        .routes(routes!(token_routes::mint_token))
        .routes(routes!(token_routes::renew_token))
        .routes(routes!(token_routes::issue_read_ticket))
        .routes(routes!(token_routes::rotate_token_keys))
}

/// The routes below `/api`.
pub(crate) fn router() -> Router<AppState> {
    let (router, _) = declared().split_for_parts();
    router
        .layer(from_fn(failure::challenge))
        .layer(from_fn(|request: Request, next: Next| {
            keep_place(request, async |request| next.run(request).await)
        }))
}
