//! The messages that are sent to a run while it is unfinished: where they stand in the conversation, and what a run does
//! that has answered. Pure, as the machine is.
//!
//! A message becomes part of the conversation with the record that says so: between two turns, never between the calls of
//! a turn and their results.

use std::sync::Arc;

use super::{AgentMachine, Answer, Command, Outcome, Phase};
use crate::message::Message;

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

    /// The messages that are not part of the conversation yet.
    pub(super) fn take_waiting(&mut self) -> impl Iterator<Item = Arc<Message>> {
        let waiting = self.inbox.as_mut().map(|inbox| std::mem::take(&mut inbox.waiting));
        waiting.into_iter().flatten().map(|(_, message)| message)
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
