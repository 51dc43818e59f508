//! Reads all documents of a folder.

use agentflow_schema::diagnostic::Diagnostic;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::document_codes;
use super::{Document, DocumentError, text_of};
use crate::text_file;

/// Error of reading a folder of documents, with the problems of all documents.
#[derive(Debug)]
#[non_exhaustive]
pub enum FolderError {
    /// The folder cannot be listed.
    #[non_exhaustive]
    Io {
        /// Path of the folder.
        folder: PathBuf,
        /// Cause.
        source: Arc<io::Error>,
    },
    /// Some documents cannot be read or are invalid.
    Documents(Vec<DocumentError>),
}

impl Document {
    /// Reads all documents of a folder, sorted by file name: files that end in `.yaml`, `.yml` or
    /// `.json`. Subfolders and files whose names start with a dot are ignored.
    ///
    /// # Errors
    /// [`FolderError::Documents`] with every document that has problems. Two workflows with the
    /// same name, and a symbolic link to a target outside of the folder, are problems too.
    pub fn read_folder(folder: impl AsRef<Path>) -> Result<Vec<Self>, FolderError> {
        let mut errors = Vec::new();
        let read = Self::open_all(folder.as_ref())?;
        let documents = read
            .into_iter()
            .filter_map(|read| read.map_err(|error| errors.push(error)).ok())
            .collect();
        if errors.is_empty() { Ok(documents) } else { Err(FolderError::Documents(errors)) }
    }

    /// Reads all documents of a folder, each with its own result.
    #[doc(hidden)]
    pub fn open_all(folder: &Path) -> Result<Vec<Result<Self, DocumentError>>, FolderError> {
        let mut all: Vec<Result<Self, DocumentError>> = Vec::new();
        for path in Self::paths_in(folder)? {
            let read = Self::open_in(folder, &path).and_then(|document| {
                let name = document.name();
                match all.iter().flatten().find(|other| other.name() == name) {
                    Some(other) => Err(document.same_name(other)),
                    None => Ok(document),
                }
            });
            all.push(read);
        }
        Ok(all)
    }

    /// Reads a file that [`paths_in`](Self::paths_in) returned.
    pub(crate) fn open_in(folder: &Path, path: &Path) -> Result<Self, DocumentError> {
        Self::of_file(path, text_file::within(folder, path).and_then(|file| text_of(&file)))
    }

    /// Creates the error for two documents whose workflows have the same name.
    pub(crate) fn same_name(&self, other: &Self) -> DocumentError {
        let (name, file) = (self.name(), &other.source.name);
        let found = Diagnostic::new(document_codes::NAME_OF_TWO_FILES).name("workflow", name);
        self.source.error(vec![found.text("file", file)])
    }

    /// Returns the paths of the documents in a folder, sorted by name. Special files such as pipes
    /// are included if the name matches; reading them fails.
    #[doc(hidden)]
    pub fn paths_in(folder: &Path) -> Result<Vec<PathBuf>, FolderError> {
        let failed = |source: io::Error| FolderError::Io {
            folder: folder.to_owned(),
            source: Arc::new(source),
        };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if is_document(&path) && !path.is_dir() {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }
}

fn is_document(path: &Path) -> bool {
    let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let kind = path.extension().map(|kind| kind.to_string_lossy().to_lowercase());
    !is_hidden && matches!(kind.as_deref(), Some("yaml" | "yml" | "json"))
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { folder, source } => {
                write!(f, "the folder {} cannot be read: {source}", folder.display())
            }
            Self::Documents(errors) => {
                let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
                f.write_str(&all.join("\n\n"))
            }
        }
    }
}

impl Error for FolderError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(&**source),
            Self::Documents(_) => None,
        }
    }
}
