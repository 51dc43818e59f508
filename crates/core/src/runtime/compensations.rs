//! The tools that undo others, among all that a runtime knows by name: whether each is there and takes what it is given.
//! It calls none.

use std::sync::Arc;

use agentflow_schema::text::{did_you_mean, nearest};

use super::Runtime;
#[cfg(feature = "dynamic")]
use super::catalogue::linked_tools_of;
use super::catalogue::{given, of_server};
#[cfg(feature = "dynamic")]
use super::graphs::could_have;
use crate::error::{RegistryError, Result};
#[cfg(feature = "dynamic")]
use crate::run::Host;
use crate::run::RunOptions;
use crate::tool::{ToolRef, check_compensations, undo_misfit, wire_name};
use crate::workflow::spec::Spec;

/// What is wrong with the tool that is to undo another one, when it is one of these.
pub(super) fn problem_among<'t>(
    tool: &ToolRef,
    known: impl Iterator<Item = &'t ToolRef> + Clone,
) -> Option<RegistryError> {
    let definition = tool.definition();
    let by = definition.policy.compensate.as_ref()?;
    let wire = wire_name(by);
    let mut found = known.clone().filter(|of| **of.catalogue_name() == **by);
    let found = found.next().or_else(|| known.clone().find(|of| *of.definition().name == *wire));
    let whole = of_server(by);
    let found = found.or_else(|| known.clone().find(|of| whole.as_deref() == Some(&**of.catalogue_name())));
    let problem = match found {
        Some(undo) => undo_misfit(definition, tool.output_schema().as_ref(), undo.definition())?,
        None => {
            let near = nearest(by, known.map(|of| &**of.catalogue_name()));
            format!("is not known here{}", did_you_mean(near))
        }
    };
    Some(RegistryError::Compensation { tool: Arc::clone(tool.catalogue_name()), by: Arc::clone(by), problem })
}

/// The same for a tool that a graph calls, of all that is known without waiting; nothing when the other tool may be one of
/// a toolset that was not fetched yet.
#[cfg(feature = "dynamic")]
pub(super) fn problem_in(host: &Host, tool: &ToolRef) -> Option<RegistryError> {
    let by = tool.definition().policy.compensate.as_ref()?;
    let mut known: Vec<ToolRef> = given(host, |given| &given.tools).iter().map(|(tool, _)| tool.clone()).collect();
    known.extend(linked_tools_of(by).map(|(tool, _)| tool));
    for (toolset, _) in given(host, |given| &given.toolsets).iter().filter(|(toolset, _)| could_have(toolset, by)) {
        known.extend(toolset.last_fetched()?.iter().cloned());
    }
    problem_among(tool, known.iter())
}

impl Runtime {
    /// Checks, before a run of a workflow begins that undoes what it has done, the tools that undo those that it calls, as
    /// far as the workflow says which these are, and those of all tools that the runtime was given.
    ///
    /// # Errors
    /// [`RegistryError::Compensation`].
    pub(super) async fn check_compensations(&self, spec: &Spec, options: &RunOptions) -> Result<()> {
        if !options.compensate {
            return Ok(());
        }
        let mut tools = spec.tools();
        let of_runtime = given(self.host(), |given| &given.tools);
        tools.extend(of_runtime.iter().map(|(tool, _)| (Arc::clone(tool.definition()), tool.output_schema())));
        let granted: Vec<Arc<str>> = self.host().scopes.iter().chain(&options.grants).cloned().collect();
        check_compensations(self.host(), &tools, &granted).await
    }
}
