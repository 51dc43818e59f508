-- What steps saved, by its hash.
CREATE TABLE artifacts (
    run    INTEGER NOT NULL REFERENCES runs (key),
    sha256 TEXT NOT NULL,
    bytes  BLOB NOT NULL,
    PRIMARY KEY (run, sha256)
) STRICT;

-- What outlives runs, of users (user:NAME) and of the application (app).
CREATE TABLE state (
    owner TEXT NOT NULL,
    key   TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;
