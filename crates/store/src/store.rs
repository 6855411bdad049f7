//! The open database.
//!
//! One connection writes and one reads. A write is on the disk when its call returns; readers do not wait for it.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::document::Document;
use crate::error::{Doing, Result, StoreError};
use crate::schema;

/// The database of a server.
#[derive(Debug)]
pub struct Store {
    writer: Mutex<Connection>,
    reader: Mutex<Connection>,
}

impl Store {
    /// Opens the database, makes it if it is missing, and brings it to this version.
    pub fn open(path: &Path) -> Result<Self> {
        let writer = schema::open(path)?;
        let reader = schema::open_reader(path)?;
        Ok(Self {
            writer: Mutex::new(writer),
            reader: Mutex::new(reader),
        })
    }

    /// Changes the database: all that `change` does, or nothing.
    pub fn write<T, E: From<StoreError>>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut writer = lock(&self.writer);
        let transaction = writer
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .doing("begin a transaction")?;
        let transaction = Transaction { inner: transaction };
        let result = change(&transaction)?;
        transaction.inner.commit().doing("commit a transaction")?;
        Ok(result)
    }

    /// Stores a document, in place of the one with its id.
    pub fn put<D: Document>(&self, document: &D) -> Result<()> {
        self.write(|transaction| transaction.put(document))
    }

    /// Removes a document, and says whether it was there.
    pub fn delete<D: Document>(&self, id: &str) -> Result<bool> {
        self.write(|transaction| transaction.delete::<D>(id))
    }

    pub fn get<D: Document>(&self, id: &str) -> Result<Option<D>> {
        get(&lock(&self.reader), "id = ?1", [id])
    }

    pub fn find_by_name<D: Document>(&self, owner: &str, name: &str) -> Result<Option<D>> {
        get(
            &lock(&self.reader),
            "owner = ?1 AND name = ?2",
            [owner, name],
        )
    }

    /// All documents of one owner, by name.
    pub fn list<D: Document>(&self, owner: &str) -> Result<Vec<D>> {
        list(&lock(&self.reader), "WHERE owner = ?1", [owner])
    }

    /// All documents of a kind, by owner and name.
    pub fn all<D: Document>(&self) -> Result<Vec<D>> {
        list(&lock(&self.reader), "", [])
    }
}

/// A change in the making.
#[derive(Debug)]
pub struct Transaction<'a> {
    inner: rusqlite::Transaction<'a>,
}

impl Transaction<'_> {
    pub fn put<D: Document>(&self, document: &D) -> Result<()> {
        let text = serde_json::to_string(document).map_err(malformed::<D>)?;
        let sql = format!(
            "INSERT INTO {} (id, owner, name, document) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (id) DO UPDATE SET owner = ?2, name = ?3, document = ?4",
            D::KIND.table()
        );
        let mut statement = self.inner.prepare_cached(&sql).doing("prepare a write")?;
        match statement.execute(params![
            document.id(),
            document.owner(),
            document.name(),
            text
        ]) {
            Ok(_) => Ok(()),
            Err(rusqlite::Error::SqliteFailure(failure, _))
                if failure.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE =>
            {
                Err(StoreError::NameTaken {
                    name: document.name().to_owned(),
                })
            }
            Err(source) => Err(StoreError::Sql {
                doing: "store a document",
                source,
            }),
        }
    }

    pub fn delete<D: Document>(&self, id: &str) -> Result<bool> {
        let sql = format!("DELETE FROM {} WHERE id = ?1", D::KIND.table());
        let mut statement = self.inner.prepare_cached(&sql).doing("prepare a removal")?;
        let removed = statement.execute([id]).doing("remove a document")?;
        Ok(removed > 0)
    }

    pub fn get<D: Document>(&self, id: &str) -> Result<Option<D>> {
        get(&self.inner, "id = ?1", [id])
    }

    /// All documents of a kind, as this transaction sees them.
    pub fn all<D: Document>(&self) -> Result<Vec<D>> {
        list(&self.inner, "", [])
    }

    /// All documents of one owner, as this transaction sees them.
    pub fn list<D: Document>(&self, owner: &str) -> Result<Vec<D>> {
        list(&self.inner, "WHERE owner = ?1", [owner])
    }
}

fn get<D: Document>(
    connection: &Connection,
    condition: &str,
    parameters: impl rusqlite::Params,
) -> Result<Option<D>> {
    let sql = format!("SELECT document FROM {} WHERE {condition}", D::KIND.table());
    let mut statement = connection.prepare_cached(&sql).doing("prepare a query")?;
    let text: Option<String> = statement
        .query_row(parameters, |row| row.get(0))
        .optional()
        .doing("read a document")?;
    text.map(|text| serde_json::from_str(&text).map_err(malformed::<D>))
        .transpose()
}

fn list<D: Document>(
    connection: &Connection,
    condition: &str,
    parameters: impl rusqlite::Params,
) -> Result<Vec<D>> {
    let sql = format!(
        "SELECT document FROM {} {condition} ORDER BY owner, name",
        D::KIND.table()
    );
    let mut statement = connection.prepare_cached(&sql).doing("prepare a query")?;
    let texts = statement
        .query_map(parameters, |row| row.get::<_, String>(0))
        .doing("read documents")?;
    texts
        .map(|text| {
            let text = text.doing("read a document")?;
            serde_json::from_str(&text).map_err(malformed::<D>)
        })
        .collect()
}

fn malformed<D: Document>(source: serde_json::Error) -> StoreError {
    StoreError::Malformed {
        kind: D::KIND.table(),
        source,
    }
}

/// A panic in another thread rolled its transaction back: the connection is good.
fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
