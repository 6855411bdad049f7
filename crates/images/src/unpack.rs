//! Layers of an image become one tree: entries are written, whiteouts take away what is below.
//!
//! A whiteout is about lower layers only, wherever in its own layer it stands. So a layer is read twice: first
//! for its whiteouts, then for its entries. That costs a second decompression and no memory.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{ImagesError, Result};
use crate::store::free_bytes;
use crate::tar_reader::{End, Entry, EntryKind, TarReader};
use crate::tree::TreeWriter;
use crate::watch::{Limits, Progress, Watch};

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Notes of aufs to itself, which old images have.
const AUFS: &[u8] = b".wh..wh.";
/// The free space is looked at, and progress told, this often.
const LOOK_EVERY_BYTES: u64 = 32 << 20;

/// Opens the uncompressed stream of one layer, from its beginning.
pub(crate) type OpenLayer<'a> = &'a dyn Fn() -> Result<Box<dyn Read>>;

/// What `.wh.` in names means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whiteouts {
    /// The archive is a layer of an OCI image.
    Apply,
    /// The archive is a whole root file system.
    Plain,
}

/// What is left of the limits.
#[derive(Debug, Clone, Copy)]
struct Budget {
    limits: Limits,
    entries: u64,
    bytes: u64,
}

impl Budget {
    fn charge(&mut self, entry: &Entry) -> Result<()> {
        self.entries += 1;
        if self.entries > self.limits.entries_max {
            return Err(ImagesError::TooLarge {
                unit: "entries",
                max: self.limits.entries_max,
            });
        }
        self.bytes = self.bytes.saturating_add(entry.size);
        if self.bytes > self.limits.unpacked_bytes_max {
            return Err(ImagesError::TooLarge {
                unit: "bytes when unpacked",
                max: self.limits.unpacked_bytes_max,
            });
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Unpacker<'a> {
    tree: TreeWriter,
    path: PathBuf,
    budget: Budget,
    watch: &'a Watch<'a>,
    bytes_written: u64,
    look_at_bytes: u64,
    layers: usize,
}

impl<'a> Unpacker<'a> {
    /// Unpacks into the empty folder at `path`.
    pub(crate) fn new(path: &Path, limits: Limits, watch: &'a Watch<'a>) -> Result<Self> {
        let unpacker = Self {
            tree: TreeWriter::new(path)?,
            path: path.to_path_buf(),
            budget: Budget {
                limits,
                entries: 0,
                bytes: 0,
            },
            watch,
            bytes_written: 0,
            look_at_bytes: LOOK_EVERY_BYTES,
            layers: 0,
        };
        unpacker.check_free_bytes()?;
        Ok(unpacker)
    }

    /// Puts a layer on top of those before it.
    pub(crate) fn layer(&mut self, open: OpenLayer<'_>, whiteouts: Whiteouts) -> Result<End> {
        if whiteouts == Whiteouts::Apply && self.layers > 0 {
            self.take_away(TarReader::new(open()?))?;
        }
        self.layers += 1;
        let mut archive = TarReader::new(open()?);
        while let Some(entry) = archive.next_entry()? {
            self.watch.check()?;
            self.budget.charge(&entry)?;
            if whiteouts == Whiteouts::Apply && is_marker(&entry.name) {
                continue;
            }
            if entry.kind == EntryKind::Folder
                && self.tree.folder_count() >= self.budget.limits.folders_max
            {
                return Err(ImagesError::TooLarge {
                    unit: "folders",
                    max: self.budget.limits.folders_max,
                });
            }
            let watch = self.watch;
            let bytes_written = &mut self.bytes_written;
            self.tree.write(&entry, &mut |buffer| {
                watch.check()?;
                let count = archive.read_content(buffer)?;
                *bytes_written += count as u64;
                Ok(count)
            })?;
            if self.bytes_written >= self.look_at_bytes {
                self.look_at_bytes = self.bytes_written + LOOK_EVERY_BYTES;
                self.check_free_bytes()?;
                (self.watch.progress)(Progress::Unpacked {
                    bytes: self.bytes_written,
                });
            }
        }
        let end = archive.end();
        self.drain(archive)?;
        Ok(end)
    }

    /// Ends the work; the count is of bytes that were written.
    pub(crate) fn finish(self) -> Result<u64> {
        self.tree.finish()?;
        (self.watch.progress)(Progress::Unpacked {
            bytes: self.bytes_written,
        });
        Ok(self.bytes_written)
    }

    pub(crate) fn entry_count(&self) -> u64 {
        self.budget.entries
    }

    fn take_away(&mut self, mut archive: TarReader<Box<dyn Read>>) -> Result<()> {
        let mut budget = self.budget;
        let mut skipped = vec![0; 64 * 1024];
        while let Some(entry) = archive.next_entry()? {
            self.watch.check()?;
            budget.charge(&entry)?;
            match whiteout(&entry.name)? {
                None => {}
                Some(Whiteout::Folder(folder)) => self.tree.empty_folder(folder)?,
                Some(Whiteout::Entry(name)) => self.tree.remove(&name)?,
            }
            while archive.read_content(&mut skipped)? > 0 {
                self.watch.check()?;
            }
        }
        Ok(())
    }

    /// Reads past the end marker, so that a decompressor sees its checksum.
    fn drain(&self, archive: TarReader<Box<dyn Read>>) -> Result<()> {
        let mut stream = archive.into_stream();
        let mut buffer = vec![0; 64 * 1024];
        let mut drained = 0;
        while drained <= self.budget.limits.unpacked_bytes_max {
            self.watch.check()?;
            match stream.read(&mut buffer).map_err(ImagesError::ReadArchive)? {
                0 => return Ok(()),
                count => drained += count as u64,
            }
        }
        Err(ImagesError::broken("it has no end"))
    }

    fn check_free_bytes(&self) -> Result<()> {
        let free_bytes = free_bytes(&self.path)?;
        if free_bytes < self.budget.limits.free_bytes_min {
            return Err(ImagesError::DiskFull {
                path: self.path.clone(),
                free_bytes,
            });
        }
        Ok(())
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Whiteout<'a> {
    /// Nothing of the lower layers is left in this folder.
    Folder(&'a Path),
    Entry(PathBuf),
}

fn last_name(name: &Path) -> &[u8] {
    name.file_name().map(OsStrExt::as_bytes).unwrap_or_default()
}

/// Whether the entry is about lower layers, or aufs's own, and not a file of the image.
fn is_marker(name: &Path) -> bool {
    last_name(name).starts_with(WHITEOUT) || is_of_aufs(name)
}

fn is_of_aufs(name: &Path) -> bool {
    name.components()
        .any(|part| part.as_os_str().as_bytes().starts_with(AUFS))
}

fn whiteout(name: &Path) -> Result<Option<Whiteout<'_>>> {
    let folder = name.parent().unwrap_or(Path::new(""));
    let last = last_name(name);
    if last == OPAQUE {
        return Ok(Some(Whiteout::Folder(folder)));
    }
    if is_of_aufs(name) {
        return Ok(None);
    }
    match last.strip_prefix(WHITEOUT) {
        None => Ok(None),
        Some(b"" | b"." | b"..") => Err(ImagesError::EntryRefused {
            name: name.display().to_string(),
            reason: "it is a whiteout of nothing".into(),
        }),
        Some(hidden) => Ok(Some(Whiteout::Entry(
            folder.join(OsStr::from_bytes(hidden)),
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whiteouts_are_told_from_files() {
        let found = |name: &'static str| whiteout(Path::new(name)).unwrap();
        assert_eq!(found("a/b"), None);
        assert_eq!(found("a/x.wh.b"), None);
        assert_eq!(found("a/.wh.b"), Some(Whiteout::Entry("a/b".into())));
        assert_eq!(found("/.wh.b"), Some(Whiteout::Entry("/b".into())));
        assert_eq!(
            found("./a/.wh..wh..opq"),
            Some(Whiteout::Folder(Path::new("./a")))
        );
        assert_eq!(found(".wh..wh.plnk/1.2"), None);
        assert!(is_marker(Path::new(".wh..wh.plnk/1.2")));
        assert!(!is_marker(Path::new("a/wh.b")));
        for hostile in ["a/.wh.", "a/.wh..", "a/.wh..."] {
            assert!(whiteout(Path::new(hostile)).is_err(), "{hostile}");
        }
    }
}
