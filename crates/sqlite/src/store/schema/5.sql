-- Large artifacts, whose bytes are in files next to the database, by their hash.
CREATE TABLE artifact_files (
    sha256 TEXT NOT NULL,
    run    INTEGER NOT NULL REFERENCES runs (key),
    size   INTEGER NOT NULL,
    PRIMARY KEY (sha256, run)
) STRICT, WITHOUT ROWID;

CREATE INDEX artifact_files_by_run ON artifact_files (run);

-- Files that may exist without a reference: files that a writer is about to add, and files whose run was
-- deleted (with an empty writer).
CREATE TABLE loose_files (
    sha256 TEXT NOT NULL,
    writer TEXT NOT NULL,
    PRIMARY KEY (sha256, writer)
) STRICT, WITHOUT ROWID;
