//! `trace`: the events of a run as lines of text, and the comparison with the expected lines.
//!
//! The lines hold only what a reader asks about. [`check_events`] checks the rest.

use agentflow::Event;
use agentflow::event::{AgentStarted, EventKind, RunBody, RunCompleted};

use crate::check::check_events;
use crate::diff::diff;
use crate::show::one_line;

/// Lines that are expected: a list of texts, or one text with a line for each.
pub trait TraceLines {
    /// The lines.
    fn into_lines(self) -> Vec<String>;
}

/// One line of the text is one expected line; indentation and empty lines do not count.
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

/// A run as lines, one for each event that says something:
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
/// Besides these there are `model#1 failed KIND "why"`, `tool#1.add failed STATUS "what the model is told"`,
/// `run.failed KIND "why"` and `run.cancelled "why"`. `model.started`, `run.step` and deltas have no line.
///
/// Of a team there is `agent.handoff from NAME to NAME`.
///
/// A node of a workflow is `NAME started`, `NAME completed OUTPUT`, `NAME failed KIND "why"`, `NAME retrying ..`, `NAME
/// skipped "why"`; an agent or a workflow that is a step is `NAME agent.started ..`, `NAME workflow.started ..`; a
/// question to a person is `NAME approval.requested "question" PAYLOAD` and `NAME approval.resolved by WHO: ANSWER`.
pub fn trace(events: impl AsRef<[Event]>) -> Vec<String> {
    events.as_ref().iter().filter_map(line).map(|line| one_line(&line)).collect()
}

fn line(event: &Event) -> Option<String> {
    let Event { path, kind, .. } = event;
    let name = match path.is_root() {
        true => kind.name().to_owned(),
        false => format!("{path} {}", verb(kind)),
    };
    Some(match kind {
        EventKind::RunStep { .. } | EventKind::ModelStarted { .. } | EventKind::ModelDelta(_) => return None,
        EventKind::RunStarted(started) => match &started.body {
            RunBody::Agent(agent) => began(&name, agent),
            RunBody::Workflow(workflow) => format!("{name} {}", workflow.input),
            _ => name,
        },
        EventKind::AgentStarted(agent) => began(&name, agent),
        EventKind::AgentHandoff(transfer) => format!("{name} from {} to {}", transfer.from, transfer.to),
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
        EventKind::NodeStarted { attempt, .. } if *attempt > 1 => format!("{name} attempt {attempt}"),
        EventKind::NodeCompleted { output, .. } => format!("{name} {output}"),
        EventKind::NodeSkipped { reason } => format!("{name} {reason:?}"),
        EventKind::NodeReset { by } => format!("{name} by {by}"),
        EventKind::RunCompensating { error, .. } => format!("{name} {}", error.kind),
        EventKind::RunCompensated { undone, left } => format!("{name} {undone} undone, {} not", left.len()),
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
        EventKind::ToolFailed { result, .. } => format!("{name} {} {:?}", result.status, result.output),
        _ => name,
    })
}

/// What a line calls the event: `started`, `completed`, and with its subject where a path may have several.
fn verb(kind: &EventKind) -> &str {
    let name = kind.name();
    match name.strip_prefix("workflow.node.") {
        Some(verb) => verb,
        None if name.starts_with("agent.") || name.starts_with("workflow.") || name.starts_with("approval.") => name,
        None => name.split_once('.').map_or(name, |(_, verb)| verb),
    }
}

fn began(name: &str, agent: &AgentStarted) -> String {
    match agent.input.last() {
        Some(message) => format!("{name} {:?}", message.text()),
        None => name.to_owned(),
    }
}

/// Checks that a run went as told: its events are well-formed (see [`check_events`]) and its [`trace`] is exactly these
/// lines, given as a list or as one text.
///
/// An expected line may end in ` ..` when the rest of the line does not matter, and a line `..` stands for any number
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
/// When it was otherwise, with a diff: `-` for a line that should have been there, `+` for one that should not.
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
