//! `Registry`: the tools that are linked into the program or added at run time, by name.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::invoke::invoke_with_hooks;
use super::linked_tools::linked_tools;
use super::{ToolManifest, ToolRef, report_unknown_tool, wire_name};
use crate::context::Context;
use crate::error::RegistryError;
use crate::message::{ToolCall, ToolResult};
use crate::tool_definition::is_valid_name;

/// Tools by name.
///
/// Registering a tool does not give it to any agent: an agent has the tools that it names or
/// selects.
///
/// # Why a tool may be missing
///
/// The linker drops a crate that the program never refers to, together with the crate's tools. If
/// your tools are in a library that the program does not name otherwise, write `use my_tools as
/// _;`. [`expect`](Self::expect) turns a missing tool into an error at start-up.
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
    /// Creates a registry without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns all tools that are linked into the program. They are collected at the first call.
    ///
    /// # Errors
    /// [`RegistryError::Duplicate`] if two tools have the same name,
    /// [`RegistryError::InvalidName`], or another error of [`register`](Self::register).
    #[doc(alias = "from_link")]
    #[doc(alias = "discover_tools")]
    pub fn linked() -> Result<&'static Self, RegistryError> {
        // The set of linked tools cannot change, so the error is cached too.
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

    /// Adds a tool, such as a [`FnTool`](crate::tool::FnTool). Models call a tool with dots in its
    /// name, such as `files.read`, by its wire name, `files__read`.
    ///
    /// # Errors
    /// - [`RegistryError::Duplicate`] if a tool with this name exists.
    /// - [`RegistryError::WireName`] if a tool with a different name has the same wire name.
    /// - [`RegistryError::InvalidName`] if the name is not allowed.
    /// - [`RegistryError::NoObjectSchema`] if the parameter schema is not an object's.
    /// - [`RegistryError::InvalidSchema`] if the parameter schema is not valid (feature `dynamic`).
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
            return Err(RegistryError::Duplicate {
                name,
                first: first.source(),
                second: tool.source(),
            });
        }
        self.tools.insert(name, tool);
        Ok(())
    }

    /// Returns the tool with this name. A name with dots finds the tool with its wire name.
    ///
    /// # Errors
    /// [`RegistryError::NotFound`], which suggests the nearest name.
    pub fn get(&self, name: &str) -> Result<&ToolRef, RegistryError> {
        self.of_name(name).ok_or_else(|| RegistryError::NotFound {
            name: name.to_owned(),
            registered: self.catalogue_names().into_iter().cloned().collect(),
        })
    }

    /// Returns the names under which the program knows the tools, sorted.
    fn catalogue_names(&self) -> Vec<&Arc<str>> {
        let mut names: Vec<&Arc<str>> = self.tools().map(ToolRef::catalogue_name).collect();
        names.sort();
        names
    }

    fn of_name(&self, name: &str) -> Option<&ToolRef> {
        self.tools
            .get(name)
            // Two catalogue names may share a wire name, so the catalogue name is compared too.
            .or_else(|| {
                self.tools.get(&*wire_name(name)).filter(|tool| **tool.catalogue_name() == *name)
            })
    }

    /// Checks that the tools the program relies on are registered.
    ///
    /// # Errors
    /// [`RegistryError::NotLinked`] with all missing names. The usual reason is explained
    /// [above](Self#why-a-tool-may-be-missing).
    pub fn expect<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), RegistryError> {
        let missing: Vec<String> = names
            .into_iter()
            .filter(|name| self.of_name(name).is_none())
            .map(ToOwned::to_owned)
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(RegistryError::NotLinked { names: missing }) }
    }

    /// Returns the tools that require no scopes except these, ordered by name. Tools without scopes
    /// are included.
    pub fn with_scopes<'a>(&self, scopes: impl IntoIterator<Item = &'a str>) -> Vec<ToolRef> {
        let scopes: Vec<&str> = scopes.into_iter().collect();
        self.tools()
            .filter(|tool| {
                tool.definition().policy.scopes.iter().all(|scope| scopes.contains(&&**scope))
            })
            .cloned()
            .collect()
    }

    /// Returns all tools, ordered by name.
    pub fn tools(&self) -> impl Iterator<Item = &ToolRef> {
        self.tools.values()
    }

    /// Returns all names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.tools.keys().map(|name| &**name)
    }

    /// Returns the definitions of all tools, in the form that a model receives.
    pub fn manifest(&self) -> ToolManifest {
        self.tools().map(|tool| Arc::clone(tool.definition())).collect()
    }

    /// Calls a tool by name, outside of any agent.
    ///
    /// Every problem becomes part of the result: an unknown name, invalid arguments, a panic, a
    /// time-out, an error of a hook. Only the scopes in `scopes` are granted. The middleware of the
    /// context's runtime is applied. Outside of a run, the runtime's sinks receive the events of
    /// the call, and no journal stores them. In a step of a run, the call has no events.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the tool.
    pub async fn invoke(&self, cx: &Context, call: &ToolCall, scopes: &[Arc<str>]) -> ToolResult {
        match self.of_name(&call.name) {
            Some(tool) => invoke_with_hooks(&**tool, cx, call, scopes).await,
            None => report_unknown_tool(
                cx,
                call,
                self.catalogue_names().into_iter().map(|name| &**name),
            ),
        }
    }
}

/// Name of the argument schema in errors.
#[cfg(feature = "dynamic")]
pub(crate) const PARAMETERS: &str = "parameters of the tool";

/// Returns the defect that makes a tool unusable for models and programs, if it has one.
pub(crate) fn problem_of(tool: &ToolRef) -> Option<RegistryError> {
    if !is_valid_name(tool.name()) {
        return Some(RegistryError::InvalidName {
            name: tool.name().into(),
            source_location: tool.source(),
        });
    }
    // The schema of a `#[tool]` function is built on first use and is always an object's.
    if tool.written().is_some() {
        return None;
    }
    let name = || Arc::clone(tool.catalogue_name());
    #[cfg(feature = "dynamic")]
    if !tool.checks_arguments()
        && let Err(problem) = tool.definition().arguments_check()
    {
        return Some(RegistryError::InvalidSchema {
            of: PARAMETERS,
            name: name(),
            problem: problem.to_owned(),
        });
    }
    (tool.definition().parameters["type"] != "object")
        .then(|| RegistryError::NoObjectSchema { name: name() })
}
