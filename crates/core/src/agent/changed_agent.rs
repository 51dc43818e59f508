//! An agent in a step that was started with a different version of its definition and continues
//! after a restart: checks that the runtime accepts the change. Recorded work is not affected.

use std::sync::Arc;

use super::plan::Plan;
use crate::error::{Error, Result};
use crate::path::StepPath;
use crate::run::Host;
use crate::tool::CurrentStep;

/// The recorded version of an agent that differs from the current one.
pub(super) struct RecordedVersion {
    /// Hash of the recorded definition.
    began: Arc<str>,
    /// The step that called the agent. `None` if a tool of another agent called it.
    place: Option<Arc<CurrentStep>>,
}

impl RecordedVersion {
    /// Returns `None` if the agent started with this version, or its version is not recorded.
    pub(super) fn if_different(plan: &Plan, began: Option<&Arc<str>>) -> Option<Box<Self>> {
        let began = began.filter(|began| ***began != *plan.parts().id)?;
        Some(Box::new(Self { began: Arc::clone(began), place: CurrentStep::current() }))
    }

    /// Compares the versions under the rules of the runtime.
    ///
    /// # Errors
    /// [`Error::NestedAgentChanged`] with the changes that the runtime does not accept. The step
    /// ends with this error.
    pub(super) async fn check(self, plan: &Plan, host: &Host, path: &StepPath) -> Result<()> {
        let differences = host.differences(&self.began, plan.parts()).await?;
        let refused = host.changes().refused(&plan.name, differences);
        if refused.is_empty() {
            return Ok(());
        }
        let (agent, path) = (Arc::clone(&plan.name), path.clone());
        let error = Error::NestedAgentChanged { agent, path, differences: refused };
        if let Some(place) = &self.place {
            place.end_step((&error).into());
        }
        Err(error)
    }
}
