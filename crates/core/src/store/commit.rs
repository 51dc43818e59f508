//! Data of one commit to a store, and of messages between processes.

use std::sync::Arc;

use crate::event::{Event, RunId};
use crate::value::Encoded;

/// The right to write a run, as a fencing token. Each opening of the run increments it, and a
/// writer with a smaller number is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// A shortened journal. Replaying its events leads to the same state as the first `seq` events of
/// the run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Number of events of the journal that the snapshot replaces.
    pub seq: u64,
    /// The events that are still needed.
    pub events: Vec<Event>,
}

impl Snapshot {
    /// Creates a snapshot that replaces the first `seq` events.
    pub fn new(seq: u64, events: Vec<Event>) -> Self {
        Self { seq, events }
    }
}

/// Data that is written to a run's journal in one commit.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Append {
    /// Number of events that the run has before this commit.
    pub after: u64,
    /// The new events; may be empty.
    pub events: Vec<Event>,
    /// Messages that are answered in the same commit. Empty for a store without messages.
    pub answered: Vec<Answered>,
    /// Changes of values that outlive the run, in the same commit. Empty for a store without such
    /// values.
    pub state: Vec<StateWrite>,
}

/// A change of a value that outlives runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateWrite {
    /// User who owns the value; `None` for the application.
    pub user: Option<Arc<str>>,
    /// The key, such as `user:tone`.
    pub key: Arc<str>,
    /// The value; `None` to remove the key.
    pub value: Option<Encoded>,
}

impl StateWrite {
    /// Creates a change of a key.
    pub fn new(user: Option<&str>, key: &str, value: Option<Encoded>) -> Self {
        Self { user: user.map(Into::into), key: key.into(), value }
    }
}

impl Append {
    /// Creates a commit of events that follow the first `after` events.
    pub fn new(after: u64, events: Vec<Event>) -> Self {
        Self { after, events, answered: Vec::new(), state: Vec::new() }
    }

    /// Adds changes of values that outlive the run.
    #[must_use]
    pub fn with_state(mut self, state: impl IntoIterator<Item = StateWrite>) -> Self {
        self.state.extend(state);
        self
    }

    /// Adds the outcome of a message.
    #[must_use]
    pub fn answering(mut self, message: MessageId, outcome: impl Into<String>) -> Self {
        self.answered.push(Answered::new(message, outcome));
        self
    }
}

/// Number of a message. It increases with every message of a store and is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

/// A control request of another process for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreMessage {
    /// Number of the message.
    pub id: MessageId,
    /// The run that the request is for.
    pub run: RunId,
    /// The request, as JSON that only the runtime interprets.
    pub body: String,
}

impl StoreMessage {
    /// Creates a message, for implementations of a store.
    pub fn new(id: MessageId, run: RunId, body: impl Into<String>) -> Self {
        Self { id, run, body: body.into() }
    }
}

/// The outcome of a message, for the process that sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answered {
    /// The message.
    pub message: MessageId,
    /// The outcome, as JSON that only the runtime interprets.
    pub outcome: String,
}

impl Answered {
    /// Creates the outcome of a message.
    pub fn new(message: MessageId, outcome: impl Into<String>) -> Self {
        Self { message, outcome: outcome.into() }
    }
}
