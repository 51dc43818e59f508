//! [`RegistryError`]: conflicts between the tools, agents and workflows of a program.

use std::sync::Arc;

use agentflow_schema::text::{known_names, name_hint, nearest};

use crate::tool_definition::SourceLocation;

/// The tools, agents or workflows of a program conflict, or one is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Two tools have the same name.
    #[error("{}", duplicate(name, first, second))]
    Duplicate {
        /// Name of both tools.
        name: Arc<str>,
        /// Location of the first tool; `None` for a tool that was created at run time.
        first: Option<SourceLocation>,
        /// Location of the second tool.
        second: Option<SourceLocation>,
    },
    /// Two `#[agent]`s have the same name.
    #[error(
        "two agents are named `{name}`: at {first} and at {second}; rename one or give it `#[agent(name = \"..\")]`"
    )]
    DuplicateAgent {
        /// Name of both agents.
        name: &'static str,
        /// Location of the first agent.
        first: SourceLocation,
        /// Location of the second agent.
        second: SourceLocation,
    },
    /// Two items of the same kind have the same name, and at least one of them was given to the
    /// runtime.
    #[error("two {what}s are named `{name}`: {first}, and {second}; rename one, or give it once")]
    NameTaken {
        /// Kind of the items, such as `workflow`.
        what: &'static str,
        /// Name of both items.
        name: Arc<str>,
        /// Origin of the first item.
        first: String,
        /// Origin of the second item.
        second: String,
    },
    /// Two tools have the same wire name.
    #[error(
        "a model would call the tools `{first}` and `{second}` by one name, `{wire_name}`; rename one"
    )]
    WireName {
        /// Wire name: the name that a model uses.
        wire_name: Arc<str>,
        /// Name of the first tool.
        first: Arc<str>,
        /// Name of the second tool.
        second: Arc<str>,
    },
    /// A catalogue contains no item of this kind and name.
    #[error("this program has no {what} `{name}`{}", known_names(what, near.as_ref(), known))]
    Unknown {
        /// Kind of the item, such as `agent`.
        what: &'static str,
        /// The requested name.
        name: String,
        /// The most similar known name.
        near: Option<String>,
        /// All known names of this kind.
        known: Vec<String>,
    },
    /// No provider accepts the name of the tool.
    #[error(
        "the tool name `{name}` at {} does not work: use 1 to 64 letters, digits, `_` or `-`",
        place(source_location)
    )]
    InvalidName {
        /// Name of the tool.
        name: Arc<str>,
        /// Location of the tool; `None` for a tool that was created at run time.
        source_location: Option<SourceLocation>,
    },
    /// The schema of the parameters does not describe an object.
    #[error(
        "the parameters of the tool `{name}` are not a JSON Schema of an object, which is all that a model can fill in; \
         take one struct with named fields"
    )]
    NoObjectSchema {
        /// Name of the tool.
        name: Arc<str>,
    },
    /// The schema of a tool's arguments, or of the input or output of another item, is invalid.
    #[error("the {of} `{name}`: {problem}")]
    InvalidSchema {
        /// Subject of the schema, such as `parameters of the tool`.
        of: &'static str,
        /// Name of the item with the schema.
        name: Arc<str>,
        /// Problem of the schema, and its position.
        problem: String,
    },
    /// No tool has this name.
    #[error("there is no tool `{name}`; {}", name_hint(name, registered.iter().map(|name| &**name)))]
    NotFound {
        /// The requested name.
        name: String,
        /// The names of all tools, sorted.
        registered: Vec<Arc<str>>,
    },
    /// The compensating tool of a tool is missing, or cannot be called with the arguments of the
    /// compensation.
    #[error("`{by}`, which is to undo the tool `{tool}`, {problem}")]
    Compensation {
        /// Name of the tool.
        tool: Arc<str>,
        /// Name of the compensating tool.
        by: Arc<str>,
        /// Problem and solution.
        problem: String,
    },
    /// Tools that the program requires are not linked.
    #[error(
        "these tools are not linked into the program: {}; if their crate is a dependency, name it somewhere, as in `use that_crate as _;`",
        names.join(", ")
    )]
    NotLinked {
        /// Names of the tools.
        names: Vec<String>,
    },
}

impl RegistryError {
    /// Creates the error for a name that is not among the known names.
    pub(crate) fn unknown<'a>(
        what: &'static str,
        name: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> Self {
        let known: Vec<String> = known.map(ToOwned::to_owned).collect();
        let near = nearest(name, known.iter().map(String::as_str)).map(ToOwned::to_owned);
        Self::Unknown { what, name: name.to_owned(), near, known }
    }
}

fn duplicate(
    name: &str,
    first: &Option<SourceLocation>,
    second: &Option<SourceLocation>,
) -> String {
    if first.is_some() && first == second {
        return format!("the tool `{name}` is given twice; name it once");
    }
    let (first, second) = (place(first), place(second));
    format!(
        "two tools are named `{name}`: at {first} and at {second}; rename one or give it `#[tool(name = \"..\")]`"
    )
}

fn place(location: &Option<SourceLocation>) -> String {
    match location {
        Some(location) => location.to_string(),
        None => "run time (no source line)".to_owned(),
    }
}
