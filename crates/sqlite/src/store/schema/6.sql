-- The time of the answer, in milliseconds since the Unix epoch. Outcomes that are not read are deleted after a while.
ALTER TABLE messages ADD COLUMN answered INTEGER;

UPDATE messages SET answered = 0 WHERE outcome IS NOT NULL;

CREATE INDEX messages_by_answer ON messages (answered) WHERE answered IS NOT NULL;
