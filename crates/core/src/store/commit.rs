//! The data of one commit to a store and its outcome: plain data, which decides nothing.

use std::sync::Arc;

use crate::event::{Event, RunId};
use crate::value::Encoded;

/// The right to write a run, as a number that grows with every opening: a writer with a smaller one is fenced off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// A shorter journal: replayed, these events lead to the same state as the first `seq` events of the run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// How many events of the journal it replaces.
    pub seq: u64,
    /// The events that still matter.
    pub events: Vec<Event>,
}

impl Snapshot {
    /// Replaces the first `seq` events.
    pub fn new(seq: u64, events: Vec<Event>) -> Self {
        Self { seq, events }
    }
}

/// What is written to a run's journal in one commit.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Append {
    /// How many events the run has.
    pub after: u64,
    /// The events that follow; may be empty.
    pub events: Vec<Event>,
    /// The messages that are answered in the same commit. Empty for a store that takes no messages.
    pub answered: Vec<Answered>,
    /// The values that outlive the run and are changed in the same commit. Empty for a store that keeps none.
    pub state: Vec<StateWrite>,
}

/// A change of a value that outlives runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateWrite {
    /// Whose value it is; `None` for the application's.
    pub user: Option<Arc<str>>,
    /// The key, such as `user:tone`.
    pub key: Arc<str>,
    /// The value; `None` when the key is removed.
    pub value: Option<Encoded>,
}

impl StateWrite {
    /// A change of a key.
    pub fn new(user: Option<&str>, key: &str, value: Option<Encoded>) -> Self {
        Self { user: user.map(Into::into), key: key.into(), value }
    }
}

impl Append {
    /// Events after the first `after` ones.
    pub fn new(after: u64, events: Vec<Event>) -> Self {
        Self { after, events, answered: Vec::new(), state: Vec::new() }
    }

    /// Changes values that outlive the run in the same commit.
    #[must_use]
    pub fn with_state(mut self, state: impl IntoIterator<Item = StateWrite>) -> Self {
        self.state.extend(state);
        self
    }

    /// Answers a message in the same commit.
    #[must_use]
    pub fn answering(mut self, message: MessageId, outcome: impl Into<String>) -> Self {
        self.answered.push(Answered::new(message, outcome));
        self
    }
}

/// The number of a message; it grows with every message of a store and is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

/// A control request that another process left for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreMessage {
    /// Its number.
    pub id: MessageId,
    /// The run it was left for.
    pub run: RunId,
    /// The request, as JSON that only the runtime reads.
    pub body: String,
}

impl StoreMessage {
    /// A message as a store returns it.
    pub fn new(id: MessageId, run: RunId, body: impl Into<String>) -> Self {
        Self { id, run, body: body.into() }
    }
}

/// The outcome of a message, for the process that left it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answered {
    /// The message.
    pub message: MessageId,
    /// The outcome, as JSON that only the runtime reads.
    pub outcome: String,
}

impl Answered {
    /// The outcome of a message.
    pub fn new(message: MessageId, outcome: impl Into<String>) -> Self {
        Self { message, outcome: outcome.into() }
    }
}
