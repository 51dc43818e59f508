//! Reads configuration files with values, and reports mistakes like those of documents. The fields
//! are defined by the target type.

use agentflow_schema::diagnostic::Diagnostic;
use std::path::Path;
use std::sync::Arc;

use agentflow_schema::text_tree::{Datum, Tree};
use serde::de::DeserializeOwned;

use super::DocumentError;
use super::object_fields::{self, Problems};

/// Reads YAML or JSON as a type that implements `Deserialize`. An empty string gives the default
/// value.
///
/// # Errors
/// All mistakes with their positions.
pub fn read_values<T: DeserializeOwned + Default>(
    name: &Arc<str>,
    text: &Arc<str>,
) -> Result<T, DocumentError> {
    let failed = |found: Vec<Diagnostic>| DocumentError::new(name, text, found);
    let (tree, repeated) = Tree::read_with_repeated(text).map_err(failed)?;
    if tree.datum == Datum::Null {
        return Ok(T::default());
    }
    let mut problems = Problems::new(text, repeated);
    match (object_fields::read(&tree, &mut problems), problems.found) {
        (Some(values), found) if found.is_empty() => Ok(values),
        (_, found) => Err(failed(found)),
    }
}

/// Reads a file like [`read_values`].
///
/// # Errors
/// Also if the file cannot be read, is not UTF-8 or has more than 4 MiB.
pub fn open_values<T: DeserializeOwned + Default>(path: &Path) -> Result<T, DocumentError> {
    let name: Arc<str> = path.display().to_string().into();
    let text = super::text_of(path).map_err(|error| super::unreadable(&name, &error))?;
    read_values(&name, &text.into())
}
