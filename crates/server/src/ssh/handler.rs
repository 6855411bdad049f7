//! One connection: who it is, and the channels that it opens.
//!
//! Requests are answered here and at once, because clients send several before they read; the channel's own task hears
//! of the same requests and does what they ask.

use std::sync::Arc;

use russh::server::{Auth, ChannelOpenHandle, Msg, Session};
use russh::{Channel, ChannelId, ChannelOpenFailure, MethodSet, Pty};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{access, session};
use crate::sandboxes::Sandbox;
use crate::state::AppState;

/// Channels of one connection at once.
const CHANNELS_MAX: usize = 64;
/// The one subsystem that there is.
const SFTP: &str = "sftp";

pub(super) struct Handler {
    state: AppState,
    sandbox: Option<Arc<Sandbox>>,
    entered: watch::Sender<bool>,
    channels: Arc<Semaphore>,
    gone: CancellationToken,
    /// Tells the channels when the connection has ended.
    _ends: DropGuard,
}

impl Handler {
    /// A connection, and the news that it has logged in.
    pub(super) fn new(state: AppState) -> (Self, watch::Receiver<bool>) {
        let (entered, hears) = watch::channel(false);
        let gone = CancellationToken::new();
        let handler = Self {
            state,
            sandbox: None,
            entered,
            channels: Arc::new(Semaphore::new(CHANNELS_MAX)),
            _ends: gone.clone().drop_guard(),
            gone,
        };
        (handler, hears)
    }

    async fn enter(&mut self, token: &str) -> Option<Arc<Sandbox>> {
        let store = Arc::clone(&self.state.store);
        let token = token.to_owned();
        let found = tokio::task::spawn_blocking(move || access::find(&store, &token)).await;
        match found {
            Ok(Ok(found)) => self.state.sandboxes.by_id(&found?.sandbox),
            Ok(Err(error)) => {
                tracing::error!(
                    error = crate::error::chain(&error),
                    "could not look a token up"
                );
                None
            }
            Err(_) => None,
        }
    }
}

impl russh::server::Handler for Handler {
    type Error = russh::Error;

    async fn auth_none(&mut self, user: &str) -> Result<Auth, russh::Error> {
        self.sandbox = self.enter(user).await;
        if self.sandbox.is_some() {
            self.entered.send_replace(true);
            return Ok(Auth::Accept);
        }
        Ok(Auth::Reject {
            proceed_with_methods: Some(MethodSet::empty()),
            partial_success: false,
        })
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), russh::Error> {
        let permit = Arc::clone(&self.channels).try_acquire_owned();
        let (Some(sandbox), Ok(permit)) = (self.sandbox.clone(), permit) else {
            reply.reject(ChannelOpenFailure::ResourceShortage).await;
            return Ok(());
        };
        reply.accept().await;
        let gone = self.gone.clone();
        tokio::spawn(async move {
            let _permit = permit;
            session::run(channel, &sandbox, gone).await;
        });
        Ok(())
    }

    async fn channel_open_direct_tcpip(
        &mut self,
        channel: Channel<Msg>,
        host: &str,
        port: u32,
        _originator: &str,
        _originator_port: u32,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), russh::Error> {
        let is_inside = ["127.0.0.1", "localhost", "::1", "0.0.0.0"].contains(&host);
        let port = u16::try_from(port).ok().filter(|port| *port > 0);
        let permit = Arc::clone(&self.channels).try_acquire_owned();
        let (Some(sandbox), Ok(permit), Some(port), true) =
            (self.sandbox.clone(), permit, port, is_inside)
        else {
            // From here on nothing but the sandbox itself is reached.
            reply
                .reject(ChannelOpenFailure::AdministrativelyProhibited)
                .await;
            return Ok(());
        };
        let gone = self.gone.clone();
        tokio::spawn(async move {
            let _permit = permit;
            tokio::select! {
                () = session::tunnel(channel, reply, &sandbox, port) => {}
                () = gone.cancelled() => {}
            }
        });
        Ok(())
    }

    async fn pty_request(
        &mut self,
        channel: ChannelId,
        _term: &str,
        _columns: u32,
        _rows: u32,
        _width: u32,
        _height: u32,
        _modes: &[(Pty, u32)],
        session: &mut Session,
    ) -> Result<(), russh::Error> {
        session.channel_success(channel)
    }

    async fn env_request(
        &mut self,
        channel: ChannelId,
        _name: &str,
        _value: &str,
        session: &mut Session,
    ) -> Result<(), russh::Error> {
        session.channel_success(channel)
    }

    async fn shell_request(
        &mut self,
        channel: ChannelId,
        session: &mut Session,
    ) -> Result<(), russh::Error> {
        session.channel_success(channel)
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        _command: &[u8],
        session: &mut Session,
    ) -> Result<(), russh::Error> {
        session.channel_success(channel)
    }

    async fn subsystem_request(
        &mut self,
        channel: ChannelId,
        name: &str,
        session: &mut Session,
    ) -> Result<(), russh::Error> {
        if name == SFTP {
            session.channel_success(channel)
        } else {
            session.channel_failure(channel)
        }
    }
}
