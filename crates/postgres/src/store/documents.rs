//! Documents with versions: the tables `documents`, `document_versions` and `document_changes`.

use std::sync::Arc;

use agentflow_core::event::DocumentVersion;
use agentflow_core::store::{
    DocumentChange, DocumentCommit, DocumentRecord, DocumentStore, DocumentWrite, ExpectedVersion,
    StoreError, StoredDocument,
};
use agentflow_core::time::Timestamp;
use async_trait::async_trait;
use tokio_postgres::{Error, Row};

use super::database::Session;
use super::event_row::{check_size, number};
use super::postgres_error::{Failed, PostgresErrors};
use super::{OwnedContext, PostgresStore, text};

/// Columns that [`record`] reads.
const VERSION: &str = "SELECT name, version, checksum, form, octet_length(text)::bigint AS bytes, \
     created, author, comment FROM document_versions WHERE name = $1 AND version = $2";

#[async_trait]
impl DocumentStore for PostgresStore {
    async fn put_document(
        &self,
        write: DocumentWrite,
        expected: ExpectedVersion,
    ) -> Result<DocumentCommit, StoreError> {
        check_size(write.text().len(), self.0.limits.event, "the document")?;
        let write = Arc::new(write);
        self.write_with(move |context| {
            let write = Arc::clone(&write);
            async move { put(&context, &write, expected).await }
        })
        .await
    }

    async fn remove_document(
        &self,
        name: &str,
        expected: ExpectedVersion,
    ) -> Result<DocumentCommit, StoreError> {
        let name: Arc<str> = name.into();
        self.write_with(move |context| {
            let name = Arc::clone(&name);
            async move { remove(&context, &name, expected).await }
        })
        .await
    }

    async fn document(
        &self,
        name: &str,
        version: Option<u64>,
    ) -> Result<Option<StoredDocument>, StoreError> {
        let name: Arc<str> = name.into();
        self.read_with(move |session, errors| {
            let name = Arc::clone(&name);
            async move { find(&session, &errors, &name, version).await }
        })
        .await
    }

    async fn list_documents(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DocumentRecord>, StoreError> {
        // Names are not empty, so all of them are after the empty text.
        let after: Arc<str> = after.unwrap_or_default().into();
        self.read_with(move |session, _| {
            let after = Arc::clone(&after);
            async move {
                let sql = "SELECT name, version, checksum, form, \
                           octet_length(text)::bigint AS bytes, created, author, comment \
                           FROM documents JOIN document_versions USING (name, version) \
                           WHERE name > $1 AND NOT removed ORDER BY name LIMIT $2";
                let rows = session.rows(sql, &[&&*text::encode(&after), &limit_of(limit)]).await?;
                Ok(rows.iter().map(record).collect::<Result<_, Error>>()?)
            }
        })
        .await
    }

    async fn document_versions(
        &self,
        name: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DocumentRecord>, StoreError> {
        let name: Arc<str> = name.into();
        let before = before.map_or(i64::MAX, number);
        self.read_with(move |session, _| {
            let name = Arc::clone(&name);
            async move {
                let sql = "SELECT name, version, checksum, form, \
                           octet_length(text)::bigint AS bytes, created, author, comment \
                           FROM document_versions WHERE name = $1 AND version < $2 \
                           ORDER BY version DESC LIMIT $3";
                let params = text::encode(&name);
                let rows = session.rows(sql, &[&&*params, &before, &limit_of(limit)]).await?;
                Ok(rows.iter().map(record).collect::<Result<_, Error>>()?)
            }
        })
        .await
    }

    async fn document_changes(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<DocumentChange>, StoreError> {
        self.read_with(move |session, _| async move {
            let sql = "SELECT changed, name, version, removed FROM documents WHERE changed > $1 \
                       ORDER BY changed LIMIT $2";
            let mut changes = Vec::new();
            for row in session.rows(sql, &[&number(after), &limit_of(limit)]).await? {
                let (changed, version): (i64, i64) = (row.try_get(0)?, row.try_get(2)?);
                let name = text::decode(row.try_get(1)?);
                let version = (!row.try_get::<_, bool>(3)?).then_some(version.unsigned_abs());
                changes.push(DocumentChange::new(changed.unsigned_abs(), name, version));
            }
            Ok(changes)
        })
        .await
    }
}

/// Locks the documents until the end of the transaction. Returns the number of the next change.
async fn lock(context: &OwnedContext) -> Result<i64, Failed> {
    let sql = "SELECT number FROM document_changes FOR UPDATE";
    match context.session.row(sql, &[]).await? {
        Some(row) => Ok(row.try_get::<_, i64>(0)? + 1),
        None => Err(context.errors.damaged("the table `document_changes` is empty").into()),
    }
}

/// Saves the next version of a document, if the current version is the expected one.
async fn put(
    context: &OwnedContext,
    write: &DocumentWrite,
    expected: ExpectedVersion,
) -> Result<DocumentCommit, Failed> {
    let session = &context.session;
    let changed = lock(context).await?;
    let name = text::encode(write.name());
    if context.repeated {
        let sql = "SELECT version FROM document_versions WHERE write_id = $1";
        if let Some(row) = session.row(sql, &[&&*context.write_id]).await? {
            let version: i64 = row.try_get(0)?;
            return Ok(DocumentCommit::Done(write.record(version.unsigned_abs())));
        }
    }
    let state = DocumentState::read(session, write.name()).await?;
    if !expected.admits(state.current()) {
        return Ok(DocumentCommit::Conflict { current: state.current() });
    }
    let record = write.record(state.version + 1);
    let version = number(record.version);
    let sql = "INSERT INTO documents (name, version, removed, changed) \
               VALUES ($1, $2, false, $3) ON CONFLICT (name) DO UPDATE \
               SET version = $2, removed = false, changed = $3";
    session.execute(sql, &[&&*name, &version, &changed]).await?;
    let sql = "INSERT INTO document_versions \
               (name, version, checksum, form, created, author, comment, text, write_id) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    session
        .execute(
            sql,
            &[
                &&*name,
                &version,
                &&*record.checksum,
                &&*text::encode(&record.form),
                &number(record.created.as_millis()),
                &record.author.as_deref().map(text::encode).as_deref(),
                &record.comment.as_deref().map(text::encode).as_deref(),
                &write.text().as_bytes(),
                &&*context.write_id,
            ],
        )
        .await?;
    session.execute("UPDATE document_changes SET number = $1", &[&changed]).await?;
    Ok(DocumentCommit::Done(record))
}

/// Removes a document, if the current version is the expected one.
async fn remove(
    context: &OwnedContext,
    name: &str,
    expected: ExpectedVersion,
) -> Result<DocumentCommit, Failed> {
    let session = &context.session;
    let changed = lock(context).await?;
    let key = text::encode(name);
    if context.repeated {
        let sql = "SELECT version FROM document_versions WHERE name = $1 AND removal = $2";
        if let Some(row) = session.row(sql, &[&&*key, &&*context.write_id]).await? {
            return Ok(DocumentCommit::Done(version(context, name, row.try_get(0)?).await?));
        }
    }
    let state = DocumentState::read(session, name).await?;
    let current = state.current();
    let Some(removed) = current.filter(|_| expected.admits(current)).map(number) else {
        return Ok(DocumentCommit::Conflict { current });
    };
    let sql = "UPDATE documents SET removed = true, changed = $2 WHERE name = $1";
    session.execute(sql, &[&&*key, &changed]).await?;
    let sql = "UPDATE document_versions SET removal = $3 WHERE name = $1 AND version = $2";
    session.execute(sql, &[&&*key, &removed, &&*context.write_id]).await?;
    session.execute("UPDATE document_changes SET number = $1", &[&changed]).await?;
    Ok(DocumentCommit::Done(version(context, name, removed).await?))
}

/// Returns the record of a version that exists.
async fn version(
    context: &OwnedContext,
    name: &str,
    version: i64,
) -> Result<DocumentRecord, Failed> {
    match context.session.row(VERSION, &[&&*text::encode(name), &version]).await? {
        Some(row) => Ok(record(&row)?),
        None => {
            let what = format_args!("the document `{name}` has no version {version}");
            Err(context.errors.damaged(what).into())
        }
    }
}

/// The row of a name. A name that was never used has the version 0.
#[derive(Default)]
struct DocumentState {
    version: u64,
    removed: bool,
}

impl DocumentState {
    async fn read(session: &Session, name: &str) -> Result<Self, Error> {
        let sql = "SELECT version, removed FROM documents WHERE name = $1";
        let Some(row) = session.row(sql, &[&&*text::encode(name)]).await? else {
            return Ok(Self::default());
        };
        let version: i64 = row.try_get(0)?;
        Ok(Self { version: version.unsigned_abs(), removed: row.try_get(1)? })
    }

    fn current(&self) -> Option<u64> {
        (self.version > 0 && !self.removed).then_some(self.version)
    }
}

async fn find(
    session: &Session,
    errors: &PostgresErrors,
    name: &str,
    version: Option<u64>,
) -> Result<Option<StoredDocument>, Failed> {
    let key = text::encode(name);
    let row = match version {
        Some(version) => {
            let sql = "SELECT name, version, checksum, form, octet_length(text)::bigint AS bytes, \
                       created, author, comment, text FROM document_versions \
                       WHERE name = $1 AND version = $2";
            session.row(sql, &[&&*key, &number(version)]).await?
        }
        None => {
            let sql = "SELECT name, version, checksum, form, octet_length(text)::bigint AS bytes, \
                       created, author, comment, text FROM documents \
                       JOIN document_versions USING (name, version) \
                       WHERE name = $1 AND NOT removed";
            session.row(sql, &[&&*key]).await?
        }
    };
    let Some(row) = row else { return Ok(None) };
    let text = String::from_utf8(row.try_get("text")?).map_err(|error| {
        let what = format_args!("the text of the document `{name}` is not UTF-8");
        errors.damaged(what).caused_by(error)
    })?;
    Ok(Some(StoredDocument::new(record(&row)?, text)?))
}

/// Reads the record of a version.
fn record(row: &Row) -> Result<DocumentRecord, Error> {
    let text = |column| Ok::<_, Error>(text::decode(row.try_get(column)?));
    let maybe = |column| {
        let found: Option<&str> = row.try_get(column)?;
        Ok::<_, Error>(found.map(text::decode).map(Arc::from))
    };
    let number = |column| Ok::<_, Error>(row.try_get::<_, i64>(column)?.unsigned_abs());
    let version = DocumentVersion::new(text("name")?, number("version")?, text("checksum")?);
    let created = Timestamp::from_millis(number("created")?);
    let mut record =
        DocumentRecord::from_stored(&version, text("form")?, number("bytes")?, created);
    record.author = maybe("author")?;
    record.comment = maybe("comment")?;
    Ok(record)
}

fn limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
