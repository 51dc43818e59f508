//! [`DocumentsError`]: the reasons why a stored document cannot be saved, read or removed.

use std::sync::Arc;

use crate::document::DocumentError;
use crate::error::Error;
use crate::store::{DocumentLimitError, ExpectedVersion, StoreError};

/// Error of a stored document. Nothing was written, unless the store reports that a write may have
/// happened.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentsError {
    /// The text has mistakes, each with its position.
    #[error("{0}")]
    Invalid(DocumentError),
    /// The workflow of the text has another name than the document.
    #[error(
        "the document `{name}` describes the workflow `{workflow}`; save it under the name of its workflow"
    )]
    #[non_exhaustive]
    OtherName {
        /// Name of the document.
        name: Arc<str>,
        /// Name of the workflow in the text.
        workflow: Arc<str>,
    },
    /// The program or a folder of documents has a workflow with this name.
    #[error(
        "the program has a workflow with the name `{name}`, which a stored document cannot replace; give the document \
         another name"
    )]
    #[non_exhaustive]
    NameTaken {
        /// Name of the document.
        name: Arc<str>,
    },
    /// The current version is not the expected one: another writer was faster.
    #[error("{}", conflict(name, *expected, *current))]
    #[non_exhaustive]
    Conflict {
        /// Name of the document.
        name: Arc<str>,
        /// The version that the writer expected.
        expected: ExpectedVersion,
        /// The current version; `None` if the document does not exist.
        current: Option<u64>,
    },
    /// The store has no current document with this name, or no such version.
    #[error("{}", not_found(name, *version))]
    #[non_exhaustive]
    NotFound {
        /// Name of the document.
        name: Arc<str>,
        /// The requested version; `None` for the current one.
        version: Option<u64>,
    },
    /// A limit is exceeded.
    #[error(transparent)]
    Limit(#[from] DocumentLimitError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The access control denied the action.
    #[error(transparent)]
    Denied(Arc<Error>),
}

fn conflict(name: &str, expected: ExpectedVersion, current: Option<u64>) -> String {
    let is = match current {
        Some(version) => format!("its current version is {version}"),
        None => "it has no current version".to_owned(),
    };
    format!(
        "the document `{name}` was not changed: {expected} was expected, and {is}; read the document again"
    )
}

fn not_found(name: &str, version: Option<u64>) -> String {
    match version {
        Some(version) => format!("the store has no version {version} of a document `{name}`"),
        None => format!("the store has no document `{name}`"),
    }
}
