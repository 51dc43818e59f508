//! A run of a workflow that another process left while it undid what it had done. Nothing of the workflow is executed, so
//! the program need not have it, and it may have changed.

use std::sync::Arc;

use super::OfWorkflow;
use crate::context::Context;
use crate::error::Result;
use crate::event::{EventKind, RunStarted};
use crate::path::StepPath;
use crate::run::{InSegment, RunShared, Segment};
use crate::tool::{BegunCompensation, continue_compensating};
use crate::value::Encoded;

/// The run, from where it was left to its end.
pub(crate) struct UndoingRun {
    segment: Segment<OfWorkflow>,
    name: Arc<str>,
    grants: Arc<[Arc<str>]>,
    begun: BegunCompensation,
}

impl UndoingRun {
    /// A run whose journal is in the log, with what it began with. It takes control requests from now on.
    pub(crate) fn new(started: &RunStarted, begun: BegunCompensation, shared: Arc<RunShared>) -> Self {
        shared.undoes(begun.is_cancelled());
        Self {
            segment: Segment::new(shared),
            name: started.name().into(),
            grants: started.terms().scopes.as_slice().into(),
            begun,
        }
    }

    /// Undoes what is not undone yet, and ends the run. What it fails with is never a value.
    pub(crate) async fn run_through(self) -> Result<Encoded> {
        let Self { segment, name, grants, begun } = self;
        let shared = Arc::clone(&segment.shared);
        let cx = Context::new(Arc::clone(&shared), StepPath::root(), shared.resources()).granted(&grants);
        let mut left = Left { segment, name };
        let error = continue_compensating(&mut left, cx, begun).await?;
        left.segment.keep().await?;
        Err(error)
    }
}

/// What is left of the run while it is undone.
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

    /// Whoever recorded that the run undoes what it had done closed them before.
    fn close_steps_cancelled(&mut self, _: &Arc<str>) {}
}

impl Drop for Left {
    fn drop(&mut self) {
        self.dropped();
    }
}
