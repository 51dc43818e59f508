//! What a catalogue shows: its entries, each with where it comes from. It looks nothing up and runs nothing.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, RegistryError, Result};
use crate::tool::{SourceLocation, ToolPolicy};

/// Everything that a [`Runtime`](crate::Runtime) knows by name, as it was when
/// [`Runtime::catalogue`](crate::Runtime::catalogue) was called.
#[derive(Clone, Debug)]
pub struct Catalogue {
    pub(super) entries: Vec<CatalogueEntry>,
    pub(super) problems: Vec<Error>,
}

impl Catalogue {
    /// All entries, ordered by kind and name. Of things that have one name, all are here.
    pub fn entries(&self) -> &[CatalogueEntry] {
        &self.entries
    }

    /// The entries of a kind, ordered by name.
    pub fn of_kind(&self, kind: EntryKind) -> impl Iterator<Item = &CatalogueEntry> + Clone {
        self.entries.iter().filter(move |entry| entry.kind == kind)
    }

    /// The entry of a name; a tool is also found by its wire name.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`], which offers the nearest name.
    pub fn get(&self, kind: EntryKind, name: &str) -> Result<&CatalogueEntry, RegistryError> {
        let by_name = self.of_kind(kind).find(|entry| *entry.name == *name);
        by_name
            .or_else(|| self.of_kind(kind).find(|entry| entry.wire_name.as_deref() == Some(name)))
            .ok_or_else(|| RegistryError::unknown(kind.as_str(), name, self.of_kind(kind).map(|entry| &*entry.name)))
    }

    /// What is wrong: two things of one kind that have one name, tools that a model would call by one name, a tool whose
    /// undoing tool is not there or does not take what it is given, a workflow that cannot be built, a toolset whose tools
    /// could not be fetched.
    pub fn problems(&self) -> &[Error] {
        &self.problems
    }

    /// The same, when nothing is wrong: for a program's start.
    ///
    /// # Errors
    /// The first of the [`problems`](Self::problems).
    pub fn check(self) -> Result<Self> {
        match self.problems.into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok(Self { entries: self.entries, problems: Vec::new() }),
        }
    }
}

/// One thing that a runtime knows by name.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CatalogueEntry {
    /// What it is.
    pub kind: EntryKind,
    /// The name that a program knows it by, such as `files.read`.
    pub name: Arc<str>,
    /// The name that a model calls it by, such as `files__read`; `None` for all but tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire_name: Option<Arc<str>>,
    /// Purpose, for those who use it; of a model's provider its address. An agent's instructions are never part of it.
    pub description: Arc<str>,
    /// Where it comes from.
    pub origin: Origin,
    /// The JSON Schema of what it takes: the arguments of a tool, the inputs of a workflow by their names, the message to
    /// an agent or the arguments of an `#[agent]` function; of a schema, the schema itself. `None` for models and providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The JSON Schema of what it gives. `None` for a tool whose answer has none: a `#[tool]` function that returns a type
    /// without `JsonSchema` or one that borrows, a tool made at run time that does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// How a tool is treated; `None` for everything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<ToolPolicy>,
    /// `true` for a tool whose calls may report their progress while they run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub supports_streaming: bool,
    /// Parts of a tool's input schema that this program cannot check, a sentence each: a regular expression with lookahead, a
    /// reference that leads nowhere. Arguments that break only these reach the tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<String>,
}

impl CatalogueEntry {
    pub(super) fn new(kind: EntryKind, name: impl Into<Arc<str>>, origin: Origin) -> Self {
        Self {
            kind,
            name: name.into(),
            wire_name: None,
            description: "".into(),
            origin,
            input: None,
            output: None,
            policy: None,
            supports_streaming: false,
            unchecked: Vec::new(),
        }
    }
}

/// The kinds of things that have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryKind {
    /// A tool.
    Tool,
    /// A toolset, whose tools are entries too.
    Toolset,
    /// An agent.
    Agent,
    /// A workflow.
    Workflow,
    /// A provider that models can be named by.
    Model,
    /// A JSON Schema.
    Schema,
}

impl EntryKind {
    /// The word, such as `tool`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Toolset => "toolset",
            Self::Agent => "agent",
            Self::Workflow => "workflow",
            Self::Model => "model",
            Self::Schema => "schema",
        }
    }

    /// Whether what is of this kind can be started as a [live run](crate::session#live-runs), which takes messages until it is
    /// closed.
    #[doc(alias = "supports_live_execution")]
    pub fn supports_live(self) -> bool {
        self == Self::Agent
    }
}

/// Where something that has a name comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "from", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Origin {
    /// A function of the program, collected by the linker: where its attribute stands.
    Linked(SourceLocation),
    /// It was given to the runtime: where in the program.
    Given(SourceLocation),
    /// A toolset.
    #[non_exhaustive]
    Toolset {
        /// The toolset's name.
        name: Arc<str>,
    },
    /// A document that was given to the runtime.
    #[non_exhaustive]
    Document {
        /// The name that it was read under, such as its file's.
        name: Arc<str>,
    },
    /// An entry of the configuration that the runtime was built with.
    Configuration,
    /// It belongs to this library.
    BuiltIn,
}

impl Origin {
    /// Given to the runtime at the place of a call.
    pub(super) fn given(place: &Location<'_>) -> Self {
        Self::Given(SourceLocation::new(place.file(), place.line()))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linked(place) => write!(f, "linked from {place}"),
            Self::Given(place) => write!(f, "given to the runtime at {place}"),
            Self::Toolset { name } => write!(f, "from the toolset `{name}`"),
            Self::Document { name } => write!(f, "from the document {name}"),
            Self::Configuration => f.write_str("from the configuration"),
            Self::BuiltIn => f.write_str("built in"),
        }
    }
}
