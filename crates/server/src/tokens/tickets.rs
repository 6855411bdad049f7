//! Tickets: a browser's `EventSource` cannot send headers, so it shows one in its address. That is seen by proxies and kept in
//! histories, so a ticket opens one thread for reading, once, within a minute.
//!
//! A ticket's document is named by its time and its hash: old ones come first and are swept when new ones are made. Taking it
//! removes it, and only one of two who try at once can. Whoever takes it gets the next one with it, to come back with: an
//! `EventSource` that was cut off repeats its address, in which the ticket is used up by then. The next one never stands in an
//! address: it comes as a part of each event's id, and the browser sends it back in a header.

use std::sync::Arc;

use holm_daytona_wire::Hidden;
use holm_thread_log::threads::ThreadId;
use holm_thread_log::{
    Command, Content, DocumentKey, DocumentQuery, DocumentWrite, Expect, Order, Outcome,
    StoreError, StreamId, StreamStore, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::keys;

const COLLECTION: &str = "read-tickets";
const TERM: &str = "ticket";
const LIFE_MILLISECONDS: i64 = 60_000;
/// From one opening to the next: what an answer lasts, and a while for a network or a server to come back.
const RETURN_LIFE_MILLISECONDS: i64 = 5 * 60_000;
/// Old ones that are removed when a new one is made: more than come, so that they become fewer.
const SWEPT_MAX: usize = 16;
const LENGTH_MAX: usize = 128;

#[derive(Debug)]
pub(crate) struct Tickets {
    streams: Arc<dyn StreamStore>,
}

/// What a ticket opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) organization: String,
    pub(crate) thread: ThreadId,
    /// Which one of that id.
    pub(crate) stream: StreamId,
    /// When the last ticket ends that follows from the first, in milliseconds.
    pub(crate) until: i64,
}

/// A ticket that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) ticket: Ticket,
    /// The next one, for whoever took this one.
    pub(crate) to_return: Hidden,
}

impl Tickets {
    pub(crate) fn new(streams: Arc<dyn StreamStore>) -> Self {
        Self { streams }
    }

    /// Makes a ticket. Gives its text and its end.
    pub(crate) async fn issue(
        &self,
        ticket: &Ticket,
        now: Timestamp,
    ) -> Result<(Hidden, Timestamp), StoreError> {
        let (text, expires_at, made) = fresh(ticket, LIFE_MILLISECONDS, now)?;
        let documents = std::iter::once(made).chain(self.overdue(now).await?);
        let command = Command::Write {
            documents: documents.collect(),
        };
        match self.streams.apply(command, now).await? {
            Ok(_) => Ok((text, expires_at)),
            Err(refusal) => Err(StoreError::Failed {
                doing: "keep a ticket",
                source: refusal.into(),
            }),
        }
    }

    /// What a ticket opens, for the first who asks, and the next ticket.
    pub(crate) async fn take(
        &self,
        text: &str,
        now: Timestamp,
    ) -> Result<Option<Taken>, StoreError> {
        let Some(key) = document_key(text) else {
            return Ok(None);
        };
        let Some(document) = self.streams.document(&key).await? else {
            return Ok(None);
        };
        let is_over = expiry(&key.id).is_none_or(|expiry| expiry <= now.0);
        let ticket: Ticket = serde_json::from_slice(&document.content.body)
            .map_err(|error| failed("read a ticket", error))?;
        let used_up = DocumentWrite {
            key,
            expect: Expect::Version(document.version),
            content: None,
        };
        let (to_return, _, next) = fresh(&ticket, RETURN_LIFE_MILLISECONDS, now)?;
        let next = (!is_over).then_some(next);
        let documents = std::iter::once(used_up).chain(next).collect();
        match self
            .streams
            .apply(Command::Write { documents }, now)
            .await?
        {
            Ok(Outcome::Written) if !is_over => Ok(Some(Taken { ticket, to_return })),
            // Too late, or another was quicker.
            Ok(_) | Err(_) => Ok(None),
        }
    }

    async fn overdue(&self, now: Timestamp) -> Result<Vec<DocumentWrite>, StoreError> {
        let query = DocumentQuery {
            collection: COLLECTION.to_owned(),
            terms: vec![TERM.to_owned()],
            order: Order::Ascending,
            after: None,
            limit: SWEPT_MAX,
        };
        let oldest = self.streams.documents(&query).await?.into_iter();
        let over = oldest.filter(|(key, _)| expiry(&key.id).is_none_or(|expiry| expiry <= now.0));
        Ok(over
            .map(|(key, _)| DocumentWrite {
                key,
                // Somebody else may remove it meanwhile.
                expect: Expect::Anything,
                content: None,
            })
            .collect())
    }
}

/// A new ticket: its text, its end, and its document.
fn fresh(
    ticket: &Ticket,
    life_milliseconds: i64,
    now: Timestamp,
) -> Result<(Hidden, Timestamp, DocumentWrite), StoreError> {
    let expires_at = Timestamp(now.0.saturating_add(life_milliseconds).min(ticket.until));
    let secret = keys::random_token();
    let text = format!("{:013}-{secret}", expires_at.0);
    let body = serde_json::to_vec(ticket).map_err(|error| failed("write a ticket", error))?;
    let document = DocumentWrite {
        key: with_id(format!("{:013}-{}", expires_at.0, keys::hash(&secret))),
        expect: Expect::Absent,
        content: Some(Content {
            body: body.into(),
            terms: vec![TERM.to_owned()],
        }),
    };
    Ok((Hidden::new(text), expires_at, document))
}

fn failed(doing: &'static str, error: serde_json::Error) -> StoreError {
    StoreError::Failed {
        doing,
        source: error.into(),
    }
}

/// Whoever reads the database cannot use what lies there: it is named by the hash.
fn document_key(text: &str) -> Option<DocumentKey> {
    let (expiry, secret) = text.split_once('-')?;
    let is_good = text.len() <= LENGTH_MAX && expiry.bytes().all(|byte| byte.is_ascii_digit());
    is_good.then(|| with_id(format!("{expiry}-{}", keys::hash(secret))))
}

fn with_id(id: String) -> DocumentKey {
    DocumentKey {
        collection: COLLECTION.to_owned(),
        id,
    }
}

fn expiry(id: &str) -> Option<i64> {
    id.split_once('-')?.0.parse().ok()
}
