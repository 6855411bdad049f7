//! Opening the database; its tables, and how one of an earlier version becomes one of this version.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use crate::document::Kind;
use crate::error::{Doing, Result, StoreError};

/// How long a write waits for another one, such as `holm key create` beside a server.
const BUSY_PATIENCE: Duration = Duration::from_secs(10);

/// The version of the tables; each migration adds one.
pub const SCHEMA_VERSION: u32 = 3;

/// What takes the database from version `n` to `n + 1`, at index `n`. Never changed once released.
const MIGRATIONS: [fn() -> String; SCHEMA_VERSION as usize] =
    [document_tables, stream_tables, growth_columns];

/// Opens the database for writing, makes it if it is missing, and brings it to this version.
pub(crate) fn open(path: &Path) -> Result<Connection> {
    let mut connection = connect(path)?;
    let found = version(&connection)?;
    if found > SCHEMA_VERSION {
        return Err(StoreError::TooNew {
            path: path.to_path_buf(),
            found,
            known: SCHEMA_VERSION,
        });
    }
    if found < SCHEMA_VERSION {
        migrate(&mut connection)?;
    }
    Ok(connection)
}

/// Opens a database that [`open`] has seen, for reading only.
pub(crate) fn open_reader(path: &Path) -> Result<Connection> {
    let reader = connect(path)?;
    reader
        .pragma_update(None, "query_only", true)
        .doing("make a connection that only reads")?;
    Ok(reader)
}

fn connect(path: &Path) -> Result<Connection> {
    let opened = Connection::open(path).and_then(|connection| {
        connection.busy_timeout(BUSY_PATIENCE)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // An acknowledged change survives a power cut, not only a killed process.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        // What is deleted or replaced may be a secret: it is written over, not only forgotten.
        connection.pragma_update(None, "secure_delete", true)?;
        Ok(connection)
    });
    opened.map_err(|source| StoreError::Open {
        path: path.to_path_buf(),
        source,
    })
}

/// Runs what is missing, all or nothing.
fn migrate(connection: &mut Connection) -> Result<()> {
    let transaction = connection
        .transaction_with_behavior(rusqlite::TransactionBehavior::Exclusive)
        .doing("begin the migration")?;
    // Read under the lock: another process may have been quicker.
    let from = version(&transaction)?;
    let missing = MIGRATIONS
        .iter()
        .skip(usize::try_from(from).unwrap_or(usize::MAX));
    for migration in missing {
        transaction
            .execute_batch(&migration())
            .doing("change the tables")?;
    }
    transaction
        .pragma_update(None, "user_version", SCHEMA_VERSION)
        .doing("write the version of the tables")?;
    transaction.commit().doing("commit the migration")
}

fn version(connection: &Connection) -> Result<u32> {
    connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .doing("read the version of the tables")
}

fn document_tables() -> String {
    let table = |kind: Kind| {
        let name = kind.table();
        format!(
            "CREATE TABLE {name} (
                 id TEXT PRIMARY KEY NOT NULL,
                 owner TEXT NOT NULL,
                 name TEXT NOT NULL,
                 document TEXT NOT NULL,
                 UNIQUE (owner, name)
             ) STRICT, WITHOUT ROWID;\n"
        )
    };
    Kind::ALL.iter().map(|kind| table(*kind)).collect()
}

/// Streams; see docs/design/006-threads.md. Only the committer writes them.
fn stream_tables() -> String {
    include_str!("sqlite/tables.sql").to_owned()
}

fn growth_columns() -> String {
    include_str!("sqlite/growth.sql").to_owned()
}

#[cfg(test)]
mod tests {
    use holm_thread_log::{ReadFrom, StreamStore as _, Timestamp};

    use super::*;
    use crate::{SqliteOptions, SqliteStreams};

    /// Entries that had moved, and some that had not.
    #[tokio::test]
    async fn streams_of_an_earlier_version_are_read_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("holm.db");
        let old = connect(&path).unwrap();
        old.execute_batch(&(document_tables() + &stream_tables()))
            .unwrap();
        old.execute_batch(
            "INSERT INTO streams (id, name, content_type, lifetime_kind, lifetime_value, created_at, last_access, closed, deleted,
                 tail_position, size_bytes, forks)
             VALUES (1, 'a', 'text/plain', 0, 0, 0, 0, 0, 0, 3, 6, 0);
             UPDATE stream_counter SET last_id = 1;
             INSERT INTO entries VALUES (1, 1, x'6f6e65');
             INSERT INTO recent_entries VALUES (1, 1, 1, x'6f6e65'), (2, 1, 2, x'74'), (3, 1, 3, x'776f');
             PRAGMA user_version = 2;",
        )
        .unwrap();
        drop(old);
        let store = SqliteStreams::open(&path, SqliteOptions::default()).unwrap();
        let name = "a".parse().unwrap();
        let page = store.read(&name, ReadFrom::Start, 100, Timestamp(1)).await;
        let page = page.unwrap().unwrap();
        assert_eq!(page.body, "onetwo");
        assert_eq!((page.stream.tail_position, page.stream.size_bytes), (3, 6));
    }
}
