//! What a caller asks of a box.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::base::HostBase;
use crate::cgroup::Limits;
use crate::ids::IdRange;
use crate::image::ImageBase;
pub use crate::seccomp::Profile;
use crate::step::{Access, Durability, UpperLayer};

/// The box's user, as seen inside. Agents refuse to run as root, so commands do not unless they are told to.
pub const BOX_USER: u32 = 1000;

/// Whom a command runs as, inside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CommandUser {
    /// The one with the id [`BOX_USER`].
    #[default]
    BoxUser,
    /// Root of an image, over the box's own files and processes.
    Root,
    /// Another user of an image, without further groups.
    Ids { uid: u32, gid: u32 },
}

/// Which users commands may run as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandUsers {
    /// On the host's own system.
    BoxUserOnly,
    /// On an image.
    All,
}

impl Base {
    pub fn command_users(&self) -> CommandUsers {
        match self {
            Self::Host(_) => CommandUsers::BoxUserOnly,
            Self::Image(_) => CommandUsers::All,
        }
    }
}

/// What the box can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// A network namespace with nothing but loopback.
    None,
    /// The host's own network, with everything that listens on it.
    Host,
}

/// When the box ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lifetime {
    /// With the engine that made it, however that ends.
    WithCreator,
    /// When it is stopped.
    UntilStopped,
}

/// Files of the host inside the box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountSpec {
    /// A read-only tree with a private writable layer over it.
    Overlay {
        place: PathBuf,
        lower: Vec<PathBuf>,
        upper: UpperLayer,
    },
    /// A folder or file of the host itself.
    Bind {
        source: PathBuf,
        place: PathBuf,
        access: Access,
        owners: Owners,
    },
}

impl MountSpec {
    /// Where it is seen inside.
    pub fn place(&self) -> &Path {
        match self {
            Self::Overlay { place, .. } | Self::Bind { place, .. } => place,
        }
    }
}

/// Whose files the box sees in a bind mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    AsOnHost,
    /// This user's and group's files appear as the box user's, and what the box makes is theirs.
    BoxUserIs {
        uid: u32,
        gid: u32,
    },
}

/// What a box's `/` is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// The host's own system.
    Host(HostBase),
    /// A root filesystem of its own.
    Image(ImageBase),
}

impl From<HostBase> for Base {
    fn from(base: HostBase) -> Self {
        Self::Host(base)
    }
}

impl From<ImageBase> for Base {
    fn from(base: ImageBase) -> Self {
        Self::Image(base)
    }
}

/// A box to be made.
#[derive(Debug, Clone)]
pub struct BoxSpec {
    /// For messages and for the control groups; letters, digits and hyphens.
    pub id: String,
    /// A private folder for the box's layers, made by the caller.
    pub directory: PathBuf,
    pub base: Base,
    /// Read-only layers between the base and the box's own files, the newest first: saved boxes.
    pub layers: Vec<PathBuf>,
    pub mounts: Vec<MountSpec>,
    pub profile: Profile,
    pub network: Network,
    pub limits: Limits,
    pub lifetime: Lifetime,
    pub durability: Durability,
    /// Whose ids the box's are on the host, where root makes it.
    pub ids: IdRange,
    /// Another name than [`HOSTNAME`](crate::HOSTNAME).
    pub hostname: Option<String>,
}
