//! Errors of reading or applying a configuration.

use std::error::Error as StdError;
use std::fmt;
use std::path::PathBuf;

#[cfg(feature = "documents")]
use agentflow_core::document::DocumentError;
use agentflow_core::store::StoreError;

/// Error of reading or applying a configuration.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read or contains errors. Contains all of them.
    #[cfg(feature = "documents")]
    File(DocumentError),
    /// The text is not valid JSON or contains an error. With the feature `documents`,
    /// [`File`](Self::File) is returned instead.
    #[non_exhaustive]
    Json {
        /// Name under which the text was read, such as its file name.
        name: String,
        /// The first error.
        problem: String,
    },
    /// The file cannot be read.
    #[non_exhaustive]
    Unreadable {
        /// Path of the file.
        file: PathBuf,
        /// Cause of the error.
        source: std::io::Error,
    },
    /// Invalid environment variables: one message each.
    Variables(Vec<String>),
    /// The store cannot be opened.
    Store(StoreError),
    /// A feature that the configuration needs is not compiled in.
    Missing(String),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "documents")]
            Self::File(error) => write!(f, "{error}"),
            Self::Json { name, problem } => {
                write!(f, "{name} is not a configuration in JSON: {problem}")
            }
            Self::Unreadable { file, source } => {
                write!(f, "{} cannot be read: {source}", file.display())
            }
            Self::Variables(problems) => {
                write!(f, "variables of the environment are wrong: {}", problems.join("; "))
            }
            Self::Store(error) => {
                write!(f, "the store of the configuration cannot be opened: {error}")
            }
            Self::Missing(problem) => f.write_str(problem),
        }
    }
}

impl StdError for ConfigError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            #[cfg(feature = "documents")]
            Self::File(error) => Some(error),
            Self::Unreadable { source, .. } => Some(source),
            Self::Store(error) => Some(error),
            Self::Variables(_) | Self::Missing(_) | Self::Json { .. } => None,
        }
    }
}
