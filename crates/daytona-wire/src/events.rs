//! What the server tells over socket.io.

use crate::Hidden;
use crate::sandbox::{Sandbox, SandboxDesiredState, SandboxState};
use crate::snapshot::{Snapshot, SnapshotState};
use crate::volume::{Volume, VolumeState};

wire_structs! {
    /// Body of [`SANDBOX_STATE_UPDATED`].
    #[serde(rename_all = "camelCase")]
    pub struct SandboxStateUpdated {
        pub sandbox: Sandbox,
        pub old_state: SandboxState,
        pub new_state: SandboxState,
    }

    /// Body of [`SANDBOX_DESIRED_STATE_UPDATED`].
    #[serde(rename_all = "camelCase")]
    pub struct SandboxDesiredStateUpdated {
        pub sandbox: Sandbox,
        pub old_desired_state: SandboxDesiredState,
        pub new_desired_state: SandboxDesiredState,
    }

    /// Body of [`SNAPSHOT_STATE_UPDATED`].
    #[serde(rename_all = "camelCase")]
    pub struct SnapshotStateUpdated {
        pub snapshot: Snapshot,
        pub old_state: SnapshotState,
        pub new_state: SnapshotState,
    }

    /// Body of [`VOLUME_STATE_UPDATED`].
    #[serde(rename_all = "camelCase")]
    pub struct VolumeStateUpdated {
        pub volume: Volume,
        pub old_state: VolumeState,
        pub new_state: VolumeState,
    }

    /// What a client sends with its CONNECT packet.
    #[serde(rename_all = "camelCase")]
    pub struct ConnectAuth {
        pub token: Hidden,
    }
}

/// The body is a [`Sandbox`].
pub const SANDBOX_CREATED: &str = "sandbox.created";
pub const SANDBOX_STATE_UPDATED: &str = "sandbox.state.updated";
pub const SANDBOX_DESIRED_STATE_UPDATED: &str = "sandbox.desired-state.updated";
/// The body is a [`Snapshot`].
pub const SNAPSHOT_CREATED: &str = "snapshot.created";
pub const SNAPSHOT_STATE_UPDATED: &str = "snapshot.state.updated";
/// The body is the id of the snapshot.
pub const SNAPSHOT_REMOVED: &str = "snapshot.removed";
/// The body is a [`Volume`].
pub const VOLUME_CREATED: &str = "volume.created";
pub const VOLUME_STATE_UPDATED: &str = "volume.state.updated";
