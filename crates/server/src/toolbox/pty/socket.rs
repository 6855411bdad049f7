//! A client of a terminal, over a WebSocket.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use futures_util::stream::SplitSink;
use futures_util::{SinkExt, StreamExt};
use holm_daytona_wire::pty::{PtyControl, PtyExit};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

use super::terminal::{Terminal, View};
use crate::machines::ActivityGuard;

/// How long a client may take to take what is sent to it.
const SEND_PATIENCE: Duration = Duration::from_secs(30);

/// Whether a client understands the frame that tells the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExitControl {
    Understood,
    Unknown,
}

/// Shows a terminal to a client, and lets it type, until one of the two is gone.
pub(super) async fn attach(
    socket: WebSocket,
    terminal: Arc<Terminal>,
    exit_control: ExitControl,
    _awake: Option<ActivityGuard>,
) {
    let view = terminal.view();
    let (mut sending, mut heard) = socket.split();
    let typing = async {
        while let Some(Ok(message)) = heard.next().await {
            let input = match message {
                Message::Binary(input) => input,
                Message::Text(input) => input.into(),
                Message::Close(_) => break,
                Message::Ping(_) | Message::Pong(_) => continue,
            };
            if terminal.write(&input).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        close = show(&mut sending, view, exit_control) => {
            if let Some(close) = close {
                // Who is gone needs no farewell.
                let _gone = send(&mut sending, Message::Close(Some(close))).await;
            }
        }
        () = typing => {}
    }
}

type Sending = SplitSink<WebSocket, Message>;

/// Sends all that the terminal shows; gives the farewell, none if the client is gone.
async fn show(
    sending: &mut Sending,
    mut view: View,
    exit_control: ExitControl,
) -> Option<CloseFrame> {
    control(sending, &PtyControl::connected()).await?;
    if !view.scrollback.is_empty() {
        let scrollback = std::mem::take(&mut view.scrollback);
        send(sending, Message::Binary(scrollback.into())).await?;
    }
    loop {
        tokio::select! {
            // What was printed before the end is sent before it.
            biased;
            output = view.output.recv() => match output {
                Ok(output) => send(sending, Message::Binary(output)).await?,
                Err(RecvError::Lagged(_)) => return Some(CloseFrame {
                    code: close_code::POLICY,
                    reason: "the client does not keep up with the output".into(),
                }),
                Err(RecvError::Closed) => return None,
            },
            exit = ended(&mut view.ended) => {
                let exit = exit?;
                if exit_control == ExitControl::Understood {
                    control(sending, &PtyControl::exited(&exit)).await?;
                }
                return Some(farewell(&exit));
            }
        }
    }
}

async fn ended(ended: &mut watch::Receiver<Option<PtyExit>>) -> Option<PtyExit> {
    ended.wait_for(Option::is_some).await.ok()?.clone()
}

fn farewell(exit: &PtyExit) -> CloseFrame {
    let code = match exit.exit_code {
        0 => close_code::NORMAL,
        _ => close_code::ERROR,
    };
    let reason = serde_json::to_string(exit).unwrap_or_default();
    CloseFrame {
        code,
        reason: reason.into(),
    }
}

async fn control(sending: &mut Sending, control: &PtyControl) -> Option<()> {
    let text = serde_json::to_string(control).ok()?;
    send(sending, Message::Text(text.into())).await
}

async fn send(sending: &mut Sending, message: Message) -> Option<()> {
    let sent = tokio::time::timeout(SEND_PATIENCE, sending.send(message)).await;
    sent.ok()?.ok()
}
