-- What steps saved, by its hash.
CREATE TABLE artifacts (
    run    INTEGER NOT NULL REFERENCES runs (key),
    sha256 TEXT NOT NULL,
    bytes  BLOB NOT NULL,
    PRIMARY KEY (run, sha256)
) STRICT;
