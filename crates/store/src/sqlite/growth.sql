-- What an entry that came last says of its stream and of who sent it, as long as their rows do not know of it.
ALTER TABLE recent_entries ADD COLUMN last_access INTEGER;
ALTER TABLE recent_entries ADD COLUMN stream_seq TEXT;
ALTER TABLE recent_entries ADD COLUMN producer TEXT;
ALTER TABLE recent_entries ADD COLUMN epoch INTEGER;
ALTER TABLE recent_entries ADD COLUMN last_seq INTEGER;

-- A row of `entries` may have several that follow each other, and has the position of the last one. Without a count it has one.
ALTER TABLE entries ADD COLUMN count INTEGER;
