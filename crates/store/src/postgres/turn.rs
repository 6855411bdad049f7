//! Whose turn it is: how servers over one database are kept apart.
//!
//! ```text
//!     BEGIN ─▶ wait for the lock ─▶ read the last turn n ─▶ read facts, decide, write ─▶ insert turn n + 1 ─▶ COMMIT
//!                                                                                                    │ no answer
//!                                  turn n + 1 is ours: committed ◀── wait for the lock again ◀───────┘
//!                                  it is not:          nothing happened
//! ```
//!
//! - Turns are numbered without gaps, and the number is a primary key: of two batches that were decided from the same facts, one fails.
//!   That is the fence. The lock only spares them the collision.
//! - Who holds the lock sees all that was committed, and nobody else writes. So there are no deadlocks, and facts that were true after
//!   our last turn are true still if the last turn is ours.
//! - A lost answer to a COMMIT is found out, not guessed. The lock is free only when the transaction has ended one way or the other.

use uuid::Uuid;

use super::address::Address;
use super::error::{PostgresError, all};
use super::rows::column;
use super::schema::SCHEMA_VERSION;
use super::session::Session;

/// Held by the server whose turn it is. Letters of `holm`, and a number.
const TURN_LOCK: i64 = 0x686f_6c6d_0000_0002;

/// How many turns are remembered. One that is older cannot be told from one that never was.
const TURNS_KEPT: i64 = 10_000;

/// How often old turns are removed, in turns.
const TURNS_SWEPT: i64 = 256;

const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";
/// A statement of its own, so that it sees what was committed while the one before it waited.
const LAST: &str =
    "SELECT coalesce(max(number), 0), (SELECT version FROM holm.log_version) FROM holm.log_turns";

/// A transaction in which nobody else writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    /// The last one that was committed; ours is the next.
    pub(super) last: i64,
    batch: Uuid,
    process_id: i32,
}

/// What became of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Committed,
    /// Nothing has happened.
    Undone,
    /// Too long ago to tell.
    Forgotten,
}

impl Turn {
    pub(super) async fn begin(session: &Session, address: &Address) -> Result<Self, PostgresError> {
        session.prepare(&[LOCK, LAST]).await?;
        let begin = async {
            let begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
            session
                .run("begin a transaction", begin)
                .await
                .map(|()| Vec::new())
        };
        let lock = session.query("wait for its turn to write", LOCK, &[&TURN_LOCK]);
        let last = session.query("read the last turn", LAST, &[]);
        let [_, _, rows] = all(tokio::join!(biased; begin, lock, last).into())?;
        let row = rows
            .first()
            .ok_or(PostgresError::Malformed { what: "no turn" })?;
        let found: i32 = column(row, 1)?;
        if found != SCHEMA_VERSION {
            let place = address.place.clone();
            return Err(PostgresError::TooNew { place, found });
        }
        Ok(Self {
            last: column(row, 0)?,
            batch: Uuid::new_v4(),
            process_id: session.process_id,
        })
    }

    pub(super) fn number(self) -> i64 {
        self.last + 1
    }

    /// Writes down that this turn was taken: the last thing before its commit.
    pub(super) async fn write(self, session: &Session) -> Result<(), PostgresError> {
        let doing = "write the turn";
        let insert = "INSERT INTO holm.log_turns (number, batch) VALUES ($1, $2)";
        session
            .execute(doing, insert, &[&self.number(), &self.batch])
            .await?;
        if self.number() % TURNS_SWEPT == 0 {
            let sweep = "DELETE FROM holm.log_turns WHERE number <= $1";
            let oldest = self.number() - TURNS_KEPT;
            session
                .execute("forget old turns", sweep, &[&oldest])
                .await?;
        }
        Ok(())
    }

    /// Finds out, on another session, whether this turn was committed.
    pub(super) async fn fate(
        self,
        session: &Session,
        address: &Address,
    ) -> Result<Fate, PostgresError> {
        // The old process may wait for words that will never come. It is told to end, unless its number is somebody else's by now.
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE pid = $1 AND application_name = current_setting('application_name') AND pid <> pg_backend_pid()";
        session
            .query("end a lost session", end, &[&self.process_id])
            .await?;
        let now = Self::begin(session, address).await?;
        let find = "SELECT 1 FROM holm.log_turns WHERE number = $1 AND batch = $2";
        let found = session
            .query(
                "find out whether a turn was committed",
                find,
                &[&self.number(), &self.batch],
            )
            .await?;
        session.run("end a transaction", "ROLLBACK").await?;
        Ok(if !found.is_empty() {
            Fate::Committed
        } else if now.last - self.number() < TURNS_KEPT {
            Fate::Undone
        } else {
            Fate::Forgotten
        })
    }
}
