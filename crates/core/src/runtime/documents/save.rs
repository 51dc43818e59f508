//! [`PutDocument`] and [`RemoveDocument`]: builders that save and remove a stored document when they
//! are awaited.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;

use crate::access::ActingCaller;
use crate::document::{Document, DocumentError};
use crate::future::BoxFuture;
use crate::run::Host;
use crate::runtime::Runtime;
use crate::runtime::catalogue::registered_items::registered_now;
use crate::runtime::documents::documents_error::DocumentsError;
use crate::runtime::documents::refresh::{refresh, refresh_if_old};
use crate::runtime::documents::stored_items::{StoredItems, has_workflow};
use crate::store::{DocumentCommit, DocumentRecord, DocumentWrite, ExpectedVersion};

/// A builder that saves a text as the next version of a document, returned by
/// [`Documents::put`](crate::runtime::Documents::put). Awaiting it checks and saves the text, and
/// returns the record of the new version.
///
/// # Errors
/// [`DocumentsError::Invalid`] with all mistakes of the text, as
/// [`Documents::validate`](crate::runtime::Documents::validate) returns them;
/// [`OtherName`](DocumentsError::OtherName); [`NameTaken`](DocumentsError::NameTaken);
/// [`Conflict`](DocumentsError::Conflict); [`Limit`](DocumentsError::Limit);
/// [`Store`](DocumentsError::Store), also if the runtime has no store.
///
/// # Cancel safety
/// If the future is dropped, the version was saved or not. A saved version takes effect within one
/// second, as if another process had saved it.
#[must_use = "the text is saved when this is awaited"]
pub struct PutDocument<'r> {
    runtime: &'r Runtime,
    name: Arc<str>,
    text: Arc<str>,
    expected: ExpectedVersion,
    author: Option<Arc<str>>,
    comment: Option<Arc<str>>,
    acting: Option<ActingCaller>,
}

impl<'r> PutDocument<'r> {
    pub(super) fn new(runtime: &'r Runtime, name: Arc<str>, text: Arc<str>) -> Self {
        let (expected, author, comment) = (ExpectedVersion::Any, None, None);
        Self { runtime, name, text, expected, author, comment, acting: None }
    }

    pub(super) fn of_caller(mut self, acting: Option<&ActingCaller>) -> Self {
        self.acting = acting.cloned();
        self
    }

    /// Saves the text only if this is the current version. Default: any.
    pub fn expect_version(mut self, version: u64) -> Self {
        self.expected = ExpectedVersion::Current(version);
        self
    }

    /// Saves the text only if the name has no current version: it was never used, or its document
    /// was removed.
    pub fn expect_absent(mut self) -> Self {
        self.expected = ExpectedVersion::Absent;
        self
    }

    /// Sets the name of the author. The caller of a [`CallerRuntime`](crate::runtime::CallerRuntime)
    /// is the author in any case. Default: none.
    pub fn by(mut self, author: impl Into<Arc<str>>) -> Self {
        self.author = Some(author.into());
        self
    }

    /// Sets a comment. Default: none.
    pub fn comment(mut self, comment: impl Into<Arc<str>>) -> Self {
        self.comment = Some(comment.into());
        self
    }

    async fn save(self) -> Result<DocumentRecord, DocumentsError> {
        let Self { runtime, name, text, expected, author, comment, acting } = self;
        let store = runtime.require_store()?;
        let documents = store.require_documents()?;
        check_write(acting.as_ref(), &name).await?;
        let time = runtime.host().clock.now();
        // The limits are checked before the text is read.
        let mut write = DocumentWrite::new(Arc::clone(&name), Arc::clone(&text), time)?;
        let author =
            acting.as_ref().map(|acting| Arc::clone(acting.caller().shared_name())).or(author);
        if let Some(author) = author {
            write = write.by(author)?;
        }
        if let Some(comment) = comment {
            write = write.comment(comment)?;
        }
        refresh_if_old(runtime).await?;
        let document = check_text(runtime, &name, text).await?;
        let write = write.form(document.form().as_str());
        let record = committed(&name, expected, documents.put_document(write, expected).await?)?;
        let (version, by) = (record.version, record.author.as_deref());
        tracing::info!(%name, version, by, "a document was saved");
        take_effect(runtime).await;
        Ok(record)
    }
}

/// A builder that removes a stored document, returned by
/// [`Documents::remove`](crate::runtime::Documents::remove). Awaiting it removes the document and
/// returns the record of its last version.
///
/// # Errors
/// [`DocumentsError::NotFound`], [`Conflict`](DocumentsError::Conflict) and
/// [`Store`](DocumentsError::Store).
///
/// # Cancel safety
/// If the future is dropped, the document was removed or not.
#[must_use = "the document is removed when this is awaited"]
pub struct RemoveDocument<'r> {
    runtime: &'r Runtime,
    name: Arc<str>,
    expected: ExpectedVersion,
    author: Option<Arc<str>>,
    acting: Option<ActingCaller>,
}

impl<'r> RemoveDocument<'r> {
    pub(super) fn new(runtime: &'r Runtime, name: Arc<str>) -> Self {
        Self { runtime, name, expected: ExpectedVersion::Any, author: None, acting: None }
    }

    pub(super) fn of_caller(mut self, acting: Option<&ActingCaller>) -> Self {
        self.acting = acting.cloned();
        self
    }

    /// Removes the document only if this is the current version. Default: any.
    pub fn expect_version(mut self, version: u64) -> Self {
        self.expected = ExpectedVersion::Current(version);
        self
    }

    /// Sets the name of the person who removes the document, for the log of the program.
    /// Default: none.
    pub fn by(mut self, author: impl Into<Arc<str>>) -> Self {
        self.author = Some(author.into());
        self
    }

    async fn remove(self) -> Result<DocumentRecord, DocumentsError> {
        let Self { runtime, name, expected, author, acting } = self;
        let store = runtime.require_store()?;
        let documents = store.require_documents()?;
        check_read(acting.as_ref(), &name, None).await?;
        check_write(acting.as_ref(), &name).await?;
        let removed = documents.remove_document(&name, expected).await?;
        if matches!(removed, DocumentCommit::Conflict { current: None }) {
            return Err(DocumentsError::NotFound { name, version: None });
        }
        let record = committed(&name, expected, removed)?;
        let author =
            acting.as_ref().map(|acting| Arc::clone(acting.caller().shared_name())).or(author);
        tracing::info!(%name, version = record.version, by = author.as_deref(), "a document was removed");
        take_effect(runtime).await;
        Ok(record)
    }
}

fn committed(
    name: &Arc<str>,
    expected: ExpectedVersion,
    commit: DocumentCommit,
) -> Result<DocumentRecord, DocumentsError> {
    match commit {
        DocumentCommit::Done(record) => Ok(record),
        DocumentCommit::Conflict { current } => {
            Err(DocumentsError::Conflict { name: Arc::clone(name), expected, current })
        }
    }
}

/// Reads the change that was written. If the store fails now, the change takes effect later, like
/// the change of another process.
async fn take_effect(runtime: &Runtime) {
    if let Err(error) = refresh(runtime).await {
        tracing::warn!(%error, "a change of documents takes effect when the store can be read again");
    }
}

/// Asks the access control if a document may be read. A denied document does not exist for the
/// caller.
pub(super) async fn check_read(
    acting: Option<&ActingCaller>,
    name: &str,
    version: Option<u64>,
) -> Result<(), DocumentsError> {
    match acting {
        Some(acting) if !acting.may_read_document(name).await => {
            Err(DocumentsError::NotFound { name: name.into(), version })
        }
        _ => Ok(()),
    }
}

/// Asks the access control if a document may be written.
pub(super) async fn check_write(
    acting: Option<&ActingCaller>,
    name: &str,
) -> Result<(), DocumentsError> {
    match acting {
        Some(acting) => {
            let checked = acting.check_document_write(name).await;
            checked.map_err(|error| DocumentsError::Denied(Arc::new(error)))
        }
        None => Ok(()),
    }
}

/// Reads a text and checks that the runtime can use it under this name.
async fn check_text(
    runtime: &Runtime,
    name: &Arc<str>,
    text: Arc<str>,
) -> Result<Document, DocumentsError> {
    let (source, shared) = (Arc::clone(name), Arc::clone(&text));
    let reading = tokio::task::spawn_blocking(move || Document::read(source, shared)).await;
    let read = reading.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    let document = match read {
        Ok(document) => document,
        Err(error) => {
            let error = runtime.documents().check_readable_parts(error).await;
            return Err(DocumentsError::Invalid(error));
        }
    };
    if document.name() != &**name {
        let workflow = document.name().into();
        return Err(DocumentsError::OtherName { name: Arc::clone(name), workflow });
    }
    if has_workflow(&registered_now(runtime.host()), name) {
        return Err(DocumentsError::NameTaken { name: Arc::clone(name) });
    }
    check_document(runtime, &document).await.map_err(DocumentsError::Invalid)?;
    Ok(document)
}

/// Checks a document in the runtime as it will be with it.
pub(super) async fn check_document(
    runtime: &Runtime,
    document: &Document,
) -> Result<(), DocumentError> {
    let candidate = with_document(runtime, document);
    candidate.documents().check(document).await?;
    candidate.documents().check_names(document).await
}

/// Returns the runtime with a document instead of the stored one of its name.
pub(super) fn with_document(runtime: &Runtime, document: &Document) -> Runtime {
    let mut host = Host::clone(runtime.host());
    let none = StoredItems::default();
    host.part::<StoredItems>().unwrap_or(&none).with(document).put_into(&mut host);
    Runtime(Arc::new(host))
}

impl<'r> IntoFuture for PutDocument<'r> {
    type Output = Result<DocumentRecord, DocumentsError>;
    type IntoFuture = BoxFuture<'r, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.save())
    }
}

impl<'r> IntoFuture for RemoveDocument<'r> {
    type Output = Result<DocumentRecord, DocumentsError>;
    type IntoFuture = BoxFuture<'r, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.remove())
    }
}

impl fmt::Debug for PutDocument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("PutDocument");
        debug.field("name", &self.name).field("expected", &self.expected).finish_non_exhaustive()
    }
}

impl fmt::Debug for RemoveDocument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("RemoveDocument");
        debug.field("name", &self.name).field("expected", &self.expected).finish_non_exhaustive()
    }
}
