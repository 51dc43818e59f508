//! Adds tools to an existing runtime.

use std::sync::Arc;

use crate::error::{Error, RegistryError, Result};
use crate::runtime::Runtime;
use crate::runtime::catalogue::catalogue_entry::Origin;
use crate::runtime::catalogue::lookup::{Given, linked_tools_of, taken};
use crate::runtime::catalogue::registered_items::RegisteredItems;
#[cfg(feature = "documents")]
use crate::runtime::documents::set::{DocumentSet, models};
use crate::tool::{ToolList, ToolRef, ToolsetRef, problem_of};

/// Registers tools with a runtime that is in use.
pub(crate) async fn add_tools(runtime: &Runtime, list: ToolList, origin: &Origin) -> Result<()> {
    let Some(now) = runtime.host().part::<RegisteredItems>() else {
        let problem =
            "its tools cannot change; make a runtime with `Runtime::builder()`".to_owned();
        return Err(Error::Build { what: "runtime", name: "default".into(), problem });
    };
    #[cfg(feature = "documents")]
    if let Some(set) = runtime.host().part::<DocumentSet>() {
        // Hold the lock so that the documents are not reloaded at the same time.
        let _alone = set.reloading.lock().await;
        set.change_program(|program| added(program, list, origin))?;
        now.replace(Arc::new(set.given_with(&set.loaded().documents, models(runtime.host()))));
        return Ok(());
    }
    now.change(|given| added(given, list, origin))
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
