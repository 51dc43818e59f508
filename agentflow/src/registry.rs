//! The tools that are linked into the program, and those that are added while it runs.
//!
//! Being registered gives a tool to nobody: an agent has the tools that it names or selects.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::agent::AgentDefinition;
use crate::context::Context;
use crate::message::{ToolCall, ToolResult};
use crate::text::name_hint;
use crate::tool::{SourceLocation, ToolManifest, ToolRef, invoke, not_found};

/// One `#[tool]` of the program; collected when it is linked.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Linked(pub fn() -> ToolRef);

inventory::collect!(Linked);

/// One `#[agent]` of the program; collected when it is linked.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct LinkedAgent(pub fn() -> &'static AgentDefinition);

inventory::collect!(LinkedAgent);

/// Tools by name. Being registered gives a tool to nobody: an agent has the tools that it names or selects.
///
/// # Why a tool may be missing
///
/// The linker leaves out a crate that nothing refers to, and the crate's tools with it. A program whose tools live in a
/// library it never names otherwise writes `use my_tools as _;`. [`expect`](Self::expect) turns such a loss into an error
/// at start-up.
///
/// ```standalone_crate
/// use agentflow::prelude::*;
/// use agentflow::Registry;
///
/// /// Add two integers.
/// #[tool]
/// fn add(a: i64, b: i64) -> i64 {
///     a + b
/// }
///
/// let registry = Registry::linked()?;
/// registry.expect(["add"])?;
/// assert_eq!(registry.get("ad").unwrap_err().to_string(), "there is no tool `ad`; did you mean `add`?");
/// # Ok::<(), agentflow::RegistryError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Registry {
    tools: BTreeMap<Arc<str>, ToolRef>,
    agents: BTreeMap<&'static str, &'static AgentDefinition>,
}

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
        "the parameters of the tool `{name}` are no JSON Schema of an object, which is all that a model can fill in; \
         take one struct with named fields"
    )]
    NoObjectSchema {
        /// The tool's name.
        name: Arc<str>,
    },
    /// There is no tool of that name.
    #[error("there is no tool `{name}`; {}", name_hint(name, registered.iter().map(|name| &**name)))]
    NotFound {
        /// The name asked for.
        name: String,
        /// The names there are, ordered.
        registered: Vec<Arc<str>>,
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

fn linked_agents() -> Result<BTreeMap<&'static str, &'static AgentDefinition>, RegistryError> {
    let mut all: Vec<_> = inventory::iter::<LinkedAgent>.into_iter().map(|linked| (linked.0)()).collect();
    // As for the tools: link order is not stable.
    all.sort_by_key(|agent| (agent.name(), agent.source().file, agent.source().line));
    let mut agents = BTreeMap::new();
    for agent in all {
        if let Some(first) = agents.insert(agent.name(), agent) {
            return Err(RegistryError::DuplicateAgent {
                name: agent.name(),
                first: AgentDefinition::source(first),
                second: agent.source(),
            });
        }
    }
    Ok(agents)
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

impl Registry {
    /// A registry without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// All tools that are linked into the program, collected at the first call.
    ///
    /// # Errors
    /// [`RegistryError::Duplicate`] when two have one name, [`RegistryError::InvalidName`].
    #[doc(alias = "from_link")]
    pub fn linked() -> Result<&'static Self, RegistryError> {
        static LINKED: OnceLock<Result<Registry, RegistryError>> = OnceLock::new();
        LINKED
            .get_or_init(|| {
                let mut tools: Vec<ToolRef> =
                    inventory::iter::<Linked>.into_iter().map(|linked| (linked.0)()).collect();
                // Link order is not stable; with an order of ours the same two places are named every time.
                tools.sort_by(|a, b| {
                    let key = |tool: &ToolRef| {
                        let definition = tool.definition();
                        (
                            definition.name.clone(),
                            definition.source.as_ref().map(|source| (source.file.clone(), source.line)),
                        )
                    };
                    key(a).cmp(&key(b))
                });
                let mut registry = Self::new();
                tools.into_iter().try_for_each(|tool| registry.register(tool))?;
                registry.agents = linked_agents()?;
                Ok(registry)
            })
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Adds a tool, such as a [`FnTool`](crate::FnTool).
    ///
    /// # Errors
    /// [`RegistryError::Duplicate`] when there is one of that name already, [`RegistryError::InvalidName`],
    /// [`RegistryError::NoObjectSchema`].
    pub fn register(&mut self, tool: impl Into<ToolRef>) -> Result<(), RegistryError> {
        let tool = tool.into();
        let definition = tool.definition();
        if !definition.has_valid_name() {
            return Err(RegistryError::InvalidName {
                name: definition.name.clone(),
                source_location: definition.source.clone(),
            });
        }
        if definition.parameters["type"] != "object" {
            return Err(RegistryError::NoObjectSchema { name: definition.name.clone() });
        }
        if let Some(first) = self.tools.get(&definition.name) {
            return Err(RegistryError::Duplicate {
                name: definition.name.clone(),
                first: first.definition().source.clone(),
                second: definition.source.clone(),
            });
        }
        let name = definition.name.clone();
        self.tools.insert(name, tool);
        Ok(())
    }

    /// The tool of a name.
    ///
    /// # Errors
    /// [`RegistryError::NotFound`], which offers the nearest name.
    pub fn get(&self, name: &str) -> Result<&ToolRef, RegistryError> {
        self.tools.get(name).ok_or_else(|| RegistryError::NotFound {
            name: name.to_owned(),
            registered: self.tools.keys().cloned().collect(),
        })
    }

    /// Checks that the program has the tools it counts on.
    ///
    /// # Errors
    /// [`RegistryError::NotLinked`] with every name that is missing; the usual reason is told [above](Self#why-a-tool-may-be-missing).
    pub fn expect<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<(), RegistryError> {
        let missing: Vec<String> =
            names.into_iter().filter(|name| !self.tools.contains_key(*name)).map(ToOwned::to_owned).collect();
        if missing.is_empty() { Ok(()) } else { Err(RegistryError::NotLinked { names: missing }) }
    }

    /// The tools whose scopes are all among these, ordered by name. A tool without scopes is among them.
    pub fn with_scopes<'a>(&self, scopes: impl IntoIterator<Item = &'a str>) -> Vec<ToolRef> {
        let scopes: Vec<&str> = scopes.into_iter().collect();
        self.tools()
            .filter(|tool| tool.definition().policy.scopes.iter().all(|scope| scopes.contains(&&**scope)))
            .cloned()
            .collect()
    }

    /// All tools, ordered by name.
    pub fn tools(&self) -> impl Iterator<Item = &ToolRef> {
        self.tools.values()
    }

    /// All names, ordered.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.tools.keys().map(|name| &**name)
    }

    /// The `#[agent]`s that are linked into the program, ordered by name; of [`linked`](Self::linked) only.
    pub fn agents(&self) -> impl Iterator<Item = &'static AgentDefinition> {
        self.agents.values().copied()
    }

    /// The `#[agent]` of a name.
    pub fn agent(&self, name: &str) -> Option<&'static AgentDefinition> {
        self.agents.get(name).copied()
    }

    /// The definitions of all tools, as a model is told of them.
    pub fn manifest(&self) -> ToolManifest {
        self.tools().map(|tool| Arc::clone(tool.definition())).collect()
    }

    /// Calls a tool by name, outside of any agent. Whatever happens is in the result: an unknown name, wrong arguments,
    /// a panic, a time-out. No scope is granted but those in `scopes`.
    pub async fn invoke(&self, cx: &Context, call: &ToolCall, scopes: &[Arc<str>]) -> ToolResult {
        match self.tools.get(&*call.name) {
            Some(tool) => invoke(&**tool, cx, call, scopes).await,
            None => not_found(call, self.names()),
        }
    }
}
