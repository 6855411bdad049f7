//! A sandbox: how it is made, shown, listed and changed.

use crate::StringMap;
use crate::snapshot::{BuildInfo, CreateBuildInfo};

wire_words! {
    /// What a sandbox is doing. The protocol's own word `unknown` is `Unknown("unknown")`.
    pub enum SandboxState {
        Creating = "creating",
        Restoring = "restoring",
        Destroyed = "destroyed",
        Destroying = "destroying",
        Started = "started",
        Stopped = "stopped",
        Starting = "starting",
        Stopping = "stopping",
        Error = "error",
        BuildFailed = "build_failed",
        PendingBuild = "pending_build",
        BuildingSnapshot = "building_snapshot",
        PullingSnapshot = "pulling_snapshot",
        Archived = "archived",
        Archiving = "archiving",
        Resizing = "resizing",
        Snapshotting = "snapshotting",
        Forking = "forking",
        Pausing = "pausing",
        Paused = "paused",
        Resuming = "resuming",
    }
}

wire_words! {
    /// What a sandbox shall become.
    pub enum SandboxDesiredState {
        Started = "started",
        Destroyed = "destroyed",
        Stopped = "stopped",
        Resized = "resized",
        Archived = "archived",
        Paused = "paused",
    }
}

wire_words! {
    /// How far the backup of a sandbox is.
    pub enum BackupState {
        None = "None",
        Pending = "Pending",
        InProgress = "InProgress",
        Completed = "Completed",
        Error = "Error",
    }
}

wire_words! {
    /// What a sandbox is made of.
    pub enum SandboxClass {
        Container = "container",
        LinuxVm = "linux-vm",
        Windows = "windows",
        Android = "android",
    }
}

wire_words! {
    /// What a list is ordered by.
    pub enum SandboxSortField {
        CreatedAt = "createdAt",
        Name = "name",
        Cpu = "cpu",
        MemoryGib = "memoryGib",
        DiskGib = "diskGib",
        LastActivityAt = "lastActivityAt",
    }
}

wire_words! {
    /// Which end of a list comes first.
    pub enum SortDirection {
        Desc = "desc",
        Asc = "asc",
    }
}

wire_structs! {
    /// A sandbox as most operations answer it.
    #[serde(rename_all = "camelCase")]
    pub struct Sandbox {
        pub id: String,
        pub organization_id: String,
        pub name: String,
        pub target: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub runner_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub sandbox_class: Option<SandboxClass>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub state: Option<SandboxState>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub desired_state: Option<SandboxDesiredState>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub snapshot: Option<String>,
        pub user: String,
        pub error_reason: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub recoverable: Option<bool>,
        pub public: bool,
        pub network_block_all: bool,
        /// IPv4 ranges with prefix, separated by commas.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub network_allow_list: Option<String>,
        /// Domains, `*.` in front for all below one, separated by commas.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub domain_allow_list: Option<String>,
        pub cpu: u32,
        pub gpu: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub spot: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub spot_evicted_at: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub gpu_type: Option<String>,
        /// GiB.
        pub memory: u32,
        /// GiB.
        pub disk: u32,
        pub labels: StringMap,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub backup_state: Option<BackupState>,
        /// Minutes; 0 = never.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub auto_stop_interval: Option<i32>,
        /// Minutes; 0 = never.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub auto_pause_interval: Option<i32>,
        /// Minutes.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub auto_archive_interval: Option<i32>,
        /// Minutes after stopping; 0 = at once, negative = never.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub auto_delete_interval: Option<i32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub auto_destroy_at: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub queue_timeout: Option<i32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub queue_timed_out_at: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub created_at: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub updated_at: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub last_activity_at: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub daemon_version: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub warm_pool_id: Option<String>,
        /// The toolbox of this box is here, below its id.
        pub toolbox_proxy_url: String,
        pub env: StringMap,
        /// Required since 0.226.
        pub kvm: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub outbound_proxy_url: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub otel_endpoint_override: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub backup_created_at: Option<String>,
        pub volumes: Vec<SandboxVolume>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub build_info: Option<BuildInfo>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub linked_sandbox_id: Option<String>,
    }

    /// A sandbox in a list: the same without `env`, `volumes`, `buildInfo` and `kvm`.
    #[serde(rename_all = "camelCase")]
    pub struct SandboxListItem {
        pub id: String,
        pub organization_id: String,
        pub name: String,
        pub target: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub runner_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub sandbox_class: Option<SandboxClass>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub state: Option<SandboxState>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub desired_state: Option<SandboxDesiredState>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub snapshot: Option<String>,
        pub user: String,
        pub error_reason: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub recoverable: Option<bool>,
        pub public: bool,
        pub network_block_all: bool,
        /// IPv4 ranges with prefix, separated by commas.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub network_allow_list: Option<String>,
        /// Domains, `*.` in front for all below one, separated by commas.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub domain_allow_list: Option<String>,
        pub cpu: u32,
        pub gpu: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub spot: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub spot_evicted_at: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub gpu_type: Option<String>,
        /// GiB.
        pub memory: u32,
        /// GiB.
        pub disk: u32,
        pub labels: StringMap,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub backup_state: Option<BackupState>,
        /// Minutes; 0 = never.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub auto_stop_interval: Option<i32>,
        /// Minutes; 0 = never.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub auto_pause_interval: Option<i32>,
        /// Minutes.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub auto_archive_interval: Option<i32>,
        /// Minutes after stopping; 0 = at once, negative = never.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub auto_delete_interval: Option<i32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub auto_destroy_at: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub queue_timeout: Option<i32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub queue_timed_out_at: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub created_at: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub updated_at: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub last_activity_at: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub daemon_version: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub warm_pool_id: Option<String>,
        /// The toolbox of this box is here, below its id.
        pub toolbox_proxy_url: String,
    }

    /// One page of sandboxes.
    #[serde(rename_all = "camelCase")]
    pub struct ListSandboxesResponse {
        pub items: Vec<SandboxListItem>,
        /// Null on the last page.
        pub next_cursor: Option<String>,
    }

    /// The page that SDKs before 0.190 list.
    #[serde(rename_all = "camelCase")]
    pub struct PaginatedSandboxes {
        pub items: Vec<Sandbox>,
        pub total: u64,
        pub page: u32,
        pub total_pages: u32,
    }

    /// A volume in a sandbox.
    #[serde(rename_all = "camelCase")]
    pub struct SandboxVolume {
        /// Id or name.
        pub volume_id: String,
        pub mount_path: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub subpath: Option<String>,
    }

    /// `POST /sandbox`.
    #[serde(rename_all = "camelCase")]
    pub struct CreateSandbox {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub name: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub snapshot: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub user: Option<String>,
        pub env: StringMap,
        pub labels: StringMap,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub public: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub network_block_all: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub network_allow_list: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub domain_allow_list: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub outbound_proxy_url: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub otel_endpoint_override: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub target: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cpu: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub gpu: Option<u32>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub gpu_type: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub spot: Option<bool>,
        /// GiB.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub memory: Option<u32>,
        /// GiB.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub disk: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub auto_stop_interval: Option<i32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub auto_pause_interval: Option<i32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub auto_archive_interval: Option<i32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub auto_delete_interval: Option<i32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ttl_minutes: Option<i32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub queue_timeout: Option<i32>,
        pub volumes: Vec<SandboxVolume>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub build_info: Option<CreateBuildInfo>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub linked_sandbox: Option<String>,
        /// Each maps the name of a variable to the name of a secret.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub secrets: Vec<StringMap>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub kvm: Option<bool>,
    }

    /// `POST /sandbox/{id}/resize`.
    #[serde(rename_all = "camelCase")]
    pub struct ResizeSandbox {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cpu: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub memory: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub disk: Option<u32>,
    }

    /// `PUT /sandbox/{id}/labels`, and its answer.
    #[serde(rename_all = "camelCase")]
    pub struct SandboxLabels {
        pub labels: StringMap,
    }

    /// `POST /sandbox/{id}/fork`.
    #[serde(rename_all = "camelCase")]
    pub struct ForkSandbox {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub name: Option<String>,
    }

    /// `POST /sandbox/{id}/snapshot`.
    #[serde(rename_all = "camelCase")]
    pub struct CreateSandboxSnapshot {
        pub name: String,
        pub include_memory: bool,
    }

    /// `POST /sandbox/{id}/last-activity`.
    #[serde(rename_all = "camelCase")]
    pub struct UpdateLastActivity {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub activity_type: Option<String>,
    }

    /// `POST /sandbox/{id}/network-settings`.
    #[serde(rename_all = "camelCase")]
    pub struct UpdateNetworkSettings {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub network_block_all: Option<bool>,
        /// Empty text clears the list.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub network_allow_list: Option<String>,
        /// Empty text clears the list.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub domain_allow_list: Option<String>,
    }

    /// `PUT /sandbox/{id}/secrets`.
    #[serde(rename_all = "camelCase")]
    pub struct UpdateSandboxSecrets {
        /// Each maps the name of a variable to the name of a secret.
        pub secrets: Vec<StringMap>,
    }

    /// `PUT /sandbox/{id}/state`.
    #[serde(rename_all = "camelCase")]
    pub struct UpdateSandboxState {
        pub state: SandboxState,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub error_reason: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub recoverable: Option<bool>,
    }
}

/// The label that carries the language of `codeRun`; the SDKs set it and read it.
pub const LANGUAGE_LABEL: &str = "code-toolbox-language";
