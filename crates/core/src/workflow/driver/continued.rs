//! When a step is attempted again and calls a nested workflow, finds the workflow with the same
//! name and inputs that an earlier attempt started. The new call then continues that workflow.
//! Reads the journal only.

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

/// A nested workflow that an earlier attempt at the step started.
pub(super) struct EarlierWorkflow {
    /// Path below which it records.
    pub(super) base: StepPath,
    pub(super) recorded: Vec<(Timestamp, StepPath, EventKind)>,
    /// Number of attempts at the step that have failed since the workflow first started. `u32::MAX`
    /// if the workflow belongs to an earlier call at a different path.
    pub(super) failures: u32,
    pub(super) ended: EarlierEnd,
}

/// State of a nested workflow that an earlier attempt started.
pub(super) enum EarlierEnd {
    /// It has ended, and its outcome is reused.
    Counts,
    /// It was stopped, or it failed and has another attempt. It continues.
    Stopped,
    /// The step dropped the workflow after this execution time, for example in a `select!`. The
    /// repeated step is expected to drop it again.
    HeldBack(Duration),
}

/// Returns the call to a workflow as it would be recorded.
pub(super) fn called(spec: &Spec, inputs: &[Encoded]) -> NestedCall {
    let input = to_object(&spec.input_names(), inputs);
    NestedCall::Workflow(Arc::new(WorkflowStarted::new(Arc::clone(&spec.name), "".into(), input)))
}

/// Returns the workflow that a call continues, if an earlier attempt made the same call.
///
/// - The outcome of a completed workflow is reused if the workflow writes or asks a person. A
///   workflow that only reads starts again. Tool calls follow the same rule.
/// - The outcome of a failed workflow is reused until the step fails as well. After that, the
///   workflow continues with the node that failed.
pub(super) fn continued(spec: &Spec, inputs: &[Encoded], cx: &Context) -> Option<EarlierWorkflow> {
    let earlier = EarlierAttempts::read(cx)?;
    let called = called(spec, inputs).redacted(cx.host().redactor.as_ref());
    let is_it = |started: &Arc<WorkflowStarted>| {
        let same_plan = || started.definition.is_empty() || spec.has_hash(&started.definition);
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
    // Returns the state of the earlier workflow, or `None` if the call starts a new one.
    let end_of = |base: &StepPath| {
        let last = all.iter().enumerate().rev().find_map(|(at, (_, path, kind))| match kind {
            _ if path != base => None,
            EventKind::WorkflowStarted(_) => Some(Some(EarlierEnd::Stopped)),
            EventKind::WorkflowFailed { error } if was_dropped(error) => {
                let held = earlier.held_back(base, at).map(EarlierEnd::HeldBack);
                Some(Some(held.unwrap_or(EarlierEnd::Stopped)))
            }
            EventKind::WorkflowFailed { error } => {
                let counts = !was_stopped(&error.kind) && !earlier.has_failed_since(at);
                Some(Some(if counts { EarlierEnd::Counts } else { EarlierEnd::Stopped }))
            }
            // The plan does not show calls inside of functions, so the records are searched as
            // well.
            EventKind::WorkflowCompleted(_) => Some(
                (spec.writes_or_asks() || has_written(all, base)).then_some(EarlierEnd::Counts),
            ),
            _ => None,
        });
        last?
    };
    let (base, failures, ended) = found.into_iter().find_map(|(base, failures)| {
        let ended = end_of(&base)?;
        cx.continues(&base).then_some((base, failures, ended))
    })?;
    let recorded = earlier.into_records_of(&base);
    Some(EarlierWorkflow { base, recorded, failures, ended })
}
