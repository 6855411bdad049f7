//! Threads: what a server says of them beside their streams.

use std::time::Duration;

use bytes::Bytes;
use holm_thread_log::threads::{STREAM_PREFIX, ThreadId, ThreadIdError};
use holm_thread_log::{NameError, StreamName, json};
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::client::{Call, Client};
use crate::error::Prospect;
use crate::retry::{BackOff, Jitter};
use crate::streams::Made;
use crate::{ClientError, Result};

/// The stream of a thread.
pub fn stream_name(thread: &str) -> Result<StreamName> {
    let invalid = |problem: String| ClientError::Invalid {
        what: "id of a thread",
        problem,
    };
    let id: ThreadId = thread
        .parse()
        .map_err(|error: ThreadIdError| invalid(error.to_string()))?;
    format!("{STREAM_PREFIX}{id}")
        .parse()
        .map_err(|error: NameError| invalid(error.to_string()))
}

/// A stream as errors name it: a thread's by the id that people know.
pub(crate) fn shown(stream: &StreamName) -> String {
    match ThreadId::of_stream(stream) {
        Some(id) => format!("thread `{id}`"),
        None => format!("stream `{stream}`"),
    }
}

/// A thread as the server tells of it. What is not known here is kept as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Thread {
    pub id: String,
    pub status: String,
    #[serde(default)]
    pub run: Option<ThreadRun>,
    #[serde(default)]
    pub parent: Option<ThreadParent>,
    #[serde(default)]
    pub forked_from: Option<String>,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    pub environment_id: Option<String>,
    #[serde(default)]
    pub sandbox_id: Option<String>,
    #[serde(default)]
    pub usage: Map<String, Value>,
    pub created_at: String,
    pub updated_at: String,
    #[serde(default)]
    pub last_seen_at: Option<String>,
    pub stream: ThreadStream,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRun {
    pub id: String,
    pub began_at: String,
    #[serde(default)]
    pub ended_at: Option<String>,
    #[serde(default)]
    pub end_reason: Option<String>,
    #[serde(default)]
    pub exit_code: Option<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum ThreadParent {
    Thread { id: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadStream {
    pub path: String,
    pub next_offset: String,
    pub closed: bool,
}

/// What a thread is made with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewThread {
    /// Without it the server makes one; with it, asking twice makes one thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<ThreadParent>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

/// Which threads to list: those that are all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadFilter {
    pub status: Option<String>,
    pub tags: Vec<String>,
    pub parent: Option<String>,
    pub environment_id: Option<String>,
    pub sandbox_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadList {
    pub items: Vec<Thread>,
    #[serde(default)]
    pub next_cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AppendedEntries {
    duplicate: bool,
}

impl Client {
    /// Makes a thread, or finds the one that the same request made before. Without an id it is asked for once only: a
    /// second request would make a second thread.
    pub async fn create_thread(&self, thread: &NewThread) -> Result<(Made, Thread)> {
        let call = self.api_call(Method::POST, &["threads"], "make a thread".to_owned())?;
        let call = json_body(call, thread)?;
        let (head, body) = self.ask(&call).await?;
        let made = match head.status {
            201 => Made::Now,
            _ => Made::Before,
        };
        Ok((made, parse(&call, &body)?))
    }

    pub async fn thread(&self, id: &str) -> Result<Thread> {
        stream_name(id)?;
        let action = format!("look at thread `{id}`");
        let call = self.api_call(Method::GET, &["threads", id], action)?;
        let (_, body) = self.ask(&call).await?;
        parse(&call, &body)
    }

    /// A page of threads, the latest first.
    pub async fn list_threads(
        &self,
        filter: &ThreadFilter,
        limit: u16,
        cursor: Option<&str>,
    ) -> Result<ThreadList> {
        let mut call = self.api_call(Method::GET, &["threads"], "list threads".to_owned())?;
        let named = [
            ("status", &filter.status),
            ("parent", &filter.parent),
            ("environmentId", &filter.environment_id),
            ("sandboxId", &filter.sandbox_id),
        ];
        for (name, value) in named {
            if let Some(value) = value {
                call = call.query(name, value);
            }
        }
        for tag in &filter.tags {
            call = call.query("tag", tag);
        }
        if let Some(cursor) = cursor {
            call = call.query("cursor", cursor);
        }
        let call = call.query("limit", &limit.to_string());
        let (_, body) = self.ask(&call).await?;
        parse(&call, &body)
    }

    /// Appends entries with ids of their own, all or none. Those whose ids are there are not stored again, so that this is
    /// tried until the patience ends. Says whether all of them were there.
    pub async fn append_entries(
        &self,
        thread: &str,
        entries: &[Bytes],
        patience: Duration,
    ) -> Result<Made> {
        stream_name(thread)?;
        let action = format!("append to thread `{thread}`");
        let call = self
            .api_call(Method::POST, &["threads", thread, "entries"], action)?
            .header("content-type", "application/json")
            // Also of one: an entry that is an array itself would be taken apart.
            .body(json::array(entries));
        let (head, body) = self.ask_patiently(&call, patience).await?;
        if head.status == 204 {
            return Ok(Made::Now);
        }
        let answer: AppendedEntries = parse(&call, &body)?;
        Ok(if answer.duplicate {
            Made::Before
        } else {
            Made::Now
        })
    }

    /// Asks again while a failure may pass. For what does nothing twice.
    async fn ask_patiently(
        &self,
        call: &Call,
        patience: Duration,
    ) -> Result<(crate::client::AnswerHead, Bytes)> {
        let until = Instant::now() + patience;
        let mut failures = 0;
        loop {
            let error = match self.ask(call).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            failures += 1;
            let asked = error.api().and_then(|error| error.retry_after);
            let pause = BackOff::default().pause(failures, asked, Jitter::random());
            if error.prospect() == Prospect::Stands || Instant::now() + pause > until {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
        }
    }
}

fn json_body(call: Call, value: &impl Serialize) -> Result<Call> {
    let body = serde_json::to_vec(value).map_err(|error| ClientError::Protocol {
        action: call.action.clone(),
        problem: error.to_string(),
    })?;
    Ok(call
        .header("content-type", "application/json")
        .body(body.into()))
}

fn parse<T: DeserializeOwned>(call: &Call, body: &Bytes) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| ClientError::Protocol {
        action: call.action.clone(),
        problem: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_cannot_leave_their_place() {
        assert_eq!(stream_name("a-1_B").unwrap().as_str(), "holm-thread-a-1_B");
        for wrong in ["", "a/b", "..", "a%2f", "a b", "a?x", "\u{e9}"] {
            assert!(stream_name(wrong).is_err(), "{wrong}");
        }
        assert!(stream_name(&"x".repeat(600)).is_err());
    }

    #[test]
    fn what_is_not_known_is_kept() {
        let text = r#"{"id":"1","status":"open","createdAt":"a","updatedAt":"b","new":[1],
            "stream":{"path":"/v1/stream/x","nextOffset":"0","closed":false}}"#;
        let thread: Thread = serde_json::from_str(text).unwrap();
        assert_eq!(thread.rest["new"], serde_json::json!([1]));
        assert_eq!(serde_json::to_value(&thread).unwrap()["new"][0], 1);
    }
}
