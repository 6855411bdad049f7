//! How a caller follows an import and ends it: progress, cancellation, deadline, limits.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::{ImagesError, Result};

/// How often something that waits looks whether it was cancelled.
pub(crate) const CANCEL_POLL: Duration = Duration::from_millis(100);

/// What is told while an image is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a> {
    /// A line of a build log, without its end.
    Line(&'a str),
    /// Bytes that came from a registry so far, of all that are expected.
    Downloaded { bytes: u64, bytes_total: u64 },
    /// Bytes that were written to the image so far.
    Unpacked { bytes: u64 },
}

/// Ends imports that were started with it. Once set, it stays.
#[derive(Debug, Default)]
pub struct Cancel(AtomicBool);

impl Cancel {
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The caller's side of one import.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    pub cancel: &'a Cancel,
    pub deadline: Instant,
    /// Called from whichever thread does the work.
    pub progress: &'a (dyn Fn(Progress<'_>) + Sync),
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Watch")
            .field("cancel", &self.cancel)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl Watch<'_> {
    pub(crate) fn check(&self) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(ImagesError::Cancelled);
        }
        if Instant::now() >= self.deadline {
            return Err(ImagesError::DeadlinePassed);
        }
        Ok(())
    }
}

/// How much an image may be and hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Unpacked, over all layers, with the headers of the archive.
    pub unpacked_bytes_max: u64,
    /// As it comes from a registry, over all layers.
    pub download_bytes_max: u64,
    pub entries_max: u64,
    /// Folders are remembered until the end, to set their times.
    pub folders_max: u64,
    pub layers_max: usize,
    /// Stays free on the disk.
    pub free_bytes_min: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            unpacked_bytes_max: 64 << 30,
            download_bytes_max: 32 << 30,
            entries_max: 10_000_000,
            folders_max: 1_000_000,
            layers_max: 512,
            free_bytes_min: 512 << 20,
        }
    }
}
