-- The runs of a session as a list has them.
CREATE INDEX runs_by_session_age ON runs (session, created, run_id) WHERE session IS NOT NULL;

-- The runs of a tag in the same order: when each was created.
ALTER TABLE tags ADD COLUMN created INTEGER;

UPDATE tags SET created = (SELECT created FROM runs WHERE key = tags.run);
DROP INDEX tags_by_value;

CREATE INDEX tags_by_age ON tags (tag, value, created, run);
