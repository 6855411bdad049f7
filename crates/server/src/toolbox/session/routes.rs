//! Sessions over HTTP.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::Path;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::header::{CONTENT_TYPE, SEC_WEBSOCKET_PROTOCOL};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::log::split_all;
use holm_daytona_wire::session::{
    Command as CommandShown, CreateSessionRequest, Session as SessionShown, SessionCommandLogs,
    SessionExecuteRequest, SessionExecuteResponse, SessionSendInput,
};
use holm_daytona_wire::subprotocol::Subprotocols;
use holm_daytona_wire::version::{OutputStyle, SDK_VERSION_HEADER, SPLIT_OUTPUT_HEADER};

use super::command::{Command, How, weight};
use super::driver::Session;
use super::follow::{self, Form};
use super::log::Completeness;
use super::not_found;
use crate::api::body::Body;
use crate::api::query::Pairs;
use crate::buffers::Held;
use crate::error::{ApiError, Result};
use crate::state::AppState;
use crate::toolbox::Inside;
use crate::toolbox::execute::{TRUNCATED, check_environment};

pub(in crate::toolbox) fn router() -> Router<AppState> {
    Router::new()
        .route("/process/session", get(list).post(create))
        .route("/process/session/entrypoint", get(no_entrypoint))
        .route("/process/session/entrypoint/logs", get(no_entrypoint))
        .route("/process/session/{session}", get(show).delete(delete))
        .route("/process/session/{session}/exec", post(execute))
        .route(
            "/process/session/{session}/command/{command}",
            get(show_command),
        )
        .route(
            "/process/session/{session}/command/{command}/logs",
            get(logs),
        )
        .route(
            "/process/session/{session}/command/{command}/input",
            post(input),
        )
}

/// A session remembers its commands, so they are not of any length.
const COMMAND_BYTES_MAX: usize = 1024 * 1024;

type Names = Path<HashMap<String, String>>;

fn session(inside: &Inside, names: &HashMap<String, String>) -> Result<Arc<Session>> {
    let id = names.get("session").ok_or_else(not_found)?;
    inside.machine.toolbox.sessions.find(id)
}

fn command(session: &Session, names: &HashMap<String, String>) -> Result<Arc<Command>> {
    names
        .get("command")
        .and_then(|id| session.command(id))
        .ok_or_else(|| ApiError::not_found("command not found"))
}

async fn create(inside: Inside, Body(request): Body<CreateSessionRequest>) -> Result<StatusCode> {
    let sessions_max = inside.state.config.limits.sessions_max;
    let sessions = &inside.machine.toolbox.sessions;
    sessions
        .create(&inside.machine, &request.session_id, sessions_max)
        .await?;
    Ok(StatusCode::CREATED)
}

async fn list(inside: Inside) -> Json<Vec<SessionShown>> {
    let all = inside.machine.toolbox.sessions.list();
    Json(all.iter().map(|session| shown(session)).collect())
}

async fn show(inside: Inside, Path(names): Names) -> Result<Json<SessionShown>> {
    Ok(Json(shown(&*session(&inside, &names)?)))
}

async fn delete(inside: Inside, Path(names): Names) -> Result<StatusCode> {
    let id = names.get("session").ok_or_else(not_found)?;
    inside.machine.toolbox.sessions.delete(id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A box of ours has no entrypoint of its own.
async fn no_entrypoint(_: Inside) -> ApiError {
    not_found()
}

async fn show_command(inside: Inside, Path(names): Names) -> Result<Json<CommandShown>> {
    let session = session(&inside, &names)?;
    Ok(Json(shown_command(&*command(&session, &names)?)))
}

fn shown(session: &Session) -> SessionShown {
    let commands = session.commands();
    SessionShown {
        session_id: session.id.clone(),
        commands: commands
            .iter()
            .map(|command| shown_command(command))
            .collect(),
    }
}

fn shown_command(command: &Command) -> CommandShown {
    CommandShown {
        id: command.id.clone(),
        command: command.request.command.clone(),
        exit_code: command.exit_code(),
    }
}

async fn execute(
    inside: Inside,
    Path(names): Names,
    headers: HeaderMap,
    Body(request): Body<SessionExecuteRequest>,
) -> Result<Response> {
    let session = session(&inside, &names)?;
    if request.command.trim().is_empty() {
        return Err(ApiError::bad_request("command is required"));
    }
    if weight(&request) > COMMAND_BYTES_MAX {
        return Err(ApiError::bad_request(format!(
            "the command has more than {COMMAND_BYTES_MAX} bytes: upload it as a file and run that"
        )));
    }
    if request.command.contains('\0') {
        return Err(ApiError::bad_request("the command holds a NUL byte"));
    }
    check_environment(&request.envs)?;
    if session.ended.borrow().is_some() {
        return Err(ended());
    }
    let is_async = request.is_async();
    let command = session.enqueue(request).await?;
    let mut answer = SessionExecuteResponse {
        cmd_id: command.id.clone(),
        ..SessionExecuteResponse::default()
    };
    if is_async {
        return Ok((StatusCode::ACCEPTED, Json(answer)).into_response());
    }
    let (code, how) = command.ended().await;
    if how == How::NeverRan {
        return Err(ended());
    }
    let (logs, held) = read(&inside, &command).await?;
    answer.exit_code = Some(code);
    match style(&headers) {
        OutputStyle::Combined => answer.output = Some(text(&logs.bare())),
        OutputStyle::MarkedText => answer.output = Some(text(&logs.marked)),
        OutputStyle::Json => {
            let logs = logs.into_json();
            answer.output = Some(logs.output);
            answer.stdout = Some(logs.stdout);
            answer.stderr = Some(logs.stderr);
        }
    }
    Ok(held.until_sent(Json(answer)))
}

fn ended() -> ApiError {
    ApiError::new(
        ErrorCode::SessionEnded,
        "the session has ended: its shell exited; delete the session and create another",
    )
}

async fn input(
    inside: Inside,
    Path(names): Names,
    Body(request): Body<SessionSendInput>,
) -> Result<StatusCode> {
    let session = session(&inside, &names)?;
    command(&session, &names)?.send_input(&request.data).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn logs(
    inside: Inside,
    Path(names): Names,
    pairs: Pairs,
    headers: HeaderMap,
    socket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response> {
    let session = session(&inside, &names)?;
    let command = command(&session, &names)?;
    let style = style(&headers);
    let form = match style {
        OutputStyle::Combined => Form::Bare,
        OutputStyle::MarkedText | OutputStyle::Json => Form::Marked,
    };
    let is_followed = pairs.get("follow").is_some_and(|follow| follow != "false");
    match (socket, is_followed) {
        (Ok(socket), true) => {
            let selected = subprotocols(&headers).select().map(str::to_owned);
            let awake = inside.awake;
            Ok(socket
                .protocols(selected)
                .on_upgrade(move |socket| follow::over_socket(socket, command, form, awake)))
        }
        (Err(_), true) => {
            let plain = [(CONTENT_TYPE, "text/plain; charset=utf-8")];
            Ok((plain, follow::as_body(command, form, inside.awake)).into_response())
        }
        (_, false) => {
            let (logs, held) = read(&inside, &command).await?;
            Ok(match style {
                OutputStyle::Combined => held.until_sent(text(&logs.bare())),
                OutputStyle::MarkedText => {
                    let plain = [(CONTENT_TYPE, "text/plain; charset=utf-8")];
                    held.until_sent((plain, logs.marked))
                }
                OutputStyle::Json => held.until_sent(Json(logs.into_json())),
            })
        }
    }
}

fn subprotocols(headers: &HeaderMap) -> Subprotocols<'_> {
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter();
    Subprotocols::parse(offered.filter_map(|value| value.to_str().ok()))
}

fn style(headers: &HeaderMap) -> OutputStyle {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let offered = subprotocols(headers);
    let version = header(SDK_VERSION_HEADER).or(offered.sdk_version());
    OutputStyle::for_client(version, header(SPLIT_OUTPUT_HEADER))
}

/// As much of a log as fits into an answer.
#[derive(Debug)]
struct Logs {
    marked: Vec<u8>,
    completeness: Completeness,
}

async fn read(inside: &Inside, command: &Command) -> Result<(Logs, Held)> {
    let bytes_max = inside.state.config.limits.output_bytes_max;
    let here = usize::try_from(command.log.bytes()).unwrap_or(usize::MAX);
    let held = inside.state.buffers.take(here.min(bytes_max)).await?;
    let read = command.log.read(bytes_max).await;
    let (marked, completeness) =
        read.map_err(|error| ApiError::internal("the log could not be read", error))?;
    let logs = Logs {
        marked,
        completeness,
    };
    Ok((logs, held))
}

impl Logs {
    /// Both outputs in their order.
    fn bare(&self) -> Vec<u8> {
        let mut demultiplexer = holm_daytona_wire::log::Demultiplexer::default();
        let mut pieces = demultiplexer.push(&self.marked);
        pieces.extend(demultiplexer.finish());
        let mut output: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.bytes).collect();
        output.extend_from_slice(self.note());
        output
    }

    fn into_json(self) -> SessionCommandLogs {
        let (mut stdout, stderr) = split_all(&self.marked);
        stdout.extend_from_slice(self.note());
        SessionCommandLogs {
            output: text(&self.marked),
            stdout: text(&stdout),
            stderr: text(&stderr),
        }
    }

    fn note(&self) -> &'static [u8] {
        match self.completeness {
            Completeness::Whole => b"",
            Completeness::Truncated => TRUNCATED.as_bytes(),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
