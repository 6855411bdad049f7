//! What `docker save` wrote before it wrote OCI layouts: `manifest.json`, a configuration, plain layers.
//!
//! Nothing in it has a digest except the layers, in the configuration; those are verified.

use std::path::{Path, PathBuf};

use holm_sandbox_linux::files::{ConfinedDir, FilesError};
use serde::Deserialize;

use crate::config::{ImageConfig, OciConfig};
use crate::decompress::decompress;
use crate::digest::Digest;
use crate::error::{ImagesError, Result};
use crate::oci::{DOCUMENT_BYTES_MAX, from_files};
use crate::unpack::{Unpacker, Whiteouts};
use crate::watch::{Limits, Watch};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Image {
    config: PathBuf,
    layers: Vec<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct DockerArchive {
    folder: ConfinedDir,
    path: PathBuf,
    images: Vec<Image>,
}

impl DockerArchive {
    /// Looks whether the folder, into which an archive was unpacked, is one.
    pub(crate) fn recognise(path: &Path) -> Result<Option<Self>> {
        let folder = ConfinedDir::open(path).map_err(|error| from_files(path, error))?;
        let text = match folder.read(Path::new("manifest.json"), DOCUMENT_BYTES_MAX) {
            Ok(text) => text,
            Err(
                FilesError::NotFound { .. }
                | FilesError::NotAFile { .. }
                | FilesError::IsADirectory { .. }
                | FilesError::Escapes { .. }
                | FilesError::TooLarge { .. },
            ) => return Ok(None),
            Err(error) => return Err(from_files(&path.join("manifest.json"), error)),
        };
        // A root file system may well have a file of that name with something else in it.
        let Ok(images) = serde_json::from_slice(&text) else {
            return Ok(None);
        };
        Ok(Some(Self {
            folder,
            path: path.to_path_buf(),
            images,
        }))
    }

    pub(crate) fn unpack(
        &self,
        unpacker: &mut Unpacker<'_>,
        limits: Limits,
        watch: &Watch<'_>,
    ) -> Result<ImageConfig> {
        let invalid = |reason: String| ImagesError::invalid("the archive of `docker save`", reason);
        let [image] = self.images.as_slice() else {
            let count = self.images.len();
            return Err(invalid(format!("it holds {count} images, not one")));
        };
        if image.layers.len() > limits.layers_max {
            return Err(ImagesError::TooLarge {
                unit: "layers",
                max: limits.layers_max as u64,
            });
        }
        let text = self
            .folder
            .read(&image.config, DOCUMENT_BYTES_MAX)
            .map_err(|error| from_files(&self.path.join(&image.config), error))?;
        let config = OciConfig::parse(&text)?;
        if config.diff_ids().len() != image.layers.len() {
            return Err(invalid(
                "its manifest and its configuration name different numbers of layers".into(),
            ));
        }
        for (layer, digest) in image.layers.iter().zip(config.diff_ids()) {
            let path = self.path.join(layer);
            let file = self
                .folder
                .open_read(layer)
                .map_err(|error| from_files(&path, error))?;
            let open = || {
                file.try_clone()
                    .map_err(ImagesError::io("open", &path))
                    .and_then(|file| decompress(file, &path))
            };
            let found = Digest::of_stream(open()?, watch)?;
            Digest::parse(digest)?.expect(&found, "a layer")?;
            unpacker.layer(&open, Whiteouts::Apply)?;
        }
        Ok(config.into_config())
    }
}
