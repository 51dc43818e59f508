-- Lists of the runs of a session, ordered by age.
CREATE INDEX runs_by_session_age ON runs (session, created, run_id) WHERE session IS NOT NULL;

-- Lists of the runs with a tag, in the same order.
ALTER TABLE tags ADD COLUMN created INTEGER;

UPDATE tags SET created = (SELECT created FROM runs WHERE key = tags.run);
DROP INDEX tags_by_value;

CREATE INDEX tags_by_age ON tags (tag, value, created, run);
