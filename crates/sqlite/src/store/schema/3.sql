-- The caller on whose behalf a run was started.
ALTER TABLE runs ADD COLUMN caller TEXT;

CREATE INDEX runs_by_caller ON runs (caller, created, run_id) WHERE caller IS NOT NULL;

-- The tags of runs.
CREATE TABLE tags (
    run   INTEGER NOT NULL REFERENCES runs (key),
    tag   TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (run, tag)
) STRICT, WITHOUT ROWID;

CREATE INDEX tags_by_value ON tags (tag, value, run);
