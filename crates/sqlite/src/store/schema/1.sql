-- The runs. `updated` and `events` of a run record are read from the last event.
CREATE TABLE runs (
    key          INTEGER PRIMARY KEY,
    run_id       TEXT NOT NULL UNIQUE,
    -- Of the recorded events: the newest release that had the run open.
    version      INTEGER NOT NULL,
    name         TEXT NOT NULL,
    definition   TEXT,
    status       TEXT NOT NULL,
    pause_reason TEXT,
    error        TEXT,
    -- Milliseconds since 1970.
    created      INTEGER NOT NULL,
    -- Grows with every opening: a writer with a smaller one is fenced off.
    epoch        INTEGER NOT NULL,
    -- The process that has it open, as in the name of its lock file.
    owner        TEXT
) STRICT;

CREATE INDEX runs_by_age ON runs (created, run_id);
CREATE INDEX runs_by_status ON runs (status, created, run_id);

-- The journals of all runs. The id combines the run's key and the event's sequence number, so that the
-- events of a run are adjacent and in order.
CREATE TABLE events (
    id   INTEGER PRIMARY KEY, -- key << 32 | seq
    time INTEGER NOT NULL,
    path TEXT NOT NULL,
    body TEXT NOT NULL,       -- {"name", "payload"}
    sum  INTEGER NOT NULL     -- of all the others
) STRICT;

-- A readable view for people who inspect the file.
CREATE VIEW journal AS
    SELECT run_id, events.id & 4294967295 AS seq, time, path, body ->> 'name' AS event, body -> 'payload' AS payload
    FROM events JOIN runs ON runs.key = events.id >> 32;

CREATE TABLE snapshots (
    run  INTEGER PRIMARY KEY REFERENCES runs (key),
    seq  INTEGER NOT NULL,
    body TEXT NOT NULL,
    sum  INTEGER NOT NULL
) STRICT;

CREATE TABLE definitions (
    hash  TEXT PRIMARY KEY,
    graph TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
    id   INTEGER PRIMARY KEY,
    run  INTEGER NOT NULL REFERENCES runs (key),
    body TEXT NOT NULL
) STRICT;

CREATE INDEX messages_by_run ON messages (run, id);
