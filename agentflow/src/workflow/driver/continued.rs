//! Which workflow of an earlier attempt at a step the call of one in a further attempt continues: that of the same name
//! with the same inputs.
//!
//! It reads a journal; the driver replays what is found.

use std::sync::Arc;

use crate::context::{Context, attempt_of};
use crate::event::{EventKind, WorkflowStarted};
use crate::failure::was_stopped;
use crate::path::StepPath;
use crate::run::{NestedCall, has_failed_since, has_written};
use crate::time::Timestamp;
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
    /// It has ended, and its end counts.
    pub(super) ended: bool,
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
    let scope = cx.attempt_scope();
    if cx.failed_attempts() == 0 {
        return None;
    }
    let called = called(spec, inputs).redacted(cx.host().redactor.as_ref());
    let is_it = |started: &Arc<WorkflowStarted>| {
        let same_plan = || started.definition.is_empty() || *started.definition == **spec.hash();
        called.is(&NestedCall::Workflow(Arc::clone(started))) && same_plan()
    };
    let all = cx.run().log.records_below(cx.path());
    let mut found: Vec<(StepPath, u32)> = Vec::new();
    for (_, path, kind) in &all {
        if let EventKind::WorkflowStarted(started) = kind
            && is_it(started)
            && let Some(attempt) = attempt_of(cx.path(), path).filter(|attempt| *attempt < scope)
            && !found.iter().any(|(of, _)| of == path)
        {
            found.push((path.clone(), attempt));
        }
    }
    // Whether it is kept, and whether its end counts.
    let is_kept = |base: &StepPath| {
        let last = all.iter().enumerate().rev().find_map(|(at, (_, path, kind))| match kind {
            EventKind::WorkflowStarted(_) if path == base => Some((true, false)),
            EventKind::WorkflowFailed { error } if path == base => {
                Some((true, !was_stopped(&error.kind) && !has_failed_since(&all, cx.path(), at)))
            }
            // A plan does not show what is called in a function.
            EventKind::WorkflowCompleted(_) if path == base => {
                Some((spec.writes_or_asks() || has_written(&all, base), true))
            }
            _ => None,
        });
        let (kept, ended) = last?;
        kept.then_some(ended)
    };
    let (base, attempt, ended) = found.into_iter().find_map(|(base, attempt)| {
        let ended = is_kept(&base)?;
        cx.continues(&base).then_some((base, attempt, ended))
    })?;
    let recorded = all.into_iter().filter(|(_, path, _)| path.is_within(&base)).collect();
    Some(Continued { base, recorded, failures: scope - attempt, ended })
}
