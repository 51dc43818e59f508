//! Compensation in a runtime: checks that compensating tools exist and accept the arguments that
//! they will receive, and resumes a run that still has to be compensated. Such a run executes no
//! part of its workflow, so it needs only the compensating tools and their resources.

use std::sync::Arc;

use agentflow_schema::text::{did_you_mean, nearest};

use crate::error::{RegistryError, Result};
use crate::event::{EventKind, RunId};
use crate::path::StepPath;
#[cfg(feature = "dynamic")]
use crate::run::Host;
use crate::run::{Journal, RunData, RunJournal, RunOptions, RunShared, deliver};
use crate::runtime::Runtime;
#[cfg(feature = "dynamic")]
use crate::runtime::catalogue::graphs::could_have;
#[cfg(feature = "dynamic")]
use crate::runtime::catalogue::lookup::linked_tools_of;
use crate::runtime::catalogue::lookup::{given, of_server};
use crate::store::{Epoch, Store};
use crate::tool::{
    StartedCompensation, ToolRef, can_compensate, check_compensations, compensation_mismatch,
    wire_name,
};
use crate::workflow::driver::CompensatingRun;
use crate::workflow::spec::Spec;

/// Returns the problem with the compensating tool of `tool`, if it has one. `known` are the tools
/// to search.
pub(crate) fn problem_among<'t>(
    tool: &ToolRef,
    known: impl Iterator<Item = &'t ToolRef> + Clone,
) -> Option<RegistryError> {
    let definition = tool.definition();
    let by = definition.policy.compensate.as_ref()?;
    // The same order of lookup as in `CatalogueReader::tool`.
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
pub(crate) fn problem_in(host: &Host, tool: &ToolRef) -> Option<RegistryError> {
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

/// Checks the compensating tools before a run with compensation starts: for the tools that the
/// workflow is known to call, and for all tools that are registered with the runtime.
///
/// # Errors
/// [`RegistryError::Compensation`].
pub(crate) async fn check_compensating_tools(
    runtime: &Runtime,
    spec: &Spec,
    options: &RunOptions,
) -> Result<()> {
    if !options.compensate {
        return Ok(());
    }
    let mut tools = spec.tools();
    let of_runtime = given(runtime.host(), |given| &given.tools);
    tools.extend(
        of_runtime.iter().map(|(tool, _)| (Arc::clone(tool.definition()), tool.output_schema())),
    );
    let granted: Vec<Arc<str>> =
        runtime.host().scopes.iter().chain(&options.grants).cloned().collect();
    check_compensations(runtime.host(), &tools, &granted).await
}

/// Prepares the run, with its journal loaded, and returns the remaining compensation.
///
/// # Errors
/// [`Error::CompensationOwed`](crate::Error::CompensationOwed) if this program cannot
/// compensate the run. Nothing is recorded in this case.
pub(crate) async fn prepare_compensation(
    runtime: &Runtime,
    run: &RunId,
    read: RunJournal,
    begun: StartedCompensation,
    (store, epoch): (&Arc<dyn Store>, Epoch),
) -> Result<(Arc<RunShared>, CompensatingRun)> {
    let started = read.beginning(run)?.clone();
    let own = RunData::resumed(&runtime.host().factories, run, &started)?;
    let journal = Journal::new(Arc::clone(store), Some(epoch));
    let shared = Arc::new(
        RunShared::new(run.clone(), runtime.host(), Some(journal)).with_own(Some(own), None),
    );
    can_compensate(runtime.host(), run, &started.name().into(), Some(&shared.resources())).await?;
    let RunJournal { offset, events, kept } = read;
    shared.restore(offset, kept, events);
    shared.record(StepPath::root(), EventKind::recovered(None));
    shared.log.commit().await?;
    let messages = store.waiting_messages(run, epoch).await?;
    runtime.host().running.begin(&shared)?;
    let undoing = CompensatingRun::new(&started, begun, Arc::clone(&shared));
    messages.into_iter().for_each(|message| deliver(&shared, message));
    Ok((shared, undoing))
}
