//! One run of code over a WebSocket: one frame comes, what happens goes out, and the close says how it ended.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use holm_daytona_wire::interpreter::{CLOSE_TIMEOUT, InterpreterEvent, InterpreterRequest};

use super::context::{Code, Ended};
use crate::toolbox::Inside;
use crate::toolbox::execute::check_environment;

/// How long a client may take to say what is to be run.
const REQUEST_PATIENCE: Duration = Duration::from_secs(30);
/// How long a client may take to answer the end.
const FAREWELL: Duration = Duration::from_secs(2);
/// As the SDKs document it.
const TIMEOUT_SECONDS_DEFAULT: u64 = 600;
/// What a close frame can carry.
const REASON_BYTES_MAX: usize = 120;

/// Serves one request. The sandbox stays awake meanwhile.
pub(super) async fn serve(mut socket: WebSocket, inside: Inside) {
    let close = match run(&mut socket, &inside).await {
        Ok(close) => close,
        // The client is gone.
        Err(Gone) => return,
    };
    if socket.send(Message::Close(Some(close))).await.is_ok() {
        let farewell = async { while let Some(Ok(_)) = socket.recv().await {} };
        drop(tokio::time::timeout(FAREWELL, farewell).await);
    }
}

#[derive(Debug, Clone, Copy)]
struct Gone;

fn refused(reason: &str) -> CloseFrame {
    let mut end = reason.len().min(REASON_BYTES_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    CloseFrame {
        code: close_code::POLICY,
        reason: reason.get(..end).unwrap_or_default().into(),
    }
}

async fn run(socket: &mut WebSocket, inside: &Inside) -> Result<CloseFrame, Gone> {
    let asked = tokio::time::timeout(REQUEST_PATIENCE, request(socket)).await;
    let Ok(asked) = asked else {
        return Ok(refused("no request came"));
    };
    let request: InterpreterRequest = match serde_json::from_str(&asked?) {
        Ok(request) => request,
        Err(error) => return Ok(refused(&format!("the request is no JSON: {error}"))),
    };
    if request.code.trim().is_empty() {
        return Ok(refused("code is required"));
    }
    if let Err(error) = check_environment(&request.envs) {
        return Ok(refused(&error.message));
    }
    let id = request.context_id.as_deref();
    let interpreters = &inside.machine.toolbox.interpreters;
    let Some(context) = interpreters.find(&inside.machine, id) else {
        let id = id.unwrap_or_default();
        return Ok(refused(&format!("context {id} not found")));
    };
    let seconds = request.timeout.unwrap_or(TIMEOUT_SECONDS_DEFAULT);
    let code = Code {
        text: request.code,
        envs: request.envs,
        timeout: (seconds > 0).then(|| Duration::from_secs(seconds)),
    };
    let Some((mut events, ended)) = context.run(code).await else {
        return Ok(refused("the context has ended"));
    };
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => send(socket, &event).await?,
                None => break,
            },
            heard = socket.recv() => match heard {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(Gone),
                Some(Ok(_)) => {}
            },
        }
    }
    Ok(match ended.await {
        Ok(Ended::Itself) => CloseFrame {
            code: close_code::NORMAL,
            reason: "".into(),
        },
        Ok(Ended::TimedOut) => CloseFrame {
            code: CLOSE_TIMEOUT,
            reason: "execution timed out".into(),
        },
        Ok(Ended::NotStarted(reason)) => refused(&reason),
        Err(_) => refused("the context has ended"),
    })
}

/// The one frame of the client.
async fn request(socket: &mut WebSocket) -> Result<String, Gone> {
    loop {
        match socket.recv().await {
            Some(Ok(Message::Text(text))) => return Ok(text.to_string()),
            Some(Ok(Message::Binary(bytes))) => {
                return Ok(String::from_utf8_lossy(&bytes).into_owned());
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(Gone),
        }
    }
}

async fn send(socket: &mut WebSocket, event: &InterpreterEvent) -> Result<(), Gone> {
    let text = serde_json::to_string(event).map_err(|_| Gone)?;
    let sent = socket.send(Message::Text(text.into())).await;
    sent.map_err(|_| Gone)
}
