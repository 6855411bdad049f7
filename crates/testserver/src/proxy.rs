//! A proxy before a server that does what networks and servers do on bad days, to the requests that a test names.
//!
//! It works on bytes, one request to a connection, so that a fault can strike anywhere: in the middle of a body, of a
//! form, or of a WebSocket's frame. Servers name themselves by the `Host` of a request, so that all addresses that a
//! client learns lead through here too.

mod connection;
mod frames;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The connection is reset, and the server never sees the request.
    Reset,
    /// The server never sees it, and nobody ever answers.
    Silence,
    /// The server never sees it, and somebody else answers in its place.
    Status {
        status: u16,
        /// With a `Retry-After` of this many seconds.
        retry_after: Option<u64>,
    },
    /// The server sees only the first bytes of its body.
    RequestCut { body_bytes: usize },
    /// The server does it; then the connection is reset before any byte of the answer.
    AnswerLost,
    /// The server does it; a gateway answers with this status instead.
    AnswerReplaced { status: u16 },
    /// The connection is reset in the middle of the answer's body.
    AnswerCut { body_bytes: usize },
    /// The answer's body ends too early, and looks as if that were its end.
    AnswerShort { body_bytes: usize },
    /// The answer's body comes in small pieces.
    AnswerSlow { piece_bytes: usize, pause: Duration },
    /// A WebSocket carries so many bytes from the server, and then ends.
    SocketCut { data_bytes: usize, goodbye: Goodbye },
    /// A WebSocket carries so many bytes from the server, and then nothing.
    SocketStalls { data_bytes: usize },
}

/// How a WebSocket ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goodbye {
    Reset,
    /// With this code.
    Close(u16),
}

/// How often a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    Exactly(u32),
    Always,
}

impl Fault {
    /// An answer of somebody before the server.
    pub fn status(status: u16) -> Self {
        Self::Status {
            status,
            retry_after: None,
        }
    }
}

/// Dropping it ends it, with all its connections.
#[derive(Debug)]
pub struct FaultyProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: Option<AbortOnDropHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    rules: Mutex<Vec<Rule>>,
    requests: Mutex<Vec<String>>,
}

#[derive(Debug, Clone)]
struct Rule {
    text: &'static str,
    fault: Fault,
    times: Times,
    struck: u32,
}

impl FaultyProxy {
    /// Passes everything on, for now.
    pub async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            server,
            rules: Mutex::default(),
            requests: Mutex::default(),
        });
        let serving = Some(serve(listener, &shared));
        Self {
            address,
            shared,
            serving,
        }
    }

    /// What `DAYTONA_API_URL` is.
    pub fn api_url(&self) -> String {
        format!("http://{}/api", self.address)
    }

    /// From now on, this happens to requests whose first line holds the text, such as `POST /api/sandbox HTTP`. What was
    /// said first counts first.
    pub fn fault(&self, text: &'static str, times: Times, fault: Fault) {
        self.shared.rules.lock().unwrap().push(Rule {
            text,
            fault,
            times,
            struck: 0,
        });
    }

    pub fn once(&self, text: &'static str, fault: Fault) {
        self.fault(text, Times::Exactly(1), fault);
    }

    pub fn always(&self, text: &'static str, fault: Fault) {
        self.fault(text, Times::Always, fault);
    }

    /// Ends all faults, and tells how often each struck.
    pub fn heal(&self) -> Vec<u32> {
        let rules = std::mem::take(&mut *self.shared.rules.lock().unwrap());
        rules.iter().map(|rule| rule.struck).collect()
    }

    /// The first lines of all requests so far that hold a text.
    pub fn requests(&self, text: &str) -> Vec<String> {
        let requests = self.shared.requests.lock().unwrap();
        let wanted = requests.iter().filter(|line| line.contains(text));
        wanted.cloned().collect()
    }

    /// Connections are refused, and those that there are end.
    pub async fn refuse_connections(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
            // Aborted, as was asked for.
            drop(serving.await);
        }
    }

    pub async fn accept_connections(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.serving = Some(serve(listener, &self.shared));
    }
}

fn serve(listener: TcpListener, shared: &Arc<Shared>) -> AbortOnDropHandle<()> {
    let shared = Arc::clone(shared);
    let serving = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            let shared = Arc::clone(&shared);
            // Whoever goes away ends its connection, which is no failure of a test.
            connections.spawn(async move { drop(connection::serve(client, &shared).await) });
        }
    });
    AbortOnDropHandle::new(serving)
}

impl Shared {
    /// Remembers a request, and tells what happens to it.
    fn strike(&self, line: &str) -> Option<Fault> {
        self.requests.lock().unwrap().push(line.to_owned());
        let mut rules = self.rules.lock().unwrap();
        let is_due = |rule: &Rule| match rule.times {
            Times::Exactly(times) => rule.struck < times,
            Times::Always => true,
        };
        let rule = rules
            .iter_mut()
            .find(|rule| is_due(rule) && line.contains(rule.text))?;
        rule.struck += 1;
        Some(rule.fault.clone())
    }
}
