//! Which agent of an earlier attempt at a step the call of one in a further attempt is: that of the same name that was
//! given the same conversation by its caller. What it has done is not done again: its end counts, and one that was stopped continues.
//!
//! It reads a journal; the driver replays what is found.

use std::sync::Arc;

use super::plan::Plan;
use super::run_request::RunRequest;
use crate::context::{Context, attempt_of};
use crate::event::{ANSWER_TOOL, AgentStarted, EventKind};
use crate::failure::was_stopped;
use crate::path::StepPath;
use crate::run::{NestedCall, has_failed_since, has_written};
use crate::time::Timestamp;
use crate::tool_definition::Effects;

/// An agent that an earlier attempt at the step began.
pub(super) struct Kept {
    /// Where it records.
    pub(super) base: StepPath,
    pub(super) recorded: Vec<(Timestamp, StepPath, EventKind)>,
    /// It was stopped, so that it continues.
    pub(super) stopped: bool,
}

/// The agent that this call is. One that only reads begins anew, as a tool does, and so does one that has failed, when
/// the step has failed since, perhaps because of it.
pub(super) fn kept(plan: &Plan, request: &RunRequest, cx: &Context) -> Option<Kept> {
    if cx.failed_attempts() == 0 {
        return None;
    }
    let called = called(plan, request).redacted(cx.host().redactor.as_ref());
    let all = cx.run().log.records_below(cx.path());
    // Whether it was stopped; `None` when it begins anew.
    let is_stopped = |base: &StepPath| {
        let last = all.iter().rposition(|(_, path, kind)| path == base && is_of_agent(kind))?;
        let stopped = match &all[last].2 {
            EventKind::AgentFailed { error } if was_stopped(&error.kind) => true,
            EventKind::AgentFailed { .. } if has_failed_since(&all, cx.path(), last) => return None,
            _ => false,
        };
        (plan.writes() || has_written(&all, base)).then_some(stopped)
    };
    let (base, stopped) = all.iter().find_map(|(_, path, kind)| {
        let EventKind::AgentStarted(started) = kind else { return None };
        let is_it = called.is(&NestedCall::Agent(Arc::clone(started)));
        let is_before = || attempt_of(cx.path(), path).is_some_and(|attempt| attempt < cx.attempt_scope());
        let stopped = (is_it && is_before()).then(|| is_stopped(path)).flatten()?;
        cx.continues(path).then(|| (path.clone(), stopped))
    })?;
    let recorded = all.into_iter().filter(|(_, path, _)| path.is_within(&base)).collect();
    Some(Kept { base, recorded, stopped })
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
}
