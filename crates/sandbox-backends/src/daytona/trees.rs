//! Whole folders, as archives that are streamed: nothing is held in memory but a few chunks.
//!
//! An archive from a sandbox is the word of an attacker. Names in it are plain or the copy fails; links are made last, so
//! that nothing is written through one, and only those that stay in the copy; no owner, no device and no special bit is
//! taken over.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use futures_util::stream;
use holm_daytona_client::Upload;
use holm_sandbox::{Result, SandboxError};
use tar::{Archive, Builder, EntryType, Header};
use tokio::sync::mpsc;

use super::sandbox::Inner;

const ENTRIES_MAX: usize = 1_000_000;
const BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;
/// Longer paths cannot be made; there are some other things beside them.
const NAMES_BYTES_MAX: u64 = 64 * 1024;
const CHUNK_BYTES: usize = 256 * 1024;
/// Chunks between the two sides of a transfer.
const QUEUE: usize = 4;
const PERMISSION_BITS: u32 = 0o777;

impl Inner {
    pub(super) async fn export(&self, from: &Path, host_path: &Path) -> Result<PathBuf> {
        let archive = self.pack(from).await?;
        let copied = self.export_archive(&archive, host_path).await;
        self.forget([archive.as_str()].into_iter()).await;
        copied?;
        Ok(host_path.to_path_buf())
    }

    async fn export_archive(&self, archive: &str, host_path: &Path) -> Result<()> {
        let target = host_path.to_path_buf();
        refuse_what_is_there(&target)?;
        let failed = |error| self.failed("export a folder", error);
        let mut download = self
            .toolbox
            .files()
            .download(archive)
            .await
            .map_err(failed)?;
        let (sender, receiver) = mpsc::channel(QUEUE);
        let unpacking = tokio::task::spawn_blocking(move || {
            unpack(ChunkReader::new(receiver), &target)
                .map_err(|source| at("export a folder to", &target, source))
        });
        let receiving = async {
            while let Some(chunk) = download.chunk().await.map_err(failed)? {
                if sender.send(Ok(chunk)).await.is_err() {
                    // The other side has ended, and says why.
                    break;
                }
            }
            drop(sender);
            Ok(())
        };
        let received: Result<()> = receiving.await;
        let unpacked = unpacking.await.map_err(|error| SandboxError::Backend {
            doing: "export a folder".to_owned(),
            hint: None,
            source: Box::new(error),
        })?;
        received?;
        unpacked
    }

    pub(super) async fn refresh(&self, host_path: &Path, to: &Path) -> Result<()> {
        self.confined(to)?;
        let found = fs::metadata(host_path).map_err(|source| {
            if source.kind() == io::ErrorKind::NotFound {
                let path = host_path.to_path_buf();
                return SandboxError::NotFound { path };
            }
            at("read", host_path, source)
        })?;
        if !found.is_dir() {
            return Err(SandboxError::NotADirectory {
                path: host_path.to_path_buf(),
            });
        }
        let (sender, mut receiver) = mpsc::channel(QUEUE);
        let source = host_path.to_path_buf();
        let packing = tokio::task::spawn_blocking(move || {
            let outcome = pack(&source, ChunkWriter::new(sender.clone()));
            if let Err(error) = outcome {
                // Whoever receives it stops the upload; one that has gone knows better.
                drop(sender.blocking_send(Err(error)));
            }
        });
        let chunks = stream::poll_fn(move |context| receiver.poll_recv(context));
        let reader = tokio_util::io::StreamReader::new(Box::pin(chunks));
        let archive = format!("{}.tar", self.staged());
        let upload = Upload::reader(&archive, reader, None);
        let uploaded = self.toolbox.files().upload(vec![upload]).await;
        // Ended by now: its other side is gone.
        drop(packing.await);
        uploaded.map_err(|error| self.failed("copy a folder into the sandbox", error))?;
        let unpacked = self.unpack(&archive, to).await;
        if unpacked.is_err() {
            self.forget([archive.as_str()].into_iter()).await;
        }
        unpacked
    }
}

fn at(doing: &str, path: &Path, source: io::Error) -> SandboxError {
    SandboxError::Io {
        doing: doing.to_owned(),
        path: path.to_path_buf(),
        source,
    }
}

/// A copy goes to a new folder, or to an empty one.
fn refuse_what_is_there(target: &Path) -> Result<()> {
    let is_free = match fs::read_dir(target) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if is_free {
        return Ok(());
    }
    Err(SandboxError::Invalid {
        what: format!("`{}` exists and is not an empty folder", target.display()),
        hint: "name a folder that does not exist yet".to_owned(),
    })
}

/// Unpacks what a sandbox packed. Blocks.
fn unpack(reader: impl Read, target: &Path) -> io::Result<()> {
    fs::create_dir_all(target)?;
    let mut archive = Archive::new(reader);
    let mut links = Vec::new();
    let mut folders = Vec::new();
    let (mut entries, mut bytes) = (0_usize, 0_u64);
    let mut long = LongNames::default();
    // Raw: the library itself would read a name of any length into memory.
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        entries += 1;
        bytes = bytes.saturating_add(entry.size());
        if entries > ENTRIES_MAX || bytes > BYTES_MAX {
            return Err(io::Error::other("the folder is too large"));
        }
        if long.take(&mut entry)? {
            continue;
        }
        let LongNames { path, link } = std::mem::take(&mut long);
        let path = plain(&path.map_or_else(|| entry.path().map(Cow::into_owned), Ok)?)?;
        let place = target.join(&path);
        let mode = entry.header().mode()? & PERMISSION_BITS;
        // What is none of these, a pipe, a socket or a device, stays where it is.
        let kind = entry.header().entry_type();
        if kind == EntryType::Directory {
            fs::create_dir_all(&place)?;
            folders.push((place, mode));
        } else if kind == EntryType::Regular {
            if let Some(parent) = place.parent() {
                fs::create_dir_all(parent)?;
            }
            let mut options = fs::OpenOptions::new();
            // Made anew: nothing that stands there already is written through.
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(&place)?;
            io::copy(&mut entry, &mut file)?;
        } else if kind == EntryType::Symlink {
            let to = match link {
                Some(to) => Some(to),
                None => entry.link_name()?.map(Cow::into_owned),
            };
            links.extend(to.filter(|to| stays_inside(&path, to)).map(|to| (path, to)));
        }
    }
    let root = fs::canonicalize(target)?;
    for (path, to) in links {
        let place = root.join(&path);
        // Where a folder is a link in truth, the link was judged by where it is not.
        let parent = place.parent().unwrap_or(&root);
        fs::create_dir_all(parent)?;
        if fs::canonicalize(parent)? == parent {
            symlink(to, place)?;
        }
    }
    // Last, and from within, so that a folder that cannot be written does not stop its own content.
    for (place, mode) in folders.into_iter().rev() {
        if place != target {
            fs::set_permissions(place, fs::Permissions::from_mode(mode | 0o700))?;
        }
    }
    Ok(())
}

/// Names that do not fit into the head of an entry come as entries of their own before it.
#[derive(Debug, Default)]
struct LongNames {
    path: Option<PathBuf>,
    link: Option<PathBuf>,
}

impl LongNames {
    /// Whether the entry was one of these.
    fn take(&mut self, entry: &mut tar::Entry<'_, impl Read>) -> io::Result<bool> {
        let kind = entry.header().entry_type();
        let is_pax = kind == EntryType::XHeader || kind == EntryType::XGlobalHeader;
        if !is_pax && kind != EntryType::GNULongName && kind != EntryType::GNULongLink {
            return Ok(false);
        }
        let mut content = Vec::new();
        entry.take(NAMES_BYTES_MAX).read_to_end(&mut content)?;
        if entry.size() > NAMES_BYTES_MAX {
            return Err(io::Error::other(
                "the archive holds a name that is too long",
            ));
        }
        let name = |bytes: &[u8]| {
            let end = bytes.iter().position(|byte| *byte == 0);
            let bytes = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
            Some(PathBuf::from(OsStr::from_bytes(bytes)))
        };
        if kind == EntryType::GNULongName {
            self.path = name(&content);
        } else if kind == EntryType::GNULongLink {
            self.link = name(&content);
        } else if kind == EntryType::XHeader {
            for extension in tar::PaxExtensions::new(&content) {
                let extension = extension?;
                match extension.key_bytes() {
                    b"path" => self.path = name(extension.value_bytes()),
                    b"linkpath" => self.link = name(extension.value_bytes()),
                    // The content would be something else than its head says.
                    b"size" => return Err(io::Error::other("the archive is of an unknown kind")),
                    _ => {}
                }
            }
        }
        Ok(true)
    }
}

/// The path of an entry without `.`; what would lead elsewhere is an error.
fn plain(path: &Path) -> io::Result<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => plain.push(name),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(io::Error::other("the archive names a path outside of it"));
            }
        }
    }
    Ok(plain)
}

/// Whether a link at `path` leads to something in the copy, whatever the other links are that do: up first, as far as there are
/// folders, and down from there. A `..` behind a name could be one behind a link, and lead anywhere.
fn stays_inside(path: &Path, to: &Path) -> bool {
    let mut depth = path.components().count().saturating_sub(1);
    let mut is_up = true;
    for component in to.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(_) => is_up = false,
            Component::ParentDir => match depth.checked_sub(1) {
                Some(above) if is_up => depth = above,
                Some(_) | None => return false,
            },
            Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

/// Packs a folder of this machine. Blocks.
fn pack(source: &Path, writer: impl Write) -> io::Result<()> {
    let mut builder = Builder::new(writer);
    builder.follow_symlinks(false);
    let mut waiting = vec![PathBuf::new()];
    while let Some(folder) = waiting.pop() {
        let mut entries: Vec<_> =
            fs::read_dir(source.join(&folder))?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = folder.join(entry.file_name());
            let found = entry.metadata()?;
            let mut header = Header::new_gnu();
            header.set_mode(found.permissions().mode() & PERMISSION_BITS);
            header.set_size(0);
            if found.is_dir() {
                header.set_entry_type(EntryType::Directory);
                builder.append_data(&mut header, &path, io::empty())?;
                waiting.push(path);
            } else if found.is_symlink() {
                header.set_entry_type(EntryType::Symlink);
                let to = fs::read_link(entry.path())?;
                builder.append_link(&mut header, &path, to)?;
            } else if found.is_file() {
                let file = fs::File::open(entry.path())?;
                header.set_size(found.len());
                // A file that grows meanwhile is taken as long as it was.
                builder.append_data(&mut header, &path, file.take(found.len()))?;
            }
        }
    }
    builder.into_inner()?.flush()
}

/// Reads what arrives on another thread.
struct ChunkReader {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    rest: Bytes,
}

impl ChunkReader {
    fn new(chunks: mpsc::Receiver<io::Result<Bytes>>) -> Self {
        Self {
            chunks,
            rest: Bytes::new(),
        }
    }
}

impl Read for ChunkReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.chunks.blocking_recv() {
                Some(chunk) => self.rest = chunk?,
                None => return Ok(0),
            }
        }
        let count = self.rest.len().min(buffer.len());
        let chunk = self.rest.split_to(count);
        if let Some(place) = buffer.get_mut(..count) {
            place.copy_from_slice(&chunk);
        }
        Ok(count)
    }
}

/// Hands on what is written, to another thread.
struct ChunkWriter {
    chunks: mpsc::Sender<io::Result<Bytes>>,
    held: Vec<u8>,
}

impl ChunkWriter {
    fn new(chunks: mpsc::Sender<io::Result<Bytes>>) -> Self {
        Self {
            chunks,
            held: Vec::with_capacity(CHUNK_BYTES),
        }
    }
}

impl Write for ChunkWriter {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(buffer);
        if self.held.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let chunk = Bytes::from(std::mem::take(&mut self.held));
        self.chunks
            .blocking_send(Ok(chunk))
            .map_err(|_gone| io::ErrorKind::BrokenPipe.into())
    }
}

#[cfg(test)]
#[path = "trees_tests.rs"]
mod tests;
