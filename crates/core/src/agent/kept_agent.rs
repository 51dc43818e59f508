//! Finds the agent that an earlier attempt at a step started, when a further attempt calls an agent
//! with the same name and the same conversation. Its recorded work is not repeated: a recorded end
//! is reused, and a stopped agent continues.
//!
//! This module reads the journal; the driver replays the events that it finds.

use std::sync::Arc;
use std::time::Duration;

use super::plan::Plan;
use super::run_request::RunRequest;
use crate::context::Context;
use crate::event::{ANSWER_TOOL, AgentStarted, EventKind};
use crate::failure::was_stopped;
use crate::path::StepPath;
use crate::run::{NestedCall, has_written, was_dropped};
use crate::time::Timestamp;
use crate::tool::{EarlierAttempts, HiddenEffect};
use crate::tool_definition::Effects;

/// An agent that an earlier attempt at the step started.
pub(super) struct Kept {
    /// Step path below which the agent records.
    pub(super) base: StepPath,
    pub(super) recorded: Vec<(Timestamp, StepPath, EventKind)>,
    pub(super) ended: EarlierAgentEnd,
    /// An operator allowed the agent to continue after its effects were in doubt.
    pub(super) decided: bool,
}

/// The end of an agent that an earlier attempt started.
#[derive(Clone, Copy)]
pub(super) enum EarlierAgentEnd {
    /// The agent ended normally or did not end.
    Own,
    /// The agent was stopped, so it continues.
    Stopped,
    /// The step dropped the agent after this duration, and must drop it again.
    HeldBack(Duration),
}

/// Returns the earlier agent that this call continues. An agent without side effects starts anew,
/// like a tool. A failed agent also starts anew if the step failed afterwards, possibly because of
/// it.
pub(super) fn kept(plan: &Plan, request: &RunRequest, cx: &Context) -> Option<Kept> {
    let earlier = EarlierAttempts::read(cx)?;
    let called = called(plan, request).redacted(cx.host().redactor.as_ref());
    let all = &earlier.recorded;
    // Returns how the agent ended, or `None` if it starts anew.
    let end_of = |base: &StepPath| {
        let last = all.iter().rposition(|(_, path, kind)| path == base && is_of_agent(kind))?;
        let ended = match &all[last].2 {
            EventKind::AgentFailed { error } if was_dropped(error) => {
                match earlier.held_back(base, last) {
                    Some(lived) => return Some((EarlierAgentEnd::HeldBack(lived), false)),
                    None => EarlierAgentEnd::Stopped,
                }
            }
            EventKind::AgentFailed { error } if was_stopped(&error.kind) => {
                EarlierAgentEnd::Stopped
            }
            EventKind::AgentFailed { .. } if earlier.has_failed_since(last) => return None,
            _ => EarlierAgentEnd::Own,
        };
        let decided = earlier.is_asked_since(base, last);
        (plan.writes() || has_written(all, base) || decided).then_some((ended, decided))
    };
    let (base, (ended, decided)) = all.iter().find_map(|(_, path, kind)| {
        let EventKind::AgentStarted(started) = kind else { return None };
        let is_it = called.is(&NestedCall::Agent(Arc::clone(started)));
        let ended =
            (is_it && earlier.failures_since(path).is_some()).then(|| end_of(path)).flatten()?;
        cx.continues(path).then(|| (path.clone(), ended))
    })?;
    let recorded = earlier.into_records_of(&base);
    Some(Kept { base, recorded, ended, decided })
}

fn is_of_agent(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::AgentStarted(_) | EventKind::AgentCompleted(_) | EventKind::AgentFailed { .. }
    )
}

/// Returns the call to an agent in the form in which it is recorded.
pub(super) fn called(plan: &Plan, request: &RunRequest) -> NestedCall {
    let input = match &plan.instructions {
        Some(instructions) => request.conversation.clone().without_leading(instructions),
        None => request.conversation.clone(),
    };
    NestedCall::Agent(Arc::new(AgentStarted::new(
        Arc::clone(&plan.name),
        plan.instructions.clone(),
        input,
    )))
}

impl Plan {
    /// `true` if a tool has side effects outside the run.
    pub(super) fn writes(&self) -> bool {
        let tools = self
            .offered
            .tools
            .values()
            .map(|tool| tool.definition())
            .filter(|tool| *tool.name != *ANSWER_TOOL);
        let own = !self.toolsets.is_empty()
            || tools.into_iter().any(|tool| tool.policy.effects == Effects::Write);
        own || self.others().any(|other| other.writes())
    }

    /// Returns the strongest effect of the agent's tools.
    pub(super) fn effect(&self) -> Option<HiddenEffect> {
        let tools = self
            .offered
            .tools
            .values()
            .map(|tool| tool.definition())
            .filter(|tool| *tool.name != *ANSWER_TOOL);
        let own = match self.toolsets.is_empty() {
            true => {
                HiddenEffect::strongest(tools.map(|tool| HiddenEffect::of_policy(&tool.policy)))
            }
            false => Some(HiddenEffect::Writes),
        };
        let others = self.others().any(|other| other.writes()).then_some(HiddenEffect::Writes);
        HiddenEffect::strongest([own, others])
    }
}
