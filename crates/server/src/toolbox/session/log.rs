//! The log of one command: a file on the host in the marker format, written by one, read and followed by many.
//!
//! Nothing of a log is kept in memory. A reader is told how long the file is and whether the command has ended, and
//! reads the file itself. What a background process writes after the end of its command is logged too.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use holm_daytona_wire::log::{Demultiplexer, Multiplexer, Piece, Stream};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::sync::watch;

/// What one command may log.
const BYTES_MAX: u64 = 256 * 1024 * 1024;
/// What all commands of a session may log together.
const SESSION_BYTES_MAX: u64 = 1024 * 1024 * 1024;
const NOTE: &str = "\n[truncated: the log of this command is full]\n";
const CHUNK_BYTES: usize = 64 * 1024;

/// How much the logs of one session hold.
#[derive(Debug, Default)]
pub(super) struct Budget {
    used: AtomicU64,
}

impl Budget {
    pub(super) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// How far a log has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) bytes: u64,
    pub(super) command: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    Ended,
}

#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    budget: Arc<Budget>,
    writer: Mutex<Writer>,
    progress: watch::Sender<Progress>,
}

#[derive(Debug)]
struct Writer {
    file: fs::File,
    multiplexer: Multiplexer,
    is_full: bool,
}

impl Log {
    /// Opens the log at `path`, new or of an earlier life of the server.
    pub(super) fn open(path: PathBuf, budget: Arc<Budget>, command: Phase) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)?;
        let bytes = file.metadata()?.len();
        let mut multiplexer = Multiplexer::default();
        if bytes > 0 {
            file.seek(SeekFrom::End(-1))?;
            let mut last = [0];
            file.read_exact(&mut last)?;
            // It has to know the byte that its next marker follows.
            drop(multiplexer.append(Stream::Stdout, &last));
        }
        budget.used.fetch_add(bytes, Ordering::Relaxed);
        Ok(Self {
            path,
            budget,
            writer: Mutex::new(Writer {
                file,
                multiplexer,
                is_full: bytes >= BYTES_MAX,
            }),
            progress: watch::Sender::new(Progress { bytes, command }),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn bytes(&self) -> u64 {
        self.progress.borrow().bytes
    }

    pub(super) fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// No more is to be waited for.
    pub(super) fn end(&self) {
        self.progress
            .send_modify(|progress| progress.command = Phase::Ended);
    }

    /// Appends output in one write. What does not fit is dropped, and that is said once.
    pub(super) async fn append(self: &Arc<Self>, stream: Stream, output: &[u8]) {
        if output.is_empty() {
            return;
        }
        let (log, output) = (Arc::clone(self), output.to_vec());
        let appended = tokio::task::spawn_blocking(move || log.append_blocking(stream, &output));
        if let Err(error) = appended.await {
            tracing::error!(log = %self.path.display(), %error, "a log was not written");
        }
    }

    fn append_blocking(&self, stream: Stream, output: &[u8]) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.is_full {
            return;
        }
        let mut chunk = writer.multiplexer.append(stream, output);
        let added = |chunk: &Vec<u8>| u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        let bytes = self.progress.borrow().bytes;
        let of_session = self.budget.used.load(Ordering::Relaxed);
        if bytes.saturating_add(added(&chunk)) > BYTES_MAX
            || of_session.saturating_add(added(&chunk)) > SESSION_BYTES_MAX
        {
            writer.is_full = true;
            chunk = Multiplexer::default().append(Stream::Stderr, NOTE.as_bytes());
        }
        let written = writer.file.write_all(&chunk);
        // What is there counts, however much of the chunk it is.
        let length = writer.file.metadata().map_or(bytes, |found| found.len());
        if let Err(error) = written {
            // The host's disk is full: the command goes on, its log does not.
            writer.is_full = true;
            tracing::error!(log = %self.path.display(), %error, "a log cannot be written");
        }
        self.budget
            .used
            .fetch_add(length.saturating_sub(bytes), Ordering::Relaxed);
        self.progress
            .send_modify(|progress| progress.bytes = length);
    }

    /// The log from its beginning, up to so many bytes, and whether that is all.
    pub(super) async fn read(&self, bytes_max: usize) -> io::Result<(Vec<u8>, Completeness)> {
        let here = self.bytes();
        let wanted = here.min(u64::try_from(bytes_max).unwrap_or(u64::MAX));
        let mut log = Vec::new();
        File::open(&self.path)
            .await?
            .take(wanted)
            .read_to_end(&mut log)
            .await?;
        let completeness = if wanted < here {
            Completeness::Truncated
        } else {
            Completeness::Whole
        };
        Ok((log, completeness))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Completeness {
    Whole,
    Truncated,
}

/// Reads a log while it is written, in pieces of one stream each.
#[derive(Debug)]
pub(super) struct Follower {
    file: File,
    offset: u64,
    progress: watch::Receiver<Progress>,
    demultiplexer: Option<Demultiplexer>,
}

impl Follower {
    pub(super) async fn of(log: &Log) -> io::Result<Self> {
        Ok(Self {
            file: File::open(log.path()).await?,
            offset: 0,
            progress: log.watch(),
            demultiplexer: Some(Demultiplexer::default()),
        })
    }

    /// The next output; none when the command has ended and all of it was told. May be cancelled.
    pub(super) async fn next(&mut self) -> io::Result<Option<Vec<Piece>>> {
        loop {
            let progress = *self.progress.borrow_and_update();
            if self.offset < progress.bytes {
                let pieces = self.read_up_to(progress.bytes).await?;
                if !pieces.is_empty() {
                    return Ok(Some(pieces));
                }
                continue;
            }
            let is_over = match progress.command {
                Phase::Ended => true,
                // A log that nobody writes any more has ended.
                Phase::Open => self.progress.changed().await.is_err(),
            };
            if is_over {
                let last = self.demultiplexer.take().map(Demultiplexer::finish);
                return Ok(last.filter(|pieces| !pieces.is_empty()));
            }
        }
    }

    async fn read_up_to(&mut self, bytes: u64) -> io::Result<Vec<Piece>> {
        let chunk_bytes = u64::try_from(CHUNK_BYTES).unwrap_or(u64::MAX);
        let count = usize::try_from((bytes - self.offset).min(chunk_bytes)).unwrap_or(CHUNK_BYTES);
        let mut chunk = vec![0; count];
        self.file.seek(SeekFrom::Start(self.offset)).await?;
        self.file.read_exact(&mut chunk).await?;
        self.offset += u64::try_from(count).unwrap_or_default();
        let demultiplexer = self.demultiplexer.get_or_insert_default();
        Ok(demultiplexer.push(&chunk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(folder: &tempfile::TempDir) -> Arc<Log> {
        let path = folder.path().join("log");
        Arc::new(Log::open(path, Arc::default(), Phase::Open).unwrap())
    }

    async fn followed(log: &Log) -> (Vec<u8>, Vec<u8>) {
        let mut follower = Follower::of(log).await.unwrap();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        while let Some(pieces) = follower.next().await.unwrap() {
            for piece in pieces {
                match piece.stream {
                    Stream::Stdout => stdout.extend(piece.bytes),
                    Stream::Stderr => stderr.extend(piece.bytes),
                }
            }
        }
        (stdout, stderr)
    }

    #[tokio::test]
    async fn a_follower_reads_what_was_written_and_ends_with_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(&folder);
        log.append(Stream::Stdout, b"a\x01").await;
        let following = tokio::spawn({
            let log = Arc::clone(&log);
            async move { followed(&log).await }
        });
        log.append(Stream::Stderr, &[1; 200_000]).await;
        log.append(Stream::Stdout, b"\x01b\x02").await;
        log.end();
        let expected = (b"a\x01\x01b\x02".to_vec(), vec![1; 200_000]);
        assert_eq!(following.await.unwrap(), expected);
        assert_eq!(followed(&log).await, expected);
    }

    #[tokio::test]
    async fn a_log_goes_on_where_another_life_left_it() {
        let folder = tempfile::tempdir().unwrap();
        log(&folder).append(Stream::Stdout, b"ends with \x01").await;
        let log = log(&folder);
        log.append(Stream::Stdout, b"more").await;
        log.end();
        assert_eq!(followed(&log).await.0, b"ends with \x01more");
    }

    #[tokio::test]
    async fn a_full_log_says_so_once() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(&folder);
        log.budget.used.store(SESSION_BYTES_MAX, Ordering::Relaxed);
        log.append(Stream::Stdout, b"too much").await;
        log.append(Stream::Stdout, b"too much").await;
        log.end();
        assert_eq!(followed(&log).await, (Vec::new(), NOTE.into()));
    }
}
