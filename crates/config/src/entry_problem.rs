//! Entries of a configuration: replaces variables when an entry is used, and describes why an entry
//! cannot be used. The configuration itself contains no keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentflow_schema::text::variables::{VariableError, expanded, names_in};

use agentflow_core::model::SecretProvider;

/// Reason why an entry cannot be used: a message without the name of the entry.
pub(super) struct EntryProblem(pub(super) String);

impl From<String> for EntryProblem {
    fn from(problem: String) -> Self {
        Self(problem)
    }
}

impl From<VariableError> for EntryProblem {
    fn from(error: VariableError) -> Self {
        Self(error.to_string())
    }
}

impl From<&str> for EntryProblem {
    fn from(problem: &str) -> Self {
        Self(problem.to_owned())
    }
}

/// Replaces `${NAME}` in these strings with the secret with this name.
///
/// # Errors
/// A message that names the first variable that is not set.
pub(super) async fn fill(
    texts: Vec<&mut String>,
    secrets: &Arc<dyn SecretProvider>,
) -> Result<(), EntryProblem> {
    for text in texts {
        let mut values = BTreeMap::new();
        for name in names_in(text) {
            let secret = secrets.secret(name).await;
            values.extend(secret.map(|secret| (name.to_owned(), secret.expose().to_owned())));
        }
        *text = expanded(text, &|name| values.get(name).cloned())?;
    }
    Ok(())
}
