//! Content on its way from a client into a file.
//!
//! Bytes are gathered while the last batch is being written, and no thread waits for the client: a slow one costs the server
//! a connection and two batches. One that sends nothing for `silence_max` is given up. A file that does not
//! get to its end leaves the old one.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt as _;
use holm_daytona_wire::error::ErrorCode;
use holm_sandbox_linux::files::{FilesError, StagedFile, WriteOptions};
use tokio::task::JoinHandle;

use super::failure::failure;
use super::path::Place;
use crate::error::{ApiError, Result};
use crate::machines::Machine;

/// What is written at once.
const BATCH_BYTES: usize = 1024 * 1024;

/// A request's body.
#[derive(Debug)]
pub(super) struct Incoming {
    stream: axum::body::BodyDataStream,
    silence_max: Duration,
}

impl Incoming {
    pub(super) fn new(body: Body, silence_max: Duration) -> Self {
        Self {
            stream: body.into_data_stream(),
            silence_max,
        }
    }

    /// The next bytes, or nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>> {
        match tokio::time::timeout(self.silence_max, self.stream.next()).await {
            Ok(Some(Ok(bytes))) => Ok(Some(bytes)),
            Ok(None) => Ok(None),
            Ok(Some(Err(error))) => {
                Err(ApiError::bad_request("the body ended in its middle").with_cause(error))
            }
            Err(_elapsed) => Err(ApiError::new(
                ErrorCode::RequestTimeout,
                format!("nothing arrived for {} seconds", self.silence_max.as_secs()),
            )),
        }
    }
}

type Written = std::result::Result<StagedFile, FilesError>;

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Upload {
    place: Place,
    /// Where the file is between two batches.
    resting: Option<StagedFile>,
    /// Where it is while a batch is written.
    writing: Option<JoinHandle<Written>>,
    batch: Vec<Bytes>,
    batch_bytes: usize,
}

impl Upload {
    pub(super) async fn begin(
        machine: &Arc<Machine>,
        place: Place,
        bytes_max: u64,
    ) -> Result<Self> {
        let path = place.path.clone();
        let options = WriteOptions {
            bytes_max: Some(bytes_max),
            ..WriteOptions::default()
        };
        let machine = Arc::clone(machine);
        let staged =
            tokio::task::spawn_blocking(move || machine.files()?.stage(&path, options)).await?;
        match staged {
            Ok(staged) => Ok(Self {
                place,
                resting: Some(staged),
                writing: None,
                batch: Vec::new(),
                batch_bytes: 0,
            }),
            Err(error) => Err(failure(&place, error)),
        }
    }

    pub(super) async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.batch_bytes += bytes.len();
        self.batch.push(bytes);
        if self.batch_bytes < BATCH_BYTES {
            return Ok(());
        }
        self.flush().await
    }

    /// Puts the file in its place. Returns its size.
    pub(super) async fn finish(mut self) -> Result<u64> {
        self.flush().await?;
        let Some(staged) = self.rest().await? else {
            return Ok(0);
        };
        tokio::task::spawn_blocking(move || staged.commit())
            .await?
            .map_err(|error| failure(&self.place, error))
    }

    /// Begins to write the batch once the last one is written.
    async fn flush(&mut self) -> Result<()> {
        let Some(mut staged) = self.rest().await? else {
            return Ok(());
        };
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        self.writing = Some(tokio::task::spawn_blocking(move || {
            for piece in &batch {
                staged.write(piece)?;
            }
            Ok(staged)
        }));
        Ok(())
    }

    /// The file, when nothing is being written to it.
    async fn rest(&mut self) -> Result<Option<StagedFile>> {
        if let Some(staged) = self.resting.take() {
            return Ok(Some(staged));
        }
        let Some(writing) = self.writing.take() else {
            return Ok(None);
        };
        let written = writing.await?;
        written
            .map(Some)
            .map_err(|error| failure(&self.place, error))
    }
}

impl Drop for Upload {
    /// Removing what was begun is work for a thread that may block.
    fn drop(&mut self) {
        if let Some(staged) = self.resting.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            drop(runtime.spawn_blocking(move || drop(staged)));
        }
    }
}
