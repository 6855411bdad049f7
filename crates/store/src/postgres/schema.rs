//! The tables, and how a database of an earlier version becomes one of this version.
//!
//! Several servers may start at once: the first one changes the tables, the others wait for it. One of an earlier version that still
//! runs finds the new version in its next turn, and writes no more.

use super::address::Address;
use super::error::PostgresError;
use super::session::{Role, Session};

/// The version of the tables; each migration adds one.
pub(super) const SCHEMA_VERSION: i32 = 1;

/// What takes the database from version `n` to `n + 1`, at index `n`. Never changed once released.
const MIGRATIONS: [&str; 1] = [STREAMS];

/// Held while tables change. Letters of `holm`, and a number.
const MIGRATION_LOCK: i64 = 0x686f_6c6d_0000_0001;

/// The oldest Postgres that the statements were written for.
const SERVER_VERSION_MIN: i32 = 130_000;

/// Text sorts by its bytes, as names do everywhere else. Rows of streams change often: room is left in their pages.
///
/// `log_turns` is what servers are kept apart by: see `turn.rs`. `log_garbage` names streams that are gone, and whose
/// entries still have to be removed: see `garbage.rs`.
const STREAMS: &str = r#"
CREATE TABLE holm.log_streams (
    id bigint PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    content_type text NOT NULL,
    lifetime_kind smallint NOT NULL,
    lifetime_value bigint NOT NULL,
    created_at bigint NOT NULL,
    last_access bigint NOT NULL,
    last_seen bigint,
    closed boolean NOT NULL,
    deleted boolean NOT NULL,
    origin_source bigint,
    origin_name text,
    origin_at text,
    origin_sub_offset bigint,
    inherited text NOT NULL,
    tail_position bigint NOT NULL,
    size_bytes bigint NOT NULL,
    forks bigint NOT NULL,
    stream_seq text,
    deadline bigint
) WITH (fillfactor = 70);
CREATE INDEX log_streams_deadline ON holm.log_streams (deadline, name) WHERE deadline IS NOT NULL;
CREATE SEQUENCE holm.log_stream_ids AS bigint;
CREATE TABLE holm.log_entries (
    stream bigint NOT NULL,
    position bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (stream, position)
);
CREATE TABLE holm.log_producers (
    stream bigint NOT NULL,
    producer text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    last_seq bigint NOT NULL,
    PRIMARY KEY (stream, producer)
) WITH (fillfactor = 70);
CREATE TABLE holm.log_entry_keys (
    stream bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (stream, key)
);
CREATE TABLE holm.log_documents (
    collection text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    body bytea NOT NULL,
    terms text[] COLLATE "C" NOT NULL,
    PRIMARY KEY (collection, id)
) WITH (fillfactor = 70);
CREATE TABLE holm.log_terms (
    collection text COLLATE "C" NOT NULL,
    term text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    PRIMARY KEY (collection, term, id)
);
CREATE TABLE holm.log_turns (
    number bigint PRIMARY KEY,
    batch uuid NOT NULL
);
CREATE TABLE holm.log_garbage (
    stream bigint PRIMARY KEY
);
"#;

/// Checks that the database is fit, and brings it to this version: all or nothing.
pub(super) async fn migrate(session: &Session, address: &Address) -> Result<(), PostgresError> {
    check(session, address).await?;
    session.run("begin the migration", "BEGIN").await?;
    let lock = "SELECT pg_advisory_xact_lock($1)";
    session
        .query(
            "wait for another server's migration",
            lock,
            &[&MIGRATION_LOCK],
        )
        .await?;
    let found = version(session).await?;
    if found > SCHEMA_VERSION {
        let place = address.place.clone();
        return Err(PostgresError::TooNew { place, found });
    }
    let missing = MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0));
    for migration in missing {
        session.run("change the tables", migration).await?;
    }
    if found < SCHEMA_VERSION {
        let write = "INSERT INTO holm.log_version (version) VALUES ($1)
                     ON CONFLICT (single) DO UPDATE SET version = $1";
        session
            .execute("write the version of the tables", write, &[&SCHEMA_VERSION])
            .await?;
    }
    session.run("commit the migration", "COMMIT").await
}

/// Zero, if there are no tables yet; then there is a place for them.
async fn version(session: &Session) -> Result<i32, PostgresError> {
    let doing = "read the version of the tables";
    let there =
        "SELECT to_regnamespace('holm') IS NOT NULL, to_regclass('holm.log_version') IS NOT NULL";
    let rows = session.query(doing, there, &[]).await?;
    let row = rows
        .first()
        .ok_or(PostgresError::Malformed { what: "no version" })?;
    let (has_schema, has_version): (bool, bool) = (row.get(0), row.get(1));
    // Only if it is missing: who may not make one may have been given one.
    if !has_schema {
        session
            .run("make a schema `holm`", "CREATE SCHEMA holm")
            .await?;
    }
    if !has_version {
        let table = "CREATE TABLE holm.log_version (single boolean PRIMARY KEY DEFAULT true CHECK (single), version integer NOT NULL)";
        session.run("make the table of the version", table).await?;
        return Ok(0);
    }
    let rows = session
        .query(doing, "SELECT version FROM holm.log_version", &[])
        .await?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}

async fn check(session: &Session, address: &Address) -> Result<(), PostgresError> {
    let settings =
        "SELECT current_setting('fsync') = 'on', current_setting('server_encoding') = 'UTF8',
                           current_setting('server_version_num')::integer";
    let rows = session
        .query("read the database's settings", settings, &[])
        .await?;
    let row = rows.first().ok_or(PostgresError::Malformed {
        what: "no settings",
    })?;
    let (is_synced, is_utf8, server_version): (bool, bool, i32) =
        (row.get(0), row.get(1), row.get(2));
    let why = if server_version < SERVER_VERSION_MIN {
        "Holm needs Postgres 13 or later"
    } else if !is_synced {
        "it runs with `fsync = off`, and would forget what it has confirmed"
    } else if !is_utf8 {
        "its encoding is not UTF8"
    } else {
        return Ok(());
    };
    let place = address.place.clone();
    Err(PostgresError::Unfit { place, why })
}

/// Connects, checks and migrates: what must work before a server serves.
pub(super) async fn prepare(address: &Address) -> Result<Session, PostgresError> {
    let session = Session::connect(address, Role::Committer).await?;
    migrate(&session, address).await?;
    Ok(session)
}
