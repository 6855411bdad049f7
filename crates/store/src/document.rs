//! Things with an id, an owner and a name.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A kind of document, which has a table of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    ApiKey,
    Organization,
    PreviewToken,
    Sandbox,
    Secret,
    Snapshot,
    SshAccess,
    Volume,
}

impl Kind {
    pub const ALL: [Self; 8] = [
        Self::ApiKey,
        Self::Organization,
        Self::PreviewToken,
        Self::Sandbox,
        Self::Secret,
        Self::Snapshot,
        Self::SshAccess,
        Self::Volume,
    ];

    /// Its table, and its name in messages.
    pub fn table(self) -> &'static str {
        match self {
            Self::ApiKey => "api_keys",
            Self::Organization => "organizations",
            Self::PreviewToken => "preview_tokens",
            Self::Sandbox => "sandboxes",
            Self::Secret => "secrets",
            Self::Snapshot => "snapshots",
            Self::SshAccess => "ssh_accesses",
            Self::Volume => "volumes",
        }
    }
}

/// A stored thing. Its content is one JSON text; what is searched for stands beside it.
///
/// A new field gets a serde default: documents of an earlier version are read as they are.
pub trait Document: Serialize + DeserializeOwned {
    const KIND: Kind;

    /// Unique among its kind. For things that are found by a secret, its hash.
    fn id(&self) -> &str;

    /// The organisation that it belongs to; empty for what belongs to all.
    fn owner(&self) -> &str;

    /// Unique among its kind and owner.
    fn name(&self) -> &str;
}
