//! A root filesystem of its own as the base of a box: an unpacked image.
//!
//! The layers of an image belong to the ids 0 to 65535 on disk, below a folder that only root may enter.
//! A box sees them through mounts that translate owners to its range, so one copy serves all ranges: root's
//! files are root's inside, and writing to one copies it up.
//!
//! An image is hostile. It may hold a link where a mount belongs, device nodes, setuid programs and overlayfs
//! marks. Hence:
//!
//! - A layer of ours lies over all of them, with the folders that are mounted over and the files that tell of
//!   the network: a link by one of those names is never seen, and nothing is ever written into an image.
//! - Every place is resolved beneath the box's root, wherever links lead.
//! - The root is mounted `nodev` and `nosuid`.
//! - Marks are believed: a redirect names a folder of the layers below, which overlayfs looks up beneath
//!   their roots, name by name. An image that arranges itself by redirects arranges nothing else.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::names::{self, HOSTNAME};
use crate::skeleton::{self, make_folder, write_readable};
use crate::spec::Network;

/// Goes into the key of the layer of ours: another layout is another layer.
const LAYOUT_VERSION: u32 = 1;

/// Folders that are mounted over, and their modes should the mount be missing.
const MOUNT_POINTS: [(&str, u32); 5] = [
    ("dev", 0o755),
    ("proc", 0o555),
    ("run", 0o755),
    ("sys", 0o555),
    ("tmp", 0o1777),
];

/// What an image's base is made from.
#[derive(Debug, Clone)]
pub struct ImageOptions {
    /// Where layers of ours are kept.
    pub directory: PathBuf,
    pub network: Network,
    /// The image's own layers, the uppermost first.
    pub layers: Vec<PathBuf>,
}

/// An image ready for any number of boxes, of any id range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageBase {
    /// Lies over the image's layers.
    pub system_layer: PathBuf,
    /// The uppermost first.
    pub layers: Vec<PathBuf>,
}

impl ImageBase {
    /// Finds or makes the layer of ours.
    pub(crate) fn prepare(options: &ImageOptions) -> Result<Self> {
        let files = SystemFiles {
            version: LAYOUT_VERSION,
            hosts: names::hosts_file(HOSTNAME),
            hostname: format!("{HOSTNAME}\n"),
            resolver: names::resolver_file(options.network),
        };
        let directory = &options.directory;
        let skeleton =
            skeleton::find_or_make(directory, "image", &files, |new| files.write_into(new))?;
        Ok(Self {
            system_layer: skeleton,
            layers: options.layers.clone(),
        })
    }

    /// All read-only layers that are shown with translated owners, the uppermost first.
    pub(crate) fn all_layers(&self) -> Vec<PathBuf> {
        [std::slice::from_ref(&self.system_layer), &self.layers].concat()
    }
}

/// The content of the layer of ours.
#[derive(Debug, Hash)]
struct SystemFiles {
    version: u32,
    hosts: String,
    hostname: String,
    resolver: String,
}

impl SystemFiles {
    fn write_into(&self, layer: &Path) -> Result<()> {
        make_folder(layer, 0o755)?;
        for (name, mode) in MOUNT_POINTS {
            make_folder(&layer.join(name), mode)?;
        }
        let etc = layer.join("etc");
        make_folder(&etc, 0o755)?;
        write_readable(&etc.join("hosts"), &self.hosts)?;
        write_readable(&etc.join("hostname"), &self.hostname)?;
        write_readable(&etc.join("resolv.conf"), &self.resolver)
    }
}
