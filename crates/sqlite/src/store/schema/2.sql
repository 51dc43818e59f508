-- Ids of messages are never reused. A message is kept with its outcome until its sender has read the outcome.
CREATE TABLE numbered_messages (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    run     INTEGER NOT NULL REFERENCES runs (key),
    body    TEXT NOT NULL,
    outcome TEXT
) STRICT;

INSERT INTO numbered_messages (id, run, body) SELECT id, run, body FROM messages;
DROP TABLE messages;
ALTER TABLE numbered_messages RENAME TO messages;

CREATE INDEX messages_by_run ON messages (run, id);
CREATE INDEX messages_without_outcome ON messages (id) WHERE outcome IS NULL;
