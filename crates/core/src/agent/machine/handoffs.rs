//! The handoffs of the conversation between the agents of a team: which one is wanted, and what changes with it. The
//! machine knows no plans; the driver has the one of the agent that takes over.

use std::sync::Arc;

use serde::Deserialize;

use super::{AgentMachine, Command, Outcome, closed};
use crate::agent::typed_output::OutputRule;
use crate::error::Error;
use crate::event::AgentHandoff;
use crate::message::{ToolCall, ToolResult, ToolStatus};

#[derive(Clone, Debug, Default)]
pub(super) struct Handoffs {
    /// How many there were.
    made: u32,
    /// The agent that the turn's call names.
    pub(super) wanted: Option<Arc<str>>,
}

/// The arguments of the tool by which a model transfers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Transfer {
    pub(crate) agent: String,
}

/// The agent that the arguments of a call name.
pub(super) fn target_of(arguments: &str) -> Option<String> {
    serde_json::from_str(arguments).ok().map(|Transfer { agent }| agent)
}

/// The result of a transfer after the first one of its turn.
pub(super) fn second_transfer(call: &ToolCall) -> ToolResult {
    closed(
        call,
        ToolStatus::TooManyCalls,
        "the conversation is transferred once in a turn, as the first call says; this one was not made",
    )
}

impl AgentMachine {
    /// It is that of the first agent of a team.
    pub(crate) fn in_team(&mut self) {
        self.handoffs.get_or_insert_default();
    }

    /// Answers are from now on given as the model of the agent that has taken over gives them.
    pub(crate) fn answers_by(&mut self, output: Option<OutputRule>) {
        self.output = output;
    }

    /// The transfer that the turn ends with.
    pub(super) fn transfer_wanted(&self) -> Option<Command> {
        let handoffs = self.handoffs.as_ref()?;
        let to = Arc::clone(handoffs.wanted.as_ref()?);
        if handoffs.made >= self.limits.max_handoffs {
            return Some(Command::Finish(Outcome::Failed(Error::HandoffLimit { handoffs: handoffs.made })));
        }
        Some(Command::Transfer { to })
    }

    /// The conversation continues under other instructions.
    pub(super) fn transfer(&mut self, transfer: &AgentHandoff) {
        let history = self.history();
        self.request = transfer.instructions.iter().chain(history.messages()).map(Arc::clone).collect();
        self.instructed = transfer.instructions.is_some();
        if let Some(handoffs) = &mut self.handoffs {
            handoffs.made += 1;
            handoffs.wanted = None;
        }
    }
}
