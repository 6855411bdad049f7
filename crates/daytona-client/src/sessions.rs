//! Sessions: one shell that lives on between commands, with both outputs apart.
//!
//! A session's commands have no timeout, working folder or environment in Daytona: `cd` and `export` are commands, and a
//! command that takes too long is ended by deleting its session, which kills all that it started.

use std::collections::VecDeque;
use std::time::Duration;

use holm_daytona_wire::log::{Demultiplexer, Piece};
use holm_daytona_wire::session::{
    Command, CreateSessionRequest, Session, SessionCommandLogs, SessionExecuteRequest,
    SessionExecuteResponse, SessionSendInput,
};
use reqwest::Method;

use crate::retry::Repeat;
use crate::socket::{Incoming, Opening, Socket};
use crate::{ClientError, Deletion, Result, Toolbox};

/// Whether what is typed shows in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputEcho {
    Shown,
    Suppressed,
}

/// The sessions of a sandbox.
#[derive(Debug, Clone, Copy)]
pub struct Sessions<'toolbox> {
    pub(crate) toolbox: &'toolbox Toolbox,
}

impl Sessions<'_> {
    /// Makes a session. An id that exists is a conflict.
    pub async fn create(&self, session: &str) -> Result<()> {
        let action = format!("create session `{session}`");
        let call = self
            .toolbox
            .call(Method::POST, &["process", "session"], action)?;
        let body = CreateSessionRequest {
            session_id: session.to_owned(),
        };
        call.body(&body)?.done().await
    }

    pub async fn list(&self) -> Result<Vec<Session>> {
        let segments = ["process", "session"];
        let call = self.toolbox.call(Method::GET, &segments, "list sessions")?;
        call.list().await
    }

    pub async fn get(&self, session: &str) -> Result<Session> {
        let action = format!("get session `{session}`");
        let segments = ["process", "session", session];
        self.toolbox
            .call(Method::GET, &segments, action)?
            .json()
            .await
    }

    /// Ends the shell and all that it started. A session that is gone is success.
    pub async fn delete(&self, session: &str) -> Result<Deletion> {
        let action = format!("delete session `{session}`");
        let segments = ["process", "session", session];
        let call = self.toolbox.call(Method::DELETE, &segments, action)?;
        match call.done().await {
            Ok(()) => Ok(Deletion::Accepted),
            Err(error) if error.is_not_found() || error.is_gone() => Ok(Deletion::AlreadyGone),
            Err(error) => Err(error),
        }
    }

    /// Runs a command and waits for its end. After `deadline` only the waiting ends: the command runs on.
    pub async fn execute(
        &self,
        session: &str,
        command: &str,
        deadline: Duration,
    ) -> Result<SessionExecuteResponse> {
        let request = SessionExecuteRequest {
            command: command.to_owned(),
            run_async: Some(false),
            ..SessionExecuteRequest::default()
        };
        self.send(session, &request, deadline).await
    }

    /// Runs a command and answers with its id at once. Its input stays open.
    pub async fn spawn(&self, session: &str, command: &str, echo: InputEcho) -> Result<String> {
        let request = SessionExecuteRequest {
            command: command.to_owned(),
            run_async: Some(true),
            suppress_input_echo: (echo == InputEcho::Suppressed).then_some(true),
            ..SessionExecuteRequest::default()
        };
        let deadline = self.toolbox.client().deadlines().request;
        let answer = self.send(session, &request, deadline).await?;
        if answer.cmd_id.is_empty() {
            return Err(ClientError::Protocol {
                action: self.toolbox.action("run a command"),
                problem: "the command has no id".to_owned(),
            });
        }
        Ok(answer.cmd_id)
    }

    async fn send(
        &self,
        session: &str,
        request: &SessionExecuteRequest,
        deadline: Duration,
    ) -> Result<SessionExecuteResponse> {
        let action = format!("run a command of session `{session}`");
        let segments = ["process", "session", session, "exec"];
        let call = self.toolbox.call(Method::POST, &segments, action)?;
        call.deadline(deadline).body(request)?.json().await
    }

    /// The command, with its exit code once it has one.
    pub async fn command(&self, session: &str, command: &str) -> Result<Command> {
        let action = format!("get command `{command}` of session `{session}`");
        let segments = ["process", "session", session, "command", command];
        self.toolbox
            .call(Method::GET, &segments, action)?
            .json()
            .await
    }

    /// What the command has printed so far.
    pub async fn logs(&self, session: &str, command: &str) -> Result<SessionCommandLogs> {
        let action = format!("get the log of command `{command}` of session `{session}`");
        let segments = ["process", "session", session, "command", command, "logs"];
        self.toolbox
            .call(Method::GET, &segments, action)?
            .json()
            .await
    }

    /// Types into a command that was spawned. The server ends the line.
    pub async fn input(&self, session: &str, command: &str, data: &str) -> Result<()> {
        let action = format!("send input to command `{command}` of session `{session}`");
        let segments = ["process", "session", session, "command", command, "input"];
        let call = self.toolbox.call(Method::POST, &segments, action)?;
        let body = SessionSendInput {
            data: data.to_owned(),
        };
        call.body(&body)?.done().await
    }

    /// What the command prints, from its beginning until its end, as it comes. Its exit code is then in
    /// [`Sessions::command`].
    pub async fn follow(&self, session: &str, command: &str) -> Result<FollowedLog> {
        let segments = ["process", "session", session, "command", command, "logs"];
        let mut url = self.toolbox.address(&segments)?;
        url.query_pairs_mut().append_pair("follow", "true");
        let action = format!("follow command `{command}` of session `{session}`");
        let opening = Opening {
            action: self.toolbox.action(action),
            url,
            subprotocols: Vec::new(),
            repeat: Repeat::Harmless,
        };
        let socket = Socket::open(self.toolbox.client(), opening).await?;
        Ok(FollowedLog {
            socket,
            demultiplexer: Some(Demultiplexer::default()),
            ready: VecDeque::new(),
            failure: None,
        })
    }
}

/// The output of a command as it comes. Dropping it stops following; the command runs on.
#[derive(Debug)]
pub struct FollowedLog {
    socket: Socket,
    /// `None` after the end.
    demultiplexer: Option<Demultiplexer>,
    ready: VecDeque<Piece>,
    /// How it ended, if not well; told after all that had arrived.
    failure: Option<ClientError>,
}

impl FollowedLog {
    /// The next piece of one of the outputs, which may end within a character (see [`crate::TextDecoder`]). `None` when
    /// the log is complete. After an error that breaks it off, all that had arrived has been given, but for the beginning
    /// of what may have become a marker.
    ///
    /// Cancelling this loses nothing.
    pub async fn next(&mut self) -> Result<Option<Piece>> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Ok(Some(piece));
            }
            if let Some(error) = self.failure.take() {
                return Err(error);
            }
            let Some(demultiplexer) = &mut self.demultiplexer else {
                return Ok(None);
            };
            match self.socket.next().await {
                Ok(Incoming::Binary(bytes)) => self.ready.extend(demultiplexer.push(&bytes)),
                // Older servers send text.
                Ok(Incoming::Text(text)) => {
                    self.ready.extend(demultiplexer.push(text.as_bytes()));
                }
                Ok(Incoming::Closed(closing)) => {
                    let held = self.demultiplexer.take().map(Demultiplexer::finish);
                    if closing.is_normal() {
                        self.ready.extend(held.unwrap_or_default());
                    } else {
                        self.failure = Some(closing.into_error(self.socket.action()));
                    }
                }
                Err(error) => {
                    // What is held back may be half of a marker, and no output.
                    self.demultiplexer = None;
                    self.failure = Some(error);
                }
            }
        }
    }
}
