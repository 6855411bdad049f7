//! Git's untracked cache, made for a checkout that will be seen at another path.
//!
//! The cache lets `git status` skip reading every folder of a tree that nobody has touched. It is bound
//! to the path of its work tree, and every sandbox has a path of its own: `…/harness-<runId>`. So the
//! index is written once for a path of the same length, and each sandbox gets a copy in which eight
//! digits are its own.
//!
//! The format is git's: an extension `UNTR`, a 32-bit length, and first in it a counted string
//! `Location <path>, system <name>` with a final NUL. An index that does not look like that is left
//! alone; git then reads the folders, as it always did.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use holm_sandbox::{Result, RunId};

use super::checkout::at;

const SIGNATURE: &[u8] = b"UNTR";

/// An index whose untracked cache belongs at `to`, and where the last eight bytes of that path are.
pub(crate) struct Relocated {
    pub(crate) index: Vec<u8>,
    pub(crate) offset: u64,
}

/// Moves the untracked cache of an index that has no checksum from one path to another.
pub(crate) fn relocate(index: &[u8], from: &Path, to: &Path) -> Option<Relocated> {
    let (from, to) = (from.as_os_str().as_bytes(), to.as_os_str().as_bytes());
    let needle = [b"Location ", from, b", system "].concat();
    let start = index
        .windows(needle.len())
        .rposition(|window| window == needle)?;
    let length = index.get(start..)?.iter().position(|byte| *byte == 0)? + 1;
    let count = variable_length(length);
    let header = start.checked_sub(count.len() + 8)?;
    if index.get(header..header + 4)? != SIGNATURE
        || index.get(start - count.len()..start)? != count
    {
        return None;
    }
    let size = u32::from_be_bytes(*index.get(header + 4..)?.first_chunk()?);

    let rest_of_text = index.get(start + b"Location ".len() + from.len()..start + length)?;
    let text = [b"Location ", to, rest_of_text].concat();
    let new_count = variable_length(text.len());
    let old_bytes = u32::try_from(count.len() + length).ok()?;
    let new_bytes = u32::try_from(new_count.len() + text.len()).ok()?;
    let new_size = size.checked_sub(old_bytes)?.checked_add(new_bytes)?;

    let mut moved = index.get(..header + 4)?.to_vec();
    moved.extend(new_size.to_be_bytes());
    moved.extend(&new_count);
    let digits_end = moved.len() + b"Location ".len() + to.len();
    moved.extend(&text);
    moved.extend(index.get(start + length..)?);
    Some(Relocated {
        index: moved,
        offset: u64::try_from(digits_end.checked_sub(8)?).ok()?,
    })
}

/// Git's encoding of a length: seven bits to a byte, the highest first, each step less one.
fn variable_length(value: usize) -> Vec<u8> {
    let low = |value: usize| u8::try_from(value & 0x7f).unwrap_or_default();
    let mut bytes = vec![low(value)];
    let mut rest = value >> 7;
    while rest != 0 {
        rest -= 1;
        bytes.insert(0, 0x80 | low(rest));
        rest >>= 7;
    }
    bytes
}

/// Copies the index of a checkout for one sandbox. Where the file system can share blocks, this costs
/// the same for any number of files.
pub(crate) fn copy_for(run_id: &RunId, from: &Path, to: &Path, offset: u64) -> Result<()> {
    let source = File::open(from).map_err(at("open", from))?;
    let copy = File::create_new(to).map_err(at("make", to))?;
    if rustix::fs::ioctl_ficlone(&copy, &source).is_err() {
        std::io::copy(&mut &source, &mut &copy).map_err(at("write", to))?;
    }
    copy.write_all_at(run_id.to_string().as_bytes(), offset)
        .map_err(at("write", to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index_at(path: &str) -> Vec<u8> {
        let text = [b"Location ", path.as_bytes(), b", system Linux\0"].concat();
        let mut body = variable_length(text.len());
        body.extend(&text);
        body.extend(b"the rest of the cache");
        let size = u32::try_from(body.len()).unwrap().to_be_bytes();
        [b"DIRC entries UNTR".as_slice(), &size, &body, b"LAST"].concat()
    }

    #[test]
    fn a_cache_moves_between_paths_of_any_length() {
        let long = format!("/data/{}", "x".repeat(150));
        for (from, to) in [
            ("/a", "/tmp/harness-00000000"),
            (&long, "/tmp/harness-00000000"),
        ] {
            let moved = relocate(&index_at(from), Path::new(from), Path::new(to)).unwrap();
            assert_eq!(moved.index, index_at(to));
            let digits = usize::try_from(moved.offset).unwrap();
            assert_eq!(&moved.index[digits..digits + 8], b"00000000");
        }
    }

    #[test]
    fn what_is_no_untracked_cache_is_left_alone() {
        let to = Path::new("/tmp/harness-00000000");
        assert!(relocate(b"DIRC", Path::new("/a"), to).is_none());
        assert!(relocate(&index_at("/b"), Path::new("/a"), to).is_none());
        let mut other = index_at("/a");
        other[13] = b'X';
        assert!(relocate(&other, Path::new("/a"), to).is_none());
    }

    #[test]
    fn lengths_are_encoded_as_git_does() {
        assert_eq!(variable_length(0), [0]);
        assert_eq!(variable_length(127), [127]);
        assert_eq!(variable_length(128), [0x80, 0]);
        assert_eq!(variable_length(16_511), [0xff, 0x7f]);
        assert_eq!(variable_length(16_512), [0x80, 0x80, 0]);
    }
}
