//! Removes what belonged to streams that are gone.
//!
//! A stream may have millions of entries, and removing them takes longer than a turn may. Their stream's id is never used again and
//! nothing reads them, so they go by and by, outside of turns. Which streams have some left is in a table: it survives everything.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use super::address::Address;
use super::error::PostgresError;
use super::rows::column;
use super::session::{Role, Session};

/// Letters of `holm`, and a number.
const GARBAGE_LOCK: i64 = 0x686f_6c6d_0000_0003;
/// Rows that are removed by one transaction.
const ROWS_MAX: i64 = 5_000;
/// Another server may have died before it was done.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// After an error.
const PAUSE: Duration = Duration::from_secs(5);

pub(super) async fn collect(address: Address, wanted: Arc<Notify>) {
    loop {
        if let Err(error) = collect_all(&address).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "could not remove what is left of streams"
            );
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        // Whether somebody asked or the time is over, it is the same to us.
        drop(timeout(LOOK_AGAIN, wanted.notified()).await);
    }
}

async fn collect_all(address: &Address) -> Result<(), PostgresError> {
    let session = Session::connect(address, Role::Reader).await?;
    // Given back when the session ends. Whoever has it does the work of all.
    let lock = "SELECT pg_try_advisory_lock($1)";
    let rows = session
        .query("become the one that removes", lock, &[&GARBAGE_LOCK])
        .await?;
    let is_ours = rows
        .first()
        .map(|row| column(row, 0))
        .transpose()?
        .unwrap_or(false);
    if !is_ours {
        return Ok(());
    }
    while let Some(stream) = next(&session).await? {
        for sql in REMOVALS {
            while session
                .execute(
                    "remove what is left of a stream",
                    sql,
                    &[&stream, &ROWS_MAX],
                )
                .await?
                > 0
            {}
        }
        let done = "DELETE FROM holm.log_garbage WHERE stream = $1";
        session
            .execute("forget a removed stream", done, &[&stream])
            .await?;
    }
    Ok(())
}

async fn next(session: &Session) -> Result<Option<i64>, PostgresError> {
    let sql = "SELECT stream FROM holm.log_garbage ORDER BY stream LIMIT 1";
    let rows = session.query("look for removed streams", sql, &[]).await?;
    rows.first().map(|row| column(row, 0)).transpose()
}

const REMOVALS: [&str; 3] = [
    "DELETE FROM holm.log_entries WHERE stream = $1 AND position IN
        (SELECT position FROM holm.log_entries WHERE stream = $1 ORDER BY position LIMIT $2)",
    "DELETE FROM holm.log_producers WHERE stream = $1 AND producer IN
        (SELECT producer FROM holm.log_producers WHERE stream = $1 ORDER BY producer LIMIT $2)",
    "DELETE FROM holm.log_entry_keys WHERE stream = $1 AND key IN
        (SELECT key FROM holm.log_entry_keys WHERE stream = $1 ORDER BY key LIMIT $2)",
];
