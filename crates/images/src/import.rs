//! Images out of files that are already on this machine.

use std::fs::{self, File};
use std::path::Path;

use crate::config::ImageConfig;
use crate::decompress::decompress;
use crate::docker_archive::DockerArchive;
use crate::error::{ImagesError, Result};
use crate::oci::Layout;
use crate::store::{Images, ImportedImage, Staging};
use crate::tar_reader::End;
use crate::unpack::{Unpacker, Whiteouts};
use crate::watch::Watch;

/// What an archive turned out to be.
#[derive(Debug)]
enum Archive {
    RootFs,
    OciLayout,
    DockerSave(DockerArchive),
}

impl Images {
    /// Imports a root file system (as `docker export` and `tar` write it), or an image (as `docker save`,
    /// `podman save` and `skopeo` write it), from a tar archive: plain, gzip or zstd.
    pub fn from_tar(&self, name: &str, path: &Path, watch: &Watch<'_>) -> Result<ImportedImage> {
        self.check_name_is_free(name)?;
        let staging = self.stage()?;
        let source = format!("tar {}", path.display());
        let file = File::open(path).map_err(ImagesError::io("open", path))?;
        if !file
            .metadata()
            .map_err(ImagesError::io("inspect", path))?
            .is_file()
        {
            return Err(ImagesError::invalid(
                format!("`{}`", path.display()),
                "it is not a file",
            ));
        }
        let tree = staging.tree();
        let mut unpacker = Unpacker::new(&tree, self.limits, watch)?;
        let open = || {
            file.try_clone()
                .map_err(ImagesError::io("open", path))
                .and_then(|file| decompress(file, path))
        };
        let end = unpacker.layer(&open, Whiteouts::Plain)?;
        if unpacker.entry_count() == 0 {
            return Err(ImagesError::broken("it is empty"));
        }
        if end != End::Marker {
            return Err(ImagesError::broken("it is cut off: its end is missing"));
        }
        let bytes = unpacker.finish()?;
        // Unpacked once, it can be looked at in any order.
        let archive = recognise(&tree)?;
        let work = staging.work().join("archive");
        let (config, bytes) = match archive {
            Archive::RootFs => (ImageConfig::of_this_machine(), bytes),
            Archive::OciLayout => {
                set_aside(&tree, &work)?;
                self.unpack_layout(&staging, &work, watch)?
            }
            Archive::DockerSave(archive) => {
                set_aside(&tree, &work)?;
                let mut unpacker = Unpacker::new(&tree, self.limits, watch)?;
                let config = archive.unpack(&mut unpacker, self.limits, watch)?;
                (config, unpacker.finish()?)
            }
        };
        self.publish(name, &staging, source, config, bytes)
    }

    /// Imports the image for this machine from a folder in the OCI image layout.
    pub fn from_oci_layout(
        &self,
        name: &str,
        layout: &Path,
        watch: &Watch<'_>,
    ) -> Result<ImportedImage> {
        self.check_name_is_free(name)?;
        let staging = self.stage()?;
        let source = format!("oci {}", layout.display());
        let (config, bytes) = self.unpack_layout(&staging, layout, watch)?;
        self.publish(name, &staging, source, config, bytes)
    }

    pub(crate) fn unpack_layout(
        &self,
        staging: &Staging,
        layout: &Path,
        watch: &Watch<'_>,
    ) -> Result<(ImageConfig, u64)> {
        let layout = Layout::open(layout)?;
        let mut unpacker = Unpacker::new(&staging.tree(), self.limits, watch)?;
        let config = layout.unpack(&mut unpacker, self.limits, watch)?;
        Ok((config, unpacker.finish()?))
    }
}

fn recognise(tree: &Path) -> Result<Archive> {
    let is_file = |name: &str| {
        fs::symlink_metadata(tree.join(name)).is_ok_and(|found| found.file_type().is_file())
    };
    if is_file("oci-layout") && is_file("index.json") {
        return Ok(Archive::OciLayout);
    }
    Ok(match DockerArchive::recognise(tree)? {
        Some(archive) => Archive::DockerSave(archive),
        None => Archive::RootFs,
    })
}

/// Makes room for the image's own tree.
fn set_aside(tree: &Path, to: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::rename(tree, to)
        .and_then(|()| fs::create_dir(tree))
        .and_then(|()| fs::set_permissions(tree, fs::Permissions::from_mode(0o755)))
        .map_err(ImagesError::io("move", tree))
}
