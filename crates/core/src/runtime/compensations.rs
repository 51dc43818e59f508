//! Checks that compensating tools exist and accept the arguments that they will receive.

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
use crate::tool::{ToolRef, check_compensations, compensation_mismatch, wire_name};
use crate::workflow::spec::Spec;

/// Returns the problem with the compensating tool of `tool`, if it has one. `known` are the tools
/// to search.
pub(super) fn problem_among<'t>(
    tool: &ToolRef,
    known: impl Iterator<Item = &'t ToolRef> + Clone,
) -> Option<RegistryError> {
    let definition = tool.definition();
    let by = definition.policy.compensate.as_ref()?;
    // The same order of lookup as in `Runtime::tool`.
    let wire = wire_name(by);
    let mut found = known.clone().filter(|of| **of.catalogue_name() == **by);
    let found = found.next().or_else(|| known.clone().find(|of| *of.definition().name == *wire));
    let whole = of_server(by);
    let found =
        found.or_else(|| known.clone().find(|of| whole.as_deref() == Some(&**of.catalogue_name())));
    let problem = match found {
        Some(undo) => {
            compensation_mismatch(definition, tool.output_schema().as_ref(), undo.definition())?
        }
        None => {
            let near = nearest(by, known.map(|of| &**of.catalogue_name()));
            format!("is not known here{}", did_you_mean(near))
        }
    };
    Some(RegistryError::Compensation {
        tool: Arc::clone(tool.catalogue_name()),
        by: Arc::clone(by),
        problem,
    })
}

/// Checks a tool that a graph calls, without waiting for toolsets. Returns `None` if the
/// compensating tool may belong to a toolset that was not fetched yet.
#[cfg(feature = "dynamic")]
pub(super) fn problem_in(host: &Host, tool: &ToolRef) -> Option<RegistryError> {
    let by = tool.definition().policy.compensate.as_ref()?;
    let mut known: Vec<ToolRef> =
        given(host, |given| &given.tools).iter().map(|(tool, _)| tool.clone()).collect();
    known.extend(linked_tools_of(by).map(|(tool, _)| tool));
    for (toolset, _) in
        given(host, |given| &given.toolsets).iter().filter(|(toolset, _)| could_have(toolset, by))
    {
        known.extend(toolset.last_fetched()?.iter().cloned());
    }
    problem_among(tool, known.iter())
}

impl Runtime {
    /// Checks the compensating tools before a run with compensation starts: for the tools that the
    /// workflow is known to call, and for all tools that are registered with the runtime.
    ///
    /// # Errors
    /// [`RegistryError::Compensation`].
    pub(super) async fn check_compensations(
        &self,
        spec: &Spec,
        options: &RunOptions,
    ) -> Result<()> {
        if !options.compensate {
            return Ok(());
        }
        let mut tools = spec.tools();
        let of_runtime = given(self.host(), |given| &given.tools);
        tools.extend(
            of_runtime
                .iter()
                .map(|(tool, _)| (Arc::clone(tool.definition()), tool.output_schema())),
        );
        let granted: Vec<Arc<str>> =
            self.host().scopes.iter().chain(&options.grants).cloned().collect();
        check_compensations(self.host(), &tools, &granted).await
    }
}
