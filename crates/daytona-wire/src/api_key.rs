//! Keys of the control plane.

use crate::Hidden;

wire_words! {
    /// What a key may do beyond reading.
    pub enum ApiKeyPermission {
        WriteSandboxes = "write:sandboxes",
        DeleteSandboxes = "delete:sandboxes",
        WriteSnapshots = "write:snapshots",
        DeleteSnapshots = "delete:snapshots",
        ReadVolumes = "read:volumes",
        WriteVolumes = "write:volumes",
        DeleteVolumes = "delete:volumes",
        ManageSecrets = "manage:secrets",
        ManageApiKeys = "manage:api_keys",
        WriteRegistries = "write:registries",
        DeleteRegistries = "delete:registries",
        WriteRegions = "write:regions",
        DeleteRegions = "delete:regions",
        ReadRunners = "read:runners",
        WriteRunners = "write:runners",
        DeleteRunners = "delete:runners",
        ReadAuditLogs = "read:audit_logs",
        ReadLimits = "read:limits",
        ManageSso = "manage:sso",
        ReadBilling = "read:billing",
        ManageBilling = "manage:billing",
    }
}

wire_structs! {
    /// `POST /api-keys`.
    #[serde(rename_all = "camelCase")]
    pub struct CreateApiKey {
        pub name: String,
        pub permissions: Vec<ApiKeyPermission>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub expires_at: Option<String>,
    }

    /// Its answer.
    #[serde(rename_all = "camelCase")]
    pub struct ApiKeyResponse {
        pub name: String,
        /// Shown this once.
        pub value: Hidden,
        pub created_at: String,
        pub permissions: Vec<ApiKeyPermission>,
        pub expires_at: Option<String>,
    }

    /// A key in a list, and the answer of `GET /api-keys/current`.
    #[serde(rename_all = "camelCase")]
    pub struct ApiKeyListItem {
        pub name: String,
        /// Masked.
        pub value: String,
        pub created_at: String,
        pub permissions: Vec<ApiKeyPermission>,
        pub last_used_at: Option<String>,
        pub expires_at: Option<String>,
        pub user_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub organization_id: Option<String>,
    }
}
