//! From the spool to the server: one batch at a time, as often as it takes.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use holm_thread_log::{Claim, ContentType, ProducerId, StreamName, json};
use tokio::sync::watch;

use crate::client::Client;
use crate::retry::{BackOff, Jitter};
use crate::spool::{Batch, Kind, SpoolError};

use super::judge::{Sent, Verdict, judge};
use super::keeper::Keeper;
use super::{IfForgotten, Progress, Stopped};

#[derive(Debug)]
pub(super) struct Sender {
    pub(super) client: Client,
    pub(super) stream: StreamName,
    pub(super) content_type: ContentType,
    pub(super) producer: ProducerId,
    pub(super) back_off: BackOff,
    pub(super) if_forgotten: IfForgotten,
    pub(super) keeper: Keeper,
    pub(super) progress: watch::Sender<Progress>,
}

impl Sender {
    /// Sends until there is a reason to stop, which is told.
    pub(super) async fn run(self) {
        let stopped = loop {
            if let Err(stopped) = self.next().await {
                break stopped;
            }
        };
        self.progress
            .send_modify(|progress| progress.stopped = Some(stopped));
    }

    async fn next(&self) -> Result<(), Stopped> {
        let batch = self.spool(|| self.keeper.next_batch()).await?;
        match self.deliver(&batch).await? {
            Delivered::Yes => self.spool(|| self.keeper.acknowledge()).await,
            Delivered::Forgotten => {
                let epoch = unix_microseconds();
                self.spool(|| self.keeper.begin_again(epoch)).await
            }
        }
    }

    /// Tries until the server has the batch.
    async fn deliver(&self, batch: &Batch) -> Result<Delivered, Stopped> {
        let claim = Claim {
            producer: self.producer.clone(),
            epoch: batch.epoch,
            seq: batch.seq,
        };
        let sent = Sent {
            epoch: batch.epoch,
            seq: batch.seq,
        };
        let body = body(Kind::of(&self.content_type), &batch.entries);
        let mut failures = 0;
        loop {
            let answer = self
                .client
                .append_as(&self.stream, &self.content_type, &claim, body.clone())
                .await;
            match judge(sent, answer) {
                Verdict::Acknowledged => return Ok(Delivered::Yes),
                Verdict::TryAgain { asked, why } => {
                    failures += 1;
                    self.wait(failures, asked, chain(&why)).await;
                }
                Verdict::Forgotten(stopped) => {
                    return match self.if_forgotten {
                        IfForgotten::Stop => Err(stopped),
                        IfForgotten::BeginAgain => Ok(Delivered::Forgotten),
                    };
                }
                Verdict::Stop(stopped) => return Err(stopped),
            }
        }
    }

    /// Asks the spool. A disk that is full may be emptied by somebody.
    async fn spool<T, F>(&self, ask: impl Fn() -> F) -> Result<T, Stopped>
    where
        F: Future<Output = Result<T, Arc<SpoolError>>>,
    {
        let mut failures = 0;
        loop {
            match ask().await {
                Ok(answer) => {
                    self.progress
                        .send_if_modified(|progress| progress.trouble.take().is_some());
                    return Ok(answer);
                }
                Err(error) if is_full(&error) => {
                    failures += 1;
                    self.wait(failures, None, chain(&*error)).await;
                }
                Err(source) => return Err(Stopped::Spool { source }),
            }
        }
    }

    async fn wait(&self, failures: u32, asked: Option<Duration>, why: String) {
        let pause = self.back_off.pause(failures, asked, Jitter::random());
        tracing::debug!(failures, ?pause, why, "a batch waits");
        self.progress
            .send_modify(|progress| progress.trouble = Some(why));
        tokio::time::sleep(pause).await;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delivered {
    Yes,
    Forgotten,
}

fn is_full(error: &SpoolError) -> bool {
    matches!(
        error,
        SpoolError::Io { doing: "write to", source, .. }
            if matches!(source.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
    )
}

/// One line of all causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

fn body(kind: Kind, entries: &[Bytes]) -> Bytes {
    match kind {
        Kind::Json => json::array(entries),
        Kind::Bytes => entries.concat().into(),
    }
}

/// The epoch of a life that begins now.
pub(super) fn unix_microseconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
}
