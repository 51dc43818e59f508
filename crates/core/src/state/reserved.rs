//! Keys of the library's own, which hold what a run keeps for itself: that a repetition is over, and messages between agents.
//! A program cannot name them, since the name of its key has no `:`. It holds no value.

use super::key::StateOwner;

/// The key that ends the loop around a step after this round. The value is `null`, or `WITHOUT_OUTPUT`.
pub const EXIT: &str = "loop:exit";

/// The value of [`EXIT`], as JSON, if an agent ended its round without an answer. The output of the previous round is then
/// the output of the loop.
pub(crate) const WITHOUT_OUTPUT: &str = "true";

/// What stands before the key of a message.
pub(crate) const MAIL: &str = "mail:";

/// Whether a key is one of these.
pub fn is_reserved(key: &str) -> bool {
    StateOwner::split(key).1.contains(':')
}

/// Whether the value of a key is handed to the next run of a session.
pub(crate) fn is_of_session(key: &str) -> bool {
    StateOwner::split(key).0 == StateOwner::Session && !is_reserved(key)
}
