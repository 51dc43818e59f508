//! Actions of a program, and the marks between them. The log of a run consists of them.

/// Kind of an action in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Act {
    /// A change that is not idempotent.
    Write,
    /// An idempotent change.
    Idempotent,
    /// A change that the author declared as unordered.
    Unordered,
    /// A read.
    Read,
    /// A check of a condition. No later action starts before it.
    Check,
    /// An answer of a person. No later action starts before it.
    Gate,
}

/// An action.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// Kind of the action.
    pub act: Act,
    /// Name of the function.
    pub name: &'static str,
    /// Number of the call in the program's text.
    pub site: u64,
    /// Arguments of the call.
    pub text: String,
}

/// An item of the log: an action, or a mark. Marks for concurrent groups occur only in the plain
/// function.
#[derive(Clone, Debug, PartialEq)]
pub enum Noted {
    /// An action.
    Entry(Entry),
    /// Start of a group of items that may run concurrently.
    Open,
    /// Start of the next item.
    Item,
    /// End of a group.
    Close,
    /// Start of a call of another generated function.
    Enter,
    /// End of such a call.
    Leave,
    /// End of a process.
    Crash,
}
