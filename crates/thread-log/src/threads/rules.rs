//! The rules of threads' streams: who may still write, and the row that is stored together with an entry.

use super::entry::{Group, ThreadEntry};
use super::id::ThreadId;
use super::row::{Row, RunState, Status};
use super::signal::{Parent, RunId, Signal};
use crate::command::Message;
use crate::document::{Content, DocumentKey, DocumentWrite, Expect};
use crate::name::StreamName;
use crate::rules::{Event, Judgement, Rules, Standing, What};

/// Where rows are kept.
pub const COLLECTION: &str = "threads";

/// Why the rules refuse, for machines.
pub mod code {
    /// An entry is not what entries are. Whoever sends it can mend it.
    pub const ENTRY_INVALID: &str = "entry_invalid";
    /// A thread's stream holds JSON.
    pub const CONTENT_TYPE: &str = "thread_content_type";
    pub const RUN_ENDED: &str = "run_ended";
    /// Another run works on the thread, or none does.
    pub const RUN_NOT_CURRENT: &str = "run_not_current";
    /// Another run works on the thread and has to end first.
    pub const RUN_IN_PROGRESS: &str = "run_in_progress";
    /// A run says something that is not its to say.
    pub const SIGNAL_FORBIDDEN: &str = "signal_forbidden";
    /// The stored row cannot be read: a fault of the server.
    pub const ROW_UNREADABLE: &str = "row_unreadable";
}

/// The [`Rules`] of all streams of a server: those that are threads have rows, all others none.
#[derive(Debug, Clone, Copy)]
pub struct ThreadRules;

/// Which document is a thread's row.
pub fn row_key(organization: &str, thread: &ThreadId) -> DocumentKey {
    DocumentKey {
        collection: COLLECTION.to_owned(),
        id: format!("{organization}/{thread}"),
    }
}

impl Rules for ThreadRules {
    fn row(&self, stream: &StreamName) -> Option<DocumentKey> {
        let (organization, thread) = ThreadId::of_stored(stream)?;
        Some(row_key(organization, &thread))
    }

    fn judge(&self, event: &Event<'_>) -> Judgement {
        match judge(event) {
            Ok((documents, writer)) => Judgement::Accept { documents, writer },
            Err(Refused { code, message }) => Judgement::Refuse { code, message },
        }
    }
}

/// A reason not to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// One of [`code`].
    pub code: &'static str,
    pub message: String,
}

fn refused(code: &'static str, message: impl Into<String>) -> Refused {
    Refused {
        code,
        message: message.into(),
    }
}

fn judge(event: &Event<'_>) -> Result<(Vec<DocumentWrite>, Standing), Refused> {
    let Some((organization, thread)) = ThreadId::of_stored(&event.stream.name) else {
        return Ok((Vec::new(), Standing::Welcome));
    };
    if !event.stream.content_type.is_json() {
        let message = "a thread's stream holds JSON: make it with `Content-Type: application/json`";
        return Err(refused(code::CONTENT_TYPE, message));
    }
    let before = match event.row {
        None => None,
        Some(document) => Some(stored(&document.content)?),
    };
    let mut row = before.clone().unwrap_or_else(|| Row::new(event.stream));
    if let Some(writer) = event.writer {
        row.check_writer(writer)?;
    }
    let messages: &[Message] = match event.what {
        What::Created(messages) | What::Appended(messages) => messages,
        What::Heartbeat => return Ok((Vec::new(), Standing::Welcome)),
    };
    for message in messages {
        let entry = ThreadEntry::parse(&message.data)
            .map_err(|error| refused(code::ENTRY_INVALID, error.to_string()))?;
        row.check_entry(&entry, event.writer)?;
        row.apply(&entry);
    }
    let standing = match event.writer.map(|writer| row.check_writer(writer)) {
        Some(Err(_)) => Standing::Done,
        Some(Ok(())) | None => Standing::Welcome,
    };
    // Most entries change nothing in the row: then it is not written.
    if before.as_ref() == Some(&row) {
        return Ok((Vec::new(), standing));
    }
    let write = DocumentWrite {
        key: row_key(organization, &thread),
        expect: Expect::Anything,
        content: Some(row.to_content(organization)?),
    };
    Ok((vec![write], standing))
}

fn stored(content: &Content) -> Result<Row, Refused> {
    Row::from_content(content).map_err(|error| {
        refused(
            code::ROW_UNREADABLE,
            format!("the row of this thread cannot be read: {error}"),
        )
    })
}

impl Row {
    pub fn from_content(content: &Content) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(&content.body)
    }

    /// As it is stored.
    pub fn to_content(&self, organization: &str) -> Result<Content, Refused> {
        let body = serde_json::to_vec(self)
            .map_err(|error| refused(code::ROW_UNREADABLE, error.to_string()))?;
        Ok(Content {
            body: body.into(),
            terms: self.terms(organization),
        })
    }

    /// What it is found by.
    fn terms(&self, organization: &str) -> Vec<String> {
        let parent = self
            .parent
            .as_ref()
            .map(|Parent::Thread { id }| Term::Parent(id.as_str()));
        let all = [Term::All, Term::Status(self.status)]
            .into_iter()
            .chain(parent)
            .chain(self.tags.iter().map(|tag| Term::Tag(tag)))
            .chain(self.environment_id.as_deref().map(Term::Environment))
            .chain(self.sandbox_id.as_deref().map(Term::Sandbox));
        let mut terms: Vec<String> = all.map(|term| term.to_text(organization)).collect();
        terms.sort();
        terms.dedup();
        terms
    }

    /// Whether this run may still write.
    pub fn check_writer(&self, writer: &str) -> Result<(), Refused> {
        match &self.run {
            Some(run) if run.id.as_str() == writer => match run.state {
                RunState::Running => Ok(()),
                RunState::Ended { .. } => Err(refused(
                    code::RUN_ENDED,
                    format!("the run `{writer}` has ended and can no longer write"),
                )),
            },
            Some(_) | None => Err(refused(
                code::RUN_NOT_CURRENT,
                format!(
                    "the run `{writer}` is not the thread's current one: begin it with `signal.thread.status_changed`, \
                     status `running`, by an API key"
                ),
            )),
        }
    }

    /// Whether the entry may be added to what is there.
    fn check_entry(&self, entry: &ThreadEntry, writer: Option<&str>) -> Result<(), Refused> {
        let Group::Signal(signal) = &entry.group else {
            return Ok(());
        };
        if let Some(writer) = writer {
            check_own(signal, writer)?;
        }
        match signal {
            Signal::Heartbeat => Err(refused(
                code::ENTRY_INVALID,
                "a heartbeat is no entry: send it alone, without entries and producer headers",
            )),
            Signal::StatusChanged {
                status: Status::Running,
                run_id: Some(run_id),
            } => self.check_beginning(run_id),
            Signal::StatusChanged { .. }
            | Signal::Created(_)
            | Signal::Updated(_)
            | Signal::Failed(_)
            | Signal::Usage(_)
            | Signal::ChildFinished
            | Signal::Other => Ok(()),
        }
    }

    fn check_beginning(&self, run_id: &RunId) -> Result<(), Refused> {
        match &self.run {
            Some(run) if run.id == *run_id => match run.state {
                RunState::Running => Ok(()),
                RunState::Ended { .. } => Err(refused(
                    code::RUN_ENDED,
                    format!("the run `{run_id}` has ended: a new one needs a new id"),
                )),
            },
            Some(run) if run.state == RunState::Running => Err(refused(
                code::RUN_IN_PROGRESS,
                format!(
                    "the run `{}` works on this thread and has to end first",
                    run.id
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }
}

/// A run speaks for itself, and changes nothing of what its thread is.
fn check_own(signal: &Signal, writer: &str) -> Result<(), Refused> {
    let forbidden = |message: &str| Err(refused(code::SIGNAL_FORBIDDEN, message));
    let of_other = |run_id: &Option<RunId>| {
        run_id
            .as_ref()
            .is_some_and(|run_id| run_id.as_str() != writer)
    };
    match signal {
        Signal::StatusChanged { run_id, .. } if of_other(run_id) => {
            forbidden("a run can change its own status only")
        }
        Signal::Failed(failure) if of_other(&failure.run_id) => {
            forbidden("a run can say that it failed itself, and not another")
        }
        Signal::StatusChanged {
            status: Status::Open | Status::Idle | Status::Running,
            ..
        } => forbidden("a run can only say how it ended: `completed`, `failed` or `cancelled`"),
        Signal::Created(_) | Signal::Updated(_) | Signal::ChildFinished => {
            forbidden("what a thread is can be changed with an API key only")
        }
        Signal::StatusChanged { .. }
        | Signal::Failed(_)
        | Signal::Usage(_)
        | Signal::Heartbeat
        | Signal::Other => Ok(()),
    }
}

/// What threads are listed by. Each term begins with the organisation, so that no list reaches another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Term<'a> {
    All,
    Status(Status),
    Tag(&'a str),
    Parent(&'a str),
    Environment(&'a str),
    Sandbox(&'a str),
}

impl Term<'_> {
    pub fn to_text(self, organization: &str) -> String {
        match self {
            Self::All => organization.to_owned(),
            Self::Status(status) => format!("{organization}/status:{}", status.as_str()),
            Self::Tag(tag) => format!("{organization}/tag:{tag}"),
            Self::Parent(id) => format!("{organization}/parent:{id}"),
            Self::Environment(id) => format!("{organization}/environment:{id}"),
            Self::Sandbox(id) => format!("{organization}/sandbox:{id}"),
        }
    }
}
