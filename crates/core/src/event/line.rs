//! Formats an event as one line for people to read.

use std::fmt;

use agentflow_schema::text::{OneLine, head};

use super::{AgentCompleted, AgentStarted, Event, EventKind, ModelDelta, RunBody, RunCompleted};

/// An event formatted as one line. Text from models, servers and operators is escaped, so it cannot
/// control a terminal.
pub(crate) struct Line<'a>(pub(crate) &'a Event);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        OneLine(PlainLine(self.0)).fmt(f)
    }
}

/// The line before escaping.
struct PlainLine<'a>(&'a Event);

impl fmt::Display for PlainLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let event = self.0;
        write!(f, "{} {:<15}", event.run_id, event.name())?;
        if !event.path.is_root() {
            write!(f, " {}", event.path)?;
        }
        match &event.kind {
            EventKind::RunStarted(started) => match &started.body {
                RunBody::Agent(agent) => write!(f, "{}", Began(agent)),
                RunBody::Workflow(workflow) => {
                    write!(f, " {}: {}", workflow.name, TextExcerpt(workflow.input.as_str()))
                }
            },
            EventKind::AgentStarted(agent) => write!(f, "{}", Began(agent)),
            EventKind::AgentHandoff(transfer) => {
                write!(f, " from {} to {}", transfer.from, transfer.to)
            }
            EventKind::SessionSummarized(summarized) => match &summarized.text {
                Some(text) => write!(f, " up to {}: {}", summarized.up_to, TextExcerpt(text)),
                None => write!(f, " up to {}: no summary", summarized.up_to),
            },
            EventKind::WorkflowStarted(workflow) => {
                write!(f, " {}: {}", workflow.name, TextExcerpt(workflow.input.as_str()))
            }
            EventKind::RunStep { step } => write!(f, " {step}"),
            EventKind::RunCompleted(completed) => match &**completed {
                RunCompleted::Agent(answer) => write!(f, "{}", AnswerLine(answer)),
                RunCompleted::Workflow(workflow) => {
                    write!(f, " {}", TextExcerpt(workflow.output.as_str()))
                }
            },
            EventKind::AgentCompleted(answer) => write!(f, "{}", AnswerLine(answer)),
            EventKind::WorkflowCompleted(workflow) => {
                write!(f, " {}", TextExcerpt(workflow.output.as_str()))
            }
            EventKind::RunFailed { error }
            | EventKind::AgentFailed { error }
            | EventKind::WorkflowFailed { error }
            | EventKind::ModelFailed { error } => {
                write!(f, " {}: {}", error.kind, TextExcerpt(&error.message))
            }
            EventKind::RunCompensating { error, .. } => {
                write!(f, " {}: {}", error.kind, TextExcerpt(&error.message))
            }
            EventKind::RunCompensated { undone, left } => match left.len() {
                0 => write!(f, " {undone} undone"),
                left => write!(f, " {undone} undone, {left} not"),
            },
            EventKind::RunPaused { reason, by } => write!(f, " {reason}{}", By(by.as_deref())),
            EventKind::RunResumed { recovered: true, .. } => f.write_str(" from its journal"),
            EventKind::RunResumed { by, .. } => write!(f, "{}", By(by.as_deref())),
            EventKind::NodeStarted { attempt: 1, .. } => Ok(()),
            EventKind::NodeStarted { attempt, .. } => write!(f, " attempt {attempt}"),
            EventKind::NodeCompleted { output, duration_ms, .. } => {
                write!(f, " {duration_ms} ms: {}", TextExcerpt(output.as_str()))
            }
            EventKind::NodeRetrying { attempt, error, delay_ms }
            | EventKind::ToolRetrying { attempt, error, delay_ms } => {
                write!(
                    f,
                    " attempt {attempt}, again in {delay_ms} ms: {}",
                    TextExcerpt(&error.message)
                )
            }
            EventKind::NodeFailed { error, .. } => {
                write!(f, " {}: {}", error.kind, TextExcerpt(&error.message))
            }
            EventKind::StateRead { key, value: Some(value) } => {
                write!(f, " {key}: {}", TextExcerpt(value.as_str()))
            }
            EventKind::StateRead { key, value: None } => write!(f, " {key}: no value"),
            EventKind::NodeSkipped { reason } => write!(f, " {reason}"),
            EventKind::NodeReset { by } => write!(f, " by {by}"),
            EventKind::ApprovalRequested(request) => {
                write!(
                    f,
                    " {}: {}",
                    TextExcerpt(&request.message),
                    TextExcerpt(request.payload.as_str())
                )
            }
            EventKind::ApprovalResolved { answer, by } => {
                write!(f, " by {by}: {}", TextExcerpt(answer.as_str()))
            }
            EventKind::RunCancelled { reason, by } => write!(f, " {reason}{}", By(by.as_deref())),
            EventKind::RunClosed { idle: true, .. } => f.write_str(" without a message in time"),
            EventKind::RunClosed { by, .. } => write!(f, "{}", By(by.as_deref())),
            EventKind::MessageReceived { number, message, by, .. } => {
                write!(f, " {number}{}: {}", By(by.as_deref()), TextExcerpt(&message.text()))
            }
            EventKind::MessageDelivered { number } => write!(f, " {number}"),
            EventKind::ModelRetrying { error, delay_ms } => {
                write!(f, " again in {delay_ms} ms: {}", TextExcerpt(&error.message))
            }
            EventKind::RunSpent(_) => Ok(()),
            EventKind::RunAdvanced(advanced) => write!(f, " {}", advanced.step),
            EventKind::ModelStarted { provider, model } => write!(f, " {provider}/{model}"),
            EventKind::StepProgress { value } => write!(f, " {}", TextExcerpt(value.as_str())),
            EventKind::ModelDelta(ModelDelta::Text(text) | ModelDelta::Reasoning(text)) => {
                write!(f, " {}", TextExcerpt(text))
            }
            EventKind::ModelDelta(ModelDelta::ToolCall(call)) => {
                write!(f, " {}", TextExcerpt(&call.arguments))
            }
            EventKind::ModelCompleted(response) => write!(
                f,
                " {}, {} + {} tokens",
                response.stop_reason.as_str(),
                response.usage.input_tokens,
                response.usage.output_tokens
            ),
            EventKind::OutputRejected { problem } => write!(f, " {}", TextExcerpt(problem)),
            EventKind::ToolStarted { call, .. } => write!(f, " {}", TextExcerpt(&call.arguments)),
            EventKind::ToolWaiting(waiting) => match &*waiting.questions {
                [] => Ok(()),
                [question] => write!(f, " {}", TextExcerpt(&question.message)),
                [question, others @ ..] => {
                    write!(f, " {}, and {} more", TextExcerpt(&question.message), others.len())
                }
            },
            EventKind::ToolContinued { .. } => Ok(()),
            EventKind::ToolCompleted { result, duration_ms, .. } => {
                write!(f, " {duration_ms} ms: {}", TextExcerpt(&result.output))
            }
            EventKind::ToolFailed { result, duration_ms, .. } => {
                write!(
                    f,
                    " {} after {duration_ms} ms: {}",
                    result.status,
                    TextExcerpt(&result.output)
                )
            }
            EventKind::Unknown(unknown) => {
                write!(f, " of a newer release: {}", TextExcerpt(unknown.payload.as_str()))
            }
        }
    }
}

/// The name of a started agent and the last message of its input.
struct Began<'a>(&'a AgentStarted);

impl fmt::Display for Began<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}", self.0.name)?;
        match self.0.input.last() {
            Some(message) => write!(f, ": {}", TextExcerpt(&message.text())),
            None => Ok(()),
        }
    }
}

/// The operator of a control request, if recorded.
struct By<'a>(Option<&'a str>);

impl fmt::Display for By<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |by| write!(f, " by {by}"))
    }
}

/// The answer of an agent, with its number of turns and tokens.
struct AnswerLine<'a>(&'a AgentCompleted);

impl fmt::Display for AnswerLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AgentCompleted { message, steps, usage, .. } = self.0;
        let (input, output) = (usage.input_tokens, usage.output_tokens);
        write!(
            f,
            " after {steps} steps, {input} + {output} tokens: {}",
            TextExcerpt(&message.text())
        )
    }
}

/// The first 100 bytes of a string, escaped, on one line.
struct TextExcerpt<'a>(&'a str);

impl fmt::Display for TextExcerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = head(self.0, 100);
        write!(f, "{head:?}")?;
        if head.len() < self.0.len() { f.write_str("…") } else { Ok(()) }
    }
}
