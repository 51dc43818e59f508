CREATE TABLE memories (
    number INTEGER PRIMARY KEY,
    app TEXT NOT NULL,
    user TEXT NOT NULL,
    id TEXT NOT NULL,
    time INTEGER NOT NULL,
    run TEXT,
    text TEXT NOT NULL,
    -- A JSON object of texts.
    tags TEXT NOT NULL,
    UNIQUE (app, user, id)
);
CREATE INDEX memories_by_time ON memories (app, user, time);
-- The words of each text, and its owner as a single word, so that a search skips the entries of other owners.
CREATE VIRTUAL TABLE memory_words USING fts5(owner, words, tokenize = 'porter unicode61 remove_diacritics 2');
