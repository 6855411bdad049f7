//! Commands on their way to the committer: bounded in number and in bytes.

use std::sync::Arc;

use holm_thread_log::{Command, Decision, DocumentWrite, Payload, StoreError, Timestamp};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// What memory is counted in.
const UNIT_BYTES: usize = 1024;

/// The most that is stored by one transaction, so that others have their turn soon.
const BATCH_COMMANDS_MAX: usize = 1024;
const BATCH_BYTES_MAX: usize = 8 << 20;

/// A command, and who waits for its answer.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) command: Command,
    pub(super) now: Timestamp,
    answer: oneshot::Sender<Result<Decision, StoreError>>,
    bytes: usize,
    /// Given back when the answer is.
    _memory: OwnedSemaphorePermit,
}

impl Job {
    pub(super) fn answer(self, decision: Result<Decision, StoreError>) {
        // Who no longer waits will ask again.
        drop(self.answer.send(decision));
    }
}

#[derive(Debug)]
pub(super) struct Queue {
    jobs: mpsc::Sender<Job>,
    memory: Arc<Semaphore>,
    units_max: u32,
}

impl Queue {
    pub(super) fn new(commands_max: usize, bytes_max: usize) -> (Self, mpsc::Receiver<Job>) {
        let (jobs, receiver) = mpsc::channel(commands_max.max(1));
        let units_max = u32::try_from(bytes_max / UNIT_BYTES)
            .unwrap_or(u32::MAX >> 4)
            .max(1);
        let memory = Arc::new(Semaphore::new(
            usize::try_from(units_max).unwrap_or(usize::MAX >> 4),
        ));
        let queue = Self {
            jobs,
            memory,
            units_max,
        };
        (queue, receiver)
    }

    /// Puts a command into the queue, if there is room, and waits for its answer.
    pub(super) async fn apply(
        &self,
        command: Command,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        let bytes = size_bytes(&command);
        // One that is bigger than all of the queue has it for itself.
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES))
            .unwrap_or(u32::MAX)
            .clamp(1, self.units_max);
        let memory = Arc::clone(&self.memory)
            .try_acquire_many_owned(units)
            .map_err(|_| StoreError::Busy)?;
        let (answer, decision) = oneshot::channel();
        let job = Job {
            command,
            now,
            answer,
            bytes,
            _memory: memory,
        };
        self.jobs.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StoreError::Busy,
            mpsc::error::TrySendError::Closed(_) => StoreError::Stopped,
        })?;
        decision.await.unwrap_or(Err(StoreError::Stopped))
    }
}

/// Waits for a command, and takes what else is there already. Nothing, when nobody can send any more.
pub(super) async fn next_batch(jobs: &mut mpsc::Receiver<Job>) -> Vec<Job> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    let Some(first) = jobs.recv().await else {
        return batch;
    };
    bytes += first.bytes;
    batch.push(first);
    while batch.len() < BATCH_COMMANDS_MAX && bytes < BATCH_BYTES_MAX {
        let Ok(job) = jobs.try_recv() else {
            break;
        };
        bytes += job.bytes;
        batch.push(job);
    }
    batch
}

fn size_bytes(command: &Command) -> usize {
    match command {
        Command::Create(create) => {
            payload_bytes(create.payload.as_ref()) + documents_bytes(&create.documents)
        }
        Command::Append(append) => {
            payload_bytes(append.payload.as_ref()) + documents_bytes(&append.documents)
        }
        Command::Write { documents } => documents_bytes(documents),
        Command::Delete { .. } | Command::Touch { .. } | Command::Expire { .. } => 0,
    }
}

fn payload_bytes(payload: Option<&Payload>) -> usize {
    match payload {
        Some(Payload::Bytes(body)) => body.len(),
        Some(Payload::Messages(messages)) => {
            messages.iter().map(|message| message.data.len() + 64).sum()
        }
        None => 0,
    }
}

fn documents_bytes(writes: &[DocumentWrite]) -> usize {
    let contents = writes.iter().filter_map(|write| write.content.as_ref());
    contents.map(|content| content.body.len()).sum()
}
