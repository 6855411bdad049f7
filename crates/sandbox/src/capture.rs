//! Output of a command, made safe while it is written.
//!
//! ```text
//!     pipe ──▶ StreamRedactor ──▶ whoever watches
//!         └──▶ Capture ──▶ ExecOutcome
//! ```
//!
//! **Invariants:** memory is bounded by the cap and the longest secret, however much a command writes; what comes out
//! is what redacting (and then truncating) the whole output at once would give, wherever the chunks were cut; no part
//! of a secret passes before it is known to be none.

use std::fmt;

use zeroize::Zeroizing;

use crate::redact::{Redactor, Rest};
use crate::truncate::{TRUNCATION_MARKER, whole_characters};

/// Redacts a stream chunk by chunk.
///
/// Only what could be the beginning of a secret is held back, so lines appear when they are written.
pub struct StreamRedactor {
    redactor: Redactor,
    /// Always shorter than the longest secret between two calls, and always the beginning of one.
    held: Zeroizing<Vec<u8>>,
}

impl StreamRedactor {
    /// The beginning of a stream. Stdout and stderr need one each.
    #[must_use]
    pub fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            held: Zeroizing::default(),
        }
    }

    /// Takes a chunk and gives what is safe to show by now.
    #[must_use]
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut clean = Vec::with_capacity(chunk.len());
        self.held.extend_from_slice(chunk);
        let scan = self.redactor.scan(&self.held, Rest::MayFollow, &mut clean);
        self.held.drain(..scan.read);
        clean
    }

    /// The end of the stream: gives what was held back.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.flush()
    }

    fn flush(&mut self) -> Vec<u8> {
        let mut clean = Vec::new();
        self.redactor.scan(&self.held, Rest::Nothing, &mut clean);
        self.held.clear();
        clean
    }
}

impl fmt::Debug for StreamRedactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is held back may be all of a secret but its last byte.
        formatter
            .debug_struct("StreamRedactor")
            .field("redactor", &self.redactor)
            .field("held_bytes", &self.held.len())
            .finish()
    }
}

/// Collects the output of one stream up to a cap.
#[derive(Debug)]
pub struct Capture {
    stream: StreamRedactor,
    output_bytes_max: usize,
    kept: Vec<u8>,
    fit: Fit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    All,
    Overflowed,
}

impl Capture {
    /// Keeps at most `output_bytes_max` bytes of redacted output.
    #[must_use]
    pub fn new(output_bytes_max: usize, redactor: Redactor) -> Self {
        Self {
            stream: StreamRedactor::new(redactor),
            output_bytes_max,
            kept: Vec::new(),
            fit: Fit::All,
        }
    }

    /// Takes a chunk. Once the cap is passed this does nothing, so the pipe can be drained to its end.
    pub fn push(&mut self, chunk: &[u8]) {
        if self.fit == Fit::Overflowed {
            return;
        }
        let clean = self.stream.push(chunk);
        self.keep(&clean);
    }

    /// The end of the stream.
    #[must_use]
    pub fn finish(mut self) -> Captured {
        if self.fit == Fit::All {
            let clean = self.stream.flush();
            self.keep(&clean);
        }
        match self.fit {
            Fit::All => Captured {
                bytes: self.kept,
                truncated: false,
            },
            Fit::Overflowed => {
                let length = whole_characters(&self.kept).len();
                self.kept.truncate(length);
                self.kept.extend_from_slice(TRUNCATION_MARKER.as_bytes());
                Captured {
                    bytes: self.kept,
                    truncated: true,
                }
            }
        }
    }

    fn keep(&mut self, clean: &[u8]) {
        let room = self.output_bytes_max - self.kept.len();
        if clean.len() > room {
            self.kept.extend_from_slice(&clean[..room]);
            self.fit = Fit::Overflowed;
        } else {
            self.kept.extend_from_slice(clean);
        }
    }
}

/// What a [`Capture`] holds at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// At most the cap, and the marker where more was written.
    pub bytes: Vec<u8>,
    /// Whether more was written.
    pub truncated: bool,
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
