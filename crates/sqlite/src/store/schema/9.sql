-- The open questions of a run, as JSON. NULL for runs that started before this version; their events contain them.
ALTER TABLE runs ADD COLUMN questions TEXT;

-- The time of the last event of a run that has ended. NULL for an unfinished run, whose last event contains it.
ALTER TABLE runs ADD COLUMN ended INTEGER;

UPDATE runs SET ended = coalesce(
    (SELECT time FROM events
     WHERE id = (SELECT max(id) FROM events WHERE id > runs.key << 32 AND id < (runs.key + 1) << 32)),
    created
) WHERE status IN ('success', 'failed', 'cancelled');

-- Lists of runs, ordered by their last change: the ended runs in order, and the others.
CREATE INDEX runs_by_end ON runs (ended, run_id) WHERE ended IS NOT NULL;
CREATE INDEX runs_without_end ON runs (key) WHERE ended IS NULL;
