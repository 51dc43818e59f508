//! The entries of a catalogue and their origins.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, RegistryError, Result};
use crate::tool::{SourceLocation, ToolPolicy};

/// Snapshot of all named items of a [`Runtime`](crate::Runtime), returned by
/// [`CatalogueReader::snapshot`](crate::runtime::CatalogueReader::snapshot).
#[derive(Clone, Debug)]
pub struct Catalogue {
    pub(crate) entries: Vec<CatalogueEntry>,
    pub(crate) problems: Vec<Error>,
}

impl Catalogue {
    /// Returns all entries, ordered by kind and name. Items with a duplicate name are all included.
    pub fn entries(&self) -> &[CatalogueEntry] {
        &self.entries
    }

    /// Returns the entries of a kind, ordered by name.
    pub fn of_kind(&self, kind: EntryKind) -> impl Iterator<Item = &CatalogueEntry> + Clone {
        self.entries.iter().filter(move |entry| entry.kind == kind)
    }

    /// Returns the entry with a name. A tool is also found by its wire name.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`], with the most similar name.
    pub fn get(&self, kind: EntryKind, name: &str) -> Result<&CatalogueEntry, RegistryError> {
        let by_name = self.of_kind(kind).find(|entry| *entry.name == *name);
        by_name
            .or_else(|| self.of_kind(kind).find(|entry| entry.wire_name.as_deref() == Some(name)))
            .ok_or_else(|| {
                RegistryError::unknown(
                    kind.as_str(),
                    name,
                    self.of_kind(kind).map(|entry| &*entry.name),
                )
            })
    }

    /// Returns the problems: duplicate names within a kind, tools with the same wire name, a tool
    /// whose compensating tool is missing or does not accept its arguments, a workflow that cannot
    /// be built, and a toolset whose tools could not be fetched.
    pub fn problems(&self) -> &[Error] {
        &self.problems
    }

    /// Returns the catalogue if it has no problems. Intended for the start of a program.
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

/// An item that a runtime knows by name.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CatalogueEntry {
    /// Kind of the item.
    pub kind: EntryKind,
    /// Name in the program, such as `files.read`.
    pub name: Arc<str>,
    /// Name that models use, such as `files__read`. `None` for all kinds except tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire_name: Option<Arc<str>>,
    /// Purpose of the item. For a model provider, its address. Never contains the instructions of
    /// an agent.
    pub description: Arc<str>,
    /// Origin of the item.
    pub origin: Origin,
    /// JSON Schema of the input: the arguments of a tool, the inputs of a workflow by name, the
    /// message to an agent or the arguments of an `#[agent]` function. For a schema, the schema
    /// itself. `None` for models and providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// JSON Schema of the output. `None` for a tool without an output schema: a `#[tool]` function
    /// that returns a type without `JsonSchema` or a borrowed type, or a dynamic tool that declares
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Policy of a tool. `None` for all other kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<ToolPolicy>,
    /// `true` for a tool whose calls may report progress.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub supports_streaming: bool,
    /// Parts of a tool's input schema that this program cannot check, one message each: for example
    /// a regular expression with lookahead, or an unresolved reference. Arguments that violate only
    /// these parts are passed to the tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<String>,
}

impl CatalogueEntry {
    pub(crate) fn new(kind: EntryKind, name: impl Into<Arc<str>>, origin: Origin) -> Self {
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

/// The kinds of named items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryKind {
    /// A tool.
    Tool,
    /// A toolset. Its tools are separate entries.
    Toolset,
    /// An agent.
    Agent,
    /// A workflow.
    Workflow,
    /// A model provider, as used in model names.
    Model,
    /// A JSON Schema.
    Schema,
}

impl EntryKind {
    /// Returns the kind as a word, such as `tool`.
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

    /// Returns `true` if items of this kind can be started as a [live
    /// run](crate::session#live-runs), which accepts messages until it is closed.
    #[doc(alias = "supports_live_execution")]
    pub fn supports_live(self) -> bool {
        self == Self::Agent
    }
}

/// The origin of a named item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "from", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Origin {
    /// A function of the program, collected by the linker. Contains the location of its attribute.
    Linked(SourceLocation),
    /// Registered with the runtime at this location in the program.
    Given(SourceLocation),
    /// A tool of a toolset.
    #[non_exhaustive]
    Toolset {
        /// Name of the toolset.
        name: Arc<str>,
    },
    /// A document that was registered with the runtime.
    #[non_exhaustive]
    Document {
        /// Name under which the document was read, such as its file name.
        name: Arc<str>,
    },
    /// An entry of the runtime's configuration.
    Configuration,
    /// Part of this library.
    BuiltIn,
}

impl Origin {
    /// Creates the origin of an item that is registered at a location in the program.
    pub(crate) fn given(place: &Location<'_>) -> Self {
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
