//! Sandboxes that are kept ready.

use crate::StringMap;

wire_structs! {
    /// A pool as all operations answer it.
    #[serde(rename_all = "camelCase")]
    pub struct WarmPool {
        pub id: String,
        pub organization_id: String,
        pub snapshot: String,
        pub target: String,
        pub pool: u32,
        pub current_size: u32,
        pub cpu: u32,
        pub mem: u32,
        pub disk: u32,
        pub os_user: String,
        pub env: StringMap,
        pub error_reason: Option<String>,
        pub created_at: String,
        pub updated_at: String,
    }

    /// `POST /warm-pools`.
    #[serde(rename_all = "camelCase")]
    pub struct CreateWarmPool {
        pub snapshot: String,
        pub pool: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub target: Option<String>,
    }

    /// `PATCH /warm-pools/{id}`.
    #[serde(rename_all = "camelCase")]
    pub struct UpdateWarmPool {
        pub pool: u32,
    }
}
