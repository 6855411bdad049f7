//! Where an SDK uploads the folders that a Dockerfile copies from.

use crate::Hidden;

wire_structs! {
    /// The answer of `GET /object-storage/push-access`.
    #[serde(rename_all = "camelCase")]
    pub struct StorageAccess {
        pub access_key: String,
        pub secret: Hidden,
        pub session_token: Hidden,
        pub storage_url: String,
        pub organization_id: String,
        pub bucket: String,
        pub region: String,
    }
}
