//! Over TLS: calls and WebSockets alike, and only to whom the client trusts.

use holm_daytona_client::wire::sandbox::Sandbox;
use holm_daytona_client::{Client, Settings};
use holm_testkit::TlsDoor;
use serde_json::json;

use crate::scripted::{Frame, KEY, Reply, Scripted};

struct Door(TlsDoor);

impl Door {
    fn before(server: &Scripted) -> Self {
        let address = server.origin.strip_prefix("http://").unwrap();
        Self(TlsDoor::before(address.parse().unwrap()))
    }

    fn settings(&self) -> Settings {
        let mut settings = Settings::new(format!("{}/api", self.0.origin()), KEY);
        settings.retry.attempts_max = 1;
        settings
    }

    fn sandbox(&self) -> Sandbox {
        Sandbox {
            id: "box".to_owned(),
            toolbox_proxy_url: format!("{}/toolbox", self.0.origin()),
            ..Sandbox::default()
        }
    }
}

async fn server() -> Scripted {
    Scripted::start(|request| {
        if request.header("upgrade").is_some() {
            let output = Frame::Binary(b"\x01\x01\x01hello".to_vec());
            return Reply::Socket(None, vec![output, Frame::Close(1000, "")]);
        }
        Reply::Json(200, json!({ "id": "a" }))
    })
    .await
}

#[tokio::test]
async fn a_root_of_ones_own_is_enough() {
    let server = server().await;
    let door = Door::before(&server);
    let mut settings = door.settings();
    settings.extra_roots_pem = Some(door.0.authority_pem.clone());
    let client = Client::new(settings).unwrap();
    assert_eq!(client.get("a").await.unwrap().id, "a");
    let toolbox = client.toolbox(&door.sandbox()).await.unwrap();
    let mut log = toolbox.sessions().follow("s", "c").await.unwrap();
    assert_eq!(log.next().await.unwrap().unwrap().bytes, b"hello");
    assert_eq!(log.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_stranger_gets_no_key() {
    let server = server().await;
    let door = Door::before(&server);
    let client = Client::new(door.settings()).unwrap();
    let error = client.get("a").await.unwrap_err();
    assert!(error.is_connect(), "{error:?}");
    let toolbox = client.toolbox(&door.sandbox()).await.unwrap();
    let error = toolbox.sessions().follow("s", "c").await.unwrap_err();
    assert!(error.is_connect(), "{error:?}");
    assert_eq!(server.lines(), [""; 0]);
}

#[tokio::test]
async fn roots_that_are_none_are_refused() {
    let mut settings = Settings::new("https://localhost/api", KEY);
    let broken = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
    settings.extra_roots_pem = Some(broken.to_owned());
    let error = Client::new(settings).unwrap_err().to_string();
    assert!(error.contains("root certificates"), "{error}");
}
