//! Over TLS: calls and WebSockets alike, and only to whom the client trusts.

use std::sync::Arc;

use holm_daytona_client::wire::sandbox::Sandbox;
use holm_daytona_client::{Client, Settings};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use crate::scripted::{Frame, KEY, Reply, Scripted};

/// A door with TLS in front of a server.
struct Door {
    origin: String,
    /// Its certificate, which is its own root.
    pem: String,
    _serving: AbortOnDropHandle<()>,
}

impl Door {
    async fn before(server: &Scripted) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let behind = server.origin.strip_prefix("http://").unwrap().to_owned();
        let serving = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((outside, _)) = listener.accept().await {
                let (acceptor, behind) = (acceptor.clone(), behind.clone());
                connections.spawn(async move {
                    let Ok(mut outside) = acceptor.accept(outside).await else {
                        return;
                    };
                    let mut inside = TcpStream::connect(behind).await.unwrap();
                    drop(tokio::io::copy_bidirectional(&mut outside, &mut inside).await);
                });
            }
        });
        Self {
            origin: format!("https://localhost:{port}"),
            pem: made.cert.pem(),
            _serving: AbortOnDropHandle::new(serving),
        }
    }

    fn settings(&self) -> Settings {
        let mut settings = Settings::new(format!("{}/api", self.origin), KEY);
        settings.retry.attempts_max = 1;
        settings
    }

    fn sandbox(&self) -> Sandbox {
        Sandbox {
            id: "box".to_owned(),
            toolbox_proxy_url: format!("{}/toolbox", self.origin),
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
    let door = Door::before(&server).await;
    let mut settings = door.settings();
    settings.extra_roots_pem = Some(door.pem.clone());
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
    let door = Door::before(&server).await;
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
