-- The open questions of a run, as JSON. NULL for runs that started before this version; their events
-- contain them.
ALTER TABLE runs ADD COLUMN questions text;

-- The time of the last event of a run that has ended, NULL for an unfinished run. It has an index and
-- `updated` has none, because `updated` changes with each append.
ALTER TABLE runs ADD COLUMN ended bigint;

UPDATE runs SET ended = updated WHERE status IN ('success', 'failed', 'cancelled');

-- Lists of runs, ordered by their last change: the ended runs in order, and the others.
CREATE INDEX runs_by_end ON runs (ended, run_id) WHERE ended IS NOT NULL;
CREATE INDEX runs_without_end ON runs (key) WHERE ended IS NULL;
