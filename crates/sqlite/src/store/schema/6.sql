-- When a message was answered, in milliseconds since the Unix epoch: an outcome that nobody reads is not kept for good.
ALTER TABLE messages ADD COLUMN answered INTEGER;

UPDATE messages SET answered = 0 WHERE outcome IS NOT NULL;

CREATE INDEX messages_by_answer ON messages (answered) WHERE answered IS NOT NULL;
