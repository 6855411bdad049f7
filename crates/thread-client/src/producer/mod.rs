//! A writer that keeps its word.
//!
//! ```text
//! append ──▶ keeper (thread, owns the spool) ──▶ synced ──▶ promised
//!               │  ▲
//!      next batch  acknowledged
//!               ▼  │
//!            sender (task) ──▶ server, again and again until it is confirmed
//! ```
//!
//! - What [`Producer::append`] has accepted is stored by the server once, in order, whoever dies when; unless the producer
//!   is stopped for good ([`Stopped`]), and then it is still in the spool.
//! - An append whose caller died before the answer may have been accepted or not. [`Progress::accepted`] says how many entries
//!   were: whoever can count their entries knows where to go on.
//! - Dropping a producer stops sending at once. What is not confirmed is sent by the next one that opens the spool.

mod judge;
mod keeper;
mod sender;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holm_thread_log::{ContentType, ProducerId, StreamName};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::ClientError;
use crate::client::Client;
use crate::error::ApiError;
use crate::retry::BackOff;
use crate::spool::{Identity, Kind, Spool, SpoolError, SpoolLimits};

use keeper::Keeper;
use sender::Sender;

/// What a producer writes to, as whom, and where it keeps what is on its way.
#[derive(Debug, Clone)]
pub struct ProducerOptions {
    pub stream: StreamName,
    pub content_type: ContentType,
    /// A folder for this stream and producer alone.
    pub spool: PathBuf,
    /// `None`: a new spool makes one up. Name one if a token is bound to it.
    pub producer: Option<ProducerId>,
    pub limits: SpoolLimits,
    pub back_off: BackOff,
    pub if_forgotten: IfForgotten,
}

impl ProducerOptions {
    /// For a stream of JSON.
    pub fn json(stream: StreamName, spool: impl Into<PathBuf>) -> Self {
        Self {
            stream,
            content_type: ContentType::json(),
            spool: spool.into(),
            producer: None,
            limits: SpoolLimits::default(),
            back_off: BackOff::default(),
            if_forgotten: IfForgotten::Stop,
        }
    }
}

/// What to do when the server does not know what it has confirmed: it was set back, or the stream was made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfForgotten {
    Stop,
    /// Send what is not confirmed in a new epoch. A server that keeps producers and entries in one transaction, as Holm does,
    /// has none of it then; one that does not might get it twice.
    BeginAgain,
}

/// Where a producer is.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// How many entries this spool ever took over, in all its lives.
    pub accepted: u64,
    /// How many of them the server has confirmed.
    pub acknowledged: u64,
    pub pending_bytes: u64,
    /// Why nothing moves at the moment; it is tried again.
    pub trouble: Option<String>,
    /// Why nothing will move any more.
    pub stopped: Option<Stopped>,
}

/// Why a producer has stopped for good. What is not confirmed is still in its spool.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Stopped {
    #[error(
        "another producer with the same id has taken over: its epoch is {current}, ours {ours}"
    )]
    Fenced { ours: u64, current: u64 },
    #[error("the server has other entries under the numbers of this producer, from {seq} on")]
    Diverged { seq: u64 },
    #[error(
        "the server does not know what it has confirmed: it expects batch {expected}, and the next one is {next}"
    )]
    Forgotten { expected: u64, next: u64 },
    #[error("the stream is closed")]
    Closed,
    #[error(transparent)]
    Refused(ApiError),
    #[error("sending failed")]
    Failed {
        #[source]
        source: Arc<ClientError>,
    },
    #[error("the spool failed")]
    Spool {
        #[source]
        source: Arc<SpoolError>,
    },
}

impl Stopped {
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Fenced { .. } => {
                "two producers with one id, or two copies of one spool, write to this stream: end one of them. Opening the \
                 spool again takes over from the other"
            }
            Self::Diverged { .. } => {
                "a copy of this spool was used elsewhere: what it sent is there, what is in this one is not. Begin with a new folder"
            }
            Self::Forgotten { .. } => {
                "the stream was made anew, or the server was set back to an earlier state"
            }
            Self::Closed => "nothing can be appended any more; what is left stays in the spool",
            Self::Spool { source } => return source.hint(),
            Self::Failed { source } => return source.hint().map(str::to_owned),
            Self::Refused(error) => {
                let error = ClientError::Api(Box::new(error.clone()));
                return error.hint().map(str::to_owned);
            }
        };
        Some(text.to_owned())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ProducerError {
    #[error("could not keep entries in a spool")]
    Spool(#[source] Arc<SpoolError>),
    #[error("entries are not sent any more")]
    Stopped(#[source] Stopped),
    #[error("the server has not confirmed everything yet: {pending} left, which the spool keeps")]
    Unconfirmed {
        pending: u64,
        /// What was in the way last.
        trouble: Option<String>,
    },
    #[error("could not start a thread for a spool")]
    Thread(#[source] std::io::Error),
}

/// A writer to one stream. Needs a runtime of tokio to live in.
#[derive(Debug)]
pub struct Producer {
    keeper: Keeper,
    progress: watch::Receiver<Progress>,
    sending: JoinHandle<()>,
}

impl Producer {
    /// Opens the spool, or makes it, and begins to send what is in it.
    pub async fn open(client: Client, options: ProducerOptions) -> Result<Self, ProducerError> {
        let identity = Identity {
            stream: options.stream.clone(),
            producer: options.producer,
            kind: Kind::of(&options.content_type),
        };
        let (folder, limits) = (options.spool, options.limits);
        let epoch = sender::unix_microseconds();
        // Reads the whole spool.
        let opened =
            tokio::task::spawn_blocking(move || Spool::open(&folder, &identity, limits, epoch));
        let spool = opened
            .await
            .unwrap_or(Err(SpoolError::Unusable))
            .map_err(|error| ProducerError::Spool(Arc::new(error)))?;
        let unusable = |_| ProducerError::Spool(Arc::new(SpoolError::Unusable));
        let producer = spool.producer().parse().map_err(unusable)?;
        let (progress, seen) = watch::channel(Progress {
            accepted: spool.accepted(),
            acknowledged: spool.acknowledged(),
            pending_bytes: spool.pending_bytes(),
            ..Progress::default()
        });
        let keeper = Keeper::start(spool, progress.clone()).map_err(ProducerError::Thread)?;
        let sender = Sender {
            client,
            stream: options.stream,
            content_type: options.content_type,
            producer,
            back_off: options.back_off,
            if_forgotten: options.if_forgotten,
            keeper: keeper.clone(),
            progress,
        };
        Ok(Self {
            keeper,
            progress: seen,
            sending: tokio::spawn(sender.run()),
        })
    }

    /// Takes entries over, all or none, and says how many this spool has taken then. They are on the disk: they will be
    /// stored once, also if this process dies now.
    pub async fn append(&self, entries: Vec<Bytes>) -> Result<u64, ProducerError> {
        if let Some(stopped) = &self.progress.borrow().stopped {
            return Err(ProducerError::Stopped(stopped.clone()));
        }
        let accepted = self.keeper.append(entries).await;
        accepted.map_err(ProducerError::Spool)
    }

    pub fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    /// Waits until the server has confirmed everything that was accepted until now.
    pub async fn flush(&self, patience: Duration) -> Result<(), ProducerError> {
        let mut progress = self.progress.clone();
        let wanted = progress.borrow().accepted;
        let is_over = |now: &Progress| now.acknowledged >= wanted || now.stopped.is_some();
        // Neither a timeout nor a sender that is gone needs a case of its own: what is known then is told.
        drop(tokio::time::timeout(patience, progress.wait_for(is_over)).await);
        let now = self.progress();
        if now.acknowledged >= wanted {
            return Ok(());
        }
        match now.stopped {
            Some(stopped) => Err(ProducerError::Stopped(stopped)),
            None => Err(ProducerError::Unconfirmed {
                pending: wanted - now.acknowledged,
                trouble: now.trouble,
            }),
        }
    }

    /// Stops sending, and waits until the spool can be opened again.
    pub async fn close(self) {
        self.sending.abort();
        let keeper = self.keeper.clone();
        drop(self);
        keeper.ended().await;
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.sending.abort();
    }
}
