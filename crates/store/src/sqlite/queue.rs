//! Commands on their way to the committer.
//!
//! What waits is bounded by its bytes, with a little added for each command, so that small ones are bounded too. Who finds it full
//! waits for its turn, and hears after a while that the store is busy.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError, Sender, TryRecvError, channel};
use std::time::Duration;

use holm_thread_log::{
    Append, Command, Create, Decision, DocumentWrite, Payload, Result, StoreError, Timestamp,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// What a command costs beside its payload.
const COMMAND_BYTES: usize = 1024;

/// A command that waits for its answer.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) command: Command,
    pub(super) now: Timestamp,
    pub(super) answer: oneshot::Sender<Result<Decision>>,
    pub(super) cost_bytes: usize,
    /// Its place in the queue, until it is answered.
    _place: OwnedSemaphorePermit,
}

/// The end that commands are put in at.
#[derive(Debug)]
pub(super) struct Queue {
    sender: Sender<Job>,
    places: Arc<Semaphore>,
    bytes_max: u32,
    patience: Duration,
}

pub(super) fn queue(bytes_max: u32, patience: Duration) -> (Queue, Jobs) {
    // Unbounded as it stands: the places bound it.
    let (sender, receiver) = channel();
    let queue = Queue {
        sender,
        places: Arc::new(Semaphore::new(
            usize::try_from(bytes_max).unwrap_or(usize::MAX),
        )),
        bytes_max,
        patience,
    };
    let jobs = Jobs {
        receiver,
        held_back: None,
    };
    (queue, jobs)
}

impl Queue {
    /// Waits for a place, and then for the answer.
    pub(super) async fn ask(&self, command: Command, now: Timestamp) -> Result<Decision> {
        let cost_bytes = cost_bytes(&command);
        // What is bigger than the queue has it for itself.
        let places = u32::try_from(cost_bytes)
            .unwrap_or(u32::MAX)
            .min(self.bytes_max);
        let place = self.place(places).await?;
        let (answer, answered) = oneshot::channel();
        let job = Job {
            command,
            now,
            answer,
            cost_bytes,
            _place: place,
        };
        self.sender.send(job).map_err(|_| StoreError::Stopped)?;
        answered.await.map_err(|_| StoreError::Stopped)?
    }

    async fn place(&self, places: u32) -> Result<OwnedSemaphorePermit> {
        // Without a pause as long as there is room, so that who sends several at once sends them in order.
        if let Ok(place) = Arc::clone(&self.places).try_acquire_many_owned(places) {
            return Ok(place);
        }
        let turn = Arc::clone(&self.places).acquire_many_owned(places);
        tokio::time::timeout(self.patience, turn)
            .await
            .map_err(|_| StoreError::Busy)?
            .map_err(|_| StoreError::Stopped)
    }
}

/// The end that the committer takes them from.
#[derive(Debug)]
pub(super) struct Jobs {
    receiver: Receiver<Job>,
    /// Taken, and left for the next batch.
    held_back: Option<Job>,
}

/// Who has something else to do does not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    UntilSomethingComes,
    None,
}

impl Jobs {
    /// Everything that waits, up to these bounds. An error when nobody can ask any more.
    pub(super) fn take(
        &mut self,
        patience: Patience,
        count_max: usize,
        bytes_max: usize,
    ) -> Result<Vec<Job>, RecvError> {
        let first = match (self.held_back.take(), patience) {
            (Some(job), _) => job,
            (None, Patience::UntilSomethingComes) => self.receiver.recv()?,
            (None, Patience::None) => match self.receiver.try_recv() {
                Ok(job) => job,
                Err(TryRecvError::Empty) => return Ok(Vec::new()),
                Err(TryRecvError::Disconnected) => return Err(RecvError),
            },
        };
        let mut bytes = first.cost_bytes;
        let mut jobs = vec![first];
        while jobs.len() < count_max {
            let Ok(job) = self.receiver.try_recv() else {
                break;
            };
            bytes += job.cost_bytes;
            if bytes > bytes_max {
                // A big one goes alone, and if there is no space for it, alone it fails.
                self.held_back = Some(job);
                break;
            }
            jobs.push(job);
        }
        Ok(jobs)
    }
}

fn cost_bytes(command: &Command) -> usize {
    let payload = |payload: &Option<Payload>| match payload {
        None => 0,
        Some(Payload::Bytes(bytes)) => bytes.len(),
        Some(Payload::Messages(messages)) => messages
            .iter()
            .map(|message| size_of_val(message) + message.data.len())
            .sum(),
    };
    let documents = |writes: &[DocumentWrite]| -> usize {
        let contents = writes.iter().filter_map(|write| write.content.as_ref());
        contents.map(|content| content.body.len()).sum()
    };
    let bytes = match command {
        Command::Create(Create {
            payload: first,
            documents: with,
            ..
        })
        | Command::Append(Append {
            payload: first,
            documents: with,
            ..
        }) => payload(first) + documents(with),
        Command::Write { documents: with } => documents(with),
        Command::Delete { .. } | Command::Touch { .. } | Command::Expire { .. } => 0,
    };
    bytes + COMMAND_BYTES
}
