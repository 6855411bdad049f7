//! Content on its way from files to a client.
//!
//! A task reads ahead by a few pieces and waits, without a thread, for the client to take them. A client that takes nothing for
//! `silence_max` is given up, which lets go of the files and of the sandbox. What is not complete ends as an
//! error, never as if it were.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::mpsc;

use super::failure::failure;
use super::path::Place;
use crate::error::{ApiError, Result};
use crate::machines::Machine;

/// What is read at once.
const PIECE_BYTES: u64 = 512 * 1024;
/// Pieces that wait for the client.
const PIECES_MAX: usize = 2;

/// A file to send, and how much of it.
#[derive(Debug)]
pub(super) struct OpenFile {
    file: File,
    pub(super) size_bytes: u64,
}

impl OpenFile {
    /// Opens a regular file; nothing else can be sent without waiting for somebody.
    pub(super) async fn open(machine: &Arc<Machine>, place: &Place) -> Result<Self> {
        let machine = Arc::clone(machine);
        let path = place.path.clone();
        let opened = tokio::task::spawn_blocking(move || machine.files()?.open_read(&path)).await?;
        let file = opened.map_err(|error| failure(place, error))?;
        let found = file.metadata().map_err(|error| {
            ApiError::internal(format!("could not inspect `{}`", place.given), error)
        })?;
        Ok(Self {
            file,
            size_bytes: found.len(),
        })
    }

    /// The next piece; nothing at the end. The file is given back.
    async fn read(mut self, left: u64) -> io::Result<(Self, Bytes)> {
        let read = move || {
            let wanted = left.min(PIECE_BYTES);
            let mut piece = Vec::with_capacity(usize::try_from(wanted).unwrap_or(0));
            (&mut self.file).take(wanted).read_to_end(&mut piece)?;
            Ok((self, Bytes::from(piece)))
        };
        tokio::task::spawn_blocking(read).await?
    }
}

/// The client went away, takes nothing, or cannot be given what it was promised.
#[derive(Debug)]
pub(super) struct Gone;

enum Message {
    Piece(Bytes),
    End,
}

/// The sending side of a body.
pub(super) struct Outgoing {
    sender: mpsc::Sender<Message>,
    silence_max: Duration,
}

/// A body, and what fills it.
pub(super) fn body(silence_max: Duration) -> (Outgoing, Body) {
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    let pieces = stream::unfold(Some(receiver), |receiver| async {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Message::Piece(piece)) => Some((Ok(piece), Some(receiver))),
            Some(Message::End) => None,
            None => Some((Err(io::Error::from(io::ErrorKind::UnexpectedEof)), None)),
        }
    });
    let outgoing = Outgoing {
        sender,
        silence_max,
    };
    (outgoing, Body::from_stream(pieces))
}

impl Outgoing {
    pub(super) async fn send(&self, piece: Bytes) -> std::result::Result<(), Gone> {
        self.pass(Message::Piece(piece)).await
    }

    /// Sends as much as was there when the file was opened.
    pub(super) async fn send_file(&self, file: OpenFile) -> std::result::Result<(), Gone> {
        let mut left = file.size_bytes;
        let mut file = file;
        while left > 0 {
            let (again, piece) = file.read(left).await.map_err(|_unreadable| Gone)?;
            if piece.is_empty() {
                // The file became shorter: its announced length cannot be kept.
                return Err(Gone);
            }
            file = again;
            left -= u64::try_from(piece.len()).unwrap_or(left).min(left);
            self.send(piece).await?;
        }
        Ok(())
    }

    /// Says that everything was sent.
    pub(super) async fn finish(self) -> std::result::Result<(), Gone> {
        self.pass(Message::End).await
    }

    async fn pass(&self, message: Message) -> std::result::Result<(), Gone> {
        match tokio::time::timeout(self.silence_max, self.sender.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }
}
