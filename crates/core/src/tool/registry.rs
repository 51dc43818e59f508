//! `Registry`: the tools linked into the program and those added while it runs, by name.
//!
//! Registering gives a tool to nobody: an agent has only the tools that it names or selects.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::invoke::invoke_hooked;
use super::{ToolManifest, ToolRef, told_not_found, wire_name};
use crate::context::Context;
use crate::error::RegistryError;
use crate::linked;
use crate::message::{ToolCall, ToolResult};
use crate::tool_definition::is_valid_name;

/// Tools by name. Being registered gives a tool to nobody: an agent has the tools that it names or selects.
///
/// # Why a tool may be missing
///
/// The linker leaves out a crate that nothing refers to, and the crate's tools with it. A program whose tools live in a
/// library it never names otherwise writes `use my_tools as _;`. [`expect`](Self::expect) turns such a loss into an
/// error at start-up.
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
/// # Ok::<(), agentflow::error::RegistryError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[doc(alias = "ToolRegistry")]
#[doc(alias = "list_available_tools")]
pub struct Registry {
    tools: BTreeMap<Arc<str>, ToolRef>,
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
    #[doc(alias = "discover_tools")]
    pub fn linked() -> Result<&'static Self, RegistryError> {
        static LINKED: OnceLock<Result<Registry, RegistryError>> = OnceLock::new();
        LINKED
            .get_or_init(|| {
                let mut registry = Self::new();
                linked_tools().iter().try_for_each(|tool| registry.register(tool.clone()))?;
                Ok(registry)
            })
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Adds a tool, such as a [`FnTool`](crate::tool::FnTool). One whose name has dots, such as `files.read`, is called
    /// by its wire name, `files__read`.
    ///
    /// # Errors
    /// [`RegistryError::Duplicate`] when there is one of that name already, [`RegistryError::WireName`] when another
    /// one has the same wire name, [`RegistryError::InvalidName`], [`RegistryError::NoObjectSchema`],
    /// [`RegistryError::InvalidSchema`].
    pub fn register(&mut self, tool: impl Into<ToolRef>) -> Result<(), RegistryError> {
        let tool = tool.into().with_wire_name();
        if let Some(problem) = problem_of(&tool) {
            return Err(problem);
        }
        let name: Arc<str> = tool.name().into();
        if let Some(first) = self.tools.get(&name) {
            let (one, other) = (first.catalogue_name(), tool.catalogue_name());
            if one != other {
                let (first, second) = (Arc::clone(one), Arc::clone(other));
                return Err(RegistryError::WireName { wire_name: name, first, second });
            }
            let name = Arc::clone(one);
            return Err(RegistryError::Duplicate { name, first: first.source(), second: tool.source() });
        }
        self.tools.insert(name, tool);
        Ok(())
    }

    /// The tool of a name; a name with dots finds the tool of its wire name.
    ///
    /// # Errors
    /// [`RegistryError::NotFound`], which offers the nearest name.
    pub fn get(&self, name: &str) -> Result<&ToolRef, RegistryError> {
        self.of_name(name).ok_or_else(|| RegistryError::NotFound {
            name: name.to_owned(),
            registered: self.catalogue_names().into_iter().cloned().collect(),
        })
    }

    /// The names that a program knows the tools by, ordered.
    fn catalogue_names(&self) -> Vec<&Arc<str>> {
        let mut names: Vec<&Arc<str>> = self.tools().map(ToolRef::catalogue_name).collect();
        names.sort();
        names
    }

    fn of_name(&self, name: &str) -> Option<&ToolRef> {
        self.tools
            .get(name)
            .or_else(|| self.tools.get(&*wire_name(name)).filter(|tool| **tool.catalogue_name() == *name))
    }

    /// Checks that the program has the tools it counts on.
    ///
    /// # Errors
    /// [`RegistryError::NotLinked`] with every name that is missing; the usual reason is explained
    /// [above](Self#why-a-tool-may-be-missing).
    pub fn expect<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<(), RegistryError> {
        let missing: Vec<String> =
            names.into_iter().filter(|name| self.of_name(name).is_none()).map(ToOwned::to_owned).collect();
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

    /// The definitions of all tools, as a model gets them.
    pub fn manifest(&self) -> ToolManifest {
        self.tools().map(|tool| Arc::clone(tool.definition())).collect()
    }

    /// Calls a tool by name, outside of any agent. Whatever happens is in the result: an unknown name, wrong arguments,
    /// a panic, a time-out, an error of a hook. No scope is granted but those in `scopes`. The middleware of the context's
    /// runtime stands around the call. Outside of any run the runtime's sinks see its events, which nothing keeps; in a step
    /// of a run it has none.
    pub async fn invoke(&self, cx: &Context, call: &ToolCall, scopes: &[Arc<str>]) -> ToolResult {
        match self.of_name(&call.name) {
            Some(tool) => invoke_hooked(&**tool, cx, call, scopes).await,
            None => told_not_found(cx, call, self.catalogue_names().into_iter().map(|name| &**name)),
        }
    }
}

/// What the schema of a tool's arguments is of.
#[cfg(feature = "dynamic")]
pub(crate) const PARAMETERS: &str = "parameters of the tool";

/// What is wrong with a tool by itself, so that no model can have it and nobody can call it.
pub(crate) fn problem_of(tool: &ToolRef) -> Option<RegistryError> {
    if !is_valid_name(tool.name()) {
        return Some(RegistryError::InvalidName { name: tool.name().into(), source_location: tool.source() });
    }
    // The schema of a function under `#[tool]` is made when it is first asked for, and is one of an object.
    if tool.written().is_some() {
        return None;
    }
    let name = || Arc::clone(tool.catalogue_name());
    #[cfg(feature = "dynamic")]
    if !tool.checks_arguments()
        && let Err(problem) = tool.definition().arguments_check()
    {
        return Some(RegistryError::InvalidSchema { of: PARAMETERS, name: name(), problem: problem.to_owned() });
    }
    (tool.definition().parameters["type"] != "object").then(|| RegistryError::NoObjectSchema { name: name() })
}

/// The tools that are linked into the program, ordered by name and place; also those of which two have one name. None of
/// their schemas is made for that.
pub(crate) fn linked_tools() -> &'static [ToolRef] {
    static LINKED: OnceLock<Vec<ToolRef>> = OnceLock::new();
    LINKED.get_or_init(|| linked::items(|tool: &ToolRef| tool.written()))
}
