//! The OCI image layout: `index.json`, manifests and layers by digest.
//!
//! The layout may have come out of an archive, or be somebody's folder: everything is opened beneath it by
//! the kernel, and used only when its bytes are what the digest says.

use std::fs::File;
use std::path::{Path, PathBuf};

use holm_sandbox_linux::files::{ConfinedDir, FilesError};
use serde::{Deserialize, Serialize};

use crate::config::{ImageConfig, OciConfig, this_architecture};
use crate::decompress::decompress;
use crate::digest::Digest;
use crate::error::{ImagesError, Result};
use crate::unpack::{Unpacker, Whiteouts};
use crate::watch::{Limits, Watch};

/// Manifests, indexes and configurations; registries have the same bound.
pub(crate) const DOCUMENT_BYTES_MAX: u64 = 4 << 20;
/// An index may name another index, which is as deep as it gets in practice.
const INDEX_DEPTH_MAX: usize = 3;
const REF_NAME: &str = "org.opencontainers.image.ref.name";

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Platform {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Index {
    schema_version: u32,
    pub(crate) manifests: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
}

/// An index or a manifest: which one is told by what it has, as media types are often left out.
#[derive(Debug)]
pub(crate) enum Document {
    Index(Index),
    Manifest(Manifest),
}

impl Document {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Probe {
            manifests: Option<serde::de::IgnoredAny>,
            #[serde(rename = "schemaVersion")]
            schema_version: u32,
        }
        let broken =
            |error: serde_json::Error| ImagesError::invalid("the manifest", error.to_string());
        let probe: Probe = serde_json::from_slice(bytes).map_err(broken)?;
        if probe.schema_version != 2 {
            return Err(ImagesError::invalid(
                "the manifest",
                format!(
                    "it has schema version {}; images of today have 2",
                    probe.schema_version
                ),
            ));
        }
        if probe.manifests.is_some() {
            return serde_json::from_slice(bytes)
                .map(Self::Index)
                .map_err(broken);
        }
        serde_json::from_slice(bytes)
            .map(Self::Manifest)
            .map_err(broken)
    }
}

impl Descriptor {
    pub(crate) fn of_manifest(media_type: String, bytes: &[u8]) -> Self {
        Self {
            media_type,
            digest: Digest::of(bytes).to_string(),
            size: bytes.len() as u64,
            platform: None,
            annotations: std::collections::BTreeMap::new(),
        }
    }

    /// What has no platform is looked at; its configuration tells later.
    fn may_be_for_this_machine(&self) -> bool {
        self.platform.as_ref().is_none_or(|platform| {
            platform.os == "linux" && platform.architecture == this_architecture()
        })
    }
}

impl Index {
    pub(crate) fn of(manifest: Descriptor) -> Self {
        Self {
            schema_version: 2,
            manifests: vec![manifest],
        }
    }

    /// The manifest for this machine.
    pub(crate) fn select(&self) -> Result<&Descriptor> {
        self.manifests
            .iter()
            .find(|manifest| manifest.may_be_for_this_machine())
            .ok_or_else(|| {
                let names = self
                    .manifests
                    .iter()
                    .filter_map(|manifest| manifest.platform.as_ref())
                    .map(|platform| format!("{}/{}", platform.os, platform.architecture));
                let mut found: Vec<String> = names.take(32).collect();
                found.dedup();
                ImagesError::WrongPlatform {
                    wanted: format!("linux/{}", this_architecture()),
                    found: if found.is_empty() {
                        "nothing".to_owned()
                    } else {
                        found.join(", ")
                    },
                }
            })
    }

    /// A layout may hold images that have nothing to do with each other.
    fn refuse_several_images(&self) -> Result<()> {
        let mut names: Vec<&str> = self
            .manifests
            .iter()
            .filter(|manifest| manifest.may_be_for_this_machine())
            .filter_map(|manifest| manifest.annotations.get(REF_NAME))
            .map(String::as_str)
            .collect();
        names.sort_unstable();
        names.dedup();
        if names.len() > 1 {
            return Err(ImagesError::invalid(
                "the OCI layout",
                format!("it holds several images: {}", names.join(", ")),
            ));
        }
        Ok(())
    }
}

impl Manifest {
    pub(crate) fn check(&self, limits: Limits) -> Result<()> {
        if self.layers.len() > limits.layers_max {
            return Err(ImagesError::TooLarge {
                unit: "layers",
                max: limits.layers_max as u64,
            });
        }
        for layer in &self.layers {
            let kind = layer.media_type.as_str();
            let is_layer = kind.starts_with("application/vnd.oci.image.layer.")
                || kind.starts_with("application/vnd.docker.image.rootfs.");
            if !is_layer {
                return Err(ImagesError::invalid(
                    "the image",
                    format!("`{kind}` is not a layer of a root file system"),
                ));
            }
        }
        Ok(())
    }
}

/// An OCI image layout.
#[derive(Debug)]
pub(crate) struct Layout {
    folder: ConfinedDir,
    path: PathBuf,
}

impl Layout {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let folder = ConfinedDir::open(path).map_err(|error| from_files(path, error))?;
        Ok(Self {
            folder,
            path: path.to_path_buf(),
        })
    }

    /// Unpacks the image for this machine.
    pub(crate) fn unpack(
        &self,
        unpacker: &mut Unpacker<'_>,
        limits: Limits,
        watch: &Watch<'_>,
    ) -> Result<ImageConfig> {
        let manifest = self.manifest()?;
        manifest.check(limits)?;
        let config = OciConfig::parse(&self.document(&manifest.config)?)?;
        for layer in &manifest.layers {
            let (mut file, path) = self.open_blob(layer)?;
            let found = Digest::of_file(&mut file, &path, watch)?;
            Digest::parse(&layer.digest)?.expect(&found, "a layer")?;
            // The file that was hashed, not another one that has its name by now.
            let open = || {
                file.try_clone()
                    .map_err(ImagesError::io("open", &path))
                    .and_then(|file| decompress(file, &path))
            };
            unpacker.layer(&open, Whiteouts::Apply)?;
        }
        Ok(config.into_config())
    }

    fn manifest(&self) -> Result<Manifest> {
        let path = Path::new("index.json");
        let bytes = self
            .folder
            .read(path, DOCUMENT_BYTES_MAX)
            .map_err(|error| {
                if matches!(error, FilesError::NotFound { .. }) {
                    return ImagesError::invalid(
                        format!("folder `{}`", self.path.display()),
                        "it is no OCI image layout: it has no `index.json`",
                    );
                }
                from_files(&self.path.join(path), error)
            })?;
        let mut document = Document::parse(&bytes)?;
        if let Document::Index(index) = &document {
            index.refuse_several_images()?;
        }
        for _ in 0..INDEX_DEPTH_MAX {
            match document {
                Document::Manifest(manifest) => return Ok(manifest),
                Document::Index(index) => {
                    document = Document::parse(&self.document(index.select()?)?)?;
                }
            }
        }
        Err(ImagesError::invalid(
            "the OCI layout",
            "its indexes are nested too deep",
        ))
    }

    /// A small blob, verified.
    fn document(&self, descriptor: &Descriptor) -> Result<Vec<u8>> {
        let digest = Digest::parse(&descriptor.digest)?;
        let path = blob_path(&digest);
        let bytes = self
            .folder
            .read(&path, DOCUMENT_BYTES_MAX)
            .map_err(|error| from_files(&self.path.join(&path), error))?;
        digest.expect(&Digest::of(&bytes), "a manifest or configuration")?;
        Ok(bytes)
    }

    fn open_blob(&self, descriptor: &Descriptor) -> Result<(File, PathBuf)> {
        let path = blob_path(&Digest::parse(&descriptor.digest)?);
        let shown = self.path.join(&path);
        let file = self
            .folder
            .open_read(&path)
            .map_err(|error| from_files(&shown, error))?;
        Ok((file, shown))
    }
}

/// Where a layout keeps a blob.
pub(crate) fn blob_path(digest: &Digest) -> PathBuf {
    Path::new("blobs/sha256").join(digest.hex())
}

pub(crate) fn from_files(path: &Path, error: FilesError) -> ImagesError {
    ImagesError::Io {
        doing: "open",
        path: path.to_path_buf(),
        source: std::io::Error::other(error),
    }
}
