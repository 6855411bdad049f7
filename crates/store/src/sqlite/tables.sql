CREATE TABLE streams (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    content_type TEXT NOT NULL,
    lifetime_kind INTEGER NOT NULL,
    lifetime_value INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    last_access INTEGER NOT NULL,
    last_seen INTEGER,
    closed INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    origin_source INTEGER,
    origin_name TEXT,
    origin_at TEXT,
    origin_sub_offset INTEGER,
    inherited TEXT,
    tail_position INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    forks INTEGER NOT NULL,
    stream_seq TEXT,
    deadline INTEGER
) STRICT;
CREATE INDEX streams_by_deadline ON streams (deadline) WHERE deadline IS NOT NULL;

CREATE TABLE entries (
    stream INTEGER NOT NULL,
    position INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (stream, position)
) STRICT, WITHOUT ROWID;

-- Where entries come first, in the order of their coming. Those that are in `entries` too have moved there.
CREATE TABLE recent_entries (
    row INTEGER PRIMARY KEY,
    stream INTEGER NOT NULL,
    position INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;

CREATE TABLE producers (
    stream INTEGER NOT NULL,
    producer TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    PRIMARY KEY (stream, producer)
) STRICT, WITHOUT ROWID;

CREATE TABLE entry_keys (
    stream INTEGER NOT NULL,
    key TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (stream, key)
) STRICT, WITHOUT ROWID;

-- The terms stand in the document, and again where documents are found by them.
CREATE TABLE log_documents (
    collection TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    terms TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (collection, id)
) STRICT;
CREATE TABLE log_terms (
    collection TEXT NOT NULL,
    term TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (collection, term, id)
) STRICT, WITHOUT ROWID;

-- The last id that a stream got: ids are never used again.
CREATE TABLE stream_counter (last_id INTEGER NOT NULL) STRICT;
INSERT INTO stream_counter (last_id) VALUES (0);

-- Removed streams whose entries, producers and keys are still being removed, a few at a time.
CREATE TABLE removed_streams (stream INTEGER PRIMARY KEY) STRICT;
