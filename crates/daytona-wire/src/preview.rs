//! Addresses of what listens inside of a sandbox.

use crate::Hidden;

wire_structs! {
    /// The answer of `GET /sandbox/{id}/ports/{port}/preview-url`.
    #[serde(rename_all = "camelCase")]
    pub struct PortPreviewUrl {
        pub sandbox_id: String,
        pub url: String,
        pub token: Hidden,
    }

    /// The answer of `GET /sandbox/{id}/ports/{port}/signed-preview-url`.
    #[serde(rename_all = "camelCase")]
    pub struct SignedPortPreviewUrl {
        pub sandbox_id: String,
        pub port: u32,
        pub token: Hidden,
        /// Holds the token.
        pub url: Hidden,
    }

    /// An address: of build logs, or of the toolbox.
    #[serde(rename_all = "camelCase")]
    pub struct Url {
        pub url: String,
    }
}
