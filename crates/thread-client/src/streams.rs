//! The protocol, call by call.

use bytes::Bytes;
use holm_thread_log::{Claim, ContentType, Ending, StreamName, json};
use reqwest::Method;

use crate::answer::{self, Tail};
use crate::client::Client;
use crate::error::ProducerAnswer;
use crate::{ClientError, Result};

/// Entries from a place on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The messages of a JSON stream, or the bytes of another in one piece.
    pub messages: Vec<Bytes>,
    pub tail: Tail,
}

/// Whether something was made or was there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    Now,
    Before,
}

/// What a producer's append came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) stored: Made,
    pub(crate) producer: ProducerAnswer,
}

impl Client {
    /// Makes a stream, or finds one of the same kind.
    pub async fn create_stream(&self, name: &StreamName, kind: &ContentType) -> Result<Made> {
        let call = self
            .stream_call(Method::PUT, name, "make")
            .header("content-type", kind.as_str());
        let (head, _) = self.ask(&call).await?;
        Ok(match head.status {
            201 => Made::Now,
            _ => Made::Before,
        })
    }

    /// Where a stream ends now.
    pub async fn stream_tail(&self, name: &StreamName) -> Result<Tail> {
        let call = self.stream_call(Method::HEAD, name, "look at");
        let (head, _) = self.ask(&call).await?;
        answer::tail(&call.action, &head.headers)
    }

    /// Closes a stream: nothing can be appended any more, and readers learn that it has ended.
    pub async fn close_stream(&self, name: &StreamName) -> Result<()> {
        let call = self
            .stream_call(Method::POST, name, "close")
            .header("stream-closed", "true");
        self.ask(&call).await.map(drop)
    }

    pub async fn delete_stream(&self, name: &StreamName) -> Result<()> {
        let call = self.stream_call(Method::DELETE, name, "delete");
        self.ask(&call).await.map(drop)
    }

    /// Appends without a producer. If the answer is lost, nobody can say whether it was stored: use it for entries with ids
    /// of their own, or use a [`Producer`](crate::Producer).
    pub async fn append(&self, name: &StreamName, kind: &ContentType, body: Bytes) -> Result<()> {
        let call = self
            .stream_call(Method::POST, name, "append to")
            .header("content-type", kind.as_str())
            .body(body);
        self.ask(&call).await.map(drop)
    }

    pub(crate) async fn append_as(
        &self,
        name: &StreamName,
        kind: &ContentType,
        claim: &Claim,
        body: Bytes,
    ) -> Result<Accepted> {
        let call = self
            .stream_call(Method::POST, name, "append to")
            .header("content-type", kind.as_str())
            .header("producer-id", claim.producer.as_str())
            .header("producer-epoch", &claim.epoch.to_string())
            .header("producer-seq", &claim.seq.to_string())
            .body(body);
        let (head, _) = self.ask(&call).await?;
        let stored = match head.status {
            200 => Made::Now,
            204 => Made::Before,
            status => {
                return Err(ClientError::Protocol {
                    action: call.action,
                    problem: format!("status {status} to a numbered append"),
                });
            }
        };
        Ok(Accepted {
            stored,
            producer: answer::producer(&head.headers),
        })
    }

    /// Reads a page of what is there now. `offset` is from an earlier page, or `-1`, or `now`.
    pub async fn read_page(&self, name: &StreamName, offset: &str) -> Result<Page> {
        let call = self
            .stream_call(Method::GET, name, "read")
            .query("offset", offset);
        let (head, body) = self.ask(&call).await?;
        page(&call.action, &head, body)
    }

    /// Waits for news after `offset`, as long as the server likes; `None` if there were none.
    pub(crate) async fn long_poll(
        &self,
        name: &StreamName,
        offset: &str,
        cursor: Option<&str>,
    ) -> Result<(Option<Page>, Option<String>)> {
        let mut call = self
            .stream_call(Method::GET, name, "wait for news of")
            .query("offset", offset)
            .query("live", "long-poll")
            .deadline(self.deadlines().long_poll);
        if let Some(cursor) = cursor {
            call = call.query("cursor", cursor);
        }
        let (head, body) = self.ask(&call).await?;
        let cursor = answer::header(&head.headers, "stream-cursor").map(str::to_owned);
        let is_news = head.status != 204 || answer::ending(&head.headers) == Ending::Closed;
        let page = is_news
            .then(|| page(&call.action, &head, body))
            .transpose()?;
        Ok((page, cursor))
    }
}

fn page(action: &str, head: &crate::client::AnswerHead, body: Bytes) -> Result<Page> {
    let tail = answer::tail(action, &head.headers)?;
    let kind = answer::header(&head.headers, "content-type").unwrap_or_default();
    let is_json = kind.parse::<ContentType>().is_ok_and(|kind| kind.is_json());
    let messages = if body.is_empty() {
        Vec::new()
    } else if is_json {
        json::flatten(&body).map_err(|error| ClientError::Protocol {
            action: action.to_owned(),
            problem: error.to_string(),
        })?
    } else {
        vec![body]
    };
    Ok(Page { messages, tail })
}
