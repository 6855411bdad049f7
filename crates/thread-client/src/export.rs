//! A thread in one file: a line that says what it is, a line for each entry, a line that says that this was all.
//!
//! ```text
//! {"holm":"thread-export","version":1,"thread":{…}}
//! {"id":…,"ts":…,"payload":…}
//! {"holm":"thread-export-end","entries":1,"nextOffset":"…","thread":{…},"sha256":"…"}
//! ```
//!
//! The first line has the thread as it was when the export began, the last one as it was behind the last entry: others may write
//! meanwhile. The checksum is of all lines before the last, line ends included, and of the last one's thread and offset. It
//! comes last so that a file can be written as it is read from the server; a file without that line was cut off.

use std::io::{self, BufRead, Read as _, Write};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::threads::Thread;

const VERSION: u32 = 1;
const HEADER: &str = "thread-export";
const END: &str = "thread-export-end";
/// An entry has at most 1 MiB; more is no export.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExportHeader {
    holm: String,
    version: u32,
    /// The thread as the server told of it when the export began.
    pub thread: Thread,
}

/// The last line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportEnd {
    holm: String,
    pub entries: u64,
    /// Where the thread goes on.
    pub next_offset: String,
    /// The thread as its entries in this file make it.
    pub thread: Thread,
    pub sha256: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("could not read the export")]
    Read(#[source] io::Error),
    #[error("could not write the export")]
    Write(#[source] io::Error),
    #[error("this is no export of a thread")]
    NoExport,
    #[error("the export is of version {found}, and this program knows version {VERSION}")]
    Version { found: u32 },
    #[error("line {line} is longer than any entry")]
    LineTooLong { line: u64 },
    #[error("the export was cut off: its last line is missing")]
    CutOff,
    #[error("the export was changed: its checksum is `{found}`, and not `{expected}`")]
    Checksum { found: String, expected: String },
    #[error("the export has {found} entries, and not {expected}")]
    Count { found: u64, expected: u64 },
}

/// Writes an export, line by line.
#[derive(Debug)]
pub struct ExportWriter<W> {
    out: W,
    checksum: Sha256,
    entries: u64,
}

impl<W: Write> ExportWriter<W> {
    pub fn begin(out: W, thread: Thread) -> Result<Self, ExportError> {
        let mut writer = Self {
            out,
            checksum: Sha256::new(),
            entries: 0,
        };
        let header = ExportHeader {
            holm: HEADER.to_owned(),
            version: VERSION,
            thread,
        };
        let line = to_line(&header)?;
        writer.line(&line)?;
        Ok(writer)
    }

    pub fn entry(&mut self, entry: &Bytes) -> Result<(), ExportError> {
        // A line end in JSON can only be white space.
        let line: Vec<u8> = entry
            .iter()
            .map(|byte| match byte {
                b'\n' | b'\r' => b' ',
                other => *other,
            })
            .collect();
        self.entries += 1;
        self.line(&line)
    }

    /// Says that this was all, and what the thread is then. Gives the file back.
    pub fn end(mut self, thread: Thread) -> Result<(W, ExportEnd), ExportError> {
        let mut end = ExportEnd {
            holm: END.to_owned(),
            entries: self.entries,
            next_offset: thread.stream.next_offset.clone(),
            thread,
            sha256: String::new(),
        };
        end.sha256 = finish(&mut self.checksum, &end)?;
        let line = to_line(&end)?;
        self.line(&line)?;
        self.out.flush().map_err(ExportError::Write)?;
        Ok((self.out, end))
    }

    fn line(&mut self, line: &[u8]) -> Result<(), ExportError> {
        for bytes in [line, b"\n"] {
            self.checksum.update(bytes);
            self.out.write_all(bytes).map_err(ExportError::Write)?;
        }
        Ok(())
    }
}

/// The checksum, with what the last line says.
fn finish(checksum: &mut Sha256, end: &ExportEnd) -> Result<String, ExportError> {
    checksum.update(to_line(&end.thread)?);
    checksum.update(&end.next_offset);
    Ok(hex(&checksum.finalize_reset()))
}

fn to_line(value: &impl Serialize) -> Result<Vec<u8>, ExportError> {
    serde_json::to_vec(value).map_err(|error| ExportError::Write(error.into()))
}

/// Reads an export, line by line. It is whole only when [`ExportReader::next_entry`] has said so by `Ok(None)`.
#[derive(Debug)]
pub struct ExportReader<R> {
    input: R,
    header: ExportHeader,
    /// Of the lines before the one that was read ahead.
    checksum: Sha256,
    /// Read, and not known yet whether it is the last one.
    ahead: Option<Vec<u8>>,
    lines: u64,
    entries: u64,
    end: Option<ExportEnd>,
}

impl<R: BufRead> ExportReader<R> {
    pub fn open(mut input: R) -> Result<Self, ExportError> {
        let first = read_line(&mut input, 1)?.ok_or(ExportError::NoExport)?;
        #[derive(Deserialize)]
        struct Mark {
            holm: String,
            version: u32,
        }
        let mark: Mark = serde_json::from_slice(&first).map_err(|_| ExportError::NoExport)?;
        if mark.holm != HEADER {
            return Err(ExportError::NoExport);
        }
        if mark.version != VERSION {
            return Err(ExportError::Version {
                found: mark.version,
            });
        }
        let header = serde_json::from_slice(&first).map_err(|_| ExportError::NoExport)?;
        let mut checksum = Sha256::new();
        checksum.update(&first);
        let ahead = read_line(&mut input, 2)?;
        Ok(Self {
            input,
            header,
            checksum,
            ahead,
            lines: 2,
            entries: 0,
            end: None,
        })
    }

    pub fn header(&self) -> &ExportHeader {
        &self.header
    }

    /// The last line, when it was reached.
    pub fn end(&self) -> Option<&ExportEnd> {
        self.end.as_ref()
    }

    /// The next entry. `None`: that was all, and it is what was written.
    pub fn next_entry(&mut self) -> Result<Option<Bytes>, ExportError> {
        let Some(line) = self.ahead.take() else {
            return Err(ExportError::CutOff);
        };
        self.lines += 1;
        self.ahead = read_line(&mut self.input, self.lines)?;
        if self.ahead.is_none() {
            return self.check_end(&line).map(|()| None);
        }
        self.checksum.update(&line);
        self.entries += 1;
        let entry = line.strip_suffix(b"\n").unwrap_or(&line);
        Ok(Some(Bytes::copy_from_slice(entry)))
    }

    fn check_end(&mut self, line: &[u8]) -> Result<(), ExportError> {
        let end: ExportEnd = serde_json::from_slice(line).map_err(|_| ExportError::CutOff)?;
        if end.holm != END {
            return Err(ExportError::CutOff);
        }
        let found = finish(&mut self.checksum, &end)?;
        if found != end.sha256 {
            return Err(ExportError::Checksum {
                found,
                expected: end.sha256,
            });
        }
        if self.entries != end.entries {
            return Err(ExportError::Count {
                found: self.entries,
                expected: end.entries,
            });
        }
        self.end = Some(end);
        Ok(())
    }
}

/// A line with its end; `None` at the end of the file.
fn read_line(input: &mut impl BufRead, number: u64) -> Result<Option<Vec<u8>>, ExportError> {
    let mut line = Vec::new();
    let read = input.take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
    let count = read.map_err(ExportError::Read)?;
    if count == 0 {
        return Ok(None);
    }
    if line.last() != Some(&b'\n')
        && u64::try_from(count).is_ok_and(|count| count >= LINE_BYTES_MAX)
    {
        return Err(ExportError::LineTooLong { line: number });
    }
    Ok(Some(line))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread() -> Thread {
        serde_json::from_str(
            r#"{"id":"1","status":"open","createdAt":"a","updatedAt":"b",
                "stream":{"path":"/v1/stream/x","nextOffset":"0","closed":false}}"#,
        )
        .unwrap()
    }

    fn exported() -> Vec<u8> {
        let mut writer = ExportWriter::begin(Vec::new(), thread()).unwrap();
        // One that would be taken for the last line, if it were the last.
        for entry in [
            "{\"id\":\n1}",
            "{\"holm\":\"thread-export-end\",\"entries\":0}",
        ] {
            writer.entry(&Bytes::from(entry)).unwrap();
        }
        writer.end(thread()).unwrap().0
    }

    fn read(bytes: &[u8]) -> Result<Vec<Bytes>, ExportError> {
        let mut reader = ExportReader::open(bytes)?;
        let mut entries = Vec::new();
        while let Some(entry) = reader.next_entry()? {
            entries.push(entry);
        }
        Ok(entries)
    }

    #[test]
    fn what_is_written_is_read() {
        let entries = read(&exported()).unwrap();
        assert_eq!(entries[0], "{\"id\": 1}");
        assert_eq!(entries.len(), 2);
    }

    #[test]
    fn a_file_that_was_cut_or_changed_anywhere_is_found_out() {
        let whole = exported();
        // Without its very last line end it is still all there.
        for length in 0..whole.len() - 1 {
            assert!(read(&whole[..length]).is_err(), "cut at {length}");
        }
        let end = whole.iter().rposition(|byte| *byte == b'}').unwrap();
        for at in 0..end {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(read(&changed).is_err(), "changed at {at}");
        }
    }

    #[test]
    fn other_files_are_no_exports() {
        for text in [
            "",
            "\n",
            "{}\n",
            "hello\n",
            "{\"holm\":\"x\",\"version\":1}\n",
        ] {
            assert!(
                matches!(read(text.as_bytes()), Err(ExportError::NoExport)),
                "{text}"
            );
        }
        let newer = "{\"holm\":\"thread-export\",\"version\":2}\n";
        let found = read(newer.as_bytes());
        assert!(
            matches!(found, Err(ExportError::Version { found: 2 })),
            "{found:?}"
        );
        let long = format!("{{\"holm\":\"{}", "x".repeat(5 << 20));
        let found = read(long.as_bytes());
        assert!(
            matches!(found, Err(ExportError::LineTooLong { line: 1 })),
            "{found:?}"
        );
    }
}
