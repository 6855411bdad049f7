//! What a sandbox's state means for what can be done with it.

use holm_daytona_wire::sandbox::SandboxState;

/// Daytona's many states, by what they allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Running,
    Frozen,
    Stopped,
    Archived,
    /// On its way out, or gone.
    Leaving,
    /// On its way to one of the others, or in an error.
    Unready,
}

impl Phase {
    pub(crate) fn of(state: &SandboxState) -> Self {
        match state {
            SandboxState::Started => Self::Running,
            SandboxState::Paused => Self::Frozen,
            SandboxState::Stopped => Self::Stopped,
            SandboxState::Archived => Self::Archived,
            SandboxState::Destroyed | SandboxState::Destroying => Self::Leaving,
            SandboxState::Creating
            | SandboxState::Restoring
            | SandboxState::Starting
            | SandboxState::Stopping
            | SandboxState::Error
            | SandboxState::BuildFailed
            | SandboxState::PendingBuild
            | SandboxState::BuildingSnapshot
            | SandboxState::PullingSnapshot
            | SandboxState::Archiving
            | SandboxState::Resizing
            | SandboxState::Snapshotting
            | SandboxState::Forking
            | SandboxState::Pausing
            | SandboxState::Resuming
            | SandboxState::Unknown(_) => Self::Unready,
        }
    }
}
