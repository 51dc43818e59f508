//! Extracts facts from the events of a run: its final text, the calls to a tool, the order of two
//! events, its totals.
//!
//! [`assert_trace`](crate::assert_trace()) compares a run as a whole.

use agentflow::Event;
use agentflow::event::{EventKind, RunCompleted};
use agentflow::message::ToolStatus;
use agentflow::model::Usage;
use agentflow::path::StepPath;
use serde_json::Value;

use crate::diff::line_matches;
use crate::trace::trace;

/// Returns the final text of a run: the answer of an agent, or the output of a workflow. An output
/// that is not a string is returned as JSON. Returns `None` if the run did not complete.
pub fn final_text(events: impl AsRef<[Event]>) -> Option<String> {
    events.as_ref().iter().rev().find_map(|event| match &event.kind {
        EventKind::RunCompleted(completed) => match &**completed {
            RunCompleted::Agent(answer) => Some(answer.text().into_owned()),
            RunCompleted::Workflow(workflow) => {
                let text = workflow.output.decode::<String>();
                Some(text.unwrap_or_else(|_| workflow.output.to_string()))
            }
            _ => None,
        },
        _ => None,
    })
}

/// A recorded tool call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RecordedToolCall {
    /// Path of the call, such as `tool#1.add` or `pay/tool#1.refund`.
    pub path: StepPath,
    /// Arguments of the call. If a model wrote invalid JSON, this is a JSON string with the
    /// unchanged text.
    pub arguments: Value,
    /// Result of the call: the value that the tool returned, or the status and the text of the
    /// failure. `None` if the call has not ended.
    pub outcome: Option<Result<Value, (ToolStatus, String)>>,
}

/// Returns the recorded calls to a tool in the order in which they started. It includes calls by
/// models, calls in workflow steps and mocked calls. A node that consists of a single call of a
/// `#[tool]` function is recorded as a node and not as a tool call, unless middleware or a mock
/// wraps the call.
///
/// ```
/// use agentflow::prelude::*;
/// use agentflow::serde_json::json;
/// use agentflow_testing::{ScriptedModel, Turn, calls_of, final_text, happened_before, totals};
///
/// /// Add two integers.
/// #[tool]
/// fn add(a: i64, b: i64) -> i64 {
///     a + b
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let model = ScriptedModel::new([Turn::call("add", json!({"a": 2, "b": 3})), Turn::text("It is 5.")]);
/// let result = Agent::new(model).tools(tools![add]).run("What is 2 + 3?").await?;
/// let events = result.events();
/// let calls = calls_of(&events, "add");
/// assert_eq!(calls[0].arguments, json!({"a": 2, "b": 3}));
/// assert_eq!(calls[0].outcome, Some(Ok(json!(5))));
/// assert_eq!(final_text(&events).as_deref(), Some("It is 5."));
/// assert!(happened_before(&events, "tool#1.add completed ..", "run.completed .."));
/// assert_eq!((totals(&events).model_calls, totals(&events).tool_calls), (2, 1));
/// # Ok(())
/// # }
/// ```
pub fn calls_of(events: impl AsRef<[Event]>, tool: &str) -> Vec<RecordedToolCall> {
    let mut calls: Vec<RecordedToolCall> = Vec::new();
    for event in events.as_ref() {
        let value = |json: &str| serde_json::from_str(json).unwrap_or_else(|_| Value::from(json));
        let outcome = match &event.kind {
            EventKind::ToolStarted { call, .. } if call.name == tool => {
                let arguments =
                    if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
                calls.push(RecordedToolCall {
                    path: event.path.clone(),
                    arguments: value(arguments),
                    outcome: None,
                });
                continue;
            }
            EventKind::ToolCompleted { result, .. } => Ok(value(&result.output)),
            EventKind::ToolFailed { result, .. } => Err((result.status, result.output.to_string())),
            _ => continue,
        };
        if let Some(call) =
            calls.iter_mut().rev().find(|call| call.path == event.path && call.outcome.is_none())
        {
            call.outcome = Some(outcome);
        }
    }
    calls
}

/// Returns `true` if one event happened before another. Both are lines of a
/// [`trace`](crate::trace()), which may end in ` ..`. If several lines match, the first match of
/// `first` is compared with the last match of `then`.
///
/// # Panics
/// If no line of the run matches `first` or `then`. A missing event is treated as a mistake in the
/// test.
#[track_caller]
pub fn happened_before(events: impl AsRef<[Event]>, first: &str, then: &str) -> bool {
    let lines = trace(events);
    let find = |wanted: &str, last: bool| {
        let mut fitting = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line_matches(wanted, line))
            .map(|(at, _)| at);
        if last { fitting.next_back() } else { fitting.next() }
    };
    match (find(first, false), find(then, true)) {
        (Some(first), Some(then)) => first < then,
        (None, _) => panic!("the run has no line `{first}`:\n{}\n", lines.join("\n")),
        (_, None) => panic!("the run has no line `{then}`:\n{}\n", lines.join("\n")),
    }
}

/// Resources that a run used, including nested runs.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Totals {
    /// Number of model calls, including failed ones. Calls that middleware answered are not
    /// counted.
    pub model_calls: usize,
    /// Number of recorded tool calls that started.
    pub tool_calls: usize,
    /// Total token usage of all answers.
    pub usage: Usage,
}

/// Sums up the resources that a run used, from its recorded events.
pub fn totals(events: impl AsRef<[Event]>) -> Totals {
    let mut totals = Totals::default();
    for event in events.as_ref() {
        match &event.kind {
            EventKind::ModelStarted { .. } => totals.model_calls += 1,
            EventKind::ModelCompleted(response) => {
                // The call was counted at its start, before it was known that middleware would
                // answer it.
                totals.usage.add(&response.usage);
                totals.model_calls -=
                    usize::from(response.answered_by.is_some()).min(totals.model_calls);
            }
            EventKind::ToolStarted { .. } => totals.tool_calls += 1,
            _ => {}
        }
    }
    totals
}
