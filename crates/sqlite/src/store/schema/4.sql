-- Small artifacts, by their hash.
CREATE TABLE artifacts (
    run    INTEGER NOT NULL REFERENCES runs (key),
    sha256 TEXT NOT NULL,
    bytes  BLOB NOT NULL,
    PRIMARY KEY (run, sha256)
) STRICT;

-- State that outlives runs. The owner is a user (user:NAME) or the application (app).
CREATE TABLE state (
    owner TEXT NOT NULL,
    key   TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;

-- The session of a run, the run's number in it, and the run whose history it continues.
ALTER TABLE runs ADD COLUMN session TEXT;
ALTER TABLE runs ADD COLUMN session_number INTEGER;
ALTER TABLE runs ADD COLUMN session_after TEXT;

CREATE UNIQUE INDEX runs_by_session ON runs (session, session_number) WHERE session IS NOT NULL;
CREATE INDEX sessions_by_age ON runs (created, session) WHERE session_number = 1;
-- At most one run of a session may be unfinished.
CREATE UNIQUE INDEX unfinished_runs_by_session ON runs (session)
    WHERE session IS NOT NULL AND status NOT IN ('success', 'failed', 'cancelled');
