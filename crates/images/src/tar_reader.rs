//! Reads a tar archive that an attacker may have made: entry after entry, every buffer bounded.
//!
//! The `tar` crate decodes the fields of a header; names and pax headers of any length, which it would
//! read into memory, are our own work. Understood are the v7, ustar, GNU and pax formats. Sparse files are
//! refused: no image builder writes them.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::error::{ImagesError, Result};
use crate::pax;

const BLOCK_BYTES: usize = 512;
/// The kernel's own limit for a path.
const NAME_BYTES_MAX: u64 = 4096;
/// Some extended attributes of 64 KiB, and names.
const PAX_BYTES_MAX: u64 = 1 << 20;
/// Headers in a row that are about the entry after them; honest writers need three.
const HEADERS_AHEAD_MAX: usize = 8;
const CHECKSUM_FIELD: std::ops::Range<usize> = 148..156;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    HardLink(PathBuf),
    Symlink(PathBuf),
    Folder,
    Fifo,
    Device,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: PathBuf,
    pub(crate) kind: EntryKind,
    pub(crate) mode: u32,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) mtime: (i64, u32),
    pub(crate) size: u64,
    pub(crate) xattrs: Vec<(String, Vec<u8>)>,
}

/// How the archive came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    NotYet,
    /// By the block of zeros that every writer appends.
    Marker,
    /// By the end of the stream; perhaps it was cut off.
    Stream,
}

#[derive(Debug)]
pub(crate) struct TarReader<R> {
    stream: R,
    content_left: u64,
    padding: u64,
    end: End,
}

/// What headers before an entry say about it.
#[derive(Debug, Default)]
struct Ahead {
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    pax: Option<Vec<u8>>,
}

impl<R: Read> TarReader<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self {
            stream,
            content_left: 0,
            padding: 0,
            end: End::NotYet,
        }
    }

    pub(crate) fn end(&self) -> End {
        self.end
    }

    /// What comes after the archive.
    pub(crate) fn into_stream(self) -> R {
        self.stream
    }

    /// The next entry; what was not read of the previous one's content is skipped.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>> {
        let mut ahead = Ahead::default();
        for _ in 0..=HEADERS_AHEAD_MAX {
            self.skip_content()?;
            let Some(block) = self.read_header()? else {
                return Ok(None);
            };
            let header = tar::Header::from_byte_slice(&block);
            match header.entry_type().as_byte() {
                b'L' => ahead.long_name = Some(self.read_text(header, NAME_BYTES_MAX)?),
                b'K' => ahead.long_link = Some(self.read_text(header, NAME_BYTES_MAX)?),
                b'x' => ahead.pax = Some(self.read_text(header, PAX_BYTES_MAX)?),
                b'g' => {
                    let global = self.read_text(header, PAX_BYTES_MAX)?;
                    refuse_meaningful_globals(&global)?;
                }
                _ => return self.entry(header, ahead).map(Some),
            }
        }
        Err(ImagesError::broken("too many headers describe one entry"))
    }

    fn entry(&mut self, header: &tar::Header, ahead: Ahead) -> Result<Entry> {
        let mut name = ahead
            .long_name
            .unwrap_or_else(|| header.path_bytes().into_owned());
        let mut link = ahead.long_link.unwrap_or_else(|| {
            header
                .link_name_bytes()
                .map(std::borrow::Cow::into_owned)
                .unwrap_or_default()
        });
        let field = |what: &str| {
            let what = what.to_owned();
            move |_: io::Error| ImagesError::broken(format!("a header's {what} is not a number"))
        };
        let mut size = header.entry_size().map_err(field("size"))?;
        let mut uid = header.uid().map_err(field("user id"))?;
        let mut gid = header.gid().map_err(field("group id"))?;
        let mode = header.mode().map_err(field("mode"))? & 0o7777;
        // Times before 1970 are written in a form that the decoder does not know; nobody misses them.
        let seconds = header.mtime().unwrap_or_default();
        let mut mtime = (i64::try_from(seconds).unwrap_or_default(), 0);
        let mut xattrs = Vec::new();
        let pax = ahead.pax.unwrap_or_default();
        for (key, value) in pax::records(&pax)? {
            match key {
                "path" => name = value.to_vec(),
                "linkpath" => link = value.to_vec(),
                "size" => size = pax::number(key, value)?,
                "uid" => uid = pax::number(key, value)?,
                "gid" => gid = pax::number(key, value)?,
                "mtime" => mtime = pax::time(key, value)?,
                _ if key.starts_with("GNU.sparse.") => return Err(refuse_sparse(&name)),
                _ => {
                    if let Some(attribute) = key.strip_prefix("SCHILY.xattr.") {
                        xattrs.push((attribute.to_owned(), value.to_vec()));
                    }
                }
            }
        }
        let kind = match header.entry_type().as_byte() {
            // Before there was a type for folders, they ended in a slash.
            b'0' | 0 | b'7' if name.ends_with(b"/") => EntryKind::Folder,
            b'0' | 0 | b'7' => EntryKind::File,
            b'1' => EntryKind::HardLink(path(link)?),
            b'2' => EntryKind::Symlink(path(link)?),
            b'3' | b'4' => EntryKind::Device,
            b'5' => EntryKind::Folder,
            b'6' => EntryKind::Fifo,
            b'S' => return Err(refuse_sparse(&name)),
            other => {
                return Err(ImagesError::EntryRefused {
                    name: String::from_utf8_lossy(&name).into_owned(),
                    reason: format!("unknown type {:?}", char::from(other)),
                });
            }
        };
        // Only files have content, whatever the header of another entry says; Go's reader, and
        // with it docker, does the same.
        if kind != EntryKind::File {
            size = 0;
        }
        self.expect_content(size);
        Ok(Entry {
            name: path(name)?,
            kind,
            mode,
            uid,
            gid,
            mtime,
            size,
            xattrs,
        })
    }

    /// Reads from the content of the current entry.
    pub(crate) fn read_content(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let wanted = usize::try_from(self.content_left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let Some(buffer) = buffer.get_mut(..wanted).filter(|part| !part.is_empty()) else {
            return Ok(0);
        };
        let count = self.stream.read(buffer).map_err(read_failed)?;
        if count == 0 {
            return Err(cut_off());
        }
        self.content_left = self.content_left.saturating_sub(count as u64);
        Ok(count)
    }

    fn expect_content(&mut self, size: u64) {
        self.content_left = size;
        let block = BLOCK_BYTES as u64;
        self.padding = (block - size % block) % block;
    }

    fn skip_content(&mut self) -> Result<()> {
        for count in [&mut self.content_left, &mut self.padding] {
            let wanted = std::mem::take(count);
            let skipped = io::copy(&mut (&mut self.stream).take(wanted), &mut io::sink())
                .map_err(read_failed)?;
            if skipped < wanted {
                return Err(cut_off());
            }
        }
        Ok(())
    }

    /// The next block, if it is a header.
    fn read_header(&mut self) -> Result<Option<[u8; BLOCK_BYTES]>> {
        if self.end != End::NotYet {
            return Ok(None);
        }
        let mut block = [0; BLOCK_BYTES];
        let mut filled = 0;
        while let Some(rest) = block.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.stream.read(rest).map_err(read_failed)? {
                0 if filled == 0 => {
                    self.end = End::Stream;
                    return Ok(None);
                }
                0 => return Err(cut_off()),
                count => filled += count,
            }
        }
        if block.iter().all(|byte| *byte == 0) {
            self.end = End::Marker;
            return Ok(None);
        }
        let sum: u32 = block
            .iter()
            .enumerate()
            .map(|(index, byte)| {
                let is_checksum = CHECKSUM_FIELD.contains(&index);
                u32::from(if is_checksum { b' ' } else { *byte })
            })
            .sum();
        let written = tar::Header::from_byte_slice(&block).cksum();
        if written.ok() != Some(sum) {
            return Err(ImagesError::broken(
                "it is no tar archive, or a header was damaged (wrong checksum)",
            ));
        }
        Ok(Some(block))
    }

    /// The content of a header that is about the next entry, without the NUL at its end.
    fn read_text(&mut self, header: &tar::Header, bytes_max: u64) -> Result<Vec<u8>> {
        let size = header
            .entry_size()
            .map_err(|_| ImagesError::broken("a header's size is not a number"))?;
        if size > bytes_max {
            return Err(ImagesError::broken(format!(
                "a name or pax header of {size} bytes, more than {bytes_max}"
            )));
        }
        self.expect_content(size);
        let mut text = Vec::new();
        (&mut self.stream)
            .take(size)
            .read_to_end(&mut text)
            .map_err(read_failed)?;
        if (text.len() as u64) < size {
            return Err(cut_off());
        }
        self.content_left = 0;
        if text.last() == Some(&0) {
            text.pop();
        }
        Ok(text)
    }
}

fn path(bytes: Vec<u8>) -> Result<PathBuf> {
    if bytes.contains(&0) || bytes.len() as u64 >= NAME_BYTES_MAX {
        let shown = bytes.get(..bytes.len().min(64)).unwrap_or_default();
        return Err(ImagesError::EntryRefused {
            name: String::from_utf8_lossy(shown).into_owned(),
            reason: "its name is too long or has a NUL byte".into(),
        });
    }
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}

/// `git archive` writes a comment as a global header; one that changes entries is not seen in practice.
fn refuse_meaningful_globals(header: &[u8]) -> Result<()> {
    let meaningful = ["path", "linkpath", "size", "uid", "gid", "mtime"];
    for (key, _) in pax::records(header)? {
        if meaningful.contains(&key) || key.starts_with("SCHILY.") || key.starts_with("GNU.") {
            return Err(ImagesError::broken(format!(
                "a global pax header changes `{key}` of all entries, which is not supported"
            )));
        }
    }
    Ok(())
}

fn refuse_sparse(name: &[u8]) -> ImagesError {
    ImagesError::EntryRefused {
        name: String::from_utf8_lossy(name).into_owned(),
        reason: "sparse files are not supported; pack the archive again without --sparse".into(),
    }
}

fn read_failed(source: io::Error) -> ImagesError {
    ImagesError::ReadArchive(source)
}

fn cut_off() -> ImagesError {
    ImagesError::broken("it ends in the middle of an entry")
}
