//! The second start event of an agent in a step: a new attempt at the step continues the agent.
//! `kept_agent.rs` decides which agent that is.

use std::sync::Arc;

use super::driver::Run;
use crate::event::EventKind;
use crate::run::InSegment;

impl Run {
    /// Records that the agent continues in a new attempt, with the current definition.
    pub(super) fn record_restart(&mut self) {
        let recorded = self.segment.shared.log.records_below(&self.segment.base);
        let began = recorded.into_iter().rev().find_map(|(_, path, kind)| match kind {
            EventKind::AgentStarted(began) if path == self.segment.base => Some(began),
            _ => None,
        });
        if let Some(mut began) = began {
            let now = &self.first_plan().parts().id;
            if began.definition.as_ref().is_some_and(|definition| **definition != **now) {
                Arc::make_mut(&mut began).definition = Some(Arc::clone(now));
            }
            self.record_own(EventKind::AgentStarted(began));
        }
    }
}
