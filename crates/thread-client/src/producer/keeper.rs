//! The owner of a spool: one thread, which writes, syncs and answers, in that order.

use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::spool::{Batch, Spool, SpoolError};

use super::Progress;

/// How many callers may wait for one sync.
const QUEUE_MAX: usize = 256;

pub(super) type Reply<T> = oneshot::Sender<Result<T, Arc<SpoolError>>>;

#[derive(Debug)]
enum Command {
    Append {
        entries: Vec<Bytes>,
        reply: Reply<u64>,
    },
    /// Answered when there is a batch.
    NextBatch {
        reply: Reply<Batch>,
    },
    Acknowledge {
        reply: Reply<()>,
    },
    BeginAgain {
        epoch: u64,
        reply: Reply<()>,
    },
}

/// What others have of the keeper. The thread ends when the last of them is gone.
#[derive(Debug, Clone)]
pub(super) struct Keeper {
    commands: mpsc::Sender<Command>,
    /// Has no permits, and is closed when the thread is done.
    ended: Arc<Semaphore>,
}

impl Keeper {
    pub(super) fn start(spool: Spool, progress: watch::Sender<Progress>) -> std::io::Result<Self> {
        let (commands, received) = mpsc::channel(QUEUE_MAX);
        let work = Work {
            spool,
            progress,
            appended: Vec::new(),
            waiting: None,
        };
        let ended = Arc::new(Semaphore::new(0));
        let closing = Arc::clone(&ended);
        thread::Builder::new()
            .name("holm-spool".into())
            .spawn(move || {
                work.run(received);
                closing.close();
            })?;
        Ok(Self { commands, ended })
    }

    /// Promises entries, and says how many there are then.
    pub(super) async fn append(&self, entries: Vec<Bytes>) -> Result<u64, Arc<SpoolError>> {
        self.ask(|reply| Command::Append { entries, reply }).await
    }

    pub(super) async fn next_batch(&self) -> Result<Batch, Arc<SpoolError>> {
        self.ask(|reply| Command::NextBatch { reply }).await
    }

    pub(super) async fn acknowledge(&self) -> Result<(), Arc<SpoolError>> {
        self.ask(|reply| Command::Acknowledge { reply }).await
    }

    pub(super) async fn begin_again(&self, epoch: u64) -> Result<(), Arc<SpoolError>> {
        self.ask(|reply| Command::BeginAgain { epoch, reply }).await
    }

    /// Waits for the end of the thread, and with it of the lock. All other handles have to go first.
    pub(super) async fn ended(self) {
        let ended = Arc::clone(&self.ended);
        drop(self);
        // Closed when the thread is done.
        drop(ended.acquire().await);
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(Reply<T>) -> Command,
    ) -> Result<T, Arc<SpoolError>> {
        let (reply, answer) = oneshot::channel();
        // The thread lives as long as we do, unless it panicked.
        let sent = self.commands.send(command(reply)).await;
        sent.map_err(|_| Arc::new(SpoolError::Unusable))?;
        answer
            .await
            .unwrap_or_else(|_| Err(Arc::new(SpoolError::Unusable)))
    }
}

#[derive(Debug)]
struct Work {
    spool: Spool,
    progress: watch::Sender<Progress>,
    /// Written, and promised with the next sync.
    appended: Vec<(Reply<u64>, u64)>,
    /// Somebody who wants a batch when there is one.
    waiting: Option<Reply<Batch>>,
}

impl Work {
    fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        while let Some(command) = commands.blocking_recv() {
            self.handle(command);
            // All that came while the disk was busy shares one sync.
            for _ in 0..QUEUE_MAX {
                match commands.try_recv() {
                    Ok(command) => self.handle(command),
                    Err(_) => break,
                }
            }
            self.promise();
            self.hand_out();
        }
    }

    fn handle(&mut self, command: Command) {
        match command {
            Command::Append { entries, reply } => match self.spool.append(&entries) {
                Ok(()) => self.appended.push((reply, self.spool.accepted())),
                Err(error) => answer(reply, Err(error)),
            },
            Command::NextBatch { reply } => self.waiting = Some(reply),
            Command::Acknowledge { reply } => {
                let done = self.spool.acknowledge();
                self.report();
                answer(reply, done);
            }
            Command::BeginAgain { epoch, reply } => {
                let done = self.spool.begin_again(epoch);
                answer(reply, done);
            }
        }
    }

    fn promise(&mut self) {
        if self.appended.is_empty() {
            return;
        }
        let synced = self.spool.sync().map_err(Arc::new);
        if synced.is_ok() {
            self.report();
        }
        for (reply, accepted) in self.appended.drain(..) {
            // A caller who has gone has no use for it; the entry stays.
            drop(reply.send(synced.clone().map(|()| accepted)));
        }
    }

    fn hand_out(&mut self) {
        let Some(reply) = self.waiting.take() else {
            return;
        };
        match self.spool.next_batch() {
            Ok(Some(batch)) => answer(reply, Ok(batch)),
            Ok(None) => self.waiting = Some(reply),
            Err(error) => answer(reply, Err(error)),
        }
    }

    fn report(&self) {
        self.progress.send_modify(|progress| {
            progress.accepted = self.spool.accepted();
            progress.acknowledged = self.spool.acknowledged();
            progress.pending_bytes = self.spool.pending_bytes();
        });
    }
}

fn answer<T>(reply: Reply<T>, result: Result<T, SpoolError>) {
    // Whoever asked may have gone.
    drop(reply.send(result.map_err(Arc::new)));
}
