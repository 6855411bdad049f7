//! How a client is set up. Nothing is read from the environment here.

use std::sync::Arc;
use std::time::Duration;

use holm_sandbox::Secret;

use crate::credentials::{Credentials, FixedToken};

/// Where the server is, who asks, and how patiently.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The base of the API, such as `https://holm.example.org/api`: streams are at `stream/` below it.
    pub api_url: String,
    pub credentials: Arc<dyn Credentials>,
    pub deadlines: Deadlines,
    /// More than this of one answer, or of one event, is not kept in memory.
    pub answer_bytes_max: usize,
    /// Certificates in PEM that are trusted besides those of this machine.
    pub extra_roots_pem: Option<String>,
}

impl Settings {
    pub fn new(api_url: impl Into<String>, token: impl Into<Secret>) -> Self {
        Self {
            api_url: api_url.into(),
            credentials: Arc::new(FixedToken(token.into())),
            deadlines: Deadlines::default(),
            answer_bytes_max: 64 * 1024 * 1024,
            extra_roots_pem: None,
        }
    }

    #[must_use]
    pub fn with_credentials(mut self, credentials: Arc<dyn Credentials>) -> Self {
        self.credentials = credentials;
        self
    }

    #[must_use]
    pub fn with_deadlines(mut self, deadlines: Deadlines) -> Self {
        self.deadlines = deadlines;
        self
    }
}

/// How long one try of something may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    pub connect: Duration,
    /// A whole request with its answer.
    pub request: Duration,
    /// The longest silence in the middle of an answer, and of server-sent events: a dead connection is noticed after
    /// it. Longer than what servers let pass without a sign of life.
    pub silence: Duration,
    /// A whole long poll: longer than servers wait for news.
    pub long_poll: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            request: Duration::from_secs(60),
            silence: Duration::from_secs(90),
            long_poll: Duration::from_secs(120),
        }
    }
}
