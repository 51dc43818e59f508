//! Compensation: undoes the completed tool calls of a run, last first, each one once.
//!
//! `run/done_calls.rs` determines from the journal which calls are completed and which are
//! compensated, so the work continues after a crash. This module does not decide when a run is
//! compensated or how it ends.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::call_checks::is_granted;
use super::execution::{CallRecord, CallSite, within_limit};
use super::history::RecordedOutcome;
use super::invoke::invoke;
use super::undo_check::compensation_mismatch;
use super::{NeededResource, ToolDefinition, ToolError, ToolHost, ToolRef, linked_tools};
use crate::context::{Context, PreviousCallAttempts};
use crate::error::{Error, RegistryError, Result};
use crate::event::{EventKind, NotUndone, RunId};
use crate::future::BoxFuture;
use crate::message::{ToolCall, ToolResult, ToolStatus};
use crate::path::StepPath;
use crate::resource::Resources;
use crate::run::{
    Around, CompensableCall, CompensationPlan, CompensationState, Host, RunShared, RunState, Undo,
    check_resources, read_events,
};
use crate::store::StoreError;

/// Time limit for the compensation of one call whose tool has no time-out. It bounds the time until
/// control requests made during the compensation are answered.
const LIMIT: Duration = Duration::from_secs(300);

/// Function that finds a tool by name. Registered as a part of the host.
pub(crate) struct FindTool(
    pub(crate) for<'a> fn(&'a Arc<Host>, &'a str) -> BoxFuture<'a, Result<ToolRef>>,
);

/// Compensates the completed calls of a run. `cx` is the context of the whole run, with its
/// resources and grants. Returns the number of compensated calls and the calls that could not be
/// compensated.
///
/// # Errors
/// The store fails.
///
/// # Cancel safety
/// Dropping the future stops between two records. A later call continues there.
pub(crate) async fn compensate(cx: &Context) -> Result<(u32, Vec<NotUndone>), StoreError> {
    let shared = cx.run();
    shared.log.commit().await?;
    let (mut undone, mut left) = (0, Vec::new());
    for Undo { call, state } in done_calls(cx.host(), shared).await?.undos() {
        // Each state is handled in the order of the journal, last call first.
        let ended = match state {
            CompensationState::Undone => Ok(()),
            CompensationState::Left(problem) => Err(problem),
            CompensationState::Interrupted => Err(interrupted(cx, &call).await?),
            CompensationState::Owed { .. } if shared.gives_up_all() => Err(GIVEN_UP.into()),
            CompensationState::Owed { result, .. } => undo(cx, &call, &result).await?,
        };
        shared.has_given_up();
        match ended {
            Ok(()) => undone += 1,
            Err(problem) => left.push(call.not_undone(problem)),
        }
    }
    Ok((undone, left))
}

/// The reason recorded for a compensation that was abandoned.
const GIVEN_UP: &str = "the program was about to end, so it was not undone";

async fn done_calls(host: &Arc<Host>, shared: &RunShared) -> Result<CompensationPlan, StoreError> {
    Ok(match host.store.as_ref().filter(|_| shared.log.is_durable()) {
        // Read the whole journal from the store: in memory, a snapshot may replace the records
        // below a finished step.
        Some(store) => CompensationPlan::from_events(&read_events(store, &shared.id, 0).await?),
        None => {
            let mut done = CompensationPlan::default();
            shared
                .log
                .all_below(&StepPath::root())
                .iter()
                .for_each(|(_, path, kind)| done.apply(path, kind));
            done
        }
    })
}

/// Checks that this process can compensate a run before it takes it over: the tools exist, and so
/// do their resources where they are known.
///
/// # Errors
/// [`Error::CompensationOwed`].
pub(crate) async fn can_compensate(
    host: &Arc<Host>,
    run: &RunId,
    name: &Arc<str>,
    resources: Option<&Resources>,
) -> Result<()> {
    let mut done =
        CompensationPlan::from_events(&read_events(&host.require_store()?, run, 0).await?);
    let newer = done.take_newer();
    let undos = done.undos();
    let owed = |problem: String| {
        let open = undos.iter().filter(|undo| undo.state.is_open());
        Error::CompensationOwed {
            run: run.clone(),
            calls: open.map(|undo| undo.call.path.clone()).collect(),
            problem,
        }
    };
    // An event of a newer release may have completed or compensated calls in a way that this
    // release cannot see.
    if let Some(newer) = newer {
        return Err(owed(newer.problem()));
    }
    for Undo { call, .. } in
        undos.iter().filter(|undo| matches!(undo.state, CompensationState::Owed { .. }))
    {
        let problem = match found(host, &call.by).await {
            Ok(tool) => {
                let needs = resources.map(|resources| {
                    let needs = NeededResource::all_of(&tool, "")
                        .into_iter()
                        .filter(|need| !need.is_replaced(host));
                    let needs = needs.map(|need| (need.key, &*call.by));
                    check_resources(name, resources, needs)
                });
                match needs {
                    Some(Err(error)) => error.to_string(),
                    _ => continue,
                }
            }
            Err(problem) => problem,
        };
        return Err(owed(problem));
    }
    Ok(())
}

/// Checks the compensations of a run's tools before the run starts. Each compensating tool must
/// exist, accept the arguments and output of the call it undoes, and be allowed by the run's
/// grants.
///
/// # Errors
/// [`RegistryError::Compensation`].
pub(crate) async fn check_compensations(
    host: &Arc<Host>,
    tools: &[(Arc<ToolDefinition>, Option<Value>)],
    granted: &[Arc<str>],
) -> Result<()> {
    for (tool, answers) in tools {
        let Some(by) = &tool.policy.compensate else { continue };
        let problem = match found(host, by).await {
            Ok(undo) => (!is_granted(undo.definition(), granted))
                .then(|| {
                    format!("may not be called by this run; {}", grants_for(undo.definition()))
                })
                .or_else(|| compensation_mismatch(tool, answers.as_ref(), undo.definition())),
            Err(problem) => Some(format!("is not known here: {problem}")),
        };
        if let Some(problem) = problem {
            let (tool, by) = (Arc::clone(tool.catalogue_name()), Arc::clone(by));
            return Err(RegistryError::Compensation { tool, by, problem }.into());
        }
    }
    Ok(())
}

/// Returns advice that names the grants a run needs for a tool.
fn grants_for(tool: &ToolDefinition) -> String {
    let approval = tool.policy.approve.then(|| format!("approve:{}", tool.catalogue_name()).into());
    let scopes: Vec<String> = tool
        .policy
        .scopes
        .iter()
        .cloned()
        .chain(approval)
        .map(|scope: Arc<str>| format!("`{scope}`"))
        .collect();
    format!("grant it {}", scopes.join(" and "))
}

/// Records that the process stopped in the middle of a compensation that must not be repeated.
/// Returns the problem as text.
async fn interrupted(cx: &Context, call: &CompensableCall) -> Result<Arc<str>, StoreError> {
    let path = call.undo_path();
    let undo = ToolCall::new(path.to_string(), &*call.by, "{}");
    let CompensableCall { by, .. } = call;
    let recorded = RunState::from_records(&cx.run().log.all_below(&path));
    let problem = match recorded.asking_in_undo(Some(&path)) {
        Some(question) => format!(
            "the program stopped while `{by}` waited for the answer to `{question}`, and `{by}` may not be called a second \
             time; what it had undone before that question is unknown: find out"
        ),
        None => format!(
            "the program stopped in the middle of `{by}`; whether it is undone is unknown: find out"
        ),
    };
    let result = Arc::new(ToolResult::new(&undo, ToolStatus::Interrupted, problem.as_str()));
    let kind = EventKind::ToolFailed {
        result,
        duration_ms: 0,
        answered_by: None,
        error: None,
        cause: None,
    };
    cx.run().record(path, kind);
    cx.run().log.commit().await?;
    Ok(problem.into())
}

/// Compensates one call. The compensating tool's own policy decides about retries. A cancellation
/// that arrives meanwhile abandons the compensation.
async fn undo(
    cx: &Context,
    done: &CompensableCall,
    result: &ToolResult,
) -> Result<Result<(), Arc<str>>, StoreError> {
    let (shared, path) = (cx.run(), done.undo_path());
    let arguments = match done.arguments(result) {
        Ok(arguments) => arguments,
        Err(problem) => return Ok(Err(problem.into())),
    };
    let tool = match find(cx.host(), &done.by).await {
        Ok(tool) => tool,
        Err(problem) => return Ok(Err(problem.into())),
    };
    let call = Arc::new(ToolCall::new(path.to_string(), &*tool.definition().name, arguments));
    let cx = cx.of_call(path, &call.id, PreviousCallAttempts::default(), cx.resources());
    let of = ToolHost { host: cx.host(), resources: cx.resources() };
    let tool = match tool.within(of) {
        Some(Ok(tool)) => tool,
        Some(Err(error)) => return Ok(Err(error.to_string().into())),
        None => tool,
    };
    let definition = tool.definition();
    let mut record = CallRecord::in_step(cx.path());
    // The tool's own time-out is applied by the call.
    let limit = if definition.policy.timeout.is_some() { None } else { Some(LIMIT) };
    let failed = |error: &ToolError| ToolResult::new(&call, error.status(), error.message());
    let ended = {
        let site = CallSite::Compensation;
        let called = invoke(&*tool, &cx, &call, cx.grants(), site, &mut record);
        let called = pin!(Some(Box::pin(within_limit(&cx, called, limit))));
        tokio::select! {
            biased;
            (ended, _) = Around::tool_call(cx.depth(), called) => match ended {
                Ok(Ok(ended)) => ended,
                Ok(Err(Error::Store(error))) => return Err(error),
                Ok(Err(error)) => failed(&ToolError::new(error.to_string())),
                Err(overrun) => failed(&overrun.compensation_error(&done.by)),
            },
            () = shared.until_given_up() => {
                let problem = format!(
                    "`{}` was given up, since the run was cancelled while it was running; whether it is undone is unknown: \
                     find out",
                    done.by
                );
                failed(&ToolError::with_status(ToolStatus::Cancelled, problem))
            }
        }
    };
    let undone = match ended.status {
        // A too large answer comes from a tool that ran to its end, and the answer is not needed.
        ToolStatus::Success | ToolStatus::OutputTooLarge => Ok(()),
        _ => Err(ended.output.as_str().into()),
    };
    record.end_stopped(&cx, &call, &RecordedOutcome::new(Arc::new(ended)));
    shared.log.commit().await?;
    Ok(undone)
}

/// Returns the linked tool with this name, if it is unique.
fn unique_linked_tool(name: &str) -> Result<ToolRef, String> {
    let mut of_name = linked_tools().iter().filter(|tool| tool.name() == name);
    match (of_name.next(), of_name.next()) {
        (Some(tool), None) => Ok(tool.clone()),
        (Some(_), Some(_)) => Err(format!("two linked tools have the name `{name}`; rename one")),
        (None, _) => Err(format!("there is no tool `{name}`")),
    }
}

async fn find(host: &Arc<Host>, name: &str) -> Result<ToolRef, String> {
    found(host, name)
        .await
        .map_err(|problem| format!("what undoes it is not known here: {problem}"))
}

async fn found(host: &Arc<Host>, name: &str) -> Result<ToolRef, String> {
    match host.part::<FindTool>() {
        Some(FindTool(find)) => find(host, name).await.map_err(|error| error.to_string()),
        None => unique_linked_tool(name),
    }
}
