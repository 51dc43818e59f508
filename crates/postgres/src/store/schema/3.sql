-- Names of documents. A removed document keeps its row and its versions.
CREATE TABLE documents (
    name     text COLLATE "C" PRIMARY KEY,
    -- The highest version, which is the current one unless the document is removed.
    version  bigint NOT NULL,
    removed  boolean NOT NULL,
    -- Number of the last change.
    changed  bigint NOT NULL UNIQUE
);

CREATE TABLE document_versions (
    name     text COLLATE "C" NOT NULL REFERENCES documents (name),
    version  bigint NOT NULL,
    -- SHA-256 of the text.
    checksum text COLLATE "C" NOT NULL,
    form     text COLLATE "C" NOT NULL,
    -- Milliseconds since 1970.
    created  bigint NOT NULL,
    author   text COLLATE "C",
    comment  text COLLATE "C",
    -- UTF-8.
    text     bytea NOT NULL,
    -- The write that saved the version, and the write that removed it, so that a writer recognizes
    -- its own commit after a lost connection.
    write_id text COLLATE "C" NOT NULL UNIQUE,
    removal  text COLLATE "C",
    PRIMARY KEY (name, version)
);

-- Number of changes of all documents. A writer locks the row, so that changes become visible in the
-- order of their numbers. The table has one row.
CREATE TABLE document_changes (
    number bigint NOT NULL
);

INSERT INTO document_changes (number) VALUES (0);

-- The stored document that a run executes, as JSON: name, version and checksum.
ALTER TABLE runs ADD COLUMN document text;
