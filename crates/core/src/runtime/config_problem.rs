//! Entries of a configuration that cannot be used, which the runtime reports as a problem of its health.

use std::fmt;
use std::sync::Arc;

/// An entry of a configuration that cannot be used. The rest of the configuration is used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigProblem {
    /// The entry, such as `tools.storage`.
    pub entry: String,
    /// The reason. It has no key.
    pub problem: String,
}

impl ConfigProblem {
    /// Creates a problem of an entry.
    pub fn new(entry: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { entry: entry.into(), problem: problem.into() }
    }
}

/// The unusable entries of a runtime's configuration.
pub(super) struct ConfigProblems(pub(super) Arc<[ConfigProblem]>);

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the entry `{}` of the configuration cannot be used: {}",
            self.entry, self.problem
        )
    }
}

impl std::error::Error for ConfigProblem {}
