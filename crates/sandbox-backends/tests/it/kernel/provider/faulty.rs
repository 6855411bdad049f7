//! A proxy before `holm serve` that does what networks and servers do on bad days.

use std::sync::{Arc, Mutex};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use holm_testserver::TestServer;

/// What happens to a request whose method and path hold this text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The server does not see it.
    Refused(u16),
    /// The server does not see it, and it looks as if it had worked.
    Swallowed,
    /// Nothing comes back, ever.
    Silence,
    /// The server does it, and the answer is lost.
    AnswerLost,
}

#[derive(Debug, Clone)]
pub(super) struct Proxy {
    pub(super) api_url: String,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    faults: Mutex<Vec<(&'static str, Fault)>>,
    server: String,
    own: String,
    client: reqwest::Client,
}

impl Proxy {
    /// In the runtime of the server.
    pub(super) async fn start(server: &TestServer) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            faults: Mutex::default(),
            server: server.api_url().trim_end_matches("/api").to_owned(),
            own: own.clone(),
            client: reqwest::Client::builder().build().unwrap(),
        });
        let app = axum::Router::new()
            .fallback(pass_on)
            .with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            api_url: format!("{own}/api"),
            shared,
        }
    }

    pub(super) fn fault(&self, text: &'static str, fault: Fault) {
        self.shared.faults.lock().unwrap().push((text, fault));
    }

    pub(super) fn heal(&self) {
        self.shared.faults.lock().unwrap().clear();
    }
}

async fn pass_on(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let target = format!("{} {}", head.method, head.uri);
    let faults = shared.faults.lock().unwrap().clone();
    let fault = faults
        .iter()
        .find(|(text, _)| target.contains(text))
        .map(|(_, fault)| *fault);
    match fault {
        Some(Fault::Refused(status)) => {
            let status = StatusCode::from_u16(status).unwrap();
            return (status, r#"{"message":"a bad day"}"#).into_response();
        }
        Some(Fault::Swallowed) => return "{}".into_response(),
        Some(Fault::Silence) => return std::future::pending().await,
        Some(Fault::AnswerLost) | None => {}
    }
    let mut sent = shared
        .client
        .request(head.method, format!("{}{}", shared.server, head.uri))
        .body(body);
    for (name, value) in &head.headers {
        if name != "host" && name != "content-length" && name != "transfer-encoding" {
            sent = sent.header(name, value);
        }
    }
    let answer = sent.send().await.unwrap();
    if fault == Some(Fault::AnswerLost) {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let mut response = Response::builder().status(answer.status());
    for (name, value) in answer.headers() {
        if name != "content-length" && name != "transfer-encoding" {
            response = response.header(name, value);
        }
    }
    let bytes = answer.bytes().await.unwrap();
    // The toolbox is reached through here too.
    let body = match std::str::from_utf8(&bytes) {
        Ok(text) if text.contains("toolboxProxyUrl") => {
            Body::from(text.replace(&shared.server, &shared.own))
        }
        Ok(_) | Err(_) => Body::from(bytes),
    };
    response.body(body).unwrap()
}
