//! Streams in SQLite, in the same file as the documents.
//!
//! ```text
//!     apply ─▶ queue ─▶ committer (a thread) ─▶ wakes readers, answers writers
//!     head, read, list, … ─▶ readers (a few connections, on threads that may block)
//! ```
//!
//! One file per duty: `queue` bounds what waits, `committer` decides and stores, `lookup` reads what decisions need, `write` has the
//! changes as SQL, `recent` has the entries that came last and `growth` the streams that they are of, `bundle` how they lie once they have moved, `remains` clears up after removed streams, `checkpoint` keeps the log short, `read` and `readers` are for readers,
//! `failure` says what errors mean, `faults` makes them happen in tests.
//!
//! **Invariant:** streams have one writer, held by a lock beside the database; other processes may write documents meanwhile.

mod bundle;
mod checkpoint;
mod committer;
mod failure;
mod faults;
mod growth;
mod lookup;
mod options;
mod queue;
mod read;
mod readers;
mod recent;
mod remains;
mod row;
mod write;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use async_trait::async_trait;
use holm_thread_log::{
    Command, Decision, Document, DocumentKey, DocumentQuery, Feed, Hub, Page, ReadFrom, Result,
    Seen, StreamName, StreamState, StreamStore, Timestamp, Watch, visible,
};
use rusqlite::Connection;

use self::checkpoint::Log;
use self::committer::Committer;
#[cfg(any(test, feature = "testing"))]
pub use self::faults::{Fault, FaultPoint, Faults};
use self::growth::GrownStreams;
pub use self::options::{FailStop, SqliteOptions};
use self::queue::Queue;
use self::readers::Readers;
use self::recent::RecentEntries;
use crate::error::{Doing as _, StoreError};
use crate::schema;

/// How often a reader that was overtaken looks again. Once is rare; so often, something is wrong.
const SNAPSHOTS_MAX: usize = 16;

/// Streams, and the documents that change with them.
#[derive(Debug)]
pub struct SqliteStreams {
    /// `None` while it is dropped.
    queue: Option<Queue>,
    readers: Readers,
    recent: RecentEntries,
    grown: GrownStreams,
    hub: Hub,
    committer: Option<JoinHandle<()>>,
}

impl SqliteStreams {
    /// Opens the database, makes it if it is missing, and brings it to this version. Blocks.
    pub fn open(path: &Path, options: SqliteOptions) -> crate::Result<Self> {
        let lock = lock(path)?;
        let mut writer = schema::open(path)?;
        let log = Log::follow(&mut writer, schema::open(path)?)?;
        let readers: Vec<_> = (0..options.readers.max(1))
            .map(|_| schema::open_reader(path))
            .collect::<crate::Result<_>>()?;
        let hub = Hub::new();
        let readers = Readers::new(readers, options.patience);
        let (queue, jobs) = queue::queue(options.queue_bytes_max, options.patience);
        let committer = Committer::new(writer, log, lock, jobs, hub.clone(), options)
            .doing("read where streams stand")?;
        let recent = committer.recent_entries();
        let grown = committer.grown_streams();
        let committer = std::thread::Builder::new()
            .name("stream-committer".to_owned())
            .spawn(move || committer.run())
            .map_err(|source| StoreError::Thread { source })?;
        Ok(Self {
            queue: Some(queue),
            readers,
            recent,
            grown,
            hub,
            committer: Some(committer),
        })
    }

    /// Reads of one moment, and returns when memory is no longer behind it.
    async fn look<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let both =
            move |connection: &_| Ok((work(connection)?, lookup::last_recent_row(connection)?));
        let (found, row) = self.readers.read(doing, both).await?;
        self.grown.published(row).await;
        Ok(found)
    }
}

/// Waits until what was asked for is stored.
impl Drop for SqliteStreams {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(committer) = self.committer.take() {
            // A panic of the committer was seen by those who waited for it.
            drop(committer.join());
        }
    }
}

/// Held by the committer for as long as it lives, and let go by the kernel when the process dies.
fn lock(path: &Path) -> crate::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push("-streams-lock");
    let name = PathBuf::from(name);
    let failed = |source| StoreError::Lock {
        path: name.clone(),
        source,
    };
    let file = File::create(&name).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse {
            path: path.to_path_buf(),
        }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

#[async_trait]
impl StreamStore for SqliteStreams {
    async fn apply(&self, command: Command, now: Timestamp) -> Result<Decision> {
        match &self.queue {
            Some(queue) => queue.ask(command, now).await,
            None => Err(holm_thread_log::StoreError::Stopped),
        }
    }

    async fn head(&self, name: &StreamName, now: Timestamp) -> Result<Seen<StreamState>> {
        if let Some(grown) = self.grown.get(name) {
            return Ok(visible(Some(StreamState::clone(&grown)), now));
        }
        let name = name.clone();
        let work = move |connection: &_| read::head(connection, &name, now);
        self.look("look at a stream", work).await
    }

    async fn read(
        &self,
        name: &StreamName,
        from: ReadFrom,
        bytes_max: usize,
        now: Timestamp,
    ) -> Result<Seen<Page>> {
        let wanted = read::Wanted {
            name: name.clone(),
            from,
            bytes_max,
            now,
        };
        for _ in 0..SNAPSHOTS_MAX {
            let grown = self.grown.get(name);
            let in_memory = grown
                .as_ref()
                .and_then(|grown| read::page_in_memory(&self.recent, grown, &wanted));
            if let Some(page) = in_memory {
                // Who reads on and on without waiting for anything lets others have their turn.
                tokio::task::coop::consume_budget().await;
                return Ok(page);
            }
            let (wanted, recent) = (wanted.clone(), self.recent.clone());
            let work =
                move |connection: &_| read::page(connection, &recent, grown.as_deref(), &wanted);
            if let Some(page) = self.look("read a stream", work).await? {
                return Ok(page);
            }
        }
        Err(holm_thread_log::StoreError::Failed {
            doing: "read a stream",
            source: "its entries are missing".into(),
        })
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&StreamName>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<StreamState>> {
        let (prefix, after) = (prefix.to_owned(), after.cloned());
        let grown = self.grown.below(&prefix, after.as_ref());
        let work = move |connection: &_| {
            read::list(connection, &grown, &prefix, after.as_ref(), limit, now)
        };
        self.look("list streams", work).await
    }

    async fn overdue(&self, now: Timestamp, limit: usize) -> Result<Vec<StreamName>> {
        let work = move |connection: &_| read::overdue(connection, now, limit);
        self.look("find streams whose time is over", work).await
    }

    async fn document(&self, key: &DocumentKey) -> Result<Option<Document>> {
        let key = key.clone();
        let work = move |connection: &_| lookup::document(connection, &key);
        self.look("read a document", work).await
    }

    async fn documents(&self, query: &DocumentQuery) -> Result<Vec<(DocumentKey, Document)>> {
        let query = query.clone();
        let work = move |connection: &_| read::documents(connection, &query);
        self.look("list documents", work).await
    }

    fn watch(&self, name: &StreamName) -> Watch {
        self.hub.watch(name)
    }

    fn feed(&self) -> Feed {
        self.hub.feed()
    }
}
