//! Undoes what a run had done: calls the compensations of its completed tool calls, the last one first, each once.
//!
//! The journal says what was done and what was undone, so it continues after a crash. It decides neither when a run is
//! compensated nor how it ends.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

#[cfg(feature = "dynamic")]
use super::Tool;
use super::call_record::OpenCall;
use super::history::RecordedOutcome;
#[cfg(feature = "dynamic")]
use super::invoke::{SeenTo, hooked};
use super::invoke::{invoke_hooked, within_limit};
use super::{ToolError, ToolRef, linked_tools};
use crate::context::Context;
use crate::error::Result;
use crate::event::{EventKind, NotUndone};
use crate::future::BoxFuture;
use crate::message::{ToolCall, ToolResult, ToolStatus};
use crate::path::StepPath;
use crate::run::{Around, Host, REDACTED, read_events};
use crate::store::StoreError;

/// What the path of a compensation has below that of the call.
const UNDO: &str = "undo#1";
/// What the tool answered, among the arguments of its compensation.
const OUTPUT: &str = "output";
/// Finds a tool by its name; a part of the host.
pub(crate) struct FindTool(pub(crate) for<'a> fn(&'a Arc<Host>, &'a str) -> BoxFuture<'a, Result<ToolRef>>);

/// A call that has a compensation, and how it ended.
struct DoneCall {
    path: StepPath,
    call: Arc<ToolCall>,
    /// The tool that undoes it.
    by: Arc<str>,
    ended: DoneEnd,
}

enum DoneEnd {
    Open,
    Completed(Arc<ToolResult>),
    /// Nobody knows whether it had its effect.
    Unknown(ToolStatus),
    /// It failed, so there is nothing to undo.
    Failed,
}

/// A compensation that has begun.
enum Undoing {
    Begun { repeatable: bool },
    Undone,
    Failed(Arc<str>),
}

/// What a run has done that can be undone, in the order in which it ended, and what of it is undone.
#[derive(Default)]
struct Done {
    calls: Vec<DoneCall>,
    undoing: HashMap<StepPath, Undoing>,
}

impl Done {
    fn apply(&mut self, path: &StepPath, kind: &EventKind) {
        if is_undo(path) {
            let now = match kind {
                EventKind::ToolStarted { .. } => Undoing::Begun { repeatable: !kind.begins_once() },
                EventKind::ToolCompleted { .. } => Undoing::Undone,
                EventKind::ToolFailed { result, .. } => Undoing::Failed(result.output.as_str().into()),
                _ => return,
            };
            self.undoing.insert(path.clone(), now);
            return;
        }
        match kind {
            EventKind::ToolStarted { call, compensate, idempotent, .. } => {
                // It is called again at its own path, or by another attempt at its step under the key of that: whether it
                // had its effect before was then decided. The ids that models give are not in the path.
                let is_same = |done: &DoneCall| {
                    let again = done.call.id == call.id && done.path.to_string().starts_with(&call.id);
                    let had_effect = matches!(done.ended, DoneEnd::Completed(_)) && !idempotent;
                    done.path == *path || again && !had_effect
                };
                self.calls.retain(|done| !is_same(done));
                if let Some(by) = compensate {
                    let (call, by) = (Arc::clone(call), Arc::clone(by));
                    self.calls.push(DoneCall { path: path.clone(), call, by, ended: DoneEnd::Open });
                }
            }
            EventKind::ToolCompleted { result, .. } => self.end(path, DoneEnd::Completed(Arc::clone(result))),
            EventKind::ToolFailed { result, answered_by, .. } => {
                let failed = matches!(
                    result.status,
                    ToolStatus::Error | ToolStatus::InvalidArguments | ToolStatus::NotFound | ToolStatus::Unauthorized
                );
                let failed = failed && answered_by.is_none();
                self.end(path, if failed { DoneEnd::Failed } else { DoneEnd::Unknown(result.status) });
            }
            _ => {}
        }
    }

    /// A call stands behind those that ended before it.
    fn end(&mut self, path: &StepPath, ended: DoneEnd) {
        if let Some(at) = self.calls.iter().position(|done| done.path == *path) {
            let done = self.calls.remove(at);
            self.calls.push(DoneCall { ended, ..done });
        }
    }
}

fn is_undo(path: &StepPath) -> bool {
    path.parent().is_some_and(|parent| parent.last_name() == Some(UNDO))
}

impl DoneCall {
    fn undo_path(&self) -> StepPath {
        self.path.child(UNDO).tool(1, Arc::clone(&self.by), 0)
    }

    /// The arguments of the compensation.
    fn arguments(&self, result: &ToolResult) -> Result<String, String> {
        let given = if self.call.arguments.trim().is_empty() { "{}" } else { &self.call.arguments };
        let no_json = |error: serde_json::Error| format!("what was recorded of it cannot be read: {error}");
        let mut arguments: Map<String, Value> = match serde_json::from_str(given).map_err(no_json)? {
            Value::Object(arguments) => arguments,
            _ => return Err("its arguments have no JSON form; derive `serde::Serialize` for their types".to_owned()),
        };
        arguments.insert(OUTPUT.to_owned(), serde_json::from_str(&result.output).map_err(no_json)?);
        let text = Value::Object(arguments).to_string();
        match text.contains(REDACTED) {
            true => Err("this runtime's middleware removes from its record what its compensation needs".to_owned()),
            false => Ok(text),
        }
    }
}

/// Undoes what the run of a context had done; the context is that of the run as a whole, with its resources and grants.
/// Gives how many calls were undone, and those that are not.
///
/// Dropping the future stops between two records; called again, it continues there.
///
/// # Errors
/// When the store fails.
pub(crate) async fn compensate(cx: &Context) -> Result<(u32, Vec<NotUndone>), StoreError> {
    let (shared, host) = (cx.run(), cx.host());
    shared.log.commit().await?;
    let mut done = Done::default();
    match host.store.as_ref().filter(|_| shared.log.is_durable()) {
        // All of it: in memory a snapshot may stand for what is below a step that has ended.
        Some(store) => {
            read_events(store, &shared.id, 0).await?.iter().for_each(|event| done.apply(&event.path, &event.kind));
        }
        None => shared.log.all_below(&StepPath::root()).iter().for_each(|(_, path, kind)| done.apply(path, kind)),
    }
    let Done { calls, mut undoing } = done;
    let (mut undone, mut left) = (0, Vec::new());
    for call in calls.into_iter().rev() {
        let result = match &call.ended {
            DoneEnd::Completed(result) => Arc::clone(result),
            DoneEnd::Failed => continue,
            DoneEnd::Open | DoneEnd::Unknown(_) => {
                let status = match call.ended {
                    DoneEnd::Unknown(status) => status,
                    _ => ToolStatus::Interrupted,
                };
                let problem = format!("it ended as {status}, so whether it had its effect is unknown: find out");
                left.push(NotUndone::new(call.path, problem));
                continue;
            }
        };
        let ended = match undoing.remove(&call.undo_path()) {
            Some(Undoing::Undone) => Ok(()),
            Some(Undoing::Failed(problem)) => Err(problem),
            Some(Undoing::Begun { repeatable: false }) => Err(interrupted(cx, &call).await?),
            Some(Undoing::Begun { repeatable: true }) | None => undo(cx, &call, &result).await?,
        };
        match ended {
            Ok(()) => undone += 1,
            Err(problem) => left.push(NotUndone::new(call.path, problem)),
        }
    }
    Ok((undone, left))
}

/// The process stopped in the middle of a compensation that may not simply be repeated.
async fn interrupted(cx: &Context, call: &DoneCall) -> Result<Arc<str>, StoreError> {
    let path = call.undo_path();
    let undo = ToolCall::new(path.to_string(), &*call.by, "{}");
    let problem =
        format!("the program stopped in the middle of `{}`; whether it is undone is unknown: find out", call.by);
    let result = Arc::new(ToolResult::new(&undo, ToolStatus::Interrupted, problem.as_str()));
    let kind = EventKind::ToolFailed { result, duration_ms: 0, answered_by: None, error: None, cause: None };
    cx.run().record(path, kind);
    cx.run().log.commit().await?;
    Ok(problem.into())
}

/// Undoes one call, as often as the compensation's own policy says.
async fn undo(cx: &Context, done: &DoneCall, result: &ToolResult) -> Result<Result<(), Arc<str>>, StoreError> {
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
    let cx = cx.of_call(path, &call.id, cx.resources());
    let mut open = OpenCall::begin(&cx, tool.definition(), Arc::clone(&call), None, false);
    if let Err(error) = shared.log.commit().await {
        open.settle();
        return Err(error);
    }
    let called = Box::pin(within_limit(&cx, invoke_hooked(&*tool, &cx, &call, cx.grants()), None));
    let ended = Arc::new(match Around::tool_call(cx.depth(), called).await.0 {
        Ok(ended) => ended,
        Err(_) => {
            let problem = ToolError::with_status(ToolStatus::Panicked, "the tool panicked as it was dropped");
            open.result(Err(problem))
        }
    });
    let undone = match ended.status.is_success() {
        true => Ok(()),
        false => Err(ended.output.as_str().into()),
    };
    open.end(RecordedOutcome::new(ended));
    shared.log.commit().await?;
    Ok(undone)
}

/// Calls a tool for a node or a branch of one: one whose function finds no step by itself and that can be undone is
/// recorded below the node, with its arguments.
///
/// # Errors
/// When the store fails.
#[cfg(feature = "dynamic")]
pub(crate) async fn invoke_undoable(
    tool: &dyn Tool,
    cx: &Context,
    call: &ToolCall,
    granted: &[Arc<str>],
    seen_to: SeenTo,
) -> Result<ToolResult, StoreError> {
    let definition = tool.definition();
    if tool.announces_itself() || definition.policy.compensate.is_none() {
        return Ok(hooked(tool, cx, call, granted, seen_to).await);
    }
    let cx = cx.of_call(cx.claim_base(None).tool(1, Arc::clone(&definition.name), 0), &call.id, cx.resources());
    let mut open = OpenCall::begin(&cx, definition, Arc::new(call.clone()), None, false);
    if let Err(error) = cx.run().log.commit().await {
        open.settle();
        return Err(error);
    }
    let result = hooked(tool, &cx, call, granted, seen_to).await;
    open.end(RecordedOutcome::new(Arc::new(result.clone())));
    Ok(result)
}

/// The only linked tool of a name.
fn linked_one(name: &str) -> Result<ToolRef, String> {
    let mut of_name = linked_tools().iter().filter(|tool| tool.name() == name);
    match (of_name.next(), of_name.next()) {
        (Some(tool), None) => Ok(tool.clone()),
        (Some(_), Some(_)) => Err(format!("two linked tools have the name `{name}`; rename one")),
        (None, _) => Err(format!("there is no tool `{name}`")),
    }
}

async fn find(host: &Arc<Host>, name: &str) -> Result<ToolRef, String> {
    let found = match host.part::<FindTool>() {
        Some(FindTool(find)) => find(host, name).await.map_err(|error| error.to_string()),
        None => linked_one(name),
    };
    found.map_err(|problem| format!("what undoes it is not known here: {problem}"))
}
