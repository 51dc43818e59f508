-- Artifacts whose bytes are in files beside this one, by their hash.
CREATE TABLE artifact_files (
    sha256 TEXT NOT NULL,
    run    INTEGER NOT NULL REFERENCES runs (key),
    size   INTEGER NOT NULL,
    PRIMARY KEY (sha256, run)
) STRICT, WITHOUT ROWID;

CREATE INDEX artifact_files_by_run ON artifact_files (run);

-- Files that may be there without a run that has them: one that a writer is about to bring, and one whose run was deleted
-- (the writer is then empty).
CREATE TABLE loose_files (
    sha256 TEXT NOT NULL,
    writer TEXT NOT NULL,
    PRIMARY KEY (sha256, writer)
) STRICT, WITHOUT ROWID;
