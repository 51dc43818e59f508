//! The data of a [`DocumentStore`](super::DocumentStore): a text to save, its record, and the
//! expected version of a compare-and-set.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{StoreError, StoreErrorKind};
use crate::definition::sha256;
use crate::event::DocumentVersion;
use crate::time::Timestamp;

/// A text to save as the next version of a document. The limits of its constants are checked when
/// it is created.
///
/// ```
/// use agentflow::store::{DocumentLimitError, DocumentWrite};
/// use agentflow::time::Timestamp;
///
/// let time = Timestamp::from_millis(0);
/// let write = DocumentWrite::new("greeting", "id: greeting", time).unwrap().form("tools");
/// assert_eq!(write.checksum().len(), 64);
/// let error = DocumentWrite::new("../greeting", "", time).unwrap_err();
/// assert!(matches!(error, DocumentLimitError::Name { .. }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentWrite {
    name: Arc<str>,
    text: Arc<str>,
    form: Arc<str>,
    checksum: Arc<str>,
    time: Timestamp,
    author: Option<Arc<str>>,
    comment: Option<Arc<str>>,
}

impl DocumentWrite {
    /// Maximum length of a name, in bytes.
    pub const MAX_NAME_BYTES: usize = 200;

    /// Maximum length of a text, in bytes. `Document::read` has the same limit.
    pub const MAX_TEXT_BYTES: usize = 4 << 20;

    /// Maximum length of an author's name and of a comment, in bytes each.
    pub const MAX_COMMENT_BYTES: usize = 4096;

    /// Creates the write of a text.
    ///
    /// # Errors
    /// [`DocumentLimitError`] if the name is not allowed or the text is too long.
    pub fn new(
        name: impl Into<Arc<str>>,
        text: impl Into<Arc<str>>,
        time: Timestamp,
    ) -> Result<Self, DocumentLimitError> {
        let (name, text) = (name.into(), text.into());
        check_name(&name)?;
        check_length("text", text.len(), Self::MAX_TEXT_BYTES)?;
        let checksum = sha256(text.as_bytes()).into();
        let (form, author, comment) = (Arc::from(""), None, None);
        Ok(Self { name, text, form, checksum, time, author, comment })
    }

    /// Sets the name of the form, such as `steps`. Default: empty.
    #[must_use]
    pub fn form(mut self, form: impl Into<Arc<str>>) -> Self {
        self.form = form.into();
        self
    }

    /// Sets the author.
    ///
    /// # Errors
    /// [`DocumentLimitError::TooLong`].
    pub fn by(mut self, author: impl Into<Arc<str>>) -> Result<Self, DocumentLimitError> {
        let author = author.into();
        check_length("name of the author", author.len(), Self::MAX_COMMENT_BYTES)?;
        self.author = Some(author);
        Ok(self)
    }

    /// Sets the comment.
    ///
    /// # Errors
    /// [`DocumentLimitError::TooLong`].
    pub fn comment(mut self, comment: impl Into<Arc<str>>) -> Result<Self, DocumentLimitError> {
        let comment = comment.into();
        check_length("comment", comment.len(), Self::MAX_COMMENT_BYTES)?;
        self.comment = Some(comment);
        Ok(self)
    }

    /// Returns the name of the document.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the text.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Returns the SHA-256 of the text, as 64 hexadecimal digits.
    pub fn checksum(&self) -> &Arc<str> {
        &self.checksum
    }

    /// Returns the record of the text, if it is saved as this version.
    pub fn record(&self, version: u64) -> DocumentRecord {
        DocumentRecord {
            name: Arc::clone(&self.name),
            version,
            checksum: Arc::clone(&self.checksum),
            form: Arc::clone(&self.form),
            bytes: self.text.len() as u64,
            created: self.time,
            author: self.author.clone(),
            comment: self.comment.clone(),
        }
    }
}

/// A name is shown in addresses and may be used as the name of a file by other programs, so it
/// contains no separator of paths and no control character.
fn check_name(name: &Arc<str>) -> Result<(), DocumentLimitError> {
    let wrong = |problem| Err(DocumentLimitError::Name { name: shortened(name), problem });
    if name.is_empty() {
        return wrong("it is empty");
    }
    if name.len() > DocumentWrite::MAX_NAME_BYTES {
        return wrong("it has more than 200 bytes");
    }
    if name.contains(['/', '\\']) {
        return wrong("it contains a slash");
    }
    if name.chars().any(char::is_control) {
        return wrong("it contains a control character");
    }
    if name.starts_with('.') {
        return wrong("it starts with a dot");
    }
    if name.trim() != &**name {
        return wrong("it starts or ends with a space");
    }
    Ok(())
}

/// Returns the beginning of a name, for an error message.
fn shortened(name: &Arc<str>) -> Arc<str> {
    match name.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &name[..end]).into(),
        None => Arc::clone(name),
    }
}

fn check_length(what: &'static str, bytes: usize, limit: usize) -> Result<(), DocumentLimitError> {
    match bytes > limit {
        true => Err(DocumentLimitError::TooLong { what, bytes, limit }),
        false => Ok(()),
    }
}

/// Error for a document that exceeds a limit of [`DocumentWrite`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentLimitError {
    /// The name is not allowed.
    #[error("{name:?} cannot be the name of a stored document: {problem}")]
    #[non_exhaustive]
    Name {
        /// The name, shortened if it is long.
        name: Arc<str>,
        /// The rule that the name breaks.
        problem: &'static str,
    },
    /// The text, the name of the author or the comment is too long.
    #[error("the {what} of the document has {bytes} bytes; the limit is {limit}")]
    #[non_exhaustive]
    TooLong {
        /// The part that is too long: `text`, `name of the author` or `comment`.
        what: &'static str,
        /// Its length in bytes.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// More entries were requested than a page may have.
    #[error("a page of {requested} documents was requested; the limit is {limit}")]
    #[non_exhaustive]
    Page {
        /// Requested number of entries.
        requested: usize,
        /// Maximum number of entries.
        limit: usize,
    },
}

/// The version that a writer expects to be current.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExpectedVersion {
    /// Any version, or none.
    #[default]
    Any,
    /// No current version: the name was never used, or its document was removed.
    Absent,
    /// This version.
    Current(u64),
}

impl ExpectedVersion {
    /// Returns `true` if the current version is the expected one.
    pub fn admits(self, current: Option<u64>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => current.is_none(),
            Self::Current(version) => current == Some(version),
        }
    }
}

impl fmt::Display for ExpectedVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any version"),
            Self::Absent => f.write_str("no current version"),
            Self::Current(version) => write!(f, "version {version}"),
        }
    }
}

/// Outcome of a write to a [`DocumentStore`](super::DocumentStore).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a conflict has written nothing"]
pub enum DocumentCommit {
    /// The version was saved or removed.
    Done(DocumentRecord),
    /// The current version is not the expected one. Nothing was written.
    Conflict {
        /// The current version; `None` if the document does not exist.
        current: Option<u64>,
    },
}

/// The record of a version: everything but its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DocumentRecord {
    /// Name of the document.
    pub name: Arc<str>,
    /// Number of the version, from 1.
    pub version: u64,
    /// SHA-256 of the text, as 64 hexadecimal digits.
    pub checksum: Arc<str>,
    /// Form of the document, such as `steps`.
    pub form: Arc<str>,
    /// Length of the text in bytes.
    pub bytes: u64,
    /// Time at which the version was saved.
    pub created: Timestamp,
    /// Name of the caller who saved the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<Arc<str>>,
    /// Comment of the author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<Arc<str>>,
}

impl DocumentRecord {
    /// Rebuilds a record from the columns of a store. Set `author` and `comment` afterwards.
    pub fn from_stored(
        version: &DocumentVersion,
        form: impl Into<Arc<str>>,
        bytes: u64,
        created: Timestamp,
    ) -> Self {
        Self {
            name: Arc::clone(&version.name),
            version: version.version,
            checksum: Arc::clone(&version.checksum),
            form: form.into(),
            bytes,
            created,
            author: None,
            comment: None,
        }
    }

    /// Returns the name, the number and the checksum of the version.
    pub fn to_version(&self) -> DocumentVersion {
        let (name, checksum) = (Arc::clone(&self.name), Arc::clone(&self.checksum));
        DocumentVersion::new(name, self.version, checksum)
    }
}

/// A version with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredDocument {
    /// The record of the version.
    pub record: DocumentRecord,
    /// The text.
    pub text: Arc<str>,
}

impl StoredDocument {
    /// Creates a version from a store, and verifies that the text has its checksum.
    ///
    /// # Errors
    /// `damaged` if it has another one.
    pub fn new(record: DocumentRecord, text: impl Into<Arc<str>>) -> Result<Self, StoreError> {
        let text = text.into();
        if sha256(text.as_bytes()) != *record.checksum {
            let problem = format!(
                "the text of the document `{}`, version {}, does not have its checksum; restore \
                 it from a backup, or save a new version",
                record.name, record.version
            );
            return Err(StoreError::new(StoreErrorKind::Damaged, problem));
        }
        Ok(Self { record, text })
    }
}

/// The last change of a name, as [`DocumentStore::document_changes`](super::DocumentStore::document_changes)
/// returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocumentChange {
    /// Number of the change.
    pub number: u64,
    /// Name of the document.
    pub name: Arc<str>,
    /// Current version; `None` if the document was removed.
    pub version: Option<u64>,
}

impl DocumentChange {
    /// Creates a change from the columns of a store.
    pub fn new(number: u64, name: impl Into<Arc<str>>, version: Option<u64>) -> Self {
        Self { number, name: name.into(), version }
    }
}
