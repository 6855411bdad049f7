//! Finds out how an archive is compressed, by its first bytes, and undoes it.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::error::{ImagesError, Result};

const BUFFER_BYTES: usize = 256 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Zstd,
    Unsupported(&'static str),
}

fn detect(start: &[u8]) -> Compression {
    match start {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
        // A frame that decoders skip; some writers begin with one.
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Unsupported("xz"),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Compression::Unsupported("bzip2"),
        [b'P', b'K', 3, 4, ..] => Compression::Unsupported("zip"),
        _ => Compression::None,
    }
}

/// Reads `file` from its beginning as a plain stream. `path` is for errors.
pub(crate) fn decompress(mut file: File, path: &Path) -> Result<Box<dyn Read>> {
    let mut start = Vec::new();
    file.seek(SeekFrom::Start(0))
        .and_then(|_| (&file).take(8).read_to_end(&mut start))
        .and_then(|_| file.seek(SeekFrom::Start(0)))
        .map_err(ImagesError::io("read", path))?;
    let buffered = BufReader::with_capacity(BUFFER_BYTES, file);
    Ok(match detect(&start) {
        Compression::None => Box::new(buffered),
        Compression::Gzip => Box::new(MultiGzDecoder::new(buffered)),
        Compression::Zstd => Box::new(
            zstd::stream::read::Decoder::with_buffer(buffered)
                .map_err(ImagesError::io("decompress", path))?,
        ),
        Compression::Unsupported(format) => {
            return Err(ImagesError::UnsupportedCompression {
                path: path.to_path_buf(),
                format,
            });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell() {
        let cases = [
            (b"\x1f\x8b\x08".as_slice(), Compression::Gzip),
            (b"\x28\xb5\x2f\xfd", Compression::Zstd),
            (b"\x5e\x2a\x4d\x18", Compression::Zstd),
            (b"\xfd7zXZ\0", Compression::Unsupported("xz")),
            (b"BZh9", Compression::Unsupported("bzip2")),
            (b"./\0\0", Compression::None),
            (b"", Compression::None),
        ];
        for (start, wanted) in cases {
            assert_eq!(detect(start), wanted, "{start:?}");
        }
    }
}
