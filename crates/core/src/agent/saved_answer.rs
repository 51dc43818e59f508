//! Saves an agent's answer as state: in the record of the answer, and for the steps that follow.

use std::sync::Arc;

use super::driver::Run;
use crate::error::{Error, Result};
use crate::event::{AgentCompleted, AnswerForm, EXIT_TOOL, EventKind};
use crate::path::StepPath;
use crate::run::Segment;
use crate::state::{
    EXIT, MOST_SAVED, SavedByStep, WITHOUT_OUTPUT, too_much_in_session, too_much_saved,
};
use crate::value::Encoded;

impl Run {
    /// Adds the saved state to the answer's record and makes it visible to the caller of the agent.
    ///
    /// # Errors
    /// [`Error::InvalidOutput`] if the answer, which a hook may have provided, is not JSON although
    /// a value is expected. [`Error::State`] if it is too large.
    pub(super) fn saved_with_answer(
        &self,
        completed: Arc<AgentCompleted>,
    ) -> Result<Arc<AgentCompleted>> {
        if !self.segment.is_run() && completed.ends_loop_without_answer() {
            return Ok(self.without_output(completed));
        }
        let Some(key) = self.plan.output_key.as_ref().map(|output_key| &output_key.key) else {
            return Ok(completed);
        };
        let form = self.plan.output.as_ref().map_or(AnswerForm::Text, |output| output.rule.form);
        let value = form.encoded(&completed.text()).map_err(|problem| Error::InvalidOutput {
            attempts: 1,
            problem: problem.to_string(),
        })?;
        let mut saved = SavedByStep::default();
        saved.change(key, Some(value));
        let saved = Arc::new(saved);
        self.check_size(key, &saved)?;
        self.publish_answer_state(&saved);
        let mut completed = completed;
        Arc::make_mut(&mut completed).saved = saved.recorded();
        Ok(completed)
    }

    /// Records that the agent ended the enclosing loop without an answer. The value under its key
    /// stays unchanged.
    fn without_output(&self, mut completed: Arc<AgentCompleted>) -> Arc<AgentCompleted> {
        if let Ok(without_output) = Encoded::from_json(WITHOUT_OUTPUT.to_owned()) {
            let mut saved = SavedByStep::default();
            saved.change(EXIT, Some(without_output));
            self.publish_answer_state(&saved);
            Arc::make_mut(&mut completed).saved = Arc::new(saved).recorded();
        }
        completed
    }

    /// Checks the size limits of the enclosing step's record and of the session.
    fn check_size(&self, key: &Arc<str>, saved: &SavedByStep) -> Result<()> {
        let Segment { step, shared, .. } = &self.segment;
        let is_in_session = shared.own().is_some_and(|own| own.began.session().is_some());
        let states = shared.states();
        let in_step = match self.segment.is_run() {
            true => 0,
            false => states.as_ref().map_or(0, |states| states.size(step)),
        };
        let problem = match (in_step + saved.size(), is_in_session) {
            (size, _) if size > MOST_SAVED => too_much_saved(size),
            (size, true) => {
                match size + states.map_or(0, |states| states.size_in_session(step, key)) {
                    size if size > MOST_SAVED => too_much_in_session(size),
                    _ => return Ok(()),
                }
            }
            _ => return Ok(()),
        };
        Err(Error::State { key: key.to_string(), problem })
    }

    fn publish_answer_state(&self, saved: &SavedByStep) {
        let Segment { base, step, shared, .. } = &self.segment;
        let place = shared.log.place_of(|path| path == base);
        shared.states_or_new().apply(step, saved, place);
    }

    /// Applies the recorded state of an answer.
    pub(super) fn replay_answer_state(&self, path: &StepPath, kind: &EventKind) {
        if let EventKind::AgentCompleted(completed) = kind
            && *path == self.segment.base
            && let Some(saved) = &completed.saved
        {
            self.publish_answer_state(saved);
        }
    }
}

impl AgentCompleted {
    /// `true` if the model ended the enclosing repetition without an answer.
    pub(super) fn ends_loop_without_answer(&self) -> bool {
        self.text().is_empty() && self.message.tool_calls().any(|call| call.name == EXIT_TOOL)
    }
}
