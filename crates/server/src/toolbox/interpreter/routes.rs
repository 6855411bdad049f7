//! Contexts over HTTP, and the way to the WebSocket.

use std::collections::HashMap;

use axum::extract::Path;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::HeaderMap;
use axum::http::header::SEC_WEBSOCKET_PROTOCOL;
use axum::response::Response;
use axum::routing::{delete as remove, get};
use axum::{Json, Router};
use holm_daytona_wire::interpreter::{
    CreateContextRequest, InterpreterContext, ListContextsResponse,
};
use holm_daytona_wire::subprotocol::Subprotocols;
use holm_sandbox_linux::files::EntryKind;
use serde_json::{Value, json};

use super::{DEFAULT, LANGUAGE, socket};
use crate::api::body::Body;
use crate::error::{ApiError, Result};
use crate::state::AppState;
use crate::toolbox::Inside;

pub(in crate::toolbox) fn router() -> Router<AppState> {
    Router::new()
        .route("/process/interpreter/context", get(list).post(create))
        .route("/process/interpreter/context/{context}", remove(delete))
        .route("/process/interpreter/execute", get(execute))
}

async fn list(inside: Inside) -> Json<ListContextsResponse> {
    let all = inside.machine.toolbox.interpreters.all();
    let listed = all.iter().filter(|(id, _)| *id != DEFAULT);
    Json(ListContextsResponse {
        contexts: listed.map(|(id, known)| known.shown(id)).collect(),
    })
}

async fn create(
    inside: Inside,
    Body(request): Body<CreateContextRequest>,
) -> Result<Json<InterpreterContext>> {
    let language = request.language.as_deref().unwrap_or_default();
    if !["", LANGUAGE].contains(&language) {
        return Err(ApiError::bad_request(format!(
            "unsupported language '{language}': the interpreter speaks python only"
        )));
    }
    let cwd = request.cwd.as_deref();
    let folder = inside.machine.absolute(cwd.unwrap_or_default());
    let looking = folder.clone();
    let found = inside.machine.blocking(move |machine| {
        let found = machine.files().and_then(|files| files.metadata(&looking));
        Ok::<_, ApiError>(found.is_ok_and(|found| found.kind == EntryKind::Directory))
    });
    if !found.await? {
        return Err(ApiError::bad_request(format!(
            "the working directory `{}` is no folder of the sandbox",
            folder.display()
        )));
    }
    let interpreters = &inside.machine.toolbox.interpreters;
    Ok(Json(interpreters.create(&inside.machine, cwd)?))
}

async fn delete(inside: Inside, Path(names): Path<HashMap<String, String>>) -> Result<Json<Value>> {
    let id = names.get("context").map(String::as_str).unwrap_or_default();
    inside.machine.toolbox.interpreters.delete(id)?;
    Ok(Json(json!({ "message": "Context deleted successfully" })))
}

async fn execute(
    inside: Inside,
    headers: HeaderMap,
    socket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response> {
    let socket = socket
        .map_err(|error| ApiError::bad_request(format!("a WebSocket is needed here: {error}")))?;
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter();
    let offered = Subprotocols::parse(offered.filter_map(|value| value.to_str().ok()));
    let bytes_max = inside.state.config.limits.json_bytes_max;
    Ok(socket
        .protocols(offered.select().map(str::to_owned))
        .max_message_size(bytes_max)
        .max_frame_size(bytes_max)
        .on_upgrade(move |socket| socket::serve(socket, inside)))
}
