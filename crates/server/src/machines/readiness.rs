//! Waiting for a descriptor without a thread.

use std::io;
use std::os::fd::AsFd;

use tokio::net::unix::pipe;

/// Becomes ready when there is something to read from a descriptor, of whatever kind.
///
/// A pipe's receiver only in name: it is the one way to have any descriptor watched that needs no unsafe code, and
/// readiness means the same for all of them.
#[derive(Debug)]
pub(crate) struct Readiness(pipe::Receiver);

impl Readiness {
    /// Watches a copy of the descriptor.
    pub(crate) fn of(descriptor: &impl AsFd) -> io::Result<Self> {
        let copy = descriptor.as_fd().try_clone_to_owned()?;
        pipe::Receiver::from_owned_fd_unchecked(copy).map(Self)
    }

    /// Waits until it is ready, and goes on saying so afterwards.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.0.readable().await
    }
}
