//! Messages that are sent to an unfinished run: their position in the conversation, and the
//! behaviour of a run that has answered already. Pure, like the machine.
//!
//! A message becomes part of the conversation with its `message.delivered` record: between two
//! turns, never between tool calls and their results.

use std::sync::Arc;

use super::{AgentMachine, Answer, Command, Outcome, Phase};
use crate::event::{ANSWER_TOOL, answer_text};
use crate::message::{Conversation, Message};

/// Messages that were sent to the run.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageInbox {
    /// `true` if the run waits for messages after an answer.
    pub(super) live: bool,
    /// `true` if the run accepts no more messages.
    pub(super) closed: bool,
    /// Number of the last received message.
    received: u32,
    /// Number of the last message that is part of the conversation.
    delivered: u32,
    /// Messages that are not part of the conversation yet, with their numbers.
    waiting: Vec<(u32, Arc<Message>)>,
    /// Turn of the last answer before a further message was delivered.
    answered: u32,
}

impl AgentMachine {
    pub(super) fn inbox(&mut self) -> &mut MessageInbox {
        self.inbox.get_or_insert_default()
    }

    /// Adds an accepted message. A message that is known already changes nothing.
    pub(super) fn receive(&mut self, number: u32, message: &Arc<Message>) {
        let inbox = self.inbox();
        if number > inbox.received {
            inbox.received = number;
            inbox.waiting.push((number, Arc::clone(message)));
        }
    }

    /// Adds the messages up to a number to the conversation. If the model had answered, it is
    /// called again.
    pub(super) fn deliver(&mut self, number: u32) {
        let turn = self.turn;
        let has_answered = matches!(self.phase, Phase::Answered(_));
        self.push_tool_answer();
        let inbox = self.inbox();
        inbox.delivered = number;
        if has_answered {
            inbox.answered = turn;
        }
        let (delivered, waiting) =
            std::mem::take(&mut inbox.waiting).into_iter().partition(|(of, _)| *of <= number);
        inbox.waiting = waiting;
        let delivered: Vec<(u32, Arc<Message>)> = delivered;
        delivered.into_iter().for_each(|(_, message)| self.request.push(message));
        if has_answered {
            self.misfits = 0;
            self.begin_turn();
        }
    }

    /// Adds an answer that was given by the answer tool as text too. Not every provider accepts a
    /// user message after a tool result.
    fn push_tool_answer(&mut self) {
        if let Some(answer) = self.answer_by_tool() {
            self.request.push(answer);
        }
    }

    /// Returns the text of the answer tool's call, if the conversation ends with its result.
    fn answer_by_tool(&self) -> Option<Message> {
        let may_be = match &self.output {
            Some(rule) => {
                rule.by_tool && matches!(self.phase, Phase::Answered(_) | Phase::Ended(_))
            }
            // A journal does not contain the rule, so the type of the answer has to decide.
            None => self.has_type,
        };
        let [.., asked, results] = self.request.messages() else { return None };
        let gave = |message: &Message| {
            message.results().any(|result| result.name == ANSWER_TOOL && result.status.is_success())
        };
        (may_be && gave(results)).then(|| Message::assistant(answer_text(asked).into_owned()))
    }

    /// Returns the conversation for another run to continue. It includes an answer that was given
    /// by the answer tool, and waiting messages.
    pub(crate) fn conversation(&self) -> Conversation {
        let mut conversation = self.history();
        self.answer_by_tool().into_iter().for_each(|answer| conversation.push(answer));
        let waiting = self.inbox.iter().flat_map(|inbox| &inbox.waiting);
        waiting.for_each(|(_, message)| conversation.push(Arc::clone(message)));
        conversation
    }

    /// Restores the message counters from a snapshot, which omits delivered messages.
    pub(super) fn advance_inbox(&mut self, delivered: u32, answered: u32) {
        if delivered > 0 || answered > 0 {
            let inbox = self.inbox();
            (inbox.delivered, inbox.answered) = (delivered, answered);
            inbox.received = inbox.received.max(delivered);
        }
    }

    /// Returns the number of the last delivered message, and the turn of the last answer before it.
    pub(super) fn delivered(&self) -> (u32, u32) {
        self.inbox.as_ref().map(|inbox| (inbox.delivered, inbox.answered)).unwrap_or_default()
    }

    /// Returns the number of turns since the last answer.
    pub(super) fn turns_of_answer(&self) -> u32 {
        self.turn.saturating_sub(self.delivered().1)
    }

    /// Returns the command that delivers the waiting messages, if there are any.
    pub(super) fn deliver_command(&self) -> Option<Command> {
        let (number, _) = self.inbox.as_ref()?.waiting.last()?;
        Some(Command::Deliver { number: *number })
    }

    /// Returns the command after an answer: wait for a message, or end the run.
    pub(super) fn after_answer(&self, answer: &Answer) -> Command {
        let awaits = self.inbox.as_ref().is_some_and(|inbox| inbox.live && !inbox.closed);
        match self.finish(answer) {
            Outcome::Completed(_) if awaits => Command::AwaitMessage,
            outcome => Command::Finish(outcome),
        }
    }
}
