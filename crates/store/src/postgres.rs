//! Streams in Postgres, for several servers over the same threads.
//!
//! - [`PostgresStreams`] is the store. Each server has one: one committer, few readers, one listener, one that clears up.
//! - `turn` keeps servers apart, and finds out what became of a commit whose answer was lost.
//! - `schema` has the tables and their versions.
//!
//! **Time** is the caller's `now`, as in every store: decisions are functions of it, and are the same whoever makes them. Servers over one
//! database must have clocks that agree (NTP); by as much as they do not, sliding lifetimes are longer or shorter. Nothing else hangs on it:
//! order is that of turns, not of clocks.
//!
//! It takes plain sessions: a proxy that hands out the sessions of others between transactions loses notifications and prepared statements.

mod address;
mod committer;
mod error;
mod facts;
mod garbage;
mod listener;
mod queue;
mod read;
mod readers;
mod rows;
mod schema;
mod session;
mod tls;
mod turn;
mod write;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use holm_thread_log::{
    Command, Decision, Document, DocumentKey, DocumentQuery, Feed, Hub, Page, ReadFrom, Result,
    Rules, Seen, StreamName, StreamState, StreamStore, Timestamp, Watch,
};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use address::Address;
use committer::{Committer, Memory};
pub use error::PostgresError;
use listener::Announcement;
use queue::Queue;
use readers::Readers;

/// Bounds of one server's use of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostgresOptions {
    /// Commands that may wait to be stored; one more is [`StoreError::Busy`](holm_thread_log::StoreError::Busy).
    pub queued_commands_max: usize,
    /// The same, in bytes of what they carry.
    pub queued_bytes_max: usize,
    /// Sessions for reading.
    pub reading_sessions_max: usize,
    /// How long commands and reads wait for a database that is away; half of it for each answer.
    pub patience: Duration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            queued_commands_max: 8192,
            queued_bytes_max: 128 << 20,
            reading_sessions_max: 4,
            patience: Duration::from_secs(20),
        }
    }
}

/// A store of streams in a Postgres database that other servers use too. Dropped, it stores what it has taken, and ends.
#[derive(Debug)]
pub struct PostgresStreams {
    queue: Queue,
    readers: Readers,
    hub: Hub,
    place: String,
    /// Ended with the store. The committer is not among them: it ends when its queue has.
    _helpers: JoinSet<()>,
}

impl PostgresStreams {
    /// Connects, checks that the database is fit, and brings its tables to this version. `url` is
    /// `postgres://user:password@host:port/database`, with the parameters of Postgres' own clients; what is said about it never has
    /// a password in it. Must be called inside of a Tokio runtime.
    pub async fn connect(
        url: &str,
        rules: Arc<dyn Rules>,
        options: PostgresOptions,
    ) -> Result<Self, PostgresError> {
        let mut address = Address::parse(url, options.patience / 2)?;
        let announcement = Announcement::new();
        address
            .config
            .application_name(announcement.application_name());
        let session = schema::prepare(&address).await?;
        let hub = Hub::new();
        let listening = listener::begin(&address, announcement, &hub).await?;
        let garbage = Arc::new(Notify::new());
        let (queue, jobs) = Queue::new(options.queued_commands_max, options.queued_bytes_max);
        let committer = Committer {
            address: address.clone(),
            rules,
            hub: hub.clone(),
            announcement,
            patience: options.patience,
            garbage: Arc::clone(&garbage),
            session: Some(session),
            memory: Memory::default(),
        };
        tokio::spawn(committer.run(jobs));
        let mut helpers = JoinSet::new();
        helpers.spawn(listener::listen(
            listening,
            address.clone(),
            announcement,
            hub.clone(),
        ));
        helpers.spawn(garbage::collect(address.clone(), garbage));
        Ok(Self {
            queue,
            place: address.place.clone(),
            readers: Readers::new(address, options.reading_sessions_max, options.patience),
            hub,
            _helpers: helpers,
        })
    }

    /// Host, port and database, for messages.
    pub fn place(&self) -> &str {
        &self.place
    }
}

#[async_trait]
impl StreamStore for PostgresStreams {
    async fn apply(&self, command: Command, now: Timestamp) -> Result<Decision> {
        self.queue.apply(command, now).await
    }

    async fn head(&self, name: &StreamName, now: Timestamp) -> Result<Seen<StreamState>> {
        self.readers
            .read("read a stream", |session| async move {
                read::head(&session, name, now).await
            })
            .await
    }

    async fn read(
        &self,
        name: &StreamName,
        from: ReadFrom,
        bytes_max: usize,
        now: Timestamp,
    ) -> Result<Seen<Page>> {
        self.readers
            .read("read a stream", |session| async move {
                read::page(&session, name, from, bytes_max, now).await
            })
            .await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&StreamName>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<StreamState>> {
        self.readers
            .read("list streams", |session| async move {
                read::list(&session, prefix, after, limit, now).await
            })
            .await
    }

    async fn overdue(&self, now: Timestamp, limit: usize) -> Result<Vec<StreamName>> {
        self.readers
            .read(
                "look for streams whose time is over",
                |session| async move { read::overdue(&session, now, limit).await },
            )
            .await
    }

    async fn document(&self, key: &DocumentKey) -> Result<Option<Document>> {
        self.readers
            .read("read a document", |session| async move {
                read::document(&session, key).await
            })
            .await
    }

    async fn documents(&self, query: &DocumentQuery) -> Result<Vec<(DocumentKey, Document)>> {
        self.readers
            .read("list documents", |session| async move {
                read::documents(&session, query).await
            })
            .await
    }

    fn watch(&self, name: &StreamName) -> Watch {
        self.hub.watch(name)
    }

    fn feed(&self) -> Feed {
        self.hub.feed()
    }
}
