//! Summarizes old messages of a session with a model, as a step of the run that starts in the
//! session. `session_history.rs` selects the messages; `session/summary.rs` contains the
//! instruction and limits.

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

/// Step path below which the model is called.
const STEP: &str = "summary";
/// Name of the summarizing agent.
const NAME: &str = "session_summary";

impl Run {
    /// Summarizes the session up to and including a run. If the summary fails, the run continues
    /// with the history that fits in its window.
    ///
    /// # Errors
    /// If the store fails, or the run is cancelled or drained.
    pub(super) async fn sum_up(
        &mut self,
        summary: &Summary,
        (up_to, said): (RunId, String),
    ) -> Result<Arc<SessionSummarized>> {
        let cx = Context::new(self.shared(), self.segment.base.child(STEP), self.resources.clone());
        let text = match summarizer(summary, self.first_plan())
            .end_in(&cx, RunRequest::new(said))
            .await
        {
            Ok(end) => Some(summary.cut(&end.completed.text())),
            Err(error @ (Error::Store(_) | Error::Cancelled { .. } | Error::Draining)) => {
                return Err(error);
            }
            Err(error) => {
                let (run, error) =
                    (&self.segment.shared.id, self.segment.shared.host.redacted(error));
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

/// Creates the agent that writes the summary. It uses the main agent's model unless the summary
/// names another.
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

/// Checks that a summary can be made later.
///
/// # Errors
/// If the model of the summary is unknown or the summary may have no tokens.
pub(super) fn check_summary(summary: &Summary, plan: &Plan) -> Result<()> {
    if summary.tokens == 0 {
        let problem =
            "the summary of its session has 0 tokens; give it more, or leave `summarized` out"
                .to_owned();
        return Err(Error::Build { what: "agent", name: Arc::clone(&plan.name), problem });
    }
    summarizer(summary, plan).build().map(drop)
}
