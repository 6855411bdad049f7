//! A snapshot: an image that sandboxes start from, and how it is built.

use crate::sandbox::SandboxClass;

wire_words! {
    /// What a snapshot is doing.
    pub enum SnapshotState {
        Pending = "pending",
        Building = "building",
        Pulling = "pulling",
        Snapshotting = "snapshotting",
        Active = "active",
        Inactive = "inactive",
        Error = "error",
        BuildFailed = "build_failed",
        Removing = "removing",
    }
}

wire_structs! {
    /// A snapshot as all operations answer it.
    #[serde(rename_all = "camelCase")]
    pub struct Snapshot {
        pub id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub organization_id: Option<String>,
        /// One that the server brings along.
        pub general: bool,
        pub name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub image_name: Option<String>,
        pub state: SnapshotState,
        /// GiB.
        pub size: Option<f64>,
        pub entrypoint: Option<Vec<String>>,
        pub cpu: u32,
        pub gpu: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub gpu_type: Option<String>,
        /// GiB.
        pub mem: u32,
        /// GiB.
        pub disk: u32,
        pub error_reason: Option<String>,
        pub created_at: String,
        pub updated_at: String,
        pub last_used_at: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub build_info: Option<BuildInfo>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub region_ids: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub initial_runner_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub r#ref: Option<String>,
        pub source_sandbox_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub sandbox_class: Option<SandboxClass>,
    }

    /// One page of snapshots.
    #[serde(rename_all = "camelCase")]
    pub struct PaginatedSnapshots {
        pub items: Vec<Snapshot>,
        pub total: u64,
        pub page: u32,
        pub total_pages: u32,
    }

    /// What an image was built from.
    #[serde(rename_all = "camelCase")]
    pub struct BuildInfo {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub dockerfile_content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub context_hashes: Vec<String>,
        pub created_at: String,
        pub updated_at: String,
        pub snapshot_ref: String,
    }

    /// What to build an image from.
    #[serde(rename_all = "camelCase")]
    pub struct CreateBuildInfo {
        pub dockerfile_content: String,
        /// Names of uploaded folders that the Dockerfile copies from.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub context_hashes: Vec<String>,
    }

    /// `POST /snapshots`.
    #[serde(rename_all = "camelCase")]
    pub struct CreateSnapshot {
        pub name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub image_name: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub entrypoint: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cpu: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub gpu: Option<u32>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub gpu_type: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub memory: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub disk: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub build_info: Option<CreateBuildInfo>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub region_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub sandbox_class: Option<SandboxClass>,
    }
}
