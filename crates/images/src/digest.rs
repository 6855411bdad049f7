//! SHA-256 digests as OCI writes them: `sha256:` and 64 hexadecimal digits.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::error::{ImagesError, Result};
use crate::watch::Watch;

const PREFIX: &str = "sha256:";
const HEX_DIGITS: usize = 64;
const PIECE_BYTES: usize = 256 * 1024;

/// A digest that is well formed, so it can be part of a path or an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Digest {
    hex: String,
}

impl Digest {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        text.strip_prefix(PREFIX)
            .filter(|hex| hex.len() == HEX_DIGITS && hex.bytes().all(is_digit))
            .map(|hex| Self {
                hex: hex.to_owned(),
            })
            .ok_or_else(|| {
                let shown: String = text.chars().take(80).collect();
                ImagesError::invalid(format!("digest `{shown}`"), "it is not a SHA-256 digest")
            })
    }

    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::finish(Sha256::new_with_prefix(bytes))
    }

    /// Of everything in a stream.
    pub(crate) fn of_stream(mut stream: impl Read, watch: &Watch<'_>) -> Result<Self> {
        let mut hasher = Sha256::new();
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            watch.check()?;
            match stream.read(&mut piece).map_err(ImagesError::ReadArchive)? {
                0 => return Ok(Self::finish(hasher)),
                count => hasher.update(piece.get(..count).unwrap_or_default()),
            }
        }
    }

    /// Of a file, which is then at its beginning.
    pub(crate) fn of_file(file: &mut File, path: &Path, watch: &Watch<'_>) -> Result<Self> {
        let found = Self::of_stream(&*file, watch)?;
        file.seek(SeekFrom::Start(0))
            .map_err(ImagesError::io("read", path))?;
        Ok(found)
    }

    /// Fails unless `found` is the same.
    pub(crate) fn expect(&self, found: &Self, what: &str) -> Result<()> {
        if self == found {
            return Ok(());
        }
        Err(ImagesError::DigestMismatch {
            what: what.to_owned(),
            expected: self.to_string(),
            found: found.to_string(),
        })
    }

    pub(crate) fn hex(&self) -> &str {
        &self.hex
    }

    fn finish(hasher: Sha256) -> Self {
        let hex = hasher
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self { hex }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PREFIX}{}", self.hex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_sha256_digests_are_accepted() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::parse(empty).unwrap(), Digest::of(b""));
        assert_eq!(Digest::of(b"").to_string(), empty);
        for hostile in [
            "",
            "sha256:",
            "sha256:../../../../etc/passwd",
            &empty.to_uppercase(),
            &empty[..70],
            &format!("{empty}0"),
            &empty.replace("sha256", "sha512"),
        ] {
            assert!(Digest::parse(hostile).is_err(), "{hostile}");
        }
    }
}
