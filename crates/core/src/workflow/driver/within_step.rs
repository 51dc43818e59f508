//! A workflow that a step begins, or continues: what is recorded of it by then, in this attempt at the step or an earlier
//! one, is taken as done.
//!
//! It executes nothing; `mod.rs` does.

use std::sync::Arc;

use super::continued::{Continued, ContinuedEnd, called, continued};
use super::replay::{failed_before, is_changed, is_decided, written};
use super::{OfWorkflow, WorkflowRun};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::{EventKind, RunTerms};
use crate::path::StepPath;
use crate::run::{Segment, was_dropped, was_dropped_with_step};
use crate::time::Timestamp;
use crate::tool::{HeldBack, StepPlace, lived};
use crate::value::Encoded;
use crate::workflow::spec::Spec;

impl WorkflowRun {
    /// A step of the run that a context belongs to. What is recorded of it already is taken as done, also by an attempt at
    /// the step that failed.
    ///
    /// # Errors
    /// When the step had called something else in an earlier process, which may have had an effect; the step ends then.
    pub(crate) fn within(spec: &Arc<Spec>, inputs: Vec<Encoded>, cx: &Context) -> Result<Self> {
        let _beginning = cx.run().workflow_begins();
        let held_back = |base: &StepPath, lived| {
            let workflow = format!("the workflow `{}`", spec.name);
            Some(Box::new(HeldBack::at(StepPlace::current(), base, workflow, lived)))
        };
        if let Some(Continued { base, recorded, failures, ended }) = continued(spec, &inputs, cx) {
            let segment = Segment::within(Arc::clone(cx.run()), base, cx.path().clone());
            return Ok(match ended {
                ContinuedEnd::Stopped => Self::again(spec, inputs, segment, recorded, (failures, cx)),
                ContinuedEnd::Counts => Self::as_step(spec, inputs, segment, recorded, cx),
                ContinuedEnd::HeldBack(lived) => {
                    let mut run = Self::as_step(spec, inputs, segment, recorded, cx);
                    run.held_back = held_back(&run.segment.base, lived);
                    run
                }
            });
        }
        let base = cx.claim(|| called(spec, &inputs)).inspect_err(StepPlace::end_with)?;
        let segment = Segment::within(Arc::clone(cx.run()), base, cx.path().clone());
        let recorded = segment.recorded();
        let is_end = |(_, path, kind): &(_, StepPath, EventKind)| {
            *path == segment.base && matches!(kind, EventKind::WorkflowFailed { error } if was_dropped(error))
        };
        let ended = recorded.iter().rposition(is_end).map(|at| lived(&recorded[..=at], &segment.base));
        let mut run = Self::as_step(spec, inputs, segment, recorded, cx);
        // The step had dropped it before it was stopped: what it had not begun then is not begun now.
        if let Some(lived) = ended
            && run.refused.is_none()
            && matches!(&run.ended, Some(Err(failure)) if was_dropped(failure))
        {
            run.held_back = held_back(&run.segment.base, lived);
        }
        if run.refused.is_none() && matches!(&run.ended, Some(Err(failure)) if was_dropped_with_step(failure)) {
            run.begin_again(false);
        }
        Ok(run)
    }

    /// A workflow of which something is recorded already, which so many failed attempts at its step include.
    fn again(
        spec: &Arc<Spec>,
        inputs: Vec<Encoded>,
        segment: Segment<OfWorkflow>,
        recorded: Vec<(Timestamp, StepPath, EventKind)>,
        (failures, cx): (u32, &Context),
    ) -> Self {
        let again = failed_before(&segment.base, &recorded, failures);
        let mut run = Self::as_step(spec, inputs, segment, recorded, cx);
        if again && run.refused.is_none() {
            run.begin_again(is_decided(cx));
        }
        run
    }

    /// What an item, a round or a branch of a node consists of, as a step of the run. A further attempt at the step
    /// continues where the one before failed: what is done in it is not done again.
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
        let mut run = Self::begin(spec, inputs, segment, RunTerms::default(), began.then_some(recorded));
        if changed {
            let (workflow, path) = (Arc::clone(&spec.name), run.segment.base.clone());
            let error = Error::NestedChanged { workflow, path, wrote };
            StepPlace::end_with(&error);
            run.refused = Some(error);
        }
        run.is_begun_in(cx);
        run
    }
}
