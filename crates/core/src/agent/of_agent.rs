//! The events in which an agent begins and ends, as a run and as a step of one. It records none of them.

use std::sync::Arc;

use crate::event::{AgentCompleted, AgentStarted, EventKind, RunBody, RunCompleted};
use crate::failure::Failure;
use crate::run::SegmentKind;

/// The records in which an agent begins and ends.
pub(super) enum OfAgent {}

impl SegmentKind for OfAgent {
    type Started = AgentStarted;
    type Completed = Arc<AgentCompleted>;

    fn body(started: AgentStarted) -> RunBody {
        RunBody::Agent(started)
    }

    fn run_completed(completed: Arc<AgentCompleted>) -> RunCompleted {
        RunCompleted::Agent(completed)
    }

    fn started(started: AgentStarted) -> EventKind {
        EventKind::AgentStarted(Arc::new(started))
    }

    fn completed(completed: Arc<AgentCompleted>) -> EventKind {
        EventKind::AgentCompleted(completed)
    }

    fn failed(error: Arc<Failure>) -> EventKind {
        EventKind::AgentFailed { error }
    }
}
