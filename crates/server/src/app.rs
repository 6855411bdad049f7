//! All routes of the server, with what every request passes through.
//!
//! ```text
//! request::watch ──▶ preview::intercept ──┬──▶ streams
//!                                         └──▶ router (everything else)
//! ```
//!
//! Appends are many and small: what the router would add to them costs more than they do.

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use socketioxide::layer::SocketIoLayer;
use tower::ServiceExt as _;

use crate::error::{ApiError, Plane, render};
use crate::state::AppState;
use crate::{api, missing, preview, request, streams, threads, toolbox};

/// The whole server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct App {
    state: AppState,
    router: Router,
}

impl App {
    pub(crate) fn new(state: AppState, events: SocketIoLayer) -> Self {
        let router = router(state.clone(), events);
        Self { state, router }
    }

    pub(crate) async fn answer(self, request: Request) -> Response {
        let Self { state, router } = self;
        let route = async |request: Request| {
            if streams::are_below(request.uri().path()) {
                return streams::answer(&state, request).await;
            }
            router
                .oneshot(request)
                .await
                .unwrap_or_else(|never| match never {})
        };
        let inner = async |request| preview::intercept(&state, request, route).await;
        request::watch(&state, request, inner).await
    }
}

fn router(state: AppState, events: SocketIoLayer) -> Router {
    let json_bytes_max = state.config.limits.json_bytes_max;
    let control = api::router()
        .merge(threads::router())
        .fallback(missing::of_control)
        .method_not_allowed_fallback(missing::method_of_control)
        .layer(from_fn(finish))
        .layer(from_fn(|request: Request, next: Next| {
            render(Plane::Control, request, next)
        }));
    let inside = || {
        toolbox::router()
            .fallback(missing::of_toolbox)
            .method_not_allowed_fallback(missing::method_of_toolbox)
            .layer(from_fn(|request: Request, next: Next| {
                render(Plane::Toolbox, request, next)
            }))
    };
    Router::new()
        // SDKs before 0.125 find the toolbox below the control plane.
        .nest("/api/toolbox/{sandbox}/toolbox", inside())
        .nest("/api", control)
        .nest("/toolbox/{sandbox}", inside())
        .merge(api::health::router())
        .merge(
            api::metrics::router().layer(from_fn(|request: Request, next: Next| {
                render(Plane::Control, request, next)
            })),
        )
        .layer(DefaultBodyLimit::max(json_bytes_max))
        .layer(events)
        .with_state(state)
}

/// Handles a request to its end, also when its client has hung up: a change that was begun is not left half done.
async fn finish(request: Request, next: Next) -> Result<Response, ApiError> {
    Ok(tokio::spawn(next.run(request)).await?)
}
