//! `CallKeys`: the idempotency keys of recorded tool calls.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::event::EventKind;
use crate::message::ToolCall;
use crate::path::StepPath;

/// Finds the idempotency key of a recorded call. Apply the events in order.
///
/// The id of a call in a step is its key: the path at which the call was first made. The id of a
/// call that a model made is chosen by the model's provider and may equal any key, so the key of
/// such a call is its path.
#[derive(Default)]
pub(crate) struct CallKeys {
    agents: HashSet<StepPath>,
    /// Paths below which steps have made calls. An agent that starts at such a path later does not
    /// own those calls.
    steps: HashSet<StepPath>,
}

impl CallKeys {
    /// Applies the next event.
    pub(crate) fn apply(&mut self, path: &StepPath, kind: &EventKind) {
        match kind {
            EventKind::RunStarted(started) if started.agent().is_some() => {
                self.agents.insert(path.clone());
            }
            EventKind::AgentStarted(_) if !self.steps.contains(path) => {
                self.agents.insert(path.clone());
            }
            EventKind::ToolStarted { .. } => {
                if let Some(parent) = path.parent().filter(|parent| !self.agents.contains(parent)) {
                    self.steps.insert(parent);
                }
            }
            _ => {}
        }
    }

    /// Returns the key of a call that starts at a path.
    pub(crate) fn key<'c>(&self, path: &StepPath, call: &'c ToolCall) -> Cow<'c, str> {
        match path.parent().is_some_and(|parent| self.agents.contains(&parent)) {
            true => Cow::Owned(path.to_string()),
            false => Cow::Borrowed(&call.id),
        }
    }
}
