//! Resumes the compensation of a run whose process ended. No step of the workflow is executed, so
//! the program does not need the workflow, and the definition may have changed.

use std::sync::Arc;

use super::OfWorkflow;
use crate::context::Context;
use crate::error::Result;
use crate::event::{EventKind, RunStarted};
use crate::path::StepPath;
use crate::run::{InSegment, RunShared, Segment};
use crate::tool::{StartedCompensation, continue_compensating};
use crate::value::Encoded;

/// A run that only continues its compensation.
pub(crate) struct CompensatingRun {
    segment: Segment<OfWorkflow>,
    name: Arc<str>,
    grants: Arc<[Arc<str>]>,
    begun: StartedCompensation,
}

impl CompensatingRun {
    /// Creates the run from its journal, and starts to take control requests.
    pub(crate) fn new(
        started: &RunStarted,
        begun: StartedCompensation,
        shared: Arc<RunShared>,
    ) -> Self {
        shared.undoes(begun.is_cancelled());
        Self {
            segment: Segment::new(shared),
            name: started.name().into(),
            grants: started.terms().scopes.as_slice().into(),
            begun,
        }
    }

    /// Runs the remaining compensations and ends the run. Always returns an error: the original
    /// failure or the cancellation.
    pub(crate) async fn run_through(self) -> Result<Encoded> {
        let Self { segment, name, grants, begun } = self;
        let shared = Arc::clone(&segment.shared);
        let cx = Context::new(Arc::clone(&shared), StepPath::root(), shared.resources())
            .granted(&grants);
        let mut left = Left { segment, name };
        let error = continue_compensating(&mut left, cx, begun).await?;
        left.segment.keep().await?;
        Err(error)
    }
}

/// The open segment of the run during compensation.
struct Left {
    segment: Segment<OfWorkflow>,
    name: Arc<str>,
}

impl InSegment for Left {
    type Kind = OfWorkflow;

    fn segment(&mut self) -> &mut Segment<OfWorkflow> {
        &mut self.segment
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn record_own(&mut self, kind: EventKind) {
        self.segment.shared.record(StepPath::root(), kind);
    }

    /// The process that started the compensation has already closed all steps.
    fn close_steps_cancelled(&mut self, _: &Arc<str>) {}
}

impl Drop for Left {
    fn drop(&mut self) {
        self.dropped();
    }
}
