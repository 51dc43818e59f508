//! Handoffs of the conversation between the agents of a team: the requested target, and the change
//! of instructions. The driver holds the plan of the agent that takes over.

use std::sync::Arc;

use serde::Deserialize;

use super::{AgentMachine, Command, Outcome, closed};
use crate::agent::typed_output::OutputRule;
use crate::error::Error;
use crate::event::AgentHandoff;
use crate::message::{ToolCall, ToolResult, ToolStatus};

#[derive(Clone, Debug, Default)]
pub(super) struct HandoffState {
    /// Number of handoffs so far.
    made: u32,
    /// Target of the handoff that a call of this turn requested.
    pub(super) wanted: Option<Arc<str>>,
}

/// Arguments of the handoff tool.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Transfer {
    pub(crate) agent: String,
}

/// Returns the agent that the arguments of a call name.
pub(super) fn target_of(arguments: &str) -> Option<String> {
    serde_json::from_str(arguments).ok().map(|Transfer { agent }| agent)
}

/// Returns the result of a second handoff in one turn.
pub(super) fn second_transfer(call: &ToolCall) -> ToolResult {
    closed(
        call,
        ToolStatus::TooManyCalls,
        "the conversation is transferred once in a turn, as the first call says; this one was not made",
    )
}

impl AgentMachine {
    /// Enables handoffs. Used for the first agent of a team.
    pub(crate) fn in_team(&mut self) {
        self.handoffs.get_or_insert_default();
    }

    /// Replaces the rule for answers with the rule of the agent that has taken over.
    pub(crate) fn set_output_rule(&mut self, output: Option<OutputRule>) {
        self.output = output;
    }

    /// Returns the command for the handoff with which the turn ends.
    pub(super) fn handoff_command(&self) -> Option<Command> {
        let handoffs = self.handoffs.as_ref()?;
        let to = Arc::clone(handoffs.wanted.as_ref()?);
        if handoffs.made >= self.limits.max_handoffs {
            return Some(Command::Finish(Outcome::Failed(Error::HandoffLimit {
                handoffs: handoffs.made,
            })));
        }
        Some(Command::Transfer { to })
    }

    /// Applies a handoff: replaces the instructions and counts it.
    pub(super) fn transfer(&mut self, transfer: &AgentHandoff) {
        let history = self.history();
        self.request =
            transfer.instructions.iter().chain(history.messages()).map(Arc::clone).collect();
        self.instructed = transfer.instructions.is_some();
        if let Some(handoffs) = &mut self.handoffs {
            handoffs.made += 1;
            handoffs.wanted = None;
        }
    }
}
