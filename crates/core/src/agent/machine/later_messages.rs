//! The messages that are sent to a run while it is unfinished: where they stand in the conversation, and what a run does
//! that has answered. Pure, as the machine is.
//!
//! A message becomes part of the conversation with the record that says so: between two turns, never between the calls of
//! a turn and their results.

use std::sync::Arc;

use super::{AgentMachine, Answer, Command, Outcome, Phase};
use crate::event::{ANSWER_TOOL, answer_text};
use crate::message::{Conversation, Message};

/// What was sent to the run.
#[derive(Clone, Debug, Default)]
pub(super) struct Inbox {
    /// Whether the run waits for messages when it has answered.
    pub(super) live: bool,
    /// It takes no more messages.
    pub(super) closed: bool,
    /// The number of the last one that is known.
    received: u32,
    /// The number of the last one that is part of the conversation.
    delivered: u32,
    /// Those that are not, by their numbers.
    waiting: Vec<(u32, Arc<Message>)>,
    /// The turn with which the model had answered before it was sent another message.
    answered: u32,
}

impl AgentMachine {
    pub(super) fn inbox(&mut self) -> &mut Inbox {
        self.inbox.get_or_insert_default()
    }

    /// A message was accepted. One that is known already changes nothing.
    pub(super) fn receive(&mut self, number: u32, message: &Arc<Message>) {
        let inbox = self.inbox();
        if number > inbox.received {
            inbox.received = number;
            inbox.waiting.push((number, Arc::clone(message)));
        }
    }

    /// The messages up to a number are part of the conversation from now on. When the model had answered, it is asked once
    /// more.
    pub(super) fn deliver(&mut self, number: u32) {
        let turn = self.turn;
        let has_answered = matches!(self.phase, Phase::Answered(_));
        self.say_answer();
        let inbox = self.inbox();
        inbox.delivered = number;
        if has_answered {
            inbox.answered = turn;
        }
        let (delivered, waiting) = std::mem::take(&mut inbox.waiting).into_iter().partition(|(of, _)| *of <= number);
        inbox.waiting = waiting;
        let delivered: Vec<(u32, Arc<Message>)> = delivered;
        delivered.into_iter().for_each(|(_, message)| self.request.push(message));
        if has_answered {
            self.misfits = 0;
            self.begin_turn();
        }
    }

    /// An answer that was given by a tool is said as well before anybody says more: not every provider takes a question after
    /// the result of a call.
    fn say_answer(&mut self) {
        if let Some(answer) = self.answer_by_tool() {
            self.request.push(answer);
        }
    }

    /// What the model said by the tool for answers, when the conversation ends with that.
    fn answer_by_tool(&self) -> Option<Message> {
        let may_be = match &self.output {
            Some(rule) => rule.by_tool && matches!(self.phase, Phase::Answered(_) | Phase::Ended(_)),
            // A journal alone does not say how the answer of a type was given.
            None => self.has_type,
        };
        let [.., asked, results] = self.request.messages() else { return None };
        let gave = |message: &Message| {
            message.results().any(|result| result.name == ANSWER_TOOL && result.status.is_success())
        };
        (may_be && gave(results)).then(|| Message::assistant(answer_text(asked).into_owned()))
    }

    /// The conversation with an answer that was given by a tool and the messages that wait: another run can continue it.
    pub(crate) fn conversation(&self) -> Conversation {
        let mut conversation = self.history();
        self.answer_by_tool().into_iter().for_each(|answer| conversation.push(answer));
        let waiting = self.inbox.iter().flat_map(|inbox| &inbox.waiting);
        waiting.for_each(|(_, message)| conversation.push(Arc::clone(message)));
        conversation
    }

    /// In a snapshot: what stands in the place of the messages that were delivered.
    pub(super) fn advance_inbox(&mut self, delivered: u32, answered: u32) {
        if delivered > 0 || answered > 0 {
            let inbox = self.inbox();
            (inbox.delivered, inbox.answered) = (delivered, answered);
            inbox.received = inbox.received.max(delivered);
        }
    }

    /// The number of the last message that is part of the conversation, and the turn with which the model had answered
    /// before it was sent another one.
    pub(super) fn delivered(&self) -> (u32, u32) {
        self.inbox.as_ref().map(|inbox| (inbox.delivered, inbox.answered)).unwrap_or_default()
    }

    /// The turns since the model had answered last.
    pub(super) fn turns_of_answer(&self) -> u32 {
        self.turn.saturating_sub(self.delivered().1)
    }

    /// The record that makes what is waiting part of the conversation.
    pub(super) fn delivers(&self) -> Option<Command> {
        let (number, _) = self.inbox.as_ref()?.waiting.last()?;
        Some(Command::Deliver { number: *number })
    }

    /// What follows when the model has answered.
    pub(super) fn after_answer(&self, answer: &Answer) -> Command {
        let awaits = self.inbox.as_ref().is_some_and(|inbox| inbox.live && !inbox.closed);
        match self.finish(answer) {
            Outcome::Completed(_) if awaits => Command::AwaitMessage,
            outcome => Command::Finish(outcome),
        }
    }
}
