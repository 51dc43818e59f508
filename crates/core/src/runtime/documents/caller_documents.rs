//! `CallerDocuments`: the stored documents that a caller may read and write.

use std::sync::Arc;

use crate::access::ActingCaller;
use crate::document::Document;
use crate::runtime::Runtime;
use crate::runtime::documents::documents_error::DocumentsError;
use crate::runtime::documents::save::{PutDocument, RemoveDocument, check_write};
use crate::runtime::documents::stored_handle;
use crate::store::{DocumentRecord, StoredDocument};

/// The stored documents that a caller may use, returned by
/// [`CallerRuntime::documents`](crate::runtime::CallerRuntime::documents).
///
/// Each method asks the [`AccessControl`](crate::access::AccessControl) of the runtime. A document
/// that the caller may not read does not exist for the caller. The caller is recorded as the author
/// of each version.
///
/// ```
/// use agentflow::prelude::*;
/// use agentflow::store::MemoryStore;
///
/// /// Greet a person.
/// #[tool]
/// fn greet_by_name(name: String) -> String {
///     format!("Hello {name}.")
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
/// let runtime = Runtime::builder().store(MemoryStore::new()).build();
/// let ada = runtime.for_caller("ada");
/// let text = "id: hello\nnodes:\n  - {id: t, tool: greet_by_name, args_template: {name: Bob}}\n";
/// let saved = ada.documents().put("hello", text).await?;
/// assert_eq!(saved.author.as_deref(), Some("ada"));
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
/// The methods that read change nothing, so their futures can be dropped at any time.
#[derive(Clone, Copy, Debug)]
#[must_use = "this only refers to the documents"]
pub struct CallerDocuments<'a> {
    runtime: &'a Runtime,
    acting: Option<&'a ActingCaller>,
}

impl<'a> CallerDocuments<'a> {
    pub(crate) fn new(runtime: &'a Runtime, acting: Option<&'a ActingCaller>) -> Self {
        Self { runtime, acting }
    }

    /// Saves a text, as [`Documents::put`](crate::runtime::Documents::put).
    ///
    /// # Errors
    /// [`DocumentsError::Denied`], whether the document exists or not, and as [`PutDocument`].
    pub fn put(self, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> PutDocument<'a> {
        PutDocument::new(self.runtime, name.into(), text.into()).of_caller(self.acting)
    }

    /// Removes a document, as [`Documents::remove`](crate::runtime::Documents::remove).
    ///
    /// # Errors
    /// [`DocumentsError::Denied`] if the caller may read the document but not write it, and as
    /// [`RemoveDocument`].
    pub fn remove(self, name: impl Into<Arc<str>>) -> RemoveDocument<'a> {
        RemoveDocument::new(self.runtime, name.into()).of_caller(self.acting)
    }

    /// Checks a text, as [`Documents::validate`](crate::runtime::Documents::validate). The mistakes
    /// name tools and agents of the program, so the caller must be allowed to write the document. A
    /// text without a readable name counts as a document with an empty name.
    ///
    /// # Errors
    /// [`DocumentsError::Denied`] and [`DocumentsError::Invalid`].
    pub async fn validate(self, text: impl Into<Arc<str>>) -> Result<Document, DocumentsError> {
        let text = text.into();
        let read = Document::read("document", Arc::clone(&text));
        check_write(self.acting, read.as_ref().map_or("", Document::name)).await?;
        self.runtime.documents().validate(text).await.map_err(DocumentsError::Invalid)
    }

    /// Returns a version, as [`Documents::get`](crate::runtime::Documents::get).
    ///
    /// # Errors
    /// As the method of `Documents`.
    pub async fn get(
        self,
        name: &str,
        version: impl Into<Option<u64>>,
    ) -> Result<StoredDocument, DocumentsError> {
        stored_handle::get(self.runtime, self.acting, name, version.into()).await
    }

    /// Returns the documents that the caller may read, as
    /// [`Documents::list`](crate::runtime::Documents::list).
    ///
    /// # Errors
    /// As the method of `Documents`.
    pub async fn list(
        self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DocumentRecord>, DocumentsError> {
        stored_handle::list(self.runtime, self.acting, after, limit).await
    }

    /// Returns the versions of a document, as
    /// [`Documents::versions`](crate::runtime::Documents::versions).
    ///
    /// # Errors
    /// As the method of `Documents`.
    pub async fn versions(
        self,
        name: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DocumentRecord>, DocumentsError> {
        stored_handle::versions(self.runtime, self.acting, name, before, limit).await
    }

    /// Compares two versions, as [`Documents::diff`](crate::runtime::Documents::diff).
    ///
    /// # Errors
    /// As the method of `Documents`.
    pub async fn diff(self, name: &str, old: u64, new: u64) -> Result<String, DocumentsError> {
        stored_handle::diff(self.runtime, self.acting, name, (old, new)).await
    }
}
