//! Answers to requests that no route takes: operations of Daytona that this server does not have say what to use
//! instead, the rest does not exist.

use axum::extract::{FromRequestParts, OriginalUri, Request, State};
use axum::http::StatusCode;
use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::routes::{self, Method, Operation, Support};

use crate::auth::{Caller, toolbox_caller};
use crate::error::{ApiError, Plane, Result};
use crate::state::AppState;

/// A path of the control plane that no route has.
pub(crate) async fn of_control(state: State<AppState>, request: Request) -> ApiError {
    answer(state, request, Plane::Control, Path::Unknown).await
}

/// A path of the control plane whose route does not take this method.
pub(crate) async fn method_of_control(state: State<AppState>, request: Request) -> ApiError {
    answer(state, request, Plane::Control, Path::Known).await
}

/// A path of the toolbox that no route has.
pub(crate) async fn of_toolbox(state: State<AppState>, request: Request) -> ApiError {
    answer(state, request, Plane::Toolbox, Path::Unknown).await
}

/// A path of the toolbox whose route does not take this method.
pub(crate) async fn method_of_toolbox(state: State<AppState>, request: Request) -> ApiError {
    answer(state, request, Plane::Toolbox, Path::Known).await
}

/// Whether some route has the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path {
    Known,
    Unknown,
}

async fn answer(
    State(state): State<AppState>,
    request: Request,
    plane: Plane,
    path: Path,
) -> ApiError {
    let Some(operation) = operation(plane, &request) else {
        let shown = original_path(&request);
        let message = format!("Cannot {} {shown}", request.method());
        return match path {
            Path::Unknown => ApiError::not_found(message),
            Path::Known => ApiError {
                status: Some(StatusCode::METHOD_NOT_ALLOWED.as_u16()),
                ..ApiError::bad_request(message)
            },
        };
    };
    if let Err(error) = check_caller(&state, plane, request).await {
        return error;
    }
    match operation.support {
        Support::NotImplemented { instead } => ApiError::not_implemented(format!(
            "{} is not available on this server: use {instead}",
            operation.id
        )),
        Support::Unavailable => ApiError::new(
            ErrorCode::ServiceUnavailable,
            "this needs a plugin that is not installed in the sandbox",
        ),
        // The table says more than the routes: a test compares them.
        Support::Supported | Support::Shim => ApiError::not_found(format!(
            "Cannot {} {}",
            operation.method.as_str(),
            operation.path
        )),
    }
}

fn operation(plane: Plane, request: &Request) -> Option<&'static Operation> {
    let plane = match plane {
        Plane::Control => routes::Plane::ControlPlane,
        Plane::Toolbox => routes::Plane::Toolbox,
    };
    let method = Method::parse(request.method().as_str())?;
    routes::find(plane, method, request.uri().path())
}

/// What we lack is told to those who may ask.
async fn check_caller(state: &AppState, plane: Plane, request: Request) -> Result<()> {
    let path = original_path(&request);
    let (mut parts, _) = request.into_parts();
    match plane {
        Plane::Control => Caller::from_request_parts(&mut parts, state)
            .await
            .map(drop),
        Plane::Toolbox => {
            let mut segments = path.split('/').skip_while(|segment| *segment != "toolbox");
            let id = segments.nth(1).unwrap_or_default();
            toolbox_caller(state, &parts, id).map(drop)
        }
    }
}

/// The path as the client sent it: routers that are nested see only the rest.
pub(crate) fn original_path(request: &Request) -> String {
    let original = request.extensions().get::<OriginalUri>();
    let uri = original.map_or(request.uri(), |OriginalUri(uri)| uri);
    uri.path().to_owned()
}
