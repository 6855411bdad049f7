//! SSH into a sandbox: the user name is the token, and nothing else is asked for.
//!
//! ```text
//! connection ──▶ handler (who, and which channels) ──▶ session (one command or shell per channel) ──▶ box
//!                                                └───▶ tunnel (a port of the box)
//! ```
//!
//! - `access` keeps the tokens, by their hashes and for a time.
//! - `handler` answers requests in the order in which they come; what they ask for is done by one task per channel.
//! - `session` runs a shell, a command or the box's own SFTP server, with a terminal or without.
//!
//! **Invariants:** a channel reaches nothing but the token's sandbox. Connections, channels and the time to log in are
//! bounded, and whatever a connection started in the foreground ends with it.

pub(crate) mod access;
mod handler;
mod host_key;
mod session;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use russh::server::{Config, run_stream};
use russh::{Disconnect, MethodSet, SshId};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::accept;
use crate::error::ServeError;
use crate::state::AppState;

const CONNECTIONS_MAX: usize = 1_024;
/// Token after token costs whoever guesses this much each.
const REJECTION: Duration = Duration::from_secs(1);
const LOGIN_PATIENCE: Duration = Duration::from_secs(20);
/// A client that vanished is noticed after a few of these.
const KEEPALIVE: Duration = Duration::from_secs(30);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A door that is ready to be opened.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    listener: TcpListener,
    config: Arc<Config>,
}

/// Takes the address, and finds or makes the host's key.
pub(crate) fn listen(address: SocketAddr, data: &std::path::Path) -> Result<Door, ServeError> {
    let failed = |source| ServeError::Listen { address, source };
    let key = host_key::load_or_make(data)?;
    let listener = accept::listen(address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let config = Arc::new(Config {
        server_id: SshId::Standard("SSH-2.0-Holm".into()),
        methods: MethodSet::empty(),
        auth_rejection_time: REJECTION,
        keys: vec![key],
        max_auth_attempts: 3,
        inactivity_timeout: None,
        keepalive_interval: Some(KEEPALIVE),
        nodelay: true,
        ..Config::default()
    });
    Ok(Door {
        address,
        listener,
        config,
    })
}

/// Lets clients in until the server ends.
pub(crate) async fn run(door: Door, state: AppState) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        let (stream, peer) = match door.listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection for SSH");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let config = Arc::clone(&door.config);
        let state = state.clone();
        tokio::spawn(async move {
            let _permit = permit;
            if let Err(error) = serve(config, stream, state).await {
                tracing::debug!(%peer, %error, "an SSH connection ended early");
            }
        });
    }
}

async fn serve(
    config: Arc<Config>,
    stream: TcpStream,
    state: AppState,
) -> Result<(), russh::Error> {
    stream.set_nodelay(true)?;
    let (handler, mut entered) = handler::Handler::new(state);
    let starting = run_stream(config, stream, handler);
    let mut running = tokio::time::timeout(LOGIN_PATIENCE, starting)
        .await
        .map_err(|_| russh::Error::ConnectionTimeout)??;
    let handle = running.handle();
    let is_late = async {
        let login = entered.wait_for(|entered| *entered);
        tokio::time::timeout(LOGIN_PATIENCE, login).await.is_err()
    };
    tokio::select! {
        ended = &mut running => return ended,
        is_late = is_late => if is_late {
            let text = "no login in time".to_owned();
            // It ends either way.
            drop(handle.disconnect(Disconnect::ByApplication, text, String::new()).await);
        },
    }
    running.await
}
