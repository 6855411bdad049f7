//! What changes, told as it happens: socket.io at `/api/socket.io/`, over WebSockets only.
//!
//! A client connects to the default namespace with `{"token": KEY}` and hears of its organisation's sandboxes. It is in
//! the room of its key, and rooms are looked up by the keys that exist: a revoked key hears nothing more.

use std::fmt;
use std::time::Duration;

use axum::http::HeaderMap;
use holm_daytona_wire::events::{
    ConnectAuth, SANDBOX_CREATED, SANDBOX_STATE_UPDATED, SandboxStateUpdated,
};
use socketioxide::extract::{SocketRef, TryData};
use socketioxide::handler::ConnectHandler;
use socketioxide::layer::SocketIoLayer;
use socketioxide::{SocketIo, TransportType};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::api::show;
use crate::auth;
use crate::error::Result;
use crate::records::ApiKeyRecord;
use crate::sandboxes::StateChange;
use crate::state::AppState;

const PATH: &str = "/api/socket.io";
/// Clients only say who they are.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// How long a client may be connected without saying who it is.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// Why a client was not let in.
#[derive(Debug, Clone, Copy)]
struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the API key is not valid: connect with {\"token\": KEY}")
    }
}

/// The layer that answers below [`PATH`], and the side that tells.
pub(crate) fn layer(state: &AppState) -> (SocketIoLayer, SocketIo) {
    let (layer, io) = SocketIo::builder()
        .req_path(PATH)
        .transports([TransportType::Websocket])
        .connect_timeout(CONNECT_PATIENCE)
        .max_payload(MESSAGE_BYTES_MAX as u64)
        .ws_max_message_size(MESSAGE_BYTES_MAX)
        .ws_max_frame_size(MESSAGE_BYTES_MAX)
        .build_layer();
    let state = state.clone();
    let enter = async move |socket: SocketRef, TryData(auth): TryData<ConnectAuth>| {
        let key = auth.map_err(|_| Refused)?.token;
        let caller = auth::caller(&state, key.expose());
        let caller = caller.ok().flatten().ok_or(Refused)?;
        socket.join(room(&caller.organization, &caller.key_name));
        Ok::<(), Refused>(())
    };
    io.ns("/", (async |_: SocketRef| {}).with(enter));
    (layer, io)
}

fn room(organization: &str, key_name: &str) -> String {
    format!("{organization}/{key_name}")
}

/// Tells every change to those whom it concerns, until the server ends.
pub(crate) async fn run(state: AppState, io: SocketIo, mut changes: Receiver<StateChange>) {
    loop {
        match changes.recv().await {
            Ok(change) => {
                if let Err(error) = tell(&state, &io, &change).await {
                    tracing::warn!(error = error.message, "a change was not told to listeners");
                }
            }
            // They ask again by themselves; the missed changes are nothing that only we know.
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(missed, "changes were not told to listeners");
            }
            Err(RecvError::Closed) => return,
        }
    }
}

async fn tell(state: &AppState, io: &SocketIo, change: &StateChange) -> Result<()> {
    let organization = change.record.organization.clone();
    let store = std::sync::Arc::clone(&state.store);
    let keys = {
        let organization = organization.clone();
        tokio::task::spawn_blocking(move || store.list::<ApiKeyRecord>(&organization)).await??
    };
    for key in keys {
        for socket in io.within(room(&organization, &key.name)).sockets() {
            // Addresses in the answer are those that this client can use.
            let told = emit(&socket, change, &state.public_url(socket_headers(&socket)));
            if let Err(error) = told {
                tracing::debug!(%error, "a listener did not hear of a change");
            }
        }
    }
    Ok(())
}

fn socket_headers(socket: &SocketRef) -> &HeaderMap {
    &socket.req_parts().headers
}

fn emit(
    socket: &SocketRef,
    change: &StateChange,
    url: &str,
) -> Result<(), socketioxide::SendError> {
    let sandbox = show(&change.record, url);
    match &change.old {
        None => socket.emit(SANDBOX_CREATED, &sandbox),
        Some(old) => {
            let update = SandboxStateUpdated {
                sandbox,
                old_state: old.clone(),
                new_state: change.record.state.clone(),
            };
            socket.emit(SANDBOX_STATE_UPDATED, &update)
        }
    }
}
