//! Reserved keys, in which a run stores internal data: the end of a repetition, and messages
//! between agents. Programs cannot use them, since the names of their keys contain no `:`.

use super::key::StateOwner;

/// Key that ends the enclosing loop after this round. The value is `null` or `WITHOUT_OUTPUT`.
pub const EXIT: &str = "loop:exit";

/// JSON value of [`EXIT`] if an agent ended its round without an answer. The output of the loop is
/// then the output of the previous round.
pub(crate) const WITHOUT_OUTPUT: &str = "true";

/// Prefix of the keys of messages between agents.
pub(crate) const MAIL: &str = "mail:";

/// `true` if a key is reserved.
pub fn is_reserved(key: &str) -> bool {
    StateOwner::split(key).1.contains(':')
}

/// `true` if the value of a key is passed to the next run of a session.
pub(crate) fn is_of_session(key: &str) -> bool {
    StateOwner::split(key).0 == StateOwner::Session && !is_reserved(key)
}
