//! How much one sandbox may ask of the gateway.

use std::time::Duration;

/// Bytes are counted and not limited; everything else is.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections of the sandbox at once. Further ones wait in the kernel's queue.
    pub connections: usize,
    /// Names that are looked up at once; each lookup holds a thread of the server.
    pub lookups: usize,
    /// The head of a request, and the beginning of a tunnel.
    pub header_bytes: usize,
    /// For a whole head, the beginning of a tunnel, a TLS handshake; also between two requests.
    pub header_timeout: Duration,
    /// For a lookup, and for a connection with its TLS handshake.
    pub connect_timeout: Duration,
    /// Without a byte in either direction. Long, because models think long before their first word.
    pub idle_timeout: Duration,
    /// Refusals that are kept to be shown.
    pub refusals_kept: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            lookups: 8,
            header_bytes: 64 * 1024,
            header_timeout: Duration::from_secs(75),
            connect_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(15 * 60),
            refusals_kept: 128,
        }
    }
}
