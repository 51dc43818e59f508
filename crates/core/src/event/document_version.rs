//! [`DocumentVersion`]: the version of a stored document that a run executes.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A version of a document in a store. [`RunRecord::document`](crate::store::RunRecord::document)
/// names the version that a run executes.
///
/// ```
/// use agentflow::event::DocumentVersion;
///
/// let version = DocumentVersion::new("research", 3, "9f86d081");
/// assert_eq!(version.to_string(), "research, version 3");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DocumentVersion {
    /// Name of the document, which is the name of its workflow.
    pub name: Arc<str>,
    /// Number of the version, from 1.
    pub version: u64,
    /// SHA-256 of the text, as 64 hexadecimal digits.
    pub checksum: Arc<str>,
}

impl DocumentVersion {
    /// Creates the name of a version.
    pub fn new(name: impl Into<Arc<str>>, version: u64, checksum: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), version, checksum: checksum.into() }
    }
}

impl fmt::Display for DocumentVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, version {}", self.name, self.version)
    }
}
