//! Renders the events of a run as lines of text, and compares them with expected lines.
//!
//! The lines contain only the fields that tests usually check. [`check_events`] validates the rest.

use agentflow::Event;
use agentflow::event::{AgentStarted, EventKind, RunBody, RunCompleted};

use crate::check::check_events;
use crate::diff::diff;
use crate::show::one_line;

/// Expected lines: a list of strings, or one text with one expected line per line.
pub trait TraceLines {
    /// Converts the value into a list of lines.
    fn into_lines(self) -> Vec<String>;
}

/// Each line of the text is one expected line. Indentation and empty lines are ignored.
impl TraceLines for &str {
    fn into_lines(self) -> Vec<String> {
        self.lines().map(str::trim).filter(|line| !line.is_empty()).map(ToOwned::to_owned).collect()
    }
}

impl TraceLines for &String {
    fn into_lines(self) -> Vec<String> {
        self.as_str().into_lines()
    }
}

impl<S: Into<String>, const N: usize> TraceLines for [S; N] {
    fn into_lines(self) -> Vec<String> {
        self.into_iter().map(Into::into).collect()
    }
}

impl<S: Into<String>> TraceLines for Vec<S> {
    fn into_lines(self) -> Vec<String> {
        self.into_iter().map(Into::into).collect()
    }
}

/// Renders a run as lines, one for each relevant event:
///
/// ```text
/// run.started "What is 2 + 3?"
/// model#1 completed tool_calls
/// tool#1.add started {"a":2,"b":3}
/// tool#1.add completed 5
/// model#2 completed stop "2 + 3 = 5"
/// run.completed "2 + 3 = 5"
/// ```
///
/// Failures and cancellations have the lines `model#1 failed KIND "message"`,
/// `tool#1.add failed STATUS "text for the model"`, `run.failed KIND "message"` and
/// `run.cancelled "reason"`. The events `model.started` and `run.step` and all deltas have no line.
///
/// A handoff of a team has the line `agent.handoff from NAME to NAME`.
///
/// A node of a workflow has the lines `NAME started`, `NAME completed OUTPUT`,
/// `NAME failed KIND "message"`, `NAME retrying ..` and `NAME skipped "reason"`. An agent or a
/// workflow that is a step has `NAME agent.started ..` or `NAME workflow.started ..`. A question to
/// a person has `NAME approval.requested "question" PAYLOAD` and
/// `NAME approval.resolved by WHO: ANSWER`.
pub fn trace(events: impl AsRef<[Event]>) -> Vec<String> {
    events.as_ref().iter().filter_map(line).map(|line| one_line(&line)).collect()
}

fn line(event: &Event) -> Option<String> {
    let Event { path, kind, .. } = event;
    // Events of the run itself have an empty path and keep their full names.
    let name = match path.is_root() {
        true => kind.name().to_owned(),
        false => format!("{path} {}", verb(kind)),
    };
    Some(match kind {
        EventKind::RunStep { .. } | EventKind::ModelStarted { .. } | EventKind::ModelDelta(_) => {
            return None;
        }
        EventKind::RunStarted(started) => match &started.body {
            RunBody::Agent(agent) => began(&name, agent),
            RunBody::Workflow(workflow) => format!("{name} {}", workflow.input),
            _ => name,
        },
        EventKind::AgentStarted(agent) => began(&name, agent),
        EventKind::AgentHandoff(transfer) => {
            format!("{name} from {} to {}", transfer.from, transfer.to)
        }
        EventKind::WorkflowStarted(workflow) => format!("{name} {}", workflow.input),
        EventKind::RunCompleted(completed) => match &**completed {
            RunCompleted::Agent(answer) => format!("{name} {:?}", answer.message.text()),
            RunCompleted::Workflow(workflow) => format!("{name} {}", workflow.output),
            _ => name,
        },
        EventKind::AgentCompleted(answer) => format!("{name} {:?}", answer.message.text()),
        EventKind::WorkflowCompleted(workflow) => format!("{name} {}", workflow.output),
        EventKind::RunFailed { error }
        | EventKind::AgentFailed { error }
        | EventKind::WorkflowFailed { error }
        | EventKind::NodeFailed { error, .. }
        | EventKind::NodeRetrying { error, .. }
        | EventKind::ModelRetrying { error, .. }
        | EventKind::ToolRetrying { error, .. }
        | EventKind::ModelFailed { error } => format!("{name} {} {:?}", error.kind, error.message),
        // The first attempt is the usual case, so it has no number.
        EventKind::NodeStarted { attempt, .. } if *attempt > 1 => {
            format!("{name} attempt {attempt}")
        }
        EventKind::NodeCompleted { output, .. } => format!("{name} {output}"),
        EventKind::NodeSkipped { reason } => format!("{name} {reason:?}"),
        EventKind::NodeReset { by } => format!("{name} by {by}"),
        EventKind::RunCompensating { error, .. } => format!("{name} {}", error.kind),
        EventKind::RunCompensated { undone, left } => {
            format!("{name} {undone} undone, {} not", left.len())
        }
        EventKind::RunPaused { reason, .. } => format!("{name} {reason}"),
        EventKind::ApprovalRequested(request) => {
            format!("{name} {:?} {}", request.message, request.payload)
        }
        EventKind::ApprovalResolved { answer, by } => format!("{name} by {by}: {answer}"),
        EventKind::RunCancelled { reason, .. } => format!("{name} {reason:?}"),
        EventKind::ModelCompleted(response) => {
            let text = response.text();
            let text = if text.is_empty() { String::new() } else { format!(" {text:?}") };
            format!("{name} {}{text}", response.stop_reason.as_str())
        }
        EventKind::ToolStarted { call, .. } => format!("{name} {}", call.arguments),
        EventKind::ToolCompleted { result, .. } => format!("{name} {}", result.output),
        EventKind::ToolFailed { result, .. } => {
            format!("{name} {} {:?}", result.status, result.output)
        }
        _ => name,
    })
}

/// Returns the event's name as a line shows it: `started`, `completed`, and for agents, workflows
/// and approvals the full name, because their events share a path with others.
fn verb(kind: &EventKind) -> &str {
    let name = kind.name();
    match name.strip_prefix("workflow.node.") {
        Some(verb) => verb,
        None if name.starts_with("agent.")
            || name.starts_with("workflow.")
            || name.starts_with("approval.") =>
        {
            name
        }
        None => name.split_once('.').map_or(name, |(_, verb)| verb),
    }
}

fn began(name: &str, agent: &AgentStarted) -> String {
    match agent.input.last() {
        Some(message) => format!("{name} {:?}", message.text()),
        None => name.to_owned(),
    }
}

/// Checks that the events of a run are well-formed (see [`check_events`]) and that its [`trace`]
/// consists of exactly these lines, given as a list or as one text.
///
/// An expected line that ends in ` ..` matches any rest of the line. A line `..` matches any number
/// of lines.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentflow::Result<()> {
/// use agentflow::Agent;
/// use agentflow_testing::{ScriptedModel, Turn, assert_trace};
///
/// let result = Agent::new(ScriptedModel::new([Turn::text("Hello, Ada.")])).run("I am Ada.").await?;
/// assert_trace(
///     result.events(),
///     r#"
///     run.started "I am Ada."
///     model#1 completed stop ..
///     run.completed "Hello, Ada."
///     "#,
/// );
/// # Ok(())
/// # }
/// ```
///
/// # Panics
/// If the run differs, with a diff: `-` marks a missing line, `+` an unexpected one.
#[track_caller]
pub fn assert_trace(events: impl AsRef<[Event]>, expected: impl TraceLines) {
    let events = events.as_ref();
    if let Some(diff) = diff(&expected.into_lines(), &trace(events)) {
        panic!("the run went another way (- expected, + happened):\n{diff}\n");
    }
    if let Err(problems) = check_events(events) {
        panic!("{problems}");
    }
}
