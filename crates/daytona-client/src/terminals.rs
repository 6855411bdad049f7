//! Terminals: made, shown and ended over HTTP, used over a WebSocket.

use std::time::Duration;

use bytes::Bytes;
use holm_daytona_wire::StringMap;
use holm_daytona_wire::pty::{
    PtyControl, PtyExit, PtyListResponse, PtyResizeRequest, PtySessionInfo, PtyStatus,
};
use holm_daytona_wire::subprotocol::{EXIT_CONTROL, envs_token};
use reqwest::{Method, Url};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use crate::retry::Repeat;
use crate::socket::{Closing, Incoming, Opening, Socket, lost};
use crate::{ClientError, Deletion, Result, Toolbox};

/// For the first frame, which says that the terminal is there.
const GREETING: Duration = Duration::from_secs(10);
/// Servers read frames of up to 64 KiB.
const INPUT_FRAME_BYTES_MAX: usize = 32 * 1024;

/// How a terminal begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTerminal {
    pub id: String,
    pub columns: u16,
    pub rows: u16,
    /// The working folder, if it is not the usual one.
    pub cwd: Option<String>,
    pub envs: StringMap,
}

/// The terminals of a sandbox.
#[derive(Debug, Clone, Copy)]
pub struct Terminals<'toolbox> {
    pub(crate) toolbox: &'toolbox Toolbox,
}

impl Terminals<'_> {
    /// Makes a terminal and connects to it. An id that exists is a conflict.
    pub async fn create(&self, new: &NewTerminal) -> Result<Terminal> {
        let mut url = self
            .toolbox
            .address(&["process", "pty", "create-connect"])?;
        url.query_pairs_mut()
            .append_pair("id", &new.id)
            .append_pair("cols", &new.columns.to_string())
            .append_pair("rows", &new.rows.to_string());
        if let Some(cwd) = &new.cwd {
            url.query_pairs_mut().append_pair("cwd", cwd);
        }
        let mut subprotocols = vec![EXIT_CONTROL.to_owned()];
        if !new.envs.is_empty() {
            subprotocols.push(envs_token(&new.envs));
        }
        let action = format!("create terminal `{}`", new.id);
        self.open(url, subprotocols, Repeat::Harmful, action).await
    }

    /// Connects to a terminal that exists; others may be connected to it too.
    pub async fn connect(&self, terminal: &str) -> Result<Terminal> {
        let url = self
            .toolbox
            .address(&["process", "pty", terminal, "connect"])?;
        let subprotocols = vec![EXIT_CONTROL.to_owned()];
        let action = format!("connect to terminal `{terminal}`");
        self.open(url, subprotocols, Repeat::Harmless, action).await
    }

    async fn open(
        &self,
        url: Url,
        subprotocols: Vec<String>,
        repeat: Repeat,
        action: String,
    ) -> Result<Terminal> {
        let opening = Opening {
            action: self.toolbox.action(action),
            url,
            subprotocols,
            repeat,
        };
        let mut socket = Socket::open(self.toolbox.client(), opening).await?;
        match tokio::time::timeout(GREETING, greeting(&mut socket)).await {
            Ok(outcome) => outcome?,
            Err(_elapsed) => {
                return Err(ClientError::Deadline {
                    action: socket.action().to_owned(),
                    after: GREETING,
                });
            }
        }
        Ok(Terminal {
            socket,
            phase: Phase::Running,
        })
    }

    pub async fn list(&self) -> Result<Vec<PtySessionInfo>> {
        let segments = ["process", "pty"];
        let call = self
            .toolbox
            .call(Method::GET, &segments, "list terminals")?;
        Ok(call.json::<PtyListResponse>().await?.sessions)
    }

    pub async fn get(&self, terminal: &str) -> Result<PtySessionInfo> {
        let action = format!("get terminal `{terminal}`");
        let segments = ["process", "pty", terminal];
        self.toolbox
            .call(Method::GET, &segments, action)?
            .json()
            .await
    }

    pub async fn resize(&self, terminal: &str, columns: u16, rows: u16) -> Result<PtySessionInfo> {
        let action = format!("resize terminal `{terminal}`");
        let segments = ["process", "pty", terminal, "resize"];
        let call = self.toolbox.call(Method::POST, &segments, action)?;
        let body = PtyResizeRequest {
            cols: columns.into(),
            rows: rows.into(),
        };
        call.repeatable().body(&body)?.json().await
    }

    /// Ends what runs in the terminal. One that is gone is success.
    pub async fn kill(&self, terminal: &str) -> Result<Deletion> {
        let action = format!("kill terminal `{terminal}`");
        let segments = ["process", "pty", terminal];
        let call = self.toolbox.call(Method::DELETE, &segments, action)?;
        match call.done().await {
            Ok(()) => Ok(Deletion::Accepted),
            Err(error) if error.is_not_found() => Ok(Deletion::AlreadyGone),
            Err(error) => Err(error),
        }
    }
}

/// What a terminal tells.
#[derive(Debug, Clone, PartialEq)]
pub enum TerminalEvent {
    /// Bytes as a terminal shows them.
    Output(Bytes),
    /// What ran in it has ended; nothing follows.
    Exited(PtyExit),
}

/// A connection to a terminal. Dropping it disconnects; the terminal lives on.
#[derive(Debug)]
pub struct Terminal {
    socket: Socket,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Ended,
}

impl Terminal {
    /// `None` after the end. Cancelling this loses nothing.
    pub async fn next(&mut self) -> Result<Option<TerminalEvent>> {
        while self.phase == Phase::Running {
            let event = match self.socket.next().await {
                Ok(Incoming::Binary(bytes)) => return Ok(Some(TerminalEvent::Output(bytes))),
                Ok(Incoming::Text(text)) => match control(&text) {
                    Some(control) => exit_of(self.socket.action(), control)?,
                    // Servers without control frames may send output as text.
                    None => return Ok(Some(TerminalEvent::Output(Bytes::from(text)))),
                },
                Ok(Incoming::Closed(closing)) => {
                    self.phase = Phase::Ended;
                    Some(exit_of_goodbye(self.socket.action(), closing)?)
                }
                Err(error) => {
                    self.phase = Phase::Ended;
                    return Err(error);
                }
            };
            if let Some(exit) = event {
                self.phase = Phase::Ended;
                return Ok(Some(TerminalEvent::Exited(exit)));
            }
        }
        Ok(None)
    }

    /// Types.
    pub async fn send(&self, bytes: &[u8]) -> Result<()> {
        self.input().send(bytes).await
    }

    /// The keyboard alone, for another task.
    pub fn input(&self) -> TerminalInput {
        TerminalInput {
            action: self.socket.action().to_owned(),
            outgoing: self.socket.outgoing().clone(),
        }
    }
}

/// The keyboard of a terminal. It outlives the connection, but then nobody listens.
#[derive(Debug, Clone)]
pub struct TerminalInput {
    action: String,
    outgoing: mpsc::Sender<Message>,
}

impl TerminalInput {
    pub async fn send(&self, bytes: &[u8]) -> Result<()> {
        for frame in bytes.chunks(INPUT_FRAME_BYTES_MAX) {
            let message = Message::Binary(Bytes::copy_from_slice(frame));
            self.outgoing
                .send(message)
                .await
                .map_err(|_closed| lost(&self.action, "the terminal is disconnected"))?;
        }
        Ok(())
    }
}

/// Waits for the frame that says that the terminal is there. Output before it is not for us.
async fn greeting(socket: &mut Socket) -> Result<()> {
    loop {
        match socket.next().await? {
            Incoming::Binary(_) => {}
            Incoming::Text(text) => {
                if let Some(control) = control(&text) {
                    let action = socket.action();
                    return match exit_of(action, control)? {
                        None => Ok(()),
                        Some(exit) => Err(ClientError::Refused {
                            action: action.to_owned(),
                            message: format!("it has ended already with code {}", exit.exit_code),
                        }),
                    };
                }
            }
            Incoming::Closed(closing) => return Err(closing.into_error(socket.action())),
        }
    }
}

fn control(text: &str) -> Option<PtyControl> {
    let control: PtyControl = serde_json::from_str(text).ok()?;
    (control.kind == "control").then_some(control)
}

/// How the terminal ended, if the frame says that it did.
fn exit_of(action: &str, control: PtyControl) -> Result<Option<PtyExit>> {
    match control.status {
        PtyStatus::Exited => Ok(Some(PtyExit {
            exit_code: control.exit_code.unwrap_or_default(),
            exit_reason: control.exit_reason,
        })),
        PtyStatus::Error => Err(ClientError::Refused {
            action: action.to_owned(),
            message: control
                .error
                .unwrap_or_else(|| "no reason was given".to_owned()),
        }),
        PtyStatus::Connected | PtyStatus::Unknown(_) => Ok(None),
    }
}

/// Servers that know no control frames say it in their goodbye only.
fn exit_of_goodbye(action: &str, closing: Closing) -> Result<PtyExit> {
    if let Ok(serde_json::Value::Object(reason)) = serde_json::from_str(&closing.reason)
        && reason.contains_key("exitCode")
        && let Ok(exit) = serde_json::from_value(serde_json::Value::Object(reason))
    {
        return Ok(exit);
    }
    if closing.is_normal() {
        return Ok(PtyExit::default());
    }
    Err(closing.into_error(action))
}
