//! A server over the store in memory: the protocol as far as a client needs it, and failures on demand.
//!
//! Stopping it cuts all connections; the store stays, as a database would.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, Method, Response, StatusCode};
use axum::routing::any;
use axum::{Router, middleware};
use holm_sandbox::Secret;
use holm_thread_client::{BackOff, Client, Settings};
use holm_thread_log::sse::{Control, Encoding, Freshness, write_control, write_data};
use holm_thread_log::{
    Append, Claim, Command, Create, Ending, MemoryStore, Outcome, Page, Payload, ReadFrom, Refusal,
    StreamName, StreamStore, Timestamp, Unseen, json,
};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(crate) const TOKEN: &str = "token-0";
const PAGE_BYTES: usize = 200;
const LONG_POLL: Duration = Duration::from_millis(300);

/// What a request gets instead of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// A status, with `Retry-After` if there is a number.
    Status(u16, Option<u64>),
    /// Does it, and answers with this.
    DoneButStatus(u16),
}

#[derive(Debug, Default)]
pub(crate) struct Behaviour {
    pub(crate) faults: Mutex<VecDeque<Fault>>,
    /// The one token that is let in.
    pub(crate) token: Mutex<String>,
    /// Every request that came, as method and query.
    pub(crate) seen: Mutex<Vec<String>>,
    /// What server-sent events are answered with instead.
    pub(crate) without_events: std::sync::atomic::AtomicBool,
    /// Events are promised and never come, as behind a proxy that collects them.
    pub(crate) silent_events: std::sync::atomic::AtomicBool,
}

#[derive(Debug)]
pub(crate) struct TestServer {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) behaviour: Arc<Behaviour>,
    pub(crate) address: SocketAddr,
    serving: Option<JoinHandle<()>>,
}

#[derive(Clone)]
struct App {
    store: Arc<MemoryStore>,
    behaviour: Arc<Behaviour>,
}

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    Timestamp(i64::try_from(since.as_millis()).unwrap())
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        let mut server = Self {
            store: Arc::default(),
            behaviour: Arc::default(),
            address: (holm_testkit::own_loopback(), 0).into(),
            serving: None,
        };
        *server.behaviour.token.lock().unwrap() = TOKEN.to_owned();
        server.resume().await;
        server
    }

    /// Cuts everything off.
    pub(crate) async fn stop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
            drop(serving.await);
        }
    }

    /// Comes back at the same address.
    pub(crate) async fn resume(&mut self) {
        let listener = loop {
            match TcpListener::bind(self.address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        self.address = listener.local_addr().unwrap();
        let app = App {
            store: Arc::clone(&self.store),
            behaviour: Arc::clone(&self.behaviour),
        };
        let router = Router::new()
            .route("/api/stream/{*name}", any(handle))
            .with_state(app.clone())
            .layer(middleware::from_fn_with_state(app, faults));
        self.serving = Some(tokio::spawn(serve(listener, router)));
    }

    pub(crate) async fn resume_if_stopped(&mut self) {
        if self.serving.is_none() {
            self.resume().await;
        }
    }

    pub(crate) fn client(&self) -> Client {
        self.client_at(self.address)
    }

    pub(crate) fn client_at(&self, address: SocketAddr) -> Client {
        Client::new(Settings::new(
            format!("http://{address}/api"),
            Secret::from(TOKEN),
        ))
        .unwrap()
    }

    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.behaviour.faults.lock().unwrap().extend(faults);
    }

    pub(crate) async fn create(&self, name: &str) -> StreamName {
        let name: StreamName = name.parse().unwrap();
        let kind = "application/json".parse().unwrap();
        self.client().create_stream(&name, &kind).await.unwrap();
        name
    }

    /// All messages of a stream, as numbers.
    pub(crate) async fn numbers(&self, name: &StreamName) -> Vec<u64> {
        let page = self
            .store
            .read(name, ReadFrom::Start, usize::MAX, now())
            .await
            .unwrap()
            .unwrap();
        let entries: Vec<Bytes> = page.entries.into_iter().map(|entry| entry.data).collect();
        serde_json::from_slice(&json::array(&entries)).unwrap()
    }

    pub(crate) async fn append(&self, name: &StreamName, body: &'static str) {
        let kind = "application/json".parse().unwrap();
        let body = Bytes::from_static(body.as_bytes());
        self.client().append(name, &kind, body).await.unwrap();
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
    }
}

/// Quick, so that tests are.
pub(crate) fn back_off() -> BackOff {
    BackOff {
        first: Duration::from_millis(5),
        most: Duration::from_millis(50),
    }
}

/// Connections end with the task, unlike those of `axum::serve`.
async fn serve(listener: TcpListener, router: Router) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let service = TowerToHyperService::new(router.clone());
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn faults(
    State(app): State<App>,
    request: Request,
    next: middleware::Next,
) -> Response<Body> {
    let line = format!(
        "{} {}",
        request.method(),
        request.uri().query().unwrap_or_default()
    );
    app.behaviour.seen.lock().unwrap().push(line);
    let wanted = format!("Bearer {}", app.behaviour.token.lock().unwrap());
    let given = request.headers().get("authorization");
    if given.is_none_or(|given| given != wanted.as_str()) {
        return status(401);
    }
    let fault = app.behaviour.faults.lock().unwrap().pop_front();
    match fault {
        None => next.run(request).await,
        Some(Fault::Status(code, retry_after)) => {
            let mut response = status(code);
            if let Some(seconds) = retry_after {
                response.headers_mut().insert("retry-after", seconds.into());
            }
            response
        }
        Some(Fault::DoneButStatus(code)) => {
            next.run(request).await;
            status(code)
        }
    }
}

fn status(code: u16) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

async fn handle(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(query): Query<Vec<(String, String)>>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let name: StreamName = name.parse().unwrap();
    let kind = headers
        .get("content-type")
        .map(|kind| kind.to_str().unwrap().parse().unwrap());
    let ending = match headers.get("stream-closed") {
        Some(_) => Ending::Closed,
        None => Ending::Open,
    };
    let payload = (!body.is_empty()).then_some(Payload::Bytes(body));
    let command = match method {
        Method::PUT => Command::Create(Create {
            name,
            content_type: kind,
            lifetime: None,
            ending,
            payload,
            fork: None,
            writer: None,
            documents: Vec::new(),
        }),
        Method::POST => Command::Append(Append {
            name,
            content_type: kind,
            payload,
            producer: claim(&headers),
            stream_seq: None,
            ending,
            writer: None,
            documents: Vec::new(),
        }),
        _ => return read(app, name, &query).await,
    };
    answer(app.store.apply(command, now()).await.unwrap())
}

fn claim(headers: &HeaderMap) -> Option<Claim> {
    let text = |name: &str| Some(headers.get(name)?.to_str().unwrap());
    Some(Claim {
        producer: text("producer-id")?.parse().unwrap(),
        epoch: text("producer-epoch")?.parse().unwrap(),
        seq: text("producer-seq")?.parse().unwrap(),
    })
}

fn answer(decision: Result<Outcome, Refusal>) -> Response<Body> {
    let response = Response::builder();
    let response = match decision {
        Ok(Outcome::Created(_)) => response.status(201),
        Ok(Outcome::Appended(appended)) if appended.producer.is_none() => response.status(204),
        Ok(Outcome::Appended(appended) | Outcome::Duplicate(appended)) => {
            let state = appended.producer.unwrap();
            let is_new = matches!(decision, Ok(Outcome::Appended(_)));
            response
                .status(if is_new { 200 } else { 204 })
                .header("producer-epoch", state.epoch)
                .header("producer-seq", state.last_seq)
        }
        Ok(_) => response.status(200),
        Err(Refusal::Gap { expected, received }) => response
            .status(409)
            .header("producer-expected-seq", expected)
            .header("producer-received-seq", received),
        Err(Refusal::StaleEpoch { current }) => {
            response.status(403).header("producer-epoch", current)
        }
        Err(Refusal::Closed { .. }) => response.status(409).header("stream-closed", "true"),
        Err(Refusal::NotFound) => response.status(404),
        Err(_) => response.status(400),
    };
    response.body(Body::empty()).unwrap()
}

async fn read(app: App, name: StreamName, query: &[(String, String)]) -> Response<Body> {
    let value = |name: &str| {
        let found = query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    };
    let from: ReadFrom = value("offset").unwrap_or("-1").parse().unwrap();
    let watch = app.store.watch(&name);
    let page = app
        .store
        .read(&name, from, PAGE_BYTES, now())
        .await
        .unwrap();
    let page = match page {
        Ok(page) => page,
        Err(Unseen::NotFound) => return status(404),
        Err(_) => return status(400),
    };
    let has_events = !app
        .behaviour
        .without_events
        .load(std::sync::atomic::Ordering::SeqCst);
    let is_silent = app
        .behaviour
        .silent_events
        .load(std::sync::atomic::Ordering::SeqCst);
    match value("live") {
        Some("sse") if is_silent => Response::builder()
            .header("content-type", "text/event-stream")
            .body(Body::from_stream(futures_util::stream::pending::<
                Result<Vec<u8>, Infallible>,
            >()))
            .unwrap(),
        Some("sse") if has_events => events(app, name, page),
        Some("long-poll") if page.entries.is_empty() && page.ending() == Ending::Open => {
            let mut watch = watch;
            drop(tokio::time::timeout(LONG_POLL, watch.changed()).await);
            let from = ReadFrom::At(page.next);
            let page = app
                .store
                .read(&name, from, PAGE_BYTES, now())
                .await
                .unwrap();
            page_answer(&page.unwrap(), 204)
        }
        Some("long-poll") => page_answer(&page, 204),
        _ => page_answer(&page, 200),
    }
}

fn page_answer(page: &Page, if_empty: u16) -> Response<Body> {
    let entries: Vec<Bytes> = page
        .entries
        .iter()
        .map(|entry| entry.data.clone())
        .collect();
    let mut response = Response::builder()
        .status(if entries.is_empty() { if_empty } else { 200 })
        .header("content-type", "application/json")
        .header("stream-next-offset", page.next.to_string())
        .header("stream-cursor", "7");
    if page.freshness == Freshness::UpToDate {
        response = response.header("stream-up-to-date", "true");
    }
    if page.ending() == Ending::Closed {
        response = response.header("stream-closed", "true");
    }
    let body = if entries.is_empty() && if_empty == 204 {
        Body::empty()
    } else {
        Body::from(json::array(&entries))
    };
    response.body(body).unwrap()
}

/// What an answer of events does next.
enum Next {
    Tell(Box<Page>),
    Wait(ReadFrom),
}

fn events(app: App, name: StreamName, page: Page) -> Response<Body> {
    let first = Some((app, name, Next::Tell(Box::new(page))));
    let chunks = futures_util::stream::unfold(first, |state| async {
        let (app, name, next) = state?;
        let page = match next {
            Next::Tell(page) => *page,
            Next::Wait(from) => loop {
                let mut watch = app.store.watch(&name);
                let page = app.store.read(&name, from, PAGE_BYTES, now()).await;
                let page = page.unwrap().unwrap();
                if !page.entries.is_empty() || page.ending() == Ending::Closed {
                    break page;
                }
                watch.changed().await;
            },
        };
        let mut chunk = Vec::new();
        for entry in &page.entries {
            write_data(&mut chunk, Encoding::Json, &entry.data, entry.next);
        }
        let ending = page.ending();
        let control = Control {
            next: page.next,
            cursor: 7,
            freshness: page.freshness,
            ending,
        };
        write_control(&mut chunk, control, None);
        let rest = match ending {
            Ending::Closed => None,
            Ending::Open => Some((app, name, Next::Wait(ReadFrom::At(page.next)))),
        };
        Some((Ok::<_, Infallible>(chunk), rest))
    });
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(chunks))
        .unwrap()
}
