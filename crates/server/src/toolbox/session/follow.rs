//! A log as it grows: over a WebSocket, or as the body of a plain answer.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use holm_daytona_wire::log::{Multiplexer, Piece};
use tokio::sync::mpsc;

use super::command::Command;
use super::log::Follower;
use crate::machines::ActivityGuard;

/// How long a client may take to answer the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// What a follower gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Output with markers.
    Marked,
    /// Output alone.
    Bare,
}

/// Writes pieces as they are sent: a marker and its output are in one frame.
#[derive(Debug)]
struct Frames {
    form: Form,
    multiplexer: Multiplexer,
}

impl Frames {
    fn new(form: Form) -> Self {
        Self {
            form,
            multiplexer: Multiplexer::default(),
        }
    }

    fn frame(&mut self, piece: Piece) -> Bytes {
        match self.form {
            Form::Marked => self.multiplexer.append(piece.stream, &piece.bytes).into(),
            Form::Bare => piece.bytes.into(),
        }
    }
}

/// Sends the log until the command has ended, then closes.
pub(super) async fn over_socket(
    mut socket: WebSocket,
    command: Arc<Command>,
    form: Form,
    _awake: Option<ActivityGuard>,
) {
    let ended = send_all(&mut socket, &command, form).await;
    let (code, reason) = match ended {
        Ok(Ended::Command) => (close_code::NORMAL, ""),
        Ok(Ended::Client) => return,
        Err(error) => {
            tracing::error!(command = command.id, %error, "a log cannot be read");
            (close_code::ERROR, "the log cannot be read")
        }
    };
    let close = CloseFrame {
        code,
        reason: reason.into(),
    };
    if socket.send(Message::Close(Some(close))).await.is_ok() {
        let farewell = async { while let Some(Ok(_)) = socket.recv().await {} };
        drop(tokio::time::timeout(FAREWELL, farewell).await);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Command,
    Client,
}

async fn send_all(socket: &mut WebSocket, command: &Command, form: Form) -> std::io::Result<Ended> {
    let mut follower = Follower::of(&command.log).await?;
    let mut frames = Frames::new(form);
    loop {
        tokio::select! {
            pieces = follower.next() => match pieces? {
                None => return Ok(Ended::Command),
                Some(pieces) => for piece in pieces {
                    if socket.send(Message::Binary(frames.frame(piece))).await.is_err() {
                        return Ok(Ended::Client);
                    }
                },
            },
            // Pings are answered by being read.
            heard = socket.recv() => match heard {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(Ended::Client),
                Some(Ok(_)) => {}
            },
        }
    }
}

/// The same without a WebSocket: a body that ends with the command.
pub(super) fn as_body(command: Arc<Command>, form: Form, awake: Option<ActivityGuard>) -> Body {
    let (send, mut receive) = mpsc::channel::<std::io::Result<Bytes>>(4);
    tokio::spawn(async move {
        let _awake = awake;
        let follow = async {
            let mut follower = Follower::of(&command.log).await?;
            let mut frames = Frames::new(form);
            while let Some(pieces) = follower.next().await? {
                for piece in pieces {
                    if send.send(Ok(frames.frame(piece))).await.is_err() {
                        return Ok(());
                    }
                }
            }
            Ok(())
        };
        tokio::select! {
            followed = follow => if let Err(error) = followed {
                // The client is gone.
                drop(send.send(Err(error)).await);
            },
            () = send.closed() => {}
        }
    });
    Body::from_stream(futures_util::stream::poll_fn(move |context| {
        receive.poll_recv(context)
    }))
}
