//! Which agent of an earlier attempt at a step the call of one in a further attempt is: that of the same name that was
//! given the same conversation by its caller. What it has done is not done again: its end counts, and one that was stopped continues.
//!
//! It reads a journal; the driver replays what is found.

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

/// An agent that an earlier attempt at the step began.
pub(super) struct Kept {
    /// Where it records.
    pub(super) base: StepPath,
    pub(super) recorded: Vec<(Timestamp, StepPath, EventKind)>,
    pub(super) ended: KeptEnd,
    /// An operator who was asked about it let it continue.
    pub(super) decided: bool,
}

/// How an agent that an earlier attempt began has ended.
#[derive(Clone, Copy)]
pub(super) enum KeptEnd {
    /// Of itself, or not at all.
    Own,
    /// It was stopped, so that it continues.
    Stopped,
    /// The step dropped it when it was executed for so long, and is to do so again.
    HeldBack(Duration),
}

/// The agent that this call is. One that only reads begins anew, as a tool does, and so does one that has failed, when
/// the step has failed since, perhaps because of it.
pub(super) fn kept(plan: &Plan, request: &RunRequest, cx: &Context) -> Option<Kept> {
    let earlier = EarlierAttempts::of(cx)?;
    let called = called(plan, request).redacted(cx.host().redactor.as_ref());
    let all = &earlier.recorded;
    // How it ended; `None` when it begins anew.
    let end_of = |base: &StepPath| {
        let last = all.iter().rposition(|(_, path, kind)| path == base && is_of_agent(kind))?;
        let ended = match &all[last].2 {
            EventKind::AgentFailed { error } if was_dropped(error) => match earlier.held_back(base, last) {
                Some(lived) => return Some((KeptEnd::HeldBack(lived), false)),
                None => KeptEnd::Stopped,
            },
            EventKind::AgentFailed { error } if was_stopped(&error.kind) => KeptEnd::Stopped,
            EventKind::AgentFailed { .. } if earlier.has_failed_since(last) => return None,
            _ => KeptEnd::Own,
        };
        let decided = earlier.is_asked_since(base, last);
        (plan.writes() || has_written(all, base) || decided).then_some((ended, decided))
    };
    let (base, (ended, decided)) = all.iter().find_map(|(_, path, kind)| {
        let EventKind::AgentStarted(started) = kind else { return None };
        let is_it = called.is(&NestedCall::Agent(Arc::clone(started)));
        let ended = (is_it && earlier.failures_since(path).is_some()).then(|| end_of(path)).flatten()?;
        cx.continues(path).then(|| (path.clone(), ended))
    })?;
    let recorded = earlier.into_records_of(&base);
    Some(Kept { base, recorded, ended, decided })
}

fn is_of_agent(kind: &EventKind) -> bool {
    matches!(kind, EventKind::AgentStarted(_) | EventKind::AgentCompleted(_) | EventKind::AgentFailed { .. })
}

/// The call of an agent, as it would be recorded.
pub(super) fn called(plan: &Plan, request: &RunRequest) -> NestedCall {
    let input = match &plan.instructions {
        Some(instructions) => request.conversation.clone().without_leading(instructions),
        None => request.conversation.clone(),
    };
    NestedCall::Agent(Arc::new(AgentStarted::new(Arc::clone(&plan.name), plan.instructions.clone(), input)))
}

impl Plan {
    /// Whether one of its tools changes something outside of the run.
    pub(super) fn writes(&self) -> bool {
        let tools = self.offered.tools.values().map(|tool| tool.definition()).filter(|tool| *tool.name != *ANSWER_TOOL);
        let own = !self.toolsets.is_empty() || tools.into_iter().any(|tool| tool.policy.effects == Effects::Write);
        own || self.others().any(|other| other.writes())
    }

    /// Returns the strongest effect of its tools.
    pub(super) fn effect(&self) -> Option<HiddenEffect> {
        let tools = self.offered.tools.values().map(|tool| tool.definition()).filter(|tool| *tool.name != *ANSWER_TOOL);
        let own = match self.toolsets.is_empty() {
            true => HiddenEffect::strongest(tools.map(|tool| HiddenEffect::of_policy(&tool.policy))),
            false => Some(HiddenEffect::Writes),
        };
        let others = self.others().any(|other| other.writes()).then_some(HiddenEffect::Writes);
        HiddenEffect::strongest([own, others])
    }
}
