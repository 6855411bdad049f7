//! How a client is set up. Nothing is read from the environment here.

use std::time::Duration;

use holm_sandbox::Secret;

use crate::RetryPolicy;

/// Daytona's cloud.
pub const DEFAULT_API_URL: &str = "https://app.daytona.io/api";

/// Where the server is, who asks, and how patiently.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The base of the control plane, as in `DAYTONA_API_URL`.
    pub api_url: String,
    /// A key, or a JWT together with the organisation.
    pub api_key: Secret,
    /// Only with a JWT.
    pub organization_id: Option<String>,
    pub deadlines: Deadlines,
    pub retry: RetryPolicy,
    /// More than this of one answer is not kept in memory. Streams have no such limit.
    pub answer_bytes_max: usize,
    /// Certificates in PEM that are trusted besides those of this machine.
    pub extra_roots_pem: Option<String>,
}

impl Settings {
    pub fn new(api_url: impl Into<String>, api_key: impl Into<Secret>) -> Self {
        Self {
            api_url: api_url.into(),
            api_key: api_key.into(),
            organization_id: None,
            deadlines: Deadlines::default(),
            retry: RetryPolicy::default(),
            answer_bytes_max: 32 * 1024 * 1024,
            extra_roots_pem: None,
        }
    }
}

/// How long calls may take, all their tries and pauses together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// One try to connect.
    pub connect: Duration,
    /// Whatever has no deadline of its own here.
    pub request: Duration,
    /// `create`, with finding again what a lost answer made. Daytona's cloud answers after up to 30 s.
    pub create: Duration,
    /// A command without a timeout of its own.
    pub execute: Duration,
    /// What a command with a timeout of its own gets on top, for the way there and back.
    pub execute_grace: Duration,
    /// A call that makes git talk to another server.
    pub git: Duration,
    /// A whole upload.
    pub upload: Duration,
    /// The longest silence in the middle of a download or an upload.
    pub transfer_silence: Duration,
    /// The longest silence of a WebSocket, of which pings are a part: a dead one is noticed after this.
    pub socket_silence: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            request: Duration::from_secs(60),
            create: Duration::from_secs(120),
            execute: Duration::from_secs(60 * 60),
            execute_grace: Duration::from_secs(5),
            git: Duration::from_secs(10 * 60),
            upload: Duration::from_secs(30 * 60),
            transfer_silence: Duration::from_secs(60),
            socket_silence: Duration::from_secs(60),
        }
    }
}
