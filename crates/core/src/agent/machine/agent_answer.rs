//! The answer of an agent: decides which message is the answer, and computes the outcome of the run
//! from it.

use std::sync::Arc;

use super::{AgentMachine, Outcome, Phase};
use crate::error::Error;
use crate::event::{ANSWER_TOOL, AgentCompleted, answer_text};
use crate::message::{Message, Part};
use crate::model::{ModelResponse, StopReason};

#[derive(Clone, Debug)]
pub(super) struct Answer {
    message: Arc<Message>,
    stop_reason: StopReason,
    /// The message also called `exit_loop`. Its text may be empty.
    pub(super) exits: bool,
}

impl Answer {
    fn new(response: &ModelResponse) -> Self {
        Self {
            message: Arc::clone(&response.message),
            stop_reason: response.stop_reason.clone(),
            exits: false,
        }
    }

    /// Creates the answer from a message with tool calls: a call to the answer tool, or to
    /// `exit_loop` if `exits`.
    pub(super) fn by_call(message: &Arc<Message>, exits: bool) -> Self {
        Self { message: Arc::clone(message), stop_reason: StopReason::Stop, exits }
    }

    /// Creates the end of a repetition whose text is not the answer.
    fn without_text(message: &Message) -> Self {
        let is_text = |part: &&Part| matches!(part, Part::Text { .. });
        let parts: Vec<Part> =
            message.parts().iter().filter(|part| !is_text(part)).cloned().collect();
        let message = Arc::new(Message::new(message.role(), parts));
        Self { message, stop_reason: StopReason::Stop, exits: true }
    }
}

impl AgentMachine {
    /// Returns the phase after a message without tool calls. If the text matches the output type,
    /// it is the answer. If the provider paused the turn, the model is called again.
    pub(super) fn take_text(&self, response: &ModelResponse) -> Phase {
        if response.stop_reason == StopReason::PauseTurn {
            return Phase::StepDone { answer: None };
        }
        let text = response.message.text();
        let problem = match &self.output {
            // A refusal is not repaired: the same question would give the same result.
            Some(_) if is_refusal(&response.stop_reason) => None,
            Some(rule) if rule.by_tool => (rule.check)(&text).err().map(|problem| {
                format!(
                    "it is not a call of `{ANSWER_TOOL}`, and as a text it does not fit: {problem}"
                )
            }),
            Some(rule) if !text.is_empty() => (rule.check)(&text).err(),
            _ => None,
        };
        match problem {
            Some(problem) => Phase::Misfit { problem: problem.into() },
            None => Phase::StepDone { answer: Some(Answer::new(response)) },
        }
    }

    /// Returns the answer of a turn that called `exit_loop`: its text. If the text does not match
    /// the output type, the answer is empty in a round, where the output of the previous round
    /// counts. Otherwise returns `None`, and the model is called again.
    pub(super) fn answer_of_exit(&self) -> Option<Answer> {
        let asked = self.request.messages().last()?;
        let is_answer = match &self.output {
            Some(rule) => (rule.check)(&asked.text()).is_ok(),
            None => !self.has_type,
        };
        match is_answer {
            true => Some(Answer::by_call(asked, true)),
            false => self.in_round.then(|| Answer::without_text(asked)),
        }
    }

    /// Returns the outcome of a run that ends with this answer.
    pub(super) fn finish(&self, answer: &Answer) -> Outcome {
        let (text, stop_reason) =
            (answer_text(&answer.message), answer.stop_reason.as_str().to_owned());
        let misfit = || self.output.as_ref().is_some_and(|rule| (rule.check)(&text).is_err());
        if !text.is_empty() && is_refusal(&answer.stop_reason) && misfit() {
            return Outcome::Failed(Error::Refused { refusal: text.into_owned(), stop_reason });
        }
        if text.is_empty() && !answer.exits || answer.stop_reason == StopReason::ContentFilter {
            return Outcome::Failed(Error::NoAnswer { stop_reason });
        }
        let (message, stop_reason) = (Arc::clone(&answer.message), answer.stop_reason.clone());
        Outcome::Completed(Arc::new(AgentCompleted::new(
            message,
            stop_reason,
            self.turn,
            self.usage.clone(),
        )))
    }
}

/// Returns true if the model declined to answer or the provider withheld the answer.
fn is_refusal(reason: &StopReason) -> bool {
    matches!(reason, StopReason::Refusal | StopReason::ContentFilter)
}
