-- Text columns contain user text without NUL: see `text.rs`. They compare bytes ("C"), as Rust
-- does.
-- Payloads are `bytea`: JSON in UTF-8, or bytes of an artifact.

-- The version of the tables, and the identity of the store. The table has one row.
CREATE TABLE agentflow_store (
    version  integer NOT NULL,
    store_id text NOT NULL
);

-- The runs. `updated` and `events` change with each append and have no index, so that Postgres can
-- update a row in its page (HOT).
CREATE TABLE runs (
    key            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id         text COLLATE "C" NOT NULL UNIQUE,
    -- Of the recorded events: the newest release that had the run open.
    version        integer NOT NULL,
    name           text COLLATE "C" NOT NULL,
    definition     text COLLATE "C",
    status         text COLLATE "C" NOT NULL,
    pause_reason   text COLLATE "C",
    error          text COLLATE "C",
    -- Milliseconds since 1970.
    created        bigint NOT NULL,
    updated        bigint NOT NULL,
    -- Number of events.
    events         bigint NOT NULL,
    -- Grows with every opening: a writer with a smaller one is fenced off.
    epoch          bigint NOT NULL,
    -- The process that has the run open.
    owner          text COLLATE "C",
    caller         text COLLATE "C",
    -- JSON object.
    tags           text NOT NULL,
    session        text COLLATE "C",
    session_number bigint,
    session_after  text COLLATE "C",
    -- JSON.
    usage          text,
    -- The last write, so that a writer recognizes its own commit after a lost connection.
    write_id       text COLLATE "C" NOT NULL
) WITH (fillfactor = 85);

-- An index entry has at most 2,700 bytes. Long names are indexed by their beginning.
CREATE INDEX runs_by_age ON runs (created, run_id);
CREATE INDEX runs_by_status ON runs (status, created, run_id);
CREATE INDEX runs_by_name ON runs (left(name, 200), created, run_id);
CREATE INDEX runs_by_caller ON runs (left(caller, 200), created, run_id) WHERE caller IS NOT NULL;
CREATE UNIQUE INDEX runs_by_session ON runs (session, session_number) WHERE session IS NOT NULL;
CREATE INDEX sessions_by_age ON runs (created, session) WHERE session_number = 1;
CREATE INDEX runs_by_owner ON runs (owner) WHERE owner IS NOT NULL;

CREATE TABLE tags (
    run     bigint NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
    tag     text COLLATE "C" NOT NULL,
    value   text COLLATE "C" NOT NULL,
    created bigint NOT NULL
);

CREATE INDEX tags_by_run ON tags (run);
CREATE INDEX runs_by_tag ON tags (left(tag, 200), left(value, 200), created, run);

CREATE TABLE events (
    run  bigint NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
    seq  bigint NOT NULL,
    time bigint NOT NULL,
    path text COLLATE "C" NOT NULL,
    -- {"name", "payload"}
    body bytea NOT NULL,
    PRIMARY KEY (run, seq)
);

-- A readable view for people who inspect the database.
CREATE VIEW journal AS
    SELECT run_id, seq, to_timestamp(time / 1000.0) AS time, path,
        convert_from(body, 'UTF8') AS event
    FROM events JOIN runs ON runs.key = events.run;

CREATE TABLE snapshots (
    run  bigint PRIMARY KEY REFERENCES runs (key) ON DELETE CASCADE,
    seq  bigint NOT NULL,
    body bytea NOT NULL
);

CREATE TABLE definitions (
    hash  text COLLATE "C" PRIMARY KEY,
    graph bytea NOT NULL
);

CREATE TABLE artifacts (
    run    bigint NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
    sha256 text COLLATE "C" NOT NULL,
    bytes  bytea NOT NULL,
    PRIMARY KEY (run, sha256)
);

-- Artifacts are often compressed already, so Postgres does not try to.
ALTER TABLE artifacts ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Values that outlive runs. `id` is the hash of owner and key, which can be longer than an index
-- entry.
CREATE TABLE state (
    id    text COLLATE "C" PRIMARY KEY,
    -- `app`, or `user:` and the user.
    owner text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    value bytea NOT NULL
);

CREATE INDEX state_by_owner ON state (left(owner, 200));

CREATE TABLE messages (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run      bigint NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
    -- Chosen by the sender, so that it recognizes its own message after a lost connection.
    write_id text COLLATE "C" NOT NULL UNIQUE,
    body     bytea NOT NULL,
    outcome  bytea,
    answered timestamptz
);

CREATE INDEX messages_by_run ON messages (run, id);
CREATE INDEX waiting_messages ON messages (run, id) WHERE outcome IS NULL;
CREATE INDEX messages_by_answer ON messages (answered) WHERE answered IS NOT NULL;

-- The processes that use the store. A run whose owner is not here, or has expired, is free.
CREATE TABLE owners (
    id      text COLLATE "C" PRIMARY KEY,
    name    text COLLATE "C" NOT NULL,
    expires timestamptz NOT NULL
);
