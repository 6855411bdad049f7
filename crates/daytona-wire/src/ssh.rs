//! SSH access to a sandbox, by a token that is the user name.

use crate::Hidden;

wire_structs! {
    /// The answer of `POST /sandbox/{id}/ssh-access`.
    #[serde(rename_all = "camelCase")]
    pub struct SshAccess {
        pub id: String,
        pub sandbox_id: String,
        pub token: Hidden,
        pub expires_at: String,
        pub created_at: String,
        pub updated_at: String,
        /// Holds the token.
        pub ssh_command: Hidden,
    }

    /// The answer of `GET /sandbox/ssh-access/validate`.
    #[serde(rename_all = "camelCase")]
    pub struct SshAccessValidation {
        pub valid: bool,
        pub sandbox_id: String,
    }
}
