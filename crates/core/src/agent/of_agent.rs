//! The start and end events of an agent, as a top-level run and as a step of another run.

use std::sync::Arc;

use crate::event::{AgentCompleted, AgentStarted, EventKind, RunBody, RunCompleted};
use crate::failure::Failure;
use crate::run::SegmentKind;

/// Selects the event types of an agent's segment of the journal.
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
