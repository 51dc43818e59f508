//! `CallKeys`: the idempotency keys of recorded calls of tools.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::event::EventKind;
use crate::message::ToolCall;
use crate::path::StepPath;

/// Finds the idempotency key of a recorded call. Feed it the events in their order.
///
/// The id of a call in a step is its key: the path at which the call was first made. The id of a call that a model made is
/// chosen by the model's server and may equal any key; the key of such a call is its path.
#[derive(Default)]
pub(crate) struct CallKeys {
    agents: HashSet<StepPath>,
    /// Paths below which steps have made calls. An agent that begins at one of them later does not own those calls.
    steps: HashSet<StepPath>,
}

impl CallKeys {
    /// Takes in the next event.
    pub(crate) fn apply(&mut self, path: &StepPath, kind: &EventKind) {
        match kind {
            EventKind::RunStarted(started) if started.agent().is_some() => drop(self.agents.insert(path.clone())),
            EventKind::AgentStarted(_) if !self.steps.contains(path) => drop(self.agents.insert(path.clone())),
            EventKind::ToolStarted { .. } => {
                if let Some(parent) = path.parent().filter(|parent| !self.agents.contains(parent)) {
                    self.steps.insert(parent);
                }
            }
            _ => {}
        }
    }

    /// Returns the key of a call that begins at a path.
    pub(crate) fn key<'c>(&self, path: &StepPath, call: &'c ToolCall) -> Cow<'c, str> {
        match path.parent().is_some_and(|parent| self.agents.contains(&parent)) {
            true => Cow::Owned(path.to_string()),
            false => Cow::Borrowed(&call.id),
        }
    }
}
