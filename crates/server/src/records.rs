//! What is stored about each thing. A new field gets a default, so that older documents stay readable.

use std::collections::BTreeMap;

use holm_daytona_wire::Hidden;
use holm_daytona_wire::sandbox::SandboxState;
use holm_daytona_wire::snapshot::SnapshotState;
use holm_daytona_wire::volume::VolumeState;
use holm_sandbox_linux::ProcessIdentity;
use holm_store::{Document, Kind};
use serde::{Deserialize, Serialize};

use crate::clock::Millis;

/// Implements [`Document`] by the fields that carry id, owner and name.
macro_rules! document {
    ($record:ty, $kind:ident, $id:ident, $owner:expr, $name:ident) => {
        impl Document for $record {
            const KIND: Kind = Kind::$kind;

            fn id(&self) -> &str {
                let Self { $id, .. } = self;
                $id
            }

            fn owner(&self) -> &str {
                let owner: fn(&Self) -> &str = $owner;
                owner(self)
            }

            fn name(&self) -> &str {
                &self.$name
            }
        }
    };
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrganizationRecord {
    pub id: String,
    pub name: String,
    /// Which range of user ids its boxes have on the host.
    pub id_range: u16,
    pub created_at: Millis,
}

document!(OrganizationRecord, Organization, id, |_| "", name);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKeyRecord {
    pub hash: String,
    pub organization: String,
    pub name: String,
    /// The beginning and the end of the key, to recognise it by.
    pub shown: String,
    pub created_at: Millis,
}

document!(ApiKeyRecord, ApiKey, hash, |key| &key.organization, name);

/// Times after which a sandbox is stopped, archived or deleted by itself, in minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intervals {
    /// 0 means never.
    pub stop: i32,
    /// 0 means never.
    #[serde(default)]
    pub pause: i32,
    pub archive: i32,
    /// After it stopped; 0 means at once, negative means never.
    pub delete: i32,
}

/// What a sandbox reaches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkSettings {
    pub block_all: bool,
    pub allow_list: Option<String>,
    pub domain_allow_list: Option<String>,
}

/// Sizes, in whole units as Daytona counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    pub cpu: u32,
    pub memory_gib: u32,
    pub disk_gib: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeMount {
    pub volume_id: String,
    pub mount_path: String,
    #[serde(default)]
    pub subpath: Option<String>,
}

/// The running box of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoxRecord {
    #[serde(flatten)]
    pub process: ProcessIdentity,
    pub wire_version: u32,
}

/// What a sandbox's files stand on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Foundation {
    /// The host's own root.
    Host,
    /// An unpacked image, by its name among the images.
    Image { image: String },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SandboxRecord {
    pub id: String,
    pub organization: String,
    pub name: String,
    pub user: String,
    pub env: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
    pub public: bool,
    pub network: NetworkSettings,
    pub target: String,
    pub resources: Resources,
    /// The name of the snapshot that it was made from.
    pub snapshot: Option<String>,
    pub foundation: Foundation,
    /// Saved layers below its own, newest first, as folders of the data folder.
    #[serde(default)]
    pub layers: Vec<String>,
    pub state: SandboxState,
    pub error_reason: Option<String>,
    pub intervals: Intervals,
    #[serde(default)]
    pub destroy_at: Option<Millis>,
    pub volumes: Vec<VolumeMount>,
    /// Variables and the names of the secrets behind them.
    #[serde(default)]
    pub secrets: BTreeMap<String, String>,
    pub created_at: Millis,
    pub updated_at: Millis,
    pub last_activity_at: Millis,
    /// Opens its toolbox and previews; new at every start.
    pub auth_token: Hidden,
    /// Signs addresses of its files.
    pub signing_key: Hidden,
    #[serde(default)]
    pub linked_sandbox: Option<String>,
    #[serde(default)]
    pub dockerfile: Option<String>,
    /// The snapshot whose build it waits or waited for.
    #[serde(default)]
    pub build: Option<String>,
    pub running: Option<BoxRecord>,
}

document!(
    SandboxRecord,
    Sandbox,
    id,
    |sandbox| &sandbox.organization,
    name
);

impl SandboxRecord {
    /// The image, the saved layers and the volumes that it needs, by their names.
    pub(crate) fn stands_on(&self) -> Vec<String> {
        let image = match &self.foundation {
            Foundation::Host => None,
            Foundation::Image { image } => Some(image),
        };
        let volumes = self.volumes.iter().map(|mount| &mount.volume_id);
        let all = image.into_iter().chain(&self.layers).chain(volumes);
        all.cloned().collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRecord {
    pub id: String,
    /// Empty: for all organisations.
    pub organization: String,
    pub name: String,
    pub state: SnapshotState,
    pub foundation: Foundation,
    /// Saved layers above the foundation, newest first, as folders of the data folder.
    #[serde(default)]
    pub layers: Vec<String>,
    /// Whose ids the saved layers hold.
    #[serde(default)]
    pub layers_id_range: u16,
    pub image_name: Option<String>,
    /// Whom the image names to run its processes.
    #[serde(default)]
    pub image_user: Option<String>,
    pub entrypoint: Vec<String>,
    #[serde(default)]
    pub dockerfile: Option<String>,
    pub resources: Resources,
    pub size_bytes: u64,
    pub error_reason: Option<String>,
    pub created_at: Millis,
    pub updated_at: Millis,
    pub last_used_at: Option<Millis>,
    #[serde(default)]
    pub source_sandbox: Option<String>,
}

document!(
    SnapshotRecord,
    Snapshot,
    id,
    |snapshot| &snapshot.organization,
    name
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeRecord {
    pub id: String,
    pub organization: String,
    pub name: String,
    pub state: VolumeState,
    pub created_at: Millis,
    pub updated_at: Millis,
    pub last_used_at: Option<Millis>,
}

document!(
    VolumeRecord,
    Volume,
    id,
    |volume| &volume.organization,
    name
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretRecord {
    pub id: String,
    pub organization: String,
    pub name: String,
    pub description: Option<String>,
    pub value: Hidden,
    /// What sandboxes see in its place.
    pub placeholder: String,
    /// Where the value may go.
    pub hosts: Vec<String>,
    pub created_at: Millis,
    pub updated_at: Millis,
}

document!(
    SecretRecord,
    Secret,
    id,
    |secret| &secret.organization,
    name
);

/// A door into one sandbox by SSH, for a time. Stored by the hash of its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshAccessRecord {
    pub hash: String,
    pub id: String,
    pub sandbox: String,
    pub created_at: Millis,
    pub expires_at: Millis,
}

document!(
    SshAccessRecord,
    SshAccess,
    hash,
    |access| &access.sandbox,
    id
);

/// A door to one port of one sandbox, for a time. Stored by the hash of its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviewTokenRecord {
    pub hash: String,
    pub id: String,
    pub sandbox: String,
    pub port: u16,
    pub expires_at: Millis,
}

document!(
    PreviewTokenRecord,
    PreviewToken,
    hash,
    |token| &token.sandbox,
    id
);
