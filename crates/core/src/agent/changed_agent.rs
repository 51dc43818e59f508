//! An agent in a step that began with another version of itself, and continues after a restart: whether the runtime accepts
//! what has changed. What it had done is not judged: its journal says that to any version.

use std::sync::Arc;

use super::plan::Plan;
use crate::error::{Error, Result};
use crate::path::StepPath;
use crate::run::Host;
use crate::tool::StepPlace;

/// The other version that an agent began with.
pub(super) struct BegunOtherwise {
    /// Its id.
    began: Arc<str>,
    /// The step that called the agent; none of a tool that an agent calls.
    place: Option<Arc<StepPlace>>,
}

impl BegunOtherwise {
    /// `None` when it began with this version, or its version is not on record.
    pub(super) fn of(plan: &Plan, began: Option<&Arc<str>>) -> Option<Box<Self>> {
        let began = began.filter(|began| ***began != *plan.parts().id)?;
        Some(Box::new(Self { began: Arc::clone(began), place: StepPlace::current() }))
    }

    /// Compares the versions, by what the runtime of the run accepts.
    ///
    /// # Errors
    /// [`Error::NestedAgentChanged`] with what the runtime does not accept; the step ends with it.
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
