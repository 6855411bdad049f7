//! socket.io as clients speak it: frames of Engine.IO 4 over a WebSocket.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::support::TestServer;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// The next frame that is no ping.
async fn next(socket: &mut Socket) -> Option<String> {
    loop {
        let frame = tokio::time::timeout(Duration::from_secs(20), socket.next())
            .await
            .unwrap()?;
        match frame.ok()? {
            Message::Text(text) if text.as_str() == "2" => {}
            Message::Text(text) => return Some(text.to_string()),
            Message::Close(_) => return None,
            other @ (Message::Binary(_)
            | Message::Ping(_)
            | Message::Pong(_)
            | Message::Frame(_)) => {
                panic!("{other:?}")
            }
        }
    }
}

/// Connects and says who we are; gives the answer.
fn connect(server: &TestServer, auth: &Value) -> (Socket, String) {
    let url = server.url.replace("http://", "ws://");
    let url = format!("{url}/api/socket.io/?EIO=4&transport=websocket&source=test");
    server.block_on(async {
        let (mut socket, _) = connect_async(url).await.unwrap();
        assert!(next(&mut socket).await.unwrap().starts_with('0'));
        let hello = format!("40{auth}");
        socket.send(Message::text(hello)).await.unwrap();
        let answer = next(&mut socket).await.unwrap();
        (socket, answer)
    })
}

/// The name and the body of the next event.
fn event(server: &TestServer, socket: &mut Socket) -> (String, Value) {
    let frame = server.block_on(next(socket)).unwrap();
    let event: Value = serde_json::from_str(frame.strip_prefix("42").unwrap()).unwrap();
    let name = event[0].as_str().unwrap().to_owned();
    (name, event[1].clone())
}

#[test]
fn listeners_hear_of_their_own_sandboxes_only() {
    let server = TestServer::new();
    let (mut ours, answer) = connect(&server, &json!({ "token": server.key }));
    assert!(answer.starts_with("40{\"sid\""), "{answer}");
    let other = server.key_of("other");
    let (mut theirs, _) = connect(&server, &json!({ "token": other }));

    let id = server.sandbox();
    let (name, sandbox) = event(&server, &mut ours);
    assert_eq!(
        (name.as_str(), &sandbox["id"]),
        ("sandbox.created", &json!(id))
    );
    assert_eq!(
        sandbox["toolboxProxyUrl"],
        format!("{}/toolbox", server.url)
    );
    server
        .post(&format!("/api/sandbox/{id}/stop"), json!({}))
        .ok();
    loop {
        let (name, update) = event(&server, &mut ours);
        assert_eq!(name, "sandbox.state.updated");
        assert_eq!(update["sandbox"]["id"], json!(id));
        assert_ne!(update["oldState"], update["newState"]);
        if update["newState"] == "stopped" {
            break;
        }
    }
    // What the others hear first is their own.
    let made = server.ask_as(
        &other,
        reqwest::Method::POST,
        "/api/sandbox",
        Some(json!({})),
    );
    let made = made.ok()["id"].clone();
    let (_, heard) = event(&server, &mut theirs);
    assert_eq!(heard["id"], made);
    let path = format!("/api/sandbox/{}", made.as_str().unwrap());
    server
        .ask_as(&other, reqwest::Method::DELETE, &path, None)
        .ok();
}

#[test]
fn without_a_valid_key_nobody_is_let_in() {
    let server = TestServer::new();
    for auth in [
        json!({ "token": "holm_wrong" }),
        json!({ "token": "" }),
        json!({}),
        json!({ "token": ["x"] }),
    ] {
        let (_, answer) = connect(&server, &auth);
        assert!(answer.starts_with("44{\"message\""), "{auth}: {answer}");
        assert!(answer.contains("API key"), "{answer}");
    }
    // Long polling is not spoken here.
    let answer = server.get("/api/socket.io/?EIO=4&transport=polling");
    assert_eq!(answer.status.as_u16(), 400);
}

#[test]
fn a_revoked_key_hears_nothing_more() {
    let server = TestServer::new();
    let store = holm_store::Store::open(&server.data.path().join("data/holm.db")).unwrap();
    let text = holm_server::keys::KeyText::Random;
    let key = holm_server::keys::create(&store, "default", "second", text).unwrap();
    let (mut revoked, _) = connect(&server, &json!({ "token": key.text.expose() }));
    let (mut ours, _) = connect(&server, &json!({ "token": server.key }));
    holm_server::keys::revoke(&store, "default", "second").unwrap();
    server.sandbox();
    event(&server, &mut ours);
    let quiet = server.block_on(async {
        tokio::time::timeout(Duration::from_millis(200), next(&mut revoked)).await
    });
    assert!(quiet.is_err(), "{quiet:?}");
}
