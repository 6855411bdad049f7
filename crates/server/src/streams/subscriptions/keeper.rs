//! Where subscriptions are kept: as documents beside the streams that they are for.
//!
//! Every step is one write that expects the version that it was decided from, so of several servers over the same store one makes the
//! step, and a server that dies leaves nothing half done. What is kept in memory only saves questions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use holm_thread_log::subscription::{LinkType, Problem, Subscription, Tails};
use holm_thread_log::{
    Command, Content, Document, DocumentKey, DocumentQuery, DocumentWrite, Expect, Offset, Order,
    Refusal, StoreError, StreamName, StreamStore, Unseen,
};
use tokio::sync::{Notify, OnceCell, Semaphore, watch};

use super::super::access::{shown_name, stored_name};
use super::super::now;
use super::secrets::Secrets;
use crate::accept::Stop;
use crate::config::LocalCalls;
use crate::keys::random_token;
use crate::machines::Making;

const COLLECTION: &str = "subscriptions";
const SECRET: &str = "subscription-secret";
/// What a subscription has that must be looked at when its time comes.
pub(super) const WAITING: &str = "waiting";
/// How long what other servers may have changed is believed.
const BELIEVED: Duration = Duration::from_secs(1);
/// How often a step is tried again that somebody else was faster with.
const TRIES_MAX: usize = 20;
const PAGE: usize = 200;
/// Subscriptions of one organisation.
const SUBSCRIPTIONS_MAX: usize = 1_000;
/// Calls at once.
const CALLS_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Keeper {
    pub(super) streams: Arc<dyn StreamStore>,
    pub(super) making: Arc<Making>,
    pub(super) local_calls: LocalCalls,
    pub(super) stopping: watch::Receiver<Stop>,
    secrets: OnceCell<Secrets>,
    known: Mutex<HashMap<String, Known>>,
    /// Rises when what is known is no longer true.
    changes: AtomicU64,
    pub(super) calls: Arc<Semaphore>,
    /// Somebody has made a subscription.
    pub(super) made: Notify,
}

/// The subscriptions of an organisation, as they were a moment ago.
#[derive(Debug)]
struct Known {
    read_at: Instant,
    subscriptions: Arc<Vec<Subscription>>,
}

/// Why a subscriber does not get what it asks for.
#[derive(Debug)]
pub(super) enum Failure {
    NotFound,
    Problem(Problem),
    /// It has too many, or its pattern is for too many.
    TooMany(&'static str),
    Differs,
    Store(StoreError),
    /// Others change it all the time.
    Contended,
    Internal,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

pub(super) type Result<T, E = Failure> = std::result::Result<T, E>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Creation {
    Made,
    Confirmed,
}

pub(super) fn key(organization: &str, id: &str) -> DocumentKey {
    DocumentKey {
        collection: COLLECTION.to_owned(),
        id: format!("{organization}/{id}"),
    }
}

pub(super) fn content(subscription: &Subscription) -> Result<Content> {
    let body = serde_json::to_vec(subscription).map_err(|error| {
        tracing::error!(%error, "could not write a subscription");
        Failure::Internal
    })?;
    let mut terms = vec![format!("org:{}", subscription.organization)];
    if subscription.deadline().is_some() {
        terms.push(WAITING.to_owned());
    }
    Ok(Content {
        body: body.into(),
        terms,
    })
}

fn parse(key: &DocumentKey, body: &[u8]) -> Option<Subscription> {
    let parsed = serde_json::from_slice(body);
    parsed
        .inspect_err(|error| tracing::error!(%error, id = key.id, "a subscription is not readable"))
        .ok()
}

pub(super) fn wake_id() -> String {
    format!("w_{}", holm_sandbox_linux::random_hex())
}

impl Keeper {
    pub(crate) fn new(
        streams: Arc<dyn StreamStore>,
        making: Arc<Making>,
        local_calls: LocalCalls,
        stopping: watch::Receiver<Stop>,
    ) -> Self {
        Self {
            streams,
            making,
            local_calls,
            stopping,
            secrets: OnceCell::new(),
            known: Mutex::default(),
            changes: AtomicU64::new(0),
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
            made: Notify::new(),
        }
    }

    /// The secret that all servers over these streams share.
    pub(super) async fn secrets(&self) -> Result<&Secrets> {
        self.secrets.get_or_try_init(|| self.find_secrets()).await
    }

    async fn find_secrets(&self) -> Result<Secrets> {
        let key = DocumentKey {
            collection: SECRET.to_owned(),
            id: "1".to_owned(),
        };
        for _ in 0..TRIES_MAX {
            if let Some(found) = self.streams.document(&key).await? {
                let secret = String::from_utf8_lossy(&found.content.body);
                return Secrets::derive(&secret).ok_or(Failure::Internal);
            }
            let write = DocumentWrite {
                key: key.clone(),
                expect: Expect::Absent,
                content: Some(Content {
                    body: random_token().into(),
                    terms: Vec::new(),
                }),
            };
            // Another server may be faster: then its secret is ours.
            drop(self.write(write).await?);
        }
        Err(Failure::Contended)
    }

    async fn write(&self, write: DocumentWrite) -> Result<std::result::Result<(), Refusal>> {
        let documents = vec![write];
        let decided = self
            .streams
            .apply(Command::Write { documents }, now())
            .await?;
        Ok(decided.map(|_| ()))
    }

    pub(super) async fn load(&self, organization: &str, id: &str) -> Result<(u64, Subscription)> {
        let key = key(organization, id);
        let found = self.streams.document(&key).await?;
        let found = found.ok_or(Failure::NotFound)?;
        let subscription = parse(&key, &found.content.body).ok_or(Failure::Internal)?;
        Ok((found.version, subscription))
    }

    /// Makes a subscription, or finds the same one there already.
    pub(super) async fn create(&self, mut made: Subscription) -> Result<(Creation, Subscription)> {
        for _ in 0..TRIES_MAX {
            match self.load(&made.organization, &made.id).await {
                Ok((_, found)) if found.definition == made.definition => {
                    return Ok((Creation::Confirmed, found));
                }
                Ok(_) => return Err(Failure::Differs),
                Err(Failure::NotFound) => {}
                Err(failure) => return Err(failure),
            }
            let others = self.of(&made.organization).await?;
            if others.len() >= SUBSCRIPTIONS_MAX {
                return Err(Failure::TooMany(
                    "the organisation has too many subscriptions",
                ));
            }
            // What is there already is not news.
            for name in made.definition.streams.clone() {
                let tail = self.tail(&made.organization, &name).await?;
                link(
                    &mut made,
                    &name,
                    LinkType::Explicit,
                    tail.unwrap_or(Offset::START),
                )?;
            }
            for (name, tail) in self.wanted(&made).await? {
                link(&mut made, &name, LinkType::Glob, tail)?;
            }
            let write = DocumentWrite {
                key: key(&made.organization, &made.id),
                expect: Expect::Absent,
                content: Some(content(&made)?),
            };
            if self.write(write).await?.is_ok() {
                self.forget(&made.organization);
                self.made.notify_one();
                // Streams that were made meanwhile are news.
                self.compare(&made).await?;
                return Ok((Creation::Made, made));
            }
        }
        Err(Failure::Contended)
    }

    pub(super) async fn delete(&self, organization: &str, id: &str) -> Result<()> {
        let write = DocumentWrite {
            key: key(organization, id),
            expect: Expect::Anything,
            content: None,
        };
        drop(self.write(write).await?);
        self.forget(organization);
        Ok(())
    }

    /// Changes a subscription by what is true at one moment. What a refused change left changed is kept, too.
    pub(super) async fn change<T>(
        &self,
        organization: &str,
        id: &str,
        mut decide: impl FnMut(&mut Subscription, &Tails) -> std::result::Result<T, Problem>,
    ) -> Result<(T, Subscription)> {
        for _ in 0..TRIES_MAX {
            let (version, mut subscription) = self.load(organization, id).await?;
            let before = subscription.clone();
            let tails = self.tails(&subscription).await?;
            let decided = decide(&mut subscription, &tails);
            if self.put(version, &before, &subscription).await? == Put::Done {
                return decided
                    .map(|decided| (decided, subscription))
                    .map_err(Failure::Problem);
            }
        }
        Err(Failure::Contended)
    }

    pub(super) async fn put(
        &self,
        version: u64,
        before: &Subscription,
        after: &Subscription,
    ) -> Result<Put> {
        if before == after {
            return Ok(Put::Done);
        }
        let write = DocumentWrite {
            key: key(&after.organization, &after.id),
            expect: Expect::Version(version),
            content: Some(content(after)?),
        };
        if self.write(write).await?.is_err() {
            return Ok(Put::TooLate);
        }
        if before.links.len() != after.links.len() {
            self.forget(&after.organization);
        }
        Ok(Put::Done)
    }

    /// The streams that its pattern is for.
    pub(super) async fn wanted(&self, subscription: &Subscription) -> Result<Tails> {
        let mut found = Tails::new();
        let Some(pattern) = &subscription.definition.pattern else {
            return Ok(found);
        };
        let prefix = format!("{}/{}", subscription.organization, pattern.literal_prefix());
        let mut after = None;
        loop {
            let page = self
                .streams
                .list(&prefix, after.as_ref(), PAGE, now())
                .await?;
            let is_last = page.len() < PAGE;
            for stream in page {
                if let Some((_, name)) = shown_name(&stream.name)
                    && subscription.wants(&name)
                {
                    found.insert(name.as_str().to_owned(), stream.tail());
                }
                after = Some(stream.name);
            }
            if is_last {
                return Ok(found);
            }
        }
    }

    /// Where its streams end; those that are missing are left out.
    pub(super) async fn tails(&self, subscription: &Subscription) -> Result<Tails> {
        let mut tails = Tails::new();
        for name in subscription.links.keys() {
            if let Some(tail) = self.tail(&subscription.organization, name).await? {
                tails.insert(name.clone(), tail);
            }
        }
        Ok(tails)
    }

    pub(super) async fn tail(&self, organization: &str, name: &str) -> Result<Option<Offset>> {
        let stored = self.stored(organization, name)?;
        match self.streams.head(&stored, now()).await? {
            Ok(stream) => Ok(Some(stream.tail())),
            Err(Unseen::NotFound | Unseen::Gone | Unseen::ForeignOffset) => Ok(None),
        }
    }

    pub(super) fn stored(&self, organization: &str, name: &str) -> Result<StreamName> {
        let shown = name.parse::<StreamName>();
        let stored = shown.and_then(|name| stored_name(organization, &name));
        stored.map_err(|error| {
            tracing::error!(%error, name, "a subscription has a name that is none");
            Failure::Internal
        })
    }

    /// The subscriptions of an organisation.
    pub(super) async fn of(&self, organization: &str) -> Result<Arc<Vec<Subscription>>> {
        let changes = self.changes.load(Ordering::SeqCst);
        if let Some(known) = self.lock().get(organization)
            && known.read_at.elapsed() < BELIEVED
        {
            return Ok(Arc::clone(&known.subscriptions));
        }
        let found = self.list(vec![format!("org:{organization}")]).await?;
        let subscriptions = Arc::new(found);
        // What changed while it was read is not to be believed.
        if self.changes.load(Ordering::SeqCst) == changes {
            let known = Known {
                read_at: Instant::now(),
                subscriptions: Arc::clone(&subscriptions),
            };
            self.lock().insert(organization.to_owned(), known);
        }
        Ok(subscriptions)
    }

    fn forget(&self, organization: &str) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.lock().remove(organization);
    }

    pub(super) fn forget_all(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Known>> {
        // Nothing in here can be half done.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn page(
        &self,
        terms: Vec<String>,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<(DocumentKey, Document)>> {
        let query = DocumentQuery {
            collection: COLLECTION.to_owned(),
            terms,
            order: Order::Ascending,
            after,
            limit,
        };
        Ok(self.streams.documents(&query).await?)
    }

    pub(super) async fn list(&self, terms: Vec<String>) -> Result<Vec<Subscription>> {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let page = self.page(terms.clone(), after, PAGE).await?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|(key, _)| key.id.clone());
            let parsed = page
                .iter()
                .filter_map(|(key, document)| parse(key, &document.content.body));
            found.extend(parsed);
            if is_last {
                return Ok(found);
            }
        }
    }
}

/// Whether a step was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    Done,
    /// Somebody else changed it.
    TooLate,
}

/// Adds a stream, unless there are too many.
pub(super) fn link(
    subscription: &mut Subscription,
    name: &str,
    by: LinkType,
    acked: Offset,
) -> Result<()> {
    if subscription.link(name, by, acked) {
        Ok(())
    } else {
        Err(Failure::TooMany("the subscription is for too many streams"))
    }
}
