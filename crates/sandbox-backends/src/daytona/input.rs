//! What a command reads while it runs: chunks of it are uploaded, and the command's script is told about each.
//!
//! The input of a session's command carries lines of text only. So it carries the names of the chunks.

use std::io::Read;
use std::time::Duration;

use holm_daytona_client::{Result, Toolbox};
use tokio::sync::mpsc;

const CHUNK_BYTES: usize = 256 * 1024;
/// Between two tries to reach a command that does not read yet.
const PAUSE: Duration = Duration::from_millis(50);

/// Input on its way.
#[derive(Debug)]
pub(super) struct Feed {
    chunks: mpsc::Receiver<Vec<u8>>,
    files: String,
}

impl Feed {
    /// Reads on a thread of its own, which ends with the reader, or with the first chunk that nobody wants.
    pub(super) fn new(mut reader: Box<dyn Read + Send>, files: String) -> Self {
        let (sender, chunks) = mpsc::channel(1);
        std::thread::spawn(move || {
            let mut buffer = vec![0; CHUNK_BYTES];
            // What cannot be read has ended.
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                let chunk = buffer.get(..count).unwrap_or_default().to_vec();
                if sender.blocking_send(chunk).is_err() {
                    return;
                }
            }
        });
        Self { chunks, files }
    }

    /// Feeds a command to the end of its input, or to its own.
    pub(super) async fn run(self, toolbox: &Toolbox, session: &str, command: &str) {
        if let Err(error) = self.feed(toolbox, session, command).await {
            // It has ended, or will be told that its input has.
            tracing::debug!(%error, "a command takes no more input");
        }
    }

    async fn feed(mut self, toolbox: &Toolbox, session: &str, command: &str) -> Result<()> {
        let mut number = 0_u64;
        while let Some(chunk) = self.chunks.recv().await {
            number += 1;
            let path = format!("{}.{number}", self.files);
            toolbox.files().write(&path, chunk).await?;
            line(toolbox, session, command, &number.to_string()).await?;
        }
        line(toolbox, session, command, "end").await
    }
}

/// Types a line. A command that has only just been taken may not read yet, which servers tell by a conflict; it is asked
/// until it does, or has ended.
async fn line(toolbox: &Toolbox, session: &str, command: &str, text: &str) -> Result<()> {
    loop {
        match toolbox.sessions().input(session, command, text).await {
            Err(error) if error.is_conflict() => tokio::time::sleep(PAUSE).await,
            outcome => return outcome,
        }
    }
}
