//! The organisation that owns everything on a server, and its regions.

wire_words! {
    /// Who may use a region.
    pub enum RegionType {
        Shared = "shared",
        Dedicated = "dedicated",
        Custom = "custom",
    }
}

wire_structs! {
    /// An organisation. All fields but `defaultRegionId` are required.
    #[serde(rename_all = "camelCase")]
    pub struct Organization {
        pub id: String,
        pub name: String,
        pub created_by: String,
        pub personal: bool,
        pub created_at: String,
        pub updated_at: String,
        pub suspended: bool,
        /// Required and a time, even when `suspended` is false.
        pub suspended_at: String,
        pub suspension_reason: String,
        /// Required and a time, even when `suspended` is false.
        pub suspended_until: String,
        pub suspension_cleanup_grace_period_hours: u32,
        pub max_cpu_per_sandbox: u32,
        pub max_memory_per_sandbox: u32,
        pub max_disk_per_sandbox: u32,
        pub secret_quota: u32,
        pub max_secrets_per_sandbox: u32,
        pub snapshot_deactivation_timeout_minutes: u32,
        pub default_queue_timeout: Option<i32>,
        pub sandbox_limited_network_egress: bool,
        pub preview_warning_enabled: bool,
        pub sso_enabled: bool,
        pub scim_enabled: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub default_region_id: Option<String>,
        pub authenticated_rate_limit: Option<u32>,
        pub sandbox_create_rate_limit: Option<u32>,
        pub sandbox_lifecycle_rate_limit: Option<u32>,
        pub experimental_config: JsonMap,
        pub otel_config: Option<serde_json::Value>,
        pub authenticated_rate_limit_ttl_seconds: Option<u32>,
        pub sandbox_create_rate_limit_ttl_seconds: Option<u32>,
        pub sandbox_lifecycle_rate_limit_ttl_seconds: Option<u32>,
    }

    /// Where sandboxes run.
    #[serde(rename_all = "camelCase")]
    pub struct Region {
        pub id: String,
        pub name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub organization_id: Option<String>,
        pub region_type: RegionType,
        pub created_at: String,
        pub updated_at: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub proxy_url: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ssh_gateway_url: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub snapshot_manager_url: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub otel_endpoint: Option<String>,
    }
}

type JsonMap = serde_json::Map<String, serde_json::Value>;
