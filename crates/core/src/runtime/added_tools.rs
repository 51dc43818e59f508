//! Adds tools to an existing runtime, and lists the tools that a caller may call.

use std::panic::Location;
use std::sync::Arc;

use super::Runtime;
use super::catalogue::{Given, given, linked_tools_of, taken};
use super::catalogue_entry::Origin;
#[cfg(feature = "documents")]
use super::document_set::{DocumentSet, models};
use super::given_now::RegisteredItems;
use crate::error::{Error, RegistryError, Result};
use crate::future::BoxFuture;
use crate::tool::{IntoTools, ToolList, ToolRef, ToolsetRef, linked_tools, problem_of};

impl Runtime {
    /// Registers more tools and toolsets under their names, like
    /// [`RuntimeBuilder::tools`](super::RuntimeBuilder::tools) before the runtime is built.
    /// [`tool`](Self::tool), [`invoke`](Self::invoke), graphs, documents and servers of this
    /// runtime and of its clones find them afterwards. Existing agents keep the tools that they
    /// have. Either all tools are added or none. A tool that is registered already is skipped.
    ///
    /// # Cancel safety
    /// Dropping the future adds either no tools or all of them.
    ///
    /// ```
    /// use agentflow::message::ToolCall;
    /// use agentflow::prelude::*;
    /// use agentflow::tool::FnTool;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().build();
    /// let ping = FnTool::new("ping", "Answer.", |_cx, (): ()| async { Ok::<_, agentflow::Error>("pong") });
    /// runtime.add_tools(ping).await?;
    /// assert_eq!(runtime.invoke(&ToolCall::new("1", "ping", "{}"), &[]).await?.text(), "pong");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RegistryError::NameTaken`] or [`RegistryError::WireName`] if another tool or toolset has
    /// the name; the error of an invalid tool; [`Error::Build`] for [`Runtime::default`], which is
    /// shared by the whole process.
    #[track_caller]
    #[doc(alias = "register_tool")]
    pub fn add_tools(&self, tools: impl IntoTools) -> BoxFuture<'_, Result<()>> {
        let origin = Origin::given(Location::caller());
        let list = tools.into_tools();
        Box::pin(async move {
            let Some(now) = self.host().part::<RegisteredItems>() else {
                let problem =
                    "its tools cannot change; make a runtime with `Runtime::builder()`".to_owned();
                return Err(Error::Build { what: "runtime", name: "default".into(), problem });
            };
            #[cfg(feature = "documents")]
            if let Some(set) = self.host().part::<DocumentSet>() {
                // Hold the lock so that the documents are not reloaded at the same time.
                let _alone = set.reloading.lock().await;
                set.change_program(|program| added(program, list, &origin))?;
                now.replace(Arc::new(set.given_with(&set.loaded().documents, models(self.host()))));
                return Ok(());
            }
            now.change(|given| added(given, list, &origin))
        })
    }

    /// Returns the tools that a caller with these scopes may call. The scopes that the runtime
    /// grants to every caller are added. The list contains tools that were registered or linked
    /// into the program, and the tools of toolsets, which are fetched. It is ordered by the name
    /// that models use. Tools without scopes and tools that require approval are included.
    ///
    /// # Errors
    /// [`Error::Toolset`] if the tools of a toolset cannot be fetched.
    #[doc(alias = "list_available_tools")]
    pub async fn tools_with_scopes<'s>(
        &self,
        scopes: impl IntoIterator<Item = &'s str>,
    ) -> Result<Vec<ToolRef>> {
        let granted: Vec<Arc<str>> =
            scopes.into_iter().map(Arc::from).chain(self.host().scopes.iter().cloned()).collect();
        let mut tools: Vec<ToolRef> =
            given(self.host(), |given| &given.tools).iter().map(|(tool, _)| tool.clone()).collect();
        tools.extend(linked_tools().iter().cloned());
        for (toolset, _) in given(self.host(), |given| &given.toolsets).iter() {
            tools.extend(toolset.tools().await?.iter().cloned());
        }
        tools.retain(|tool| {
            tool.definition().policy.scopes.iter().all(|scope| granted.contains(scope))
        });
        tools.sort_by(|one, other| one.name().cmp(other.name()));
        tools.dedup_by(|one, other| one.is(other));
        Ok(tools)
    }
}

/// Adds tools to the registered items.
fn added(given: &mut Given, list: ToolList, origin: &Origin) -> Result<()> {
    let ToolList { tools, toolsets } = list;
    for toolset in toolsets {
        add_toolset(given, toolset, origin)?;
    }
    for tool in tools {
        add_tool(given, tool.with_wire_name(), origin)?;
    }
    #[cfg(feature = "dynamic")]
    // Graphs are resolved again, since a name in them may refer to a new tool.
    given.graphs.iter_mut().for_each(|(graph, _)| *graph = graph.unread());
    Ok(())
}

fn add_toolset(given: &mut Given, toolset: ToolsetRef, origin: &Origin) -> Result<()> {
    if let Some((other, first)) =
        given.toolsets.iter().find(|(other, _)| other.name() == toolset.name())
    {
        return Err(taken("toolset", other.name(), first, origin));
    }
    given.toolsets.push((toolset, origin.clone()));
    Ok(())
}

fn add_tool(given: &mut Given, tool: ToolRef, origin: &Origin) -> Result<()> {
    if let Some(problem) = problem_of(&tool) {
        return Err(problem.into());
    }
    let of_name = given.tools.iter().filter(|(other, _)| other.name() == tool.name()).cloned();
    let mut is_known = false;
    for (other, first) in of_name.chain(linked_tools_of(tool.name())) {
        if other.is(&tool) {
            is_known = true;
        } else if other.catalogue_name() == tool.catalogue_name() {
            return Err(taken("tool", tool.catalogue_name(), &first, origin));
        } else {
            let (first, second) =
                (Arc::clone(other.catalogue_name()), Arc::clone(tool.catalogue_name()));
            return Err(
                RegistryError::WireName { wire_name: tool.name().into(), first, second }.into()
            );
        }
    }
    if !is_known {
        given.tools.push((tool, origin.clone()));
    }
    Ok(())
}
