//! Documents with versions: the tables `documents` and `document_versions`.

use std::sync::Arc;

use agentflow_core::event::DocumentVersion;
use agentflow_core::store::{
    DocumentChange, DocumentCommit, DocumentRecord, DocumentStore, DocumentWrite, ExpectedVersion,
    StoreError, StoredDocument,
};
use agentflow_core::time::Timestamp;
use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::SqliteStore;
use super::row::{check_size, number};
use super::sqlite_error::{Failed, StoreErrors};
use super::tables::Tables;
use super::writer::AbandonedPolicy;

/// The columns that [`record`] reads.
const RECORD: &str = "of.name, of.version, of.checksum, of.form, length(of.text), of.created, \
     of.author, of.comment";

#[async_trait]
impl DocumentStore for SqliteStore {
    async fn put_document(
        &self,
        write: DocumentWrite,
        expected: ExpectedVersion,
    ) -> Result<DocumentCommit, StoreError> {
        check_size(write.text().len(), self.0.limits.event, "the document")?;
        self.0
            .writer
            .submit(None, AbandonedPolicy::Done, move |tables| {
                tables.put_document(&write, expected)
            })
            .await
    }

    async fn remove_document(
        &self,
        name: &str,
        expected: ExpectedVersion,
    ) -> Result<DocumentCommit, StoreError> {
        let name = name.to_owned();
        self.0
            .writer
            .submit(None, AbandonedPolicy::Done, move |tables| {
                tables.remove_document(&name, expected)
            })
            .await
    }

    async fn document(
        &self,
        name: &str,
        version: Option<u64>,
    ) -> Result<Option<StoredDocument>, StoreError> {
        let name = name.to_owned();
        self.read_with(move |connection, errors| find(connection, errors, &name, version)).await
    }

    async fn list_documents(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DocumentRecord>, StoreError> {
        // Names are not empty, so all of them are after the empty text.
        let after = after.unwrap_or_default().to_owned();
        self.read_with(move |connection, errors| {
            let sql = format!(
                "SELECT {RECORD} FROM documents JOIN document_versions AS of USING (name, version) \
                 WHERE documents.name > ?1 AND NOT removed ORDER BY documents.name LIMIT ?2"
            );
            let mut select = connection.prepare_cached(&sql).map_err(|error| errors.sql(error))?;
            let rows = select.query_map(params![after, limit_of(limit)], record);
            rows.and_then(Iterator::collect).map_err(|error| errors.sql(error))
        })
        .await
    }

    async fn document_versions(
        &self,
        name: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DocumentRecord>, StoreError> {
        let name = name.to_owned();
        self.read_with(move |connection, errors| {
            let sql = format!(
                "SELECT {RECORD} FROM document_versions AS of WHERE name = ?1 AND version < ?2 \
                 ORDER BY version DESC LIMIT ?3"
            );
            let mut select = connection.prepare_cached(&sql).map_err(|error| errors.sql(error))?;
            let before = before.map_or(i64::MAX, number);
            let rows = select.query_map(params![name, before, limit_of(limit)], record);
            rows.and_then(Iterator::collect).map_err(|error| errors.sql(error))
        })
        .await
    }

    async fn document_changes(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<DocumentChange>, StoreError> {
        self.read_with(move |connection, errors| {
            let sql = "SELECT changed, name, version, removed FROM documents WHERE changed > ?1 \
                       ORDER BY changed LIMIT ?2";
            let mut select = connection.prepare_cached(sql).map_err(|error| errors.sql(error))?;
            let change = |row: &Row<'_>| {
                let (changed, version): (i64, i64) = (row.get(0)?, row.get(2)?);
                let version = (!row.get::<_, bool>(3)?).then_some(version.unsigned_abs());
                Ok(DocumentChange::new(changed.unsigned_abs(), row.get::<_, String>(1)?, version))
            };
            let rows = select.query_map(params![number(after), limit_of(limit)], change);
            rows.and_then(Iterator::collect).map_err(|error| errors.sql(error))
        })
        .await
    }
}

impl Tables {
    /// Saves the next version of a document, if the current version is the expected one.
    fn put_document(
        &mut self,
        write: &DocumentWrite,
        expected: ExpectedVersion,
    ) -> Result<DocumentCommit, Failed> {
        let connection = self.connection();
        let state = DocumentRow::read(connection, write.name())?;
        if !expected.admits(state.current()) {
            return Ok(DocumentCommit::Conflict { current: state.current() });
        }
        let record = write.record(state.version + 1);
        let changed = next_change(connection)?;
        connection
            .prepare_cached(
                "INSERT INTO documents (name, version, removed, changed) VALUES (?1, ?2, 0, ?3) \
                 ON CONFLICT (name) DO UPDATE SET version = ?2, removed = 0, changed = ?3",
            )?
            .execute(params![&record.name, number(record.version), changed])?;
        connection
            .prepare_cached(
                "INSERT INTO document_versions \
                 (name, version, checksum, form, created, author, comment, text) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                &record.name,
                number(record.version),
                &record.checksum,
                &record.form,
                number(record.created.as_millis()),
                &record.author,
                &record.comment,
                write.text().as_bytes(),
            ])?;
        Ok(DocumentCommit::Done(record))
    }

    /// Removes a document, if the current version is the expected one.
    fn remove_document(
        &mut self,
        name: &str,
        expected: ExpectedVersion,
    ) -> Result<DocumentCommit, Failed> {
        let connection = self.connection();
        let state = DocumentRow::read(connection, name)?;
        let Some(version) = state.current().filter(|_| expected.admits(state.current())) else {
            return Ok(DocumentCommit::Conflict { current: state.current() });
        };
        let sql = format!(
            "SELECT {RECORD} FROM document_versions AS of WHERE name = ?1 AND version = ?2"
        );
        let record =
            connection.prepare_cached(&sql)?.query_row(params![name, number(version)], record)?;
        let changed = next_change(connection)?;
        connection
            .prepare_cached("UPDATE documents SET removed = 1, changed = ?2 WHERE name = ?1")?
            .execute(params![name, changed])?;
        Ok(DocumentCommit::Done(record))
    }
}

/// The row of a name. A name that was never used has the version 0.
#[derive(Default)]
struct DocumentRow {
    version: u64,
    removed: bool,
}

impl DocumentRow {
    fn read(connection: &Connection, name: &str) -> rusqlite::Result<Self> {
        let found = connection
            .prepare_cached("SELECT version, removed FROM documents WHERE name = ?1")?
            .query_row([name], |row| {
                Ok(Self { version: row.get::<_, i64>(0)?.unsigned_abs(), removed: row.get(1)? })
            })
            .optional()?;
        Ok(found.unwrap_or_default())
    }

    fn current(&self) -> Option<u64> {
        (self.version > 0 && !self.removed).then_some(self.version)
    }
}

/// Returns the number of the next change. Rows are never deleted, so numbers are not used again.
fn next_change(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT coalesce(max(changed), 0) + 1 FROM documents")?
        .query_row([], |row| row.get(0))
}

fn find(
    connection: &Connection,
    errors: &StoreErrors,
    name: &str,
    version: Option<u64>,
) -> Result<Option<StoredDocument>, StoreError> {
    let sql = match version {
        Some(_) => format!(
            "SELECT {RECORD}, of.text FROM document_versions AS of WHERE name = ?1 AND version = ?2"
        ),
        None => format!(
            "SELECT {RECORD}, of.text FROM documents JOIN document_versions AS of \
             USING (name, version) WHERE documents.name = ?1 AND NOT removed AND ?2 IS NULL"
        ),
    };
    let found = connection.prepare_cached(&sql).and_then(|mut select| {
        let columns = |row: &Row<'_>| Ok((record(row)?, row.get::<_, Vec<u8>>(8)?));
        select.query_row(params![name, version.map(number)], columns).optional()
    });
    let Some((record, text)) = found.map_err(|error| errors.sql(error))? else { return Ok(None) };
    let text = String::from_utf8(text).map_err(|error| {
        errors
            .damaged(format_args!("the text of the document `{name}` is not UTF-8"))
            .caused_by(error)
    })?;
    StoredDocument::new(record, text).map(Some)
}

/// Reads the columns of [`RECORD`].
fn record(row: &Row<'_>) -> rusqlite::Result<DocumentRecord> {
    let maybe =
        |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<String>>(column)?.map(Arc::from));
    let number = |column| Ok::<_, rusqlite::Error>(row.get::<_, i64>(column)?.unsigned_abs());
    let version =
        DocumentVersion::new(row.get::<_, String>(0)?, number(1)?, row.get::<_, String>(2)?);
    let created = Timestamp::from_millis(number(5)?);
    let form: String = row.get(3)?;
    let mut record = DocumentRecord::from_stored(&version, form, number(4)?, created);
    record.author = maybe(6)?;
    record.comment = maybe(7)?;
    Ok(record)
}

fn limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
