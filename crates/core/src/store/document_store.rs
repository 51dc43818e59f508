//! [`DocumentStore`]: the optional part of a store for documents with numbered versions.

use async_trait::async_trait;

use super::document_record::{
    DocumentChange, DocumentCommit, DocumentRecord, DocumentWrite, ExpectedVersion, StoredDocument,
};
use super::{Store, StoreError};

/// Documents of a [`Store`]: texts with a name and numbered versions.
///
/// The versions of a name are numbered from 1 without gaps. A number is never used again, also not
/// after the document was removed. A version never changes. A store treats the text as data.
///
/// # Rules
///
/// 1. **Compare-and-set.** [`put_document`](Self::put_document) and
///    [`remove_document`](Self::remove_document) compare the current version with the expected one
///    in the transaction that writes. Of several writers that expect the same version, one
///    succeeds.
/// 2. **Removed documents.** A removed document has no current version. Its versions can still be
///    read. A later put adds the version after the last one.
/// 3. **Changes are numbered.** Each put and each removal increments a number that counts the
///    changes of all documents of the store. A change is visible to a reader only together with all
///    changes before it, so that a reader that has seen change `n` asks for the changes after `n`.
/// 4. **Order.** Names are ordered by their bytes.
///
/// # Cancel safety
///
/// As for [`Store`]: a dropped write has happened completely or not at all.
#[async_trait]
pub trait DocumentStore: Send + Sync {
    /// Saves a text as the next version of its name, which becomes the current version.
    ///
    /// # Errors
    /// Any error of the store. Another current version than the expected one is not an error of the
    /// store but [`DocumentCommit::Conflict`].
    async fn put_document(
        &self,
        write: DocumentWrite,
        expected: ExpectedVersion,
    ) -> Result<DocumentCommit, StoreError>;

    /// Removes the current version of a name. Returns the record of this version. A name without a
    /// current version is a conflict.
    ///
    /// # Errors
    /// Any error of the store.
    async fn remove_document(
        &self,
        name: &str,
        expected: ExpectedVersion,
    ) -> Result<DocumentCommit, StoreError>;

    /// Returns a version of a name, or its current version if `version` is `None`. Versions of a
    /// removed document are returned by their number.
    ///
    /// # Errors
    /// `damaged` if the text does not have its checksum.
    async fn document(
        &self,
        name: &str,
        version: Option<u64>,
    ) -> Result<Option<StoredDocument>, StoreError>;

    /// Returns the current versions of at most `limit` names after the name `after`, ordered by
    /// name.
    ///
    /// # Errors
    /// Any error of the store.
    async fn list_documents(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DocumentRecord>, StoreError>;

    /// Returns at most `limit` versions of a name, the newest first. `before` selects the versions
    /// with a smaller number. Versions of a removed document are included.
    ///
    /// # Errors
    /// Any error of the store.
    async fn document_versions(
        &self,
        name: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DocumentRecord>, StoreError>;

    /// Returns the last change of each name that changed after the change number `after`, ordered
    /// by the number, at most `limit` of them. 0 selects all names.
    ///
    /// A runtime calls this to find changes of other processes, so it should be fast if there are
    /// none.
    ///
    /// # Errors
    /// Any error of the store.
    async fn document_changes(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<DocumentChange>, StoreError>;
}

impl dyn Store + '_ {
    /// Returns the [documents](Store::documents) of the store.
    ///
    /// # Errors
    /// `unsupported` if the store does not have this part.
    pub fn require_documents(&self) -> Result<&dyn DocumentStore, StoreError> {
        self.documents().ok_or_else(StoreError::documents_unsupported)
    }
}
