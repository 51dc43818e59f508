//! Problems of items that a name refers to and that cannot be used: the data of an [`Error`] as a
//! diagnostic with the same sentence.

use agentflow_schema::diagnostic::{Diagnostic, Suggestion};
use agentflow_schema::text::{OneLine, known_names, name_hint};

use crate::error::{Error, RegistryError};
use crate::runtime::reference_codes as codes;
use crate::tool_definition::SourceLocation;

/// Converts the error of an item. `kind` and `name` describe the item, for an error that names
/// none.
pub(crate) fn unusable(kind: &str, name: &str, error: &Error) -> Diagnostic {
    match error {
        Error::Registry(error) => unregistered(error),
        Error::Build { what, name, problem } => {
            let found = Diagnostic::new(codes::CANNOT_BE_BUILT).text("kind", what);
            found.absent("name", name).text("problem", problem)
        }
        Error::Toolset { toolset, problem } => {
            let found = Diagnostic::new(codes::TOOLSET_UNAVAILABLE).absent("toolset", toolset);
            found.text("problem", OneLine(problem))
        }
        Error::UnknownWorkflow { name, near, known, other: None } => {
            let found = Diagnostic::new(codes::UNKNOWN_ITEM).text("kind", "workflow");
            found.absent("name", name).suggest(known_items("workflow", near.as_ref(), known))
        }
        other => {
            let found = Diagnostic::new(codes::UNUSABLE_ITEM).text("kind", kind);
            found.absent("name", name).text("problem", other)
        }
    }
}

/// Converts an error of the names of tools and agents.
pub(crate) fn unregistered(error: &RegistryError) -> Diagnostic {
    match error {
        RegistryError::Duplicate { name, first, second } => {
            if first.is_some() && first == second {
                return Diagnostic::new(codes::TOOL_GIVEN_TWICE).absent("name", name);
            }
            let found = Diagnostic::new(codes::DUPLICATE_TOOL).absent("name", name);
            found.text("first", place(first.as_ref())).text("second", place(second.as_ref()))
        }
        RegistryError::DuplicateAgent { name, first, second } => {
            let found = Diagnostic::new(codes::DUPLICATE_AGENT).absent("name", name);
            found.text("first", first).text("second", second)
        }
        RegistryError::NameTaken { what, name, first, second } => {
            let found = Diagnostic::new(codes::NAME_TAKEN).text("kind", what).absent("name", name);
            found.text("first", first).text("second", second)
        }
        RegistryError::WireName { wire_name, first, second } => {
            let found = Diagnostic::new(codes::SHARED_WIRE_NAME).absent("name", wire_name);
            found.absent("first", first).absent("second", second)
        }
        RegistryError::Unknown { what, name, near, known } => {
            let found = Diagnostic::new(codes::UNKNOWN_ITEM).text("kind", what);
            found.absent("name", name).suggest(known_items(what, near.as_ref(), known))
        }
        RegistryError::InvalidName { name, source_location } => {
            let found = Diagnostic::new(codes::INVALID_TOOL_NAME).absent("name", name);
            found.text("place", place(source_location.as_ref()))
        }
        RegistryError::NoObjectSchema { name } => {
            Diagnostic::new(codes::NO_OBJECT_SCHEMA).absent("name", name)
        }
        RegistryError::InvalidSchema { of, name, problem } => {
            let found = Diagnostic::new(codes::INVALID_SCHEMA).text("item", of);
            found.absent("name", name).text("problem", problem)
        }
        RegistryError::NotFound { name, registered } => {
            let hint = name_hint(name, registered.iter().map(|name| &**name));
            let found = Diagnostic::new(codes::TOOL_NOT_FOUND).absent("name", name);
            found.suggest(Suggestion::advice(hint))
        }
        RegistryError::Compensation { tool, by, problem } => {
            let found = Diagnostic::new(codes::UNUSABLE_COMPENSATION).absent("by", by);
            found.absent("tool", tool).text("problem", problem)
        }
        RegistryError::NotLinked { names } => {
            Diagnostic::new(codes::NOT_LINKED).text("names", names.join(", "))
        }
    }
}

/// Returns the nearest known name, or else the known names.
fn known_items(kind: &str, near: Option<&String>, known: &[String]) -> Option<Suggestion> {
    if near.is_some() {
        return Suggestion::similar(near);
    }
    let names = known_names(kind, None::<&str>, known);
    names.strip_prefix("; ").map(Suggestion::advice)
}

fn place(location: Option<&SourceLocation>) -> String {
    match location {
        Some(location) => location.to_string(),
        None => "run time (no source line)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The diagnostic and the error have the same sentence, so that one search finds both.
    #[test]
    fn the_sentence_is_that_of_the_error() {
        let location = SourceLocation::new("src/tools.rs", 7);
        let names = || vec!["search".to_owned(), "serach".to_owned()];
        let of_registry = [
            RegistryError::Duplicate {
                name: "a".into(),
                first: Some(location.clone()),
                second: None,
            },
            RegistryError::Duplicate {
                name: "a".into(),
                first: Some(location.clone()),
                second: Some(location.clone()),
            },
            RegistryError::DuplicateAgent {
                name: "a",
                first: location.clone(),
                second: location.clone(),
            },
            RegistryError::NameTaken {
                what: "workflow",
                name: "a".into(),
                first: "one".into(),
                second: "other".into(),
            },
            RegistryError::WireName {
                wire_name: "a__b".into(),
                first: "a.b".into(),
                second: "a/b".into(),
            },
            RegistryError::Unknown { what: "tool", name: "a".into(), near: None, known: names() },
            RegistryError::Unknown { what: "tool", name: "a".into(), near: None, known: vec![] },
            RegistryError::Unknown {
                what: "tool",
                name: "serch".into(),
                near: Some("search".into()),
                known: names(),
            },
            RegistryError::InvalidName { name: "a b".into(), source_location: Some(location) },
            RegistryError::NoObjectSchema { name: "a".into() },
            RegistryError::InvalidSchema {
                of: "parameters of the tool",
                name: "a".into(),
                problem: "it has no type".into(),
            },
            RegistryError::NotFound { name: "a".into(), registered: vec!["b".into()] },
            RegistryError::Compensation {
                tool: "book".into(),
                by: "unbook".into(),
                problem: "is missing".into(),
            },
            RegistryError::NotLinked { names: names() },
        ];
        for error in of_registry {
            assert_eq!(unregistered(&error).message(), error.to_string());
        }
        let others = [
            Error::Build { what: "workflow", name: "a".into(), problem: "it is empty".into() },
            Error::Toolset { toolset: "files".into(), problem: "no route".into() },
            Error::UnknownWorkflow {
                name: "a".into(),
                near: None,
                known: vec!["b".into()],
                other: None,
            },
        ];
        for error in others {
            assert_eq!(unusable("workflow", "a", &error).message(), error.to_string());
        }
        let error = Error::Draining;
        let found = unusable("workflow", "a", &error).message();
        assert_eq!(found, format!("the workflow `a` cannot be used: {error}"));
    }
}
