//! Terminals over HTTP.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::Path;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::header::SEC_WEBSOCKET_PROTOCOL;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use holm_daytona_wire::pty::{
    PtyCreateRequest, PtyCreateResponse, PtyListResponse, PtyResizeRequest, PtySessionInfo,
};
use holm_daytona_wire::subprotocol::Subprotocols;
use holm_sandbox_linux::TerminalSize;
use serde_json::{Value, json};

use super::Slot;
use super::socket::{ExitControl, attach};
use super::terminal::Description;
use crate::api::body::Body;
use crate::api::query::Pairs;
use crate::clock;
use crate::error::{ApiError, Result};
use crate::state::AppState;
use crate::toolbox::Inside;
use crate::toolbox::execute::check_environment;

const COLUMNS_DEFAULT: u32 = 80;
const ROWS_DEFAULT: u32 = 24;
const CELLS_MAX: u16 = 1_000;
const ID_BYTES_MAX: usize = 128;
/// One message of a client.
const INPUT_BYTES_MAX: usize = 64 * 1024;

pub(in crate::toolbox) fn router() -> Router<AppState> {
    Router::new()
        .route("/process/pty", get(list).post(create))
        .route("/process/pty/create-connect", get(create_connect))
        .route("/process/pty/{pty}", get(show).delete(delete))
        .route("/process/pty/{pty}/connect", get(connect))
        .route("/process/pty/{pty}/resize", post(resize))
}

type Names = Path<HashMap<String, String>>;
type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

fn find(inside: &Inside, names: &HashMap<String, String>) -> Result<Arc<Slot>> {
    let id = names.get("pty").map(String::as_str).unwrap_or_default();
    inside.machine.toolbox.terminals.find(id)
}

async fn list(inside: Inside) -> Json<PtyListResponse> {
    let all = inside.machine.toolbox.terminals.all();
    Json(PtyListResponse {
        sessions: all.values().map(|slot| slot.shown()).collect(),
    })
}

async fn show(inside: Inside, Path(names): Names) -> Result<Json<PtySessionInfo>> {
    Ok(Json(find(&inside, &names)?.shown()))
}

async fn create(
    inside: Inside,
    Body(request): Body<PtyCreateRequest>,
) -> Result<(StatusCode, Json<PtyCreateResponse>)> {
    let slot = reserve(&inside, request)?;
    let is_lazy = slot.description().is_lazy;
    if !is_lazy {
        start(&inside, &slot).await?;
    }
    let session_id = slot.description().id.clone();
    Ok((StatusCode::CREATED, Json(PtyCreateResponse { session_id })))
}

async fn create_connect(
    inside: Inside,
    pairs: Pairs,
    headers: HeaderMap,
    socket: Upgrade,
) -> Result<Response> {
    let socket = upgrade(socket)?;
    let envs = offered(&headers)
        .envs()
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    let request = PtyCreateRequest {
        id: pairs.get("id").unwrap_or_default().to_owned(),
        cwd: pairs.get("cwd").map(str::to_owned),
        envs,
        cols: pairs.parsed("cols")?,
        rows: pairs.parsed("rows")?,
        lazy_start: None,
    };
    let slot = reserve(&inside, request)?;
    attach_to(inside, &slot, &headers, socket).await
}

async fn connect(
    inside: Inside,
    Path(names): Names,
    headers: HeaderMap,
    socket: Upgrade,
) -> Result<Response> {
    let slot = find(&inside, &names)?;
    attach_to(inside, &slot, &headers, upgrade(socket)?).await
}

fn upgrade(socket: Upgrade) -> Result<WebSocketUpgrade> {
    socket.map_err(|error| ApiError::bad_request(format!("a WebSocket is needed here: {error}")))
}

fn offered(headers: &HeaderMap) -> Subprotocols<'_> {
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter();
    Subprotocols::parse(offered.filter_map(|value| value.to_str().ok()))
}

async fn attach_to(
    inside: Inside,
    slot: &Arc<Slot>,
    headers: &HeaderMap,
    socket: WebSocketUpgrade,
) -> Result<Response> {
    let terminal = start(&inside, slot).await?;
    let offered = offered(headers);
    let exit_control = if offered.has_exit_control() {
        ExitControl::Understood
    } else {
        ExitControl::Unknown
    };
    let awake = inside.awake;
    Ok(socket
        .protocols(offered.select().map(str::to_owned))
        .max_message_size(INPUT_BYTES_MAX)
        .max_frame_size(INPUT_BYTES_MAX)
        .on_upgrade(move |socket| attach(socket, terminal, exit_control, awake)))
}

/// Starts a terminal; a name whose terminal does not start is free again.
async fn start(inside: &Inside, slot: &Arc<Slot>) -> Result<Arc<super::Terminal>> {
    let (slot, machine) = (Arc::clone(slot), Arc::clone(&inside.machine));
    // Not cancelled with the request, which would leave a terminal that nobody knows.
    let started = tokio::spawn(async move {
        let started = slot.started(&machine).await;
        if started.is_err() {
            machine.toolbox.terminals.forget(&slot);
        }
        started
    });
    started.await?
}

async fn resize(
    inside: Inside,
    Path(names): Names,
    Body(request): Body<PtyResizeRequest>,
) -> Result<Json<PtySessionInfo>> {
    let slot = find(&inside, &names)?;
    let size = size(Some(request.cols), Some(request.rows))?;
    let terminals = &inside.machine.toolbox.terminals;
    Ok(Json(terminals.resize(&slot, size)?))
}

async fn delete(inside: Inside, Path(names): Names) -> Result<Json<Value>> {
    let slot = find(&inside, &names)?;
    inside.machine.toolbox.terminals.forget(&slot);
    if let Some(terminal) = slot.terminal.get() {
        terminal.kill();
    }
    Ok(Json(json!({ "message": "PTY session deleted" })))
}

fn reserve(inside: &Inside, request: PtyCreateRequest) -> Result<Arc<Slot>> {
    let id = &request.id;
    if id.is_empty() {
        return Err(ApiError::bad_request("id is required"));
    }
    if id.len() > ID_BYTES_MAX || id.contains('/') || id.chars().any(char::is_control) {
        return Err(ApiError::bad_request(format!(
            "an id has up to {ID_BYTES_MAX} bytes and holds neither `/` nor control characters"
        )));
    }
    check_environment(&request.envs)?;
    let size = size(request.cols, request.rows)?;
    let cwd = request.cwd.as_deref().unwrap_or_default();
    let description = Description {
        cwd: inside.machine.absolute(cwd).to_string_lossy().into_owned(),
        id: request.id,
        envs: request.envs,
        columns: size.columns,
        rows: size.rows,
        created_at: clock::now(),
        is_lazy: request.lazy_start == Some(true),
    };
    let terminals_max = inside.state.config.limits.terminals_max;
    inside
        .machine
        .toolbox
        .terminals
        .reserve(description, terminals_max)
}

fn size(columns: Option<u32>, rows: Option<u32>) -> Result<TerminalSize> {
    let cells = |count: u32, what: &str| {
        let count = u16::try_from(count).ok();
        let count = count.filter(|count| (1..=CELLS_MAX).contains(count));
        count.ok_or_else(|| ApiError::bad_request(format!("{what} must be 1 to {CELLS_MAX}")))
    };
    Ok(TerminalSize {
        columns: cells(columns.unwrap_or(COLUMNS_DEFAULT), "cols")?,
        rows: cells(rows.unwrap_or(ROWS_DEFAULT), "rows")?,
    })
}
