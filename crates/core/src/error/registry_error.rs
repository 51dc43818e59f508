//! `RegistryError`: why a program's tools do not fit together. It describes and decides nothing.

use std::sync::Arc;

use agentflow_schema::text::{known_names, name_hint, nearest};

use crate::tool_definition::SourceLocation;

/// The tools contradict each other, or one is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Two tools have one name.
    #[error("{}", duplicate(name, first, second))]
    Duplicate {
        /// The name.
        name: Arc<str>,
        /// Where one is; `None` for a tool made at run time.
        first: Option<SourceLocation>,
        /// Where the other is.
        second: Option<SourceLocation>,
    },
    /// Two `#[agent]`s have one name.
    #[error(
        "two agents are named `{name}`: at {first} and at {second}; rename one or give it `#[agent(name = \"..\")]`"
    )]
    DuplicateAgent {
        /// The name.
        name: &'static str,
        /// Where one is.
        first: SourceLocation,
        /// Where the other is.
        second: SourceLocation,
    },
    /// Two things of one kind have one name, and at least one of them was given to the runtime.
    #[error("two {what}s are named `{name}`: {first}, and {second}; rename one, or give it once")]
    NameTaken {
        /// The kind, such as `workflow`.
        what: &'static str,
        /// The name.
        name: Arc<str>,
        /// Where one comes from.
        first: String,
        /// Where the other comes from.
        second: String,
    },
    /// Two tools have one name for a model.
    #[error("a model would call the tools `{first}` and `{second}` by one name, `{wire_name}`; rename one")]
    WireName {
        /// The name for a model.
        wire_name: Arc<str>,
        /// One of them.
        first: Arc<str>,
        /// The other.
        second: Arc<str>,
    },
    /// A catalogue has nothing of that kind and name.
    #[error("this program has no {what} `{name}`{}", known_names(what, near.as_ref(), known))]
    Unknown {
        /// The kind, such as `agent`.
        what: &'static str,
        /// The name that was asked for.
        name: String,
        /// The nearest name that there is.
        near: Option<String>,
        /// All names of that kind that are known.
        known: Vec<String>,
    },
    /// A name no provider takes.
    #[error(
        "the tool name `{name}` at {} does not work: use 1 to 64 letters, digits, `_` or `-`",
        place(source_location)
    )]
    InvalidName {
        /// The name.
        name: Arc<str>,
        /// Where the tool is; `None` for one made at run time.
        source_location: Option<SourceLocation>,
    },
    /// A schema that is not one of an object.
    #[error(
        "the parameters of the tool `{name}` are not a JSON Schema of an object, which is all that a model can fill in; \
         take one struct with named fields"
    )]
    NoObjectSchema {
        /// The tool's name.
        name: Arc<str>,
    },
    /// A schema by which nothing can be checked: that of a tool's arguments, or of what something else takes or gives.
    #[error("the {of} `{name}`: {problem}")]
    InvalidSchema {
        /// What the schema is of, such as `parameters of the tool`.
        of: &'static str,
        /// The name of that.
        name: Arc<str>,
        /// What is wrong with the schema, and where.
        problem: String,
    },
    /// There is no tool of that name.
    #[error("there is no tool `{name}`; {}", name_hint(name, registered.iter().map(|name| &**name)))]
    NotFound {
        /// The name asked for.
        name: String,
        /// The names there are, ordered.
        registered: Vec<Arc<str>>,
    },
    /// The tool that is to undo another one is not there, or cannot be called with what it is given then.
    #[error("`{by}`, which is to undo the tool `{tool}`, {problem}")]
    Compensation {
        /// The tool that is to be undone.
        tool: Arc<str>,
        /// The name of the one that undoes it.
        by: Arc<str>,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Tools that the program counts on are not linked.
    #[error(
        "these tools are not linked into the program: {}; if their crate is a dependency, name it somewhere, as in `use that_crate as _;`",
        names.join(", ")
    )]
    NotLinked {
        /// Their names.
        names: Vec<String>,
    },
}

impl RegistryError {
    /// A name that is not one of those that are known.
    pub(crate) fn unknown<'a>(what: &'static str, name: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let known: Vec<String> = known.map(ToOwned::to_owned).collect();
        let near = nearest(name, known.iter().map(String::as_str)).map(ToOwned::to_owned);
        Self::Unknown { what, name: name.to_owned(), near, known }
    }
}

fn duplicate(name: &str, first: &Option<SourceLocation>, second: &Option<SourceLocation>) -> String {
    if first.is_some() && first == second {
        return format!("the tool `{name}` is given twice; name it once");
    }
    let (first, second) = (place(first), place(second));
    format!("two tools are named `{name}`: at {first} and at {second}; rename one or give it `#[tool(name = \"..\")]`")
}

fn place(location: &Option<SourceLocation>) -> String {
    match location {
        Some(location) => location.to_string(),
        None => "run time (no source line)".to_owned(),
    }
}
