//! Secrets: kept by the server, seen by a sandbox as a placeholder only.

use crate::Hidden;

wire_structs! {
    /// A secret, without its value.
    #[serde(rename_all = "camelCase")]
    pub struct Secret {
        pub id: String,
        pub name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub description: Option<String>,
        /// What the variable holds inside of the sandbox.
        pub placeholder: String,
        /// The value goes to these hosts only, `*.` in front for all below one; to any if there are none.
        pub hosts: Vec<String>,
        pub created_at: String,
        pub updated_at: String,
    }

    /// One page of secrets.
    #[serde(rename_all = "camelCase")]
    pub struct ListSecretsResponse {
        pub items: Vec<Secret>,
        pub total: u64,
        pub next_cursor: Option<String>,
    }

    /// `POST /secret`.
    #[serde(rename_all = "camelCase")]
    pub struct CreateSecret {
        pub name: String,
        pub value: Hidden,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub description: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub hosts: Vec<String>,
    }

    /// `PATCH /secret/{id}`.
    #[serde(rename_all = "camelCase")]
    pub struct UpdateSecret {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub value: Option<Hidden>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub description: Option<String>,
        /// Absent or null leaves the hosts as they are.
        pub hosts: Option<Vec<String>>,
    }

    /// A secret with its value, as `GET /sandbox/{id}/secrets` answers it.
    #[serde(rename_all = "camelCase")]
    pub struct ResolvedSecret {
        pub env: String,
        pub placeholder: String,
        pub value: Hidden,
        pub hosts: Vec<String>,
    }
}
