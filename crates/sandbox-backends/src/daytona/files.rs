//! Single files: staged by Daytona's upload, put in place by a script that goes where the path leads and looks where it is.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use holm_daytona_client::{ClientError, Recurse, Upload};
use holm_sandbox::{DirEntry, FileKind, FileUpload, Result, SandboxError};

use super::again::again;
use super::inside::{Operation, split};
use super::sandbox::Inner;
use super::words::encode;

/// What [`Inner::read`] holds in memory.
const READ_BYTES_MAX: usize = 256 * 1024 * 1024;
/// How many files go in one request.
const BATCH: usize = 100;

impl Inner {
    fn operation<'a>(&'a self, doing: &'static str, path: &'a Path) -> Operation<'a> {
        Operation {
            toolbox: &self.toolbox,
            root: &self.work_dir,
            doing,
            path,
        }
    }

    /// A path in the staging folder that nobody else uses.
    pub(super) fn staged(&self) -> String {
        format!("{}/{}", self.stage, holm_sandbox_linux::random_hex())
    }

    pub(super) async fn write(&self, files: &[FileUpload]) -> Result<()> {
        let mut places = Vec::new();
        for file in files {
            let relative = self.confined(&file.path)?;
            let place = split(&relative).map(|(folder, name)| {
                (
                    encode(folder.as_os_str().as_bytes()),
                    encode(name.as_bytes()),
                )
            });
            let (folder, name) = place.ok_or_else(|| SandboxError::NotAFile {
                path: file.path.clone(),
            })?;
            places.push((file, folder, name, self.staged()));
        }
        for batch in places.chunks(BATCH) {
            let uploads = batch
                .iter()
                .map(|(file, _, _, staged)| Upload::bytes(staged, file.content.clone()));
            let uploaded = self.toolbox.files().upload(uploads.collect()).await;
            uploaded.map_err(|error| self.failed("upload files", error))?;
            for (index, (file, folder, name, staged)) in batch.iter().enumerate() {
                let placed = self
                    .operation("write", &file.path)
                    .run("place", &[folder, name, staged])
                    .await;
                if let Err(error) = placed {
                    self.forget(batch.iter().skip(index).map(|place| place.3.as_str()))
                        .await;
                    return Err(self.gone_or(error));
                }
            }
        }
        Ok(())
    }

    /// Removes what was staged and is not needed.
    pub(super) async fn forget<'a>(&self, staged: impl Iterator<Item = &'a str>) {
        for path in staged {
            if let Err(error) = self.toolbox.files().delete(path, Recurse::No).await {
                tracing::debug!(sandbox = self.id, %error, "a staged file stays");
            }
        }
    }

    pub(super) async fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let relative = self.confined(path)?;
        let Some((folder, name)) = split(&relative) else {
            return Err(SandboxError::NotAFile {
                path: path.to_path_buf(),
            });
        };
        let operation = self.operation("read", path);
        let (folder, name) = (
            encode(folder.as_os_str().as_bytes()),
            encode(name.as_bytes()),
        );
        let place = [folder.as_str(), name.as_str()];
        let found = again(|| operation.bytes("read", &place)).await;
        let found = found.map_err(|error| self.gone_or(error))?;
        if let Ok(found) = String::from_utf8(found) {
            return self.download(&found, path).await;
        }
        // A name that no request can carry: its content is copied to one that can be.
        let staged = self.staged();
        let places = [folder.as_str(), name.as_str(), staged.as_str()];
        let copied = again(|| operation.bytes("read", &places)).await;
        let content = match copied {
            Ok(_) => self.download(&staged, path).await,
            Err(error) => Err(self.gone_or(error)),
        };
        self.forget([staged.as_str()].into_iter()).await;
        content
    }

    async fn download(&self, found: &str, path: &Path) -> Result<Vec<u8>> {
        again(|| self.download_once(found, path)).await
    }

    async fn download_once(&self, found: &str, path: &Path) -> Result<Vec<u8>> {
        match self.toolbox.files().read(found, READ_BYTES_MAX).await {
            Ok(content) => Ok(content),
            Err(ClientError::TooLarge { bytes_max, .. }) => Err(SandboxError::TooLarge {
                path: path.to_path_buf(),
                bytes_max: u64::try_from(bytes_max).unwrap_or(u64::MAX),
            }),
            // It went between the look and the reading.
            Err(error) if error.is_not_found() && !self.is_torn_down() => {
                Err(SandboxError::NotFound {
                    path: path.to_path_buf(),
                })
            }
            Err(error) => Err(self.failed(&format!("read `{}`", path.display()), error)),
        }
    }

    pub(super) async fn delete(&self, path: &Path) -> Result<()> {
        let relative = self.confined(path)?;
        let Some((folder, name)) = split(&relative) else {
            return Err(SandboxError::Invalid {
                what: format!("`{}` is the work folder itself", path.display()),
                hint: "name a file in it".to_owned(),
            });
        };
        let (folder, name) = (
            encode(folder.as_os_str().as_bytes()),
            encode(name.as_bytes()),
        );
        let operation = self.operation("delete", path);
        let deleted = operation.run("delete", &[&folder, &name]).await;
        deleted.map(drop).map_err(|error| self.gone_or(error))
    }

    pub(super) async fn list(&self, path: &Path) -> Result<Vec<DirEntry>> {
        let folder = encode(self.confined(path)?.as_os_str().as_bytes());
        let (operation, folder) = (self.operation("list", path), [folder.as_str()]);
        let listed = again(|| operation.bytes("list", &folder)).await;
        let listed = listed.map_err(|error| self.gone_or(error))?;
        let mut entries: Vec<DirEntry> = listed
            .split(|byte| *byte == b'/')
            .filter_map(entry)
            .collect();
        entries.sort();
        Ok(entries)
    }

    /// Looks whether a folder is there and inside.
    pub(super) async fn enter(&self, path: &Path) -> Result<()> {
        let folder = encode(self.confined(path)?.as_os_str().as_bytes());
        let (operation, folder) = (self.operation("enter", path), [folder.as_str()]);
        let entered = again(|| operation.run("enter", &folder)).await;
        entered.map(drop).map_err(|error| self.gone_or(error))
    }

    /// Packs a folder into an archive in the staging folder, and gives its path.
    pub(super) async fn pack(&self, path: &Path) -> Result<String> {
        let folder = encode(self.confined(path)?.as_os_str().as_bytes());
        let archive = format!("{}.tar", self.staged());
        let operation = self.operation("pack", path);
        let places = [folder.as_str(), archive.as_str()];
        let packed = again(|| operation.run("pack", &places)).await;
        packed.map_err(|error| self.gone_or(error))?;
        Ok(archive)
    }

    /// Unpacks an archive of the staging folder, and removes it.
    pub(super) async fn unpack(&self, archive: &str, path: &Path) -> Result<()> {
        let folder = encode(self.confined(path)?.as_os_str().as_bytes());
        let unpacked = self.operation("write into", path);
        let unpacked = unpacked.run("unpack", &[&folder, archive]).await;
        unpacked.map(drop).map_err(|error| self.gone_or(error))
    }
}

fn entry(listed: &[u8]) -> Option<DirEntry> {
    let (kind, name) = listed.split_first()?;
    let kind = match kind {
        b'f' => FileKind::File,
        b'd' => FileKind::Directory,
        b'l' => FileKind::Symlink,
        _ => FileKind::Other,
    };
    Some(DirEntry {
        name: OsString::from_vec(name.to_vec()),
        kind,
    })
}
