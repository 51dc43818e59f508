//! The state of messages sent to a run, as a fold over its events, and the validation of messages.

use super::control_request::Asked;
use crate::error::{ControlError, ControlErrorKind};
use crate::event::EventKind;
use crate::message::{Message, Part, Role};

/// Maximum size of a message as JSON, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// Maximum number of messages that wait for the next model call of a run.
pub(super) const MAX_WAITING: u32 = 100;

/// Counts of the messages sent to a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    received: u32,
    delivered: u32,
    /// `true` if the run is a live run that was closed.
    pub(crate) closed: bool,
}

impl Sent {
    /// Applies the next event of the run.
    pub(super) fn apply(&mut self, kind: &EventKind) {
        match kind {
            EventKind::MessageReceived { number, .. } => self.received = self.received.max(*number),
            EventKind::MessageDelivered { number } => self.delivered = self.delivered.max(*number),
            EventKind::RunAdvanced(advanced) => {
                self.delivered = self.delivered.max(advanced.delivered);
                self.received = self.received.max(advanced.delivered);
            }
            EventKind::RunClosed { .. } => self.closed = true,
            _ => {}
        }
    }

    /// Returns `true` if the model has not received all messages.
    pub(crate) fn are_waiting(&self) -> bool {
        self.received > self.delivered
    }

    /// Returns the number for the next message.
    ///
    /// # Errors
    /// Fails if the run is closed or too many messages wait.
    pub(super) fn next(&self) -> Result<u32, ControlError> {
        let waiting = self.received.saturating_sub(self.delivered);
        if self.closed {
            return Err(ControlError::state(
                SENT,
                "closed; start another run, of the same session if it has one",
            ));
        }
        if waiting >= MAX_WAITING {
            let message = format!(
                "{waiting} messages wait for the next call of the run's model already; send this one again when it has \
                 seen them"
            );
            return Err(ControlError::new(ControlErrorKind::TooManyMessages, message));
        }
        Ok(self.received.saturating_add(1))
    }
}

/// The messages part of a log's state.
#[derive(Default)]
pub(super) struct Mail {
    pub(super) sent: Sent,
    /// Recorded events that the agent has not processed.
    pub(super) fresh: Vec<EventKind>,
    /// Requests from before the run was recorded.
    pub(super) early: Vec<Asked>,
}

pub(super) const SENT: &str = "sent a message";

/// Checks that a message is a user message of text and files, is not empty, and is not too large.
pub(super) fn check(message: &Message) -> Result<(), ControlError> {
    let wrong = |problem: String| Err(ControlError::new(ControlErrorKind::WrongMessage, problem));
    let is_content = |part: &Part| matches!(part, Part::Text { .. } | Part::Media(_));
    if message.role() != Role::User || !message.parts().iter().all(is_content) {
        return wrong(
            "only a message of the user, of texts and files, can be sent to a run".to_owned(),
        );
    }
    if message.text().trim().is_empty()
        && !message.parts().iter().any(|part| matches!(part, Part::Media(_)))
    {
        return wrong("the message is empty; send a text or a file".to_owned());
    }
    let bytes = serde_json::to_string(message).map_or(0, |json| json.len());
    match bytes > MAX_BYTES {
        true => wrong(format!(
            "the message has {bytes} bytes as JSON, and a run takes at most {MAX_BYTES}; name where a long text or a file \
             can be read instead"
        )),
        false => Ok(()),
    }
}
