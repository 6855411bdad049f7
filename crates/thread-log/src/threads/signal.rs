//! Entries that change a thread's row.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

use super::entry::Agent;
use super::id::ThreadId;
use super::row::{Status, Usage};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal {
    /// `thread.created`: what the thread is for.
    Created(Details),
    /// `thread.updated`
    Updated(Update),
    /// `thread.status_changed`: with `running`, a run begins; with anything else, the current one ends.
    StatusChanged {
        status: Status,
        run_id: Option<RunId>,
    },
    /// `thread.pi_failed`, `thread.pi_session_orphaned`, and the same for the other agents.
    Failed(Failure),
    /// `thread.usage`: added to what was used before.
    Usage(Usage),
    /// `thread.child_finished`: from the reconcile of a delegated thread; for people and agents to read.
    ChildFinished,
    /// `thread.heartbeat`: never stored.
    Heartbeat,
    /// Kept as it is.
    Other,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    pub parent: Option<Parent>,
    pub tags: Vec<String>,
    pub environment_id: Option<String>,
    pub sandbox_id: Option<String>,
    /// `open` or `idle`.
    pub status: Option<Status>,
}

/// What a thread was delegated from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Parent {
    Thread { id: ThreadId },
}

/// `None`: stays as it is. `Some(None)`: none any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Update {
    pub tags: Option<Vec<String>>,
    pub environment_id: Option<Option<String>>,
    pub sandbox_id: Option<Option<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The signal's own name: `pi_failed`.
    pub reason: String,
    pub run_id: Option<RunId>,
    pub exit_code: Option<i32>,
}

/// A run of an agent on a thread.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RunId(String);

const RUN_ID_LENGTH_MAX: usize = 128;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the id of a run is 1 to {RUN_ID_LENGTH_MAX} visible ASCII characters")]
pub struct RunIdError;

impl RunId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for RunId {
    type Err = RunIdError;

    fn from_str(text: &str) -> Result<Self, RunIdError> {
        is_visible(text, RUN_ID_LENGTH_MAX)
            .then(|| Self(text.to_owned()))
            .ok_or(RunIdError)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for ThreadId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ThreadId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

fn is_visible(text: &str, length_max: usize) -> bool {
    (1..=length_max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// As the payloads are written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DetailsBody {
    #[serde(default)]
    parent: Option<Parent>,
    #[serde(default)]
    tags: Vec<Tag>,
    #[serde(default)]
    environment_id: Option<OtherId>,
    #[serde(default)]
    sandbox_id: Option<OtherId>,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateBody {
    #[serde(default)]
    tags: Option<Vec<Tag>>,
    #[serde(default, deserialize_with = "present")]
    environment_id: Option<Option<OtherId>>,
    #[serde(default, deserialize_with = "present")]
    sandbox_id: Option<Option<OtherId>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusBody {
    status: Status,
    #[serde(default)]
    run_id: Option<RunId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FailureBody {
    #[serde(default)]
    run_id: Option<RunId>,
    #[serde(default)]
    exit_code: Option<i32>,
}

/// What a thread is found by.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tag(String);

const TAG_LENGTH_MAX: usize = 64;
const TAGS_MAX: usize = 32;

impl<'de> Deserialize<'de> for Tag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_good =
            (1..=TAG_LENGTH_MAX).contains(&text.len()) && !text.contains(char::is_control);
        is_good.then_some(Self(text)).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "a tag is 1 to {TAG_LENGTH_MAX} bytes without control characters"
            ))
        })
    }
}

/// The id of something that threads only point to.
struct OtherId(String);

const OTHER_ID_LENGTH_MAX: usize = 128;

impl<'de> Deserialize<'de> for OtherId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if is_visible(&text, OTHER_ID_LENGTH_MAX) {
            return Ok(Self(text));
        }
        Err(serde::de::Error::custom(format!(
            "an id is 1 to {OTHER_ID_LENGTH_MAX} visible ASCII characters"
        )))
    }
}

/// Tells `null` from what is not there.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

fn custom(message: impl fmt::Display) -> serde_json::Error {
    serde::de::Error::custom(message)
}

fn tags(tags: Vec<Tag>) -> Result<Vec<String>, serde_json::Error> {
    if tags.len() > TAGS_MAX {
        return Err(custom(format!("a thread has at most {TAGS_MAX} tags")));
    }
    let mut tags: Vec<String> = tags.into_iter().map(|tag| tag.0).collect();
    tags.sort();
    tags.dedup();
    Ok(tags)
}

impl Signal {
    /// Reads the payload of `signal.NAME`.
    pub(super) fn parse(name: &str, payload: &str) -> Result<Self, serde_json::Error> {
        let Some(name) = name.strip_prefix("thread.") else {
            return Ok(Self::Other);
        };
        Ok(match name {
            "created" => Self::Created(details(serde_json::from_str(payload)?)?),
            "updated" => Self::Updated(update(serde_json::from_str(payload)?)?),
            "status_changed" => {
                let body: StatusBody = serde_json::from_str(payload)?;
                if body.status == Status::Running && body.run_id.is_none() {
                    return Err(custom("`runId` has to say which run begins"));
                }
                Self::StatusChanged {
                    status: body.status,
                    run_id: body.run_id,
                }
            }
            "usage" => Self::Usage(serde_json::from_str(payload)?),
            "child_finished" => Self::ChildFinished,
            "heartbeat" => Self::Heartbeat,
            other if is_failure(other) => {
                let body: FailureBody = serde_json::from_str(payload)?;
                Self::Failed(Failure {
                    reason: other.to_owned(),
                    run_id: body.run_id,
                    exit_code: body.exit_code,
                })
            }
            _ => Self::Other,
        })
    }
}

fn is_failure(name: &str) -> bool {
    Agent::ALL
        .into_iter()
        .filter_map(|agent| name.strip_prefix(agent.as_str()))
        .any(|rest| matches!(rest, "_failed" | "_session_orphaned"))
}

fn details(body: DetailsBody) -> Result<Details, serde_json::Error> {
    let is_beginning = |status: &Status| matches!(status, Status::Open | Status::Idle);
    if !body.status.as_ref().is_none_or(is_beginning) {
        return Err(custom("a thread begins `open` or `idle`"));
    }
    Ok(Details {
        parent: body.parent,
        tags: tags(body.tags)?,
        environment_id: body.environment_id.map(|id| id.0),
        sandbox_id: body.sandbox_id.map(|id| id.0),
        status: body.status,
    })
}

fn update(body: UpdateBody) -> Result<Update, serde_json::Error> {
    let text = |id: Option<OtherId>| id.map(|id| id.0);
    Ok(Update {
        tags: body.tags.map(tags).transpose()?,
        environment_id: body.environment_id.map(text),
        sandbox_id: body.sandbox_id.map(text),
    })
}
