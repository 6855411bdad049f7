//! The tables, and how a database of an earlier version becomes one of this version.

use rusqlite::Connection;

use crate::document::Kind;
use crate::error::{Doing, Result};

/// The version of the tables; each migration adds one.
pub const SCHEMA_VERSION: u32 = 1;

/// What takes the database from version `n` to `n + 1`, at index `n`. Never changed once released.
const MIGRATIONS: [fn() -> String; SCHEMA_VERSION as usize] = [document_tables];

/// Runs what is missing, all or nothing.
pub(crate) fn migrate(connection: &mut Connection) -> Result<()> {
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

pub(crate) fn version(connection: &Connection) -> Result<u32> {
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
