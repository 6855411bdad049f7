//! Joining a group from inside.

use std::os::fd::BorrowedFd;

use rustix::io::{Errno, write};

/// Moves the calling thread into the groups behind `fds` (see [`BoxGroup::join_fds`](super::BoxGroup::join_fds)).
///
/// Only `write(2)` is called and nothing allocated, so a child may do this between `clone` and `execve`. It
/// must be single-threaded then: on v1 `0` means "this thread".
pub fn join_via_fds(fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    for fd in fds {
        loop {
            match write(fd, b"0") {
                Err(Errno::INTR) => {}
                outcome => break outcome,
            }
        }?;
    }
    Ok(())
}
