//! Has a model sum up what a session's window has no room for, as a step of the run that begins there. What is summed up is
//! chosen in `session_history.rs`, its words are those of `session/summary.rs`.

use std::sync::Arc;

use super::driver::Run;
use super::plan::Plan;
use super::run_request::RunRequest;
use super::{Agent, Limits};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::{EventKind, RunId, SessionSummarized, Summary};
use crate::model::ModelSource;
use crate::run::InSegment;

/// Below what path the model is asked.
const STEP: &str = "summary";
/// The name of the agent that sums up.
const NAME: &str = "session_summary";

impl Run {
    /// Sums up what was said up to a run. A failed summary does not end the run: the model is given what fits.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn sum_up(
        &mut self,
        summary: &Summary,
        (up_to, said): (RunId, String),
    ) -> Result<Arc<SessionSummarized>> {
        let cx = Context::new(self.shared(), self.segment.base.child(STEP), self.resources.clone());
        let text = match summarizer(summary, self.first_plan()).end_in(&cx, RunRequest::new(said)).await {
            Ok(end) => Some(summary.cut(&end.completed.text())),
            Err(error @ (Error::Store(_) | Error::Cancelled { .. } | Error::Draining)) => return Err(error),
            Err(error) => {
                let (run, error) = (&self.segment.shared.id, self.segment.shared.host.redacted(error));
                tracing::warn!(%run, error, "what was said before in the session was not summed up; the run does without");
                None
            }
        };
        let summarized = Arc::new(SessionSummarized::new(up_to, text));
        self.record_own(EventKind::SessionSummarized(Arc::clone(&summarized)));
        self.commit().await?;
        Ok(summarized)
    }
}

/// The agent that sums up for another one.
fn summarizer(summary: &Summary, plan: &Plan) -> Agent {
    let model = match &summary.model {
        Some(name) => ModelSource::from(&**name),
        None => ModelSource::from(Arc::clone(&plan.model)),
    };
    Agent::new(model)
        .name(NAME)
        .instruct(summary.instruction())
        .settings(Limits::default().max_steps(1))
        .host(&plan.host)
}

/// Checks that a summary can be made when one is due.
///
/// # Errors
/// When its model is not known, or the summary has no tokens.
pub(super) fn check_summary(summary: &Summary, plan: &Plan) -> Result<()> {
    if summary.tokens == 0 {
        let problem = "the summary of its session has 0 tokens; give it more, or leave `summarized` out".to_owned();
        return Err(Error::Build { what: "agent", name: Arc::clone(&plan.name), problem });
    }
    summarizer(summary, plan).build().map(drop)
}
