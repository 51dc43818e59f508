//! Which workflow of an earlier attempt at a step the call of one in a further attempt continues: that of the same name
//! with the same inputs.
//!
//! It reads a journal; the driver replays what is found.

use std::sync::Arc;
use std::time::Duration;

use crate::context::Context;
use crate::event::{EventKind, WorkflowStarted};
use crate::failure::was_stopped;
use crate::path::StepPath;
use crate::run::{NestedCall, has_written, was_dropped};
use crate::time::Timestamp;
use crate::tool::EarlierAttempts;
use crate::value::Encoded;
use crate::workflow::input_object::to_object;
use crate::workflow::spec::Spec;

/// A workflow that an earlier attempt at the step began.
pub(super) struct Continued {
    /// Where it records.
    pub(super) base: StepPath,
    pub(super) recorded: Vec<(Timestamp, StepPath, EventKind)>,
    /// How many attempts at the step have failed since it first began.
    pub(super) failures: u32,
    pub(super) ended: ContinuedEnd,
}

/// How a workflow that an earlier attempt began has ended.
pub(super) enum ContinuedEnd {
    /// Its end counts.
    Counts,
    /// It was stopped, or has failed and has another attempt: it continues.
    Stopped,
    /// The step dropped it when it was executed for so long, and is to do so again.
    HeldBack(Duration),
}

/// The call of a workflow, as it would be recorded.
pub(super) fn called(spec: &Spec, inputs: &[Encoded]) -> NestedCall {
    let input = to_object(&spec.input_names(), inputs);
    NestedCall::Workflow(Arc::new(WorkflowStarted::new(Arc::clone(&spec.name), "".into(), input)))
}

/// What the call of a workflow continues, if an earlier attempt at the step made it. One that has completed is kept when
/// it writes or asks a person, and begins anew when it only reads: so it is with a call of a tool. One that has failed is
/// kept until the step has failed, too, perhaps because of it; then it continues with the step that it failed of.
pub(super) fn continued(spec: &Spec, inputs: &[Encoded], cx: &Context) -> Option<Continued> {
    let earlier = EarlierAttempts::of(cx)?;
    let called = called(spec, inputs).redacted(cx.host().redactor.as_ref());
    let is_it = |started: &Arc<WorkflowStarted>| {
        let same_plan = || started.definition.is_empty() || *started.definition == **spec.hash();
        called.is(&NestedCall::Workflow(Arc::clone(started))) && same_plan()
    };
    let all = &earlier.recorded;
    let mut found: Vec<(StepPath, u32)> = Vec::new();
    for (_, path, kind) in all {
        if let EventKind::WorkflowStarted(started) = kind
            && is_it(started)
            && let Some(failures) = earlier.failures_since(path)
            && !found.iter().any(|(of, _)| of == path)
        {
            found.push((path.clone(), failures));
        }
    }
    // How it ended, where it is kept.
    let end_of = |base: &StepPath| {
        let last = all.iter().enumerate().rev().find_map(|(at, (_, path, kind))| match kind {
            _ if path != base => None,
            EventKind::WorkflowStarted(_) => Some(Some(ContinuedEnd::Stopped)),
            EventKind::WorkflowFailed { error } if was_dropped(error) => {
                let held = earlier.held_back(base, at).map(ContinuedEnd::HeldBack);
                Some(Some(held.unwrap_or(ContinuedEnd::Stopped)))
            }
            EventKind::WorkflowFailed { error } => {
                let counts = !was_stopped(&error.kind) && !earlier.has_failed_since(at);
                Some(Some(if counts { ContinuedEnd::Counts } else { ContinuedEnd::Stopped }))
            }
            // A plan does not show what is called in a function.
            EventKind::WorkflowCompleted(_) => {
                Some((spec.writes_or_asks() || has_written(all, base)).then_some(ContinuedEnd::Counts))
            }
            _ => None,
        });
        last?
    };
    let (base, failures, ended) = found.into_iter().find_map(|(base, failures)| {
        let ended = end_of(&base)?;
        cx.continues(&base).then_some((base, failures, ended))
    })?;
    let recorded = earlier.into_records_of(&base);
    Some(Continued { base, recorded, failures, ended })
}
