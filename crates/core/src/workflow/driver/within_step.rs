//! Nested workflows: a step starts or continues a workflow. Steps that this or an earlier attempt
//! recorded are not repeated. `mod.rs` executes the workflow.

use std::sync::Arc;

use super::continued::{EarlierEnd, EarlierWorkflow, called, continued};
use super::replay::{has_operator_decision, has_reported_failure, is_changed, written};
use super::{OfWorkflow, WorkflowRun};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::{EventKind, RunTerms};
use crate::path::StepPath;
use crate::run::{Segment, was_dropped, was_dropped_with_step};
use crate::time::Timestamp;
use crate::tool::{CurrentStep, HeldBack, lived};
use crate::value::Encoded;
use crate::workflow::spec::Spec;

impl WorkflowRun {
    /// Starts or continues a nested workflow of the run that the context belongs to. Recorded steps
    /// are not repeated, also if the attempt that recorded them failed.
    ///
    /// # Errors
    /// If the step made a different call before a restart, and that call may have had an effect.
    /// The step then ends.
    pub(crate) fn within(spec: &Arc<Spec>, inputs: Vec<Encoded>, cx: &Context) -> Result<Self> {
        // Control requests wait until the journal has been read and the workflow listens.
        let _beginning = cx.run().workflow_begins();
        let held_back = |base: &StepPath, lived| {
            let workflow = format!("the workflow `{}`", spec.name);
            Some(Box::new(HeldBack::at(CurrentStep::current(), base, workflow, lived)))
        };
        if let Some(EarlierWorkflow { base, recorded, failures, ended }) =
            continued(spec, &inputs, cx)
        {
            let segment = Segment::within(Arc::clone(cx.run()), base, cx.path().clone());
            return Ok(match ended {
                EarlierEnd::Stopped => Self::again(spec, inputs, segment, recorded, (failures, cx)),
                EarlierEnd::Counts => Self::as_step(spec, inputs, segment, recorded, cx),
                EarlierEnd::HeldBack(lived) => {
                    let mut run = Self::as_step(spec, inputs, segment, recorded, cx);
                    run.held_back = held_back(&run.segment.base, lived);
                    run
                }
            });
        }
        let base = cx.claim(|| called(spec, &inputs)).inspect_err(CurrentStep::end_with)?;
        let segment = Segment::within(Arc::clone(cx.run()), base, cx.path().clone());
        let recorded = segment.recorded();
        let is_end = |(_, path, kind): &(_, StepPath, EventKind)| {
            *path == segment.base
                && matches!(kind, EventKind::WorkflowFailed { error } if was_dropped(error))
        };
        let ended =
            recorded.iter().rposition(is_end).map(|at| lived(&recorded[..=at], &segment.base));
        let mut run = Self::as_step(spec, inputs, segment, recorded, cx);
        // The step dropped the workflow before the restart, so nodes that had not started must not
        // start now.
        if let Some(lived) = ended
            && run.refused.is_none()
            && matches!(&run.ended, Some(Err(failure)) if was_dropped(failure))
        {
            run.held_back = held_back(&run.segment.base, lived);
        }
        if run.refused.is_none()
            && matches!(&run.ended, Some(Err(failure)) if was_dropped_with_step(failure))
        {
            run.continue_failed(false);
        }
        Ok(run)
    }

    /// Continues a workflow from its records. The failed attempts of the step (`failures`) may
    /// include its failure.
    fn again(
        spec: &Arc<Spec>,
        inputs: Vec<Encoded>,
        segment: Segment<OfWorkflow>,
        recorded: Vec<(Timestamp, StepPath, EventKind)>,
        (failures, cx): (u32, &Context),
    ) -> Self {
        let again = has_reported_failure(&segment.base, &recorded, failures);
        let mut run = Self::as_step(spec, inputs, segment, recorded, cx);
        if again && run.refused.is_none() {
            run.continue_failed(has_operator_decision(cx));
        }
        run
    }

    /// Starts or continues the body of an item, round or branch. A further attempt at the step
    /// continues where the previous one failed, and repeats no completed step.
    pub(crate) fn body(spec: &Arc<Spec>, inputs: Vec<Encoded>, cx: &Context) -> Self {
        let _beginning = cx.run().workflow_begins();
        let segment = Segment::within(Arc::clone(cx.run()), cx.path().clone(), cx.path().clone());
        let recorded = match cx.failed_attempts() {
            0 => segment.recorded(),
            _ => segment.shared.log.records_below(&segment.base),
        };
        let mut run = Self::again(spec, inputs, segment, recorded, (cx.failed_attempts(), cx));
        run.is_body = true;
        run
    }

    /// Creates a nested workflow. Refuses to continue if the definition has changed since it
    /// started.
    fn as_step(
        spec: &Arc<Spec>,
        inputs: Vec<Encoded>,
        segment: Segment<OfWorkflow>,
        recorded: Vec<(Timestamp, StepPath, EventKind)>,
        cx: &Context,
    ) -> Self {
        let started = |(_, path, kind): &(_, StepPath, EventKind)| {
            *path == segment.base && matches!(kind, EventKind::WorkflowStarted(_))
        };
        let began = recorded.iter().any(started);
        let changed = began && is_changed(spec, &segment.base, &recorded);
        let wrote = if changed { written(&recorded) } else { Vec::new() };
        let recorded = if changed { Vec::new() } else { recorded };
        let mut run =
            Self::begin(spec, inputs, segment, RunTerms::default(), began.then_some(recorded));
        if changed {
            let (workflow, path) = (Arc::clone(&spec.name), run.segment.base.clone());
            let error = Error::NestedChanged { workflow, path, wrote };
            CurrentStep::end_with(&error);
            run.refused = Some(error);
        }
        run.adopt_context(cx);
        run
    }
}
