//! The methods of [`Documents`] for stored documents: save, read, list, compare and remove them.
//! `caller_documents.rs` has the same methods for a caller.

use std::sync::Arc;
use std::time::Duration;

use similar::TextDiff;

use crate::access::ActingCaller;
use crate::document::{Document, DocumentError};
use crate::runtime::Runtime;
use crate::runtime::documents::documents_error::DocumentsError;
use crate::runtime::documents::documents_handle::Documents;
use crate::runtime::documents::refresh;
use crate::runtime::documents::save::{PutDocument, RemoveDocument, check_document, check_read};
use crate::store::{DocumentLimitError, DocumentRecord, StoreError, StoredDocument};

/// Time after which a comparison of two long texts is finished less exactly.
const DIFF_TIME: Duration = Duration::from_secs(1);

impl<'a> Documents<'a> {
    /// Maximum number of documents or versions that a list returns.
    pub const MAX_PAGE: usize = 1000;

    /// Saves a text as the next version of a document when it is awaited: see [`PutDocument`]. The
    /// name is the name of the workflow that the text describes.
    ///
    /// The versions of a name are numbered from 1. The new version is used by the next runs. Runs
    /// that have started keep their version, also after a restart and in another process. The
    /// version takes effect in this process at once, and in other processes with the same store
    /// within one second, or as soon as they look for a workflow that they do not know.
    ///
    /// A document of the store cannot have the name of a workflow that the program or a folder has.
    /// If a later version of the program has a workflow with its name, the stored document is
    /// ignored, with a warning in the log.
    ///
    /// ```
    /// use agentflow::prelude::*;
    /// use agentflow::runtime::DocumentsError;
    /// use agentflow::store::MemoryStore;
    ///
    /// /// Greet a person.
    /// #[tool]
    /// fn greet(name: String) -> String {
    ///     format!("Hello {name}.")
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().tools(tools![greet]).store(MemoryStore::new()).build();
    /// let text = "id: stored_welcome\nnodes:\n  - {id: hello, tool: greet, args_template: {name: Ada}}\n";
    /// let saved = runtime.documents().put("stored_welcome", text).expect_absent().by("ada").await?;
    /// assert_eq!(saved.version, 1);
    ///
    /// let run = runtime.start_named("stored_welcome", serde_json::json!({})).await?;
    /// assert_eq!(run.result().await?.decode::<String>()?, "Hello Ada.");
    ///
    /// let other = text.replace("Ada", "Bob");
    /// let error = runtime.documents().put("stored_welcome", &*other).expect_absent().await.unwrap_err();
    /// assert!(matches!(error, DocumentsError::Conflict { current: Some(1), .. }));
    /// runtime.documents().put("stored_welcome", other).expect_version(1).await?;
    /// assert!(runtime.documents().diff("stored_welcome", 1, 2).await?.contains("{name: Bob}"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn put(self, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> PutDocument<'a> {
        PutDocument::new(self.0, name.into(), text.into())
    }

    /// Removes a document when it is awaited: see [`RemoveDocument`]. Its versions can still be
    /// read, and runs that started with one of them continue. A later [`put`](Self::put) adds the
    /// version after the last one.
    pub fn remove(self, name: impl Into<Arc<str>>) -> RemoveDocument<'a> {
        RemoveDocument::new(self.0, name.into())
    }

    /// Checks a text as [`put`](Self::put) does, and saves nothing.
    ///
    /// # Errors
    /// All mistakes, each with its position in the text.
    ///
    /// # Cancel safety
    /// Changes nothing, so the future can be dropped at any time.
    pub async fn validate(self, text: impl Into<Arc<str>>) -> Result<Document, DocumentError> {
        match Document::read("document", text) {
            Ok(document) => check_document(self.0, &document).await.map(|()| document),
            Err(error) => Err(self.check_readable_parts(error).await),
        }
    }

    /// Returns a version of a stored document with its text. `None` selects the current version.
    ///
    /// # Errors
    /// [`DocumentsError::NotFound`] and [`DocumentsError::Store`].
    pub async fn get(
        self,
        name: &str,
        version: impl Into<Option<u64>>,
    ) -> Result<StoredDocument, DocumentsError> {
        get(self.0, None, name, version.into()).await
    }

    /// Returns the current versions of the stored documents after the name `after`, ordered by
    /// name, at most `limit`. The next page starts after the last name of this one.
    ///
    /// # Errors
    /// [`DocumentsError::Limit`] if `limit` is more than [`MAX_PAGE`](Self::MAX_PAGE);
    /// [`DocumentsError::Store`].
    pub async fn list(
        self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DocumentRecord>, DocumentsError> {
        list(self.0, None, after, limit).await
    }

    /// Returns the versions of a document, the newest first, at most `limit`. `before` selects the
    /// versions with a smaller number. The versions of a removed document are included.
    ///
    /// # Errors
    /// [`DocumentsError::NotFound`] if the name was never used; [`DocumentsError::Limit`] if
    /// `limit` is more than [`MAX_PAGE`](Self::MAX_PAGE); [`DocumentsError::Store`].
    pub async fn versions(
        self,
        name: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DocumentRecord>, DocumentsError> {
        versions(self.0, None, name, before, limit).await
    }

    /// Returns the differences between two versions as a unified diff; empty if the texts are
    /// equal.
    ///
    /// # Errors
    /// [`DocumentsError::NotFound`] and [`DocumentsError::Store`].
    pub async fn diff(self, name: &str, old: u64, new: u64) -> Result<String, DocumentsError> {
        diff(self.0, None, name, (old, new)).await
    }

    /// Reads the changes that other processes have made to the documents of the store, now. A
    /// runtime also does this by itself: before it starts a workflow by name, if it has not looked
    /// at the store for one second.
    ///
    /// # Errors
    /// Any error of the store.
    ///
    /// # Cancel safety
    /// Changes that were read before the future is dropped take effect.
    pub async fn refresh(self) -> Result<(), StoreError> {
        refresh::refresh(self.0).await
    }
}

pub(super) async fn get(
    runtime: &Runtime,
    acting: Option<&ActingCaller>,
    name: &str,
    version: Option<u64>,
) -> Result<StoredDocument, DocumentsError> {
    check_read(acting, name, version).await?;
    let found = runtime.require_store()?.require_documents()?.document(name, version).await?;
    found.ok_or_else(|| DocumentsError::NotFound { name: name.into(), version })
}

pub(super) async fn list(
    runtime: &Runtime,
    acting: Option<&ActingCaller>,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<DocumentRecord>, DocumentsError> {
    check_page(limit)?;
    let store = runtime.require_store()?;
    let documents = store.require_documents()?;
    let mut after: Option<Arc<str>> = after.map(Arc::from);
    let mut found = Vec::new();
    // A caller who may not read some documents still gets whole pages.
    while found.len() < limit {
        let page = documents.list_documents(after.as_deref(), limit).await?;
        let is_last = page.len() < limit;
        after = page.last().map(|record| Arc::clone(&record.name)).or(after);
        for record in page {
            let may_read = match acting {
                Some(acting) => acting.may_read_document(&record.name).await,
                None => true,
            };
            if may_read && found.len() < limit {
                found.push(record);
            }
        }
        if is_last {
            break;
        }
    }
    Ok(found)
}

pub(super) async fn versions(
    runtime: &Runtime,
    acting: Option<&ActingCaller>,
    name: &str,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<DocumentRecord>, DocumentsError> {
    check_page(limit)?;
    check_read(acting, name, None).await?;
    let store = runtime.require_store()?;
    let found = store.require_documents()?.document_versions(name, before, limit).await?;
    match found.is_empty() && before.is_none() && limit > 0 {
        true => Err(DocumentsError::NotFound { name: name.into(), version: None }),
        false => Ok(found),
    }
}

pub(super) async fn diff(
    runtime: &Runtime,
    acting: Option<&ActingCaller>,
    name: &str,
    (old, new): (u64, u64),
) -> Result<String, DocumentsError> {
    let before = get(runtime, acting, name, Some(old)).await?;
    let after = get(runtime, acting, name, Some(new)).await?;
    // Long texts with few equal lines take a while.
    let compared = tokio::task::spawn_blocking(move || unified_diff(&before, &after)).await;
    Ok(compared.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())))
}

fn unified_diff(old: &StoredDocument, new: &StoredDocument) -> String {
    if old.text == new.text {
        return String::new();
    }
    let compared = TextDiff::configure().timeout(DIFF_TIME).diff_lines(&*old.text, &*new.text);
    let title = |of: &StoredDocument| format!("{} (version {})", of.record.name, of.record.version);
    compared.unified_diff().header(&title(old), &title(new)).to_string()
}

fn check_page(limit: usize) -> Result<(), DocumentLimitError> {
    match limit > Documents::MAX_PAGE {
        true => Err(DocumentLimitError::Page { requested: limit, limit: Documents::MAX_PAGE }),
        false => Ok(()),
    }
}
