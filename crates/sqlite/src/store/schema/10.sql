-- Names of documents. A removed document keeps its row and its versions.
CREATE TABLE documents (
    name    TEXT PRIMARY KEY,
    -- The highest version, which is the current one unless the document is removed.
    version INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    -- Number of the last change. The changes of all documents are numbered from 1.
    changed INTEGER NOT NULL UNIQUE
) STRICT, WITHOUT ROWID;

CREATE TABLE document_versions (
    name     TEXT NOT NULL REFERENCES documents (name),
    version  INTEGER NOT NULL,
    checksum TEXT NOT NULL, -- SHA-256 of the text
    form     TEXT NOT NULL,
    created  INTEGER NOT NULL, -- milliseconds since the Unix epoch
    author   TEXT,
    comment  TEXT,
    text     BLOB NOT NULL, -- UTF-8
    PRIMARY KEY (name, version)
) STRICT;

-- The stored document that a run executes, as JSON: name, version and checksum.
ALTER TABLE runs ADD COLUMN document TEXT;
