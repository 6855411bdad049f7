//! How much room a file system has.

use std::io;
use std::path::Path;

/// In bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    pub total: u64,
    /// What is kept for root counts as used.
    pub used: u64,
    /// For ordinary users.
    pub free: u64,
}

/// The space of the file system that a path of the host lies on.
pub fn disk_space(path: &Path) -> io::Result<DiskSpace> {
    let found = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    let (total, free) = (bytes(found.f_blocks), bytes(found.f_bavail));
    Ok(DiskSpace {
        total,
        used: total.saturating_sub(free),
        free,
    })
}
