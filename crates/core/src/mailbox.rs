//! Teams of agents: the patterns for teams, and [`Mailbox`], typed messages between the agents of
//! one run.
//!
//! This module defines the names in a mailbox and the keys of stored messages.
//! [`Context`](crate::Context) sends and takes the messages.
#![doc = include_str!("docs/teams.md")]

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use agentflow_schema::text::{did_you_mean, head, nearest};
use serde::Serialize;

use crate::path::StepPath;
use crate::state::{MAIL, is_name};
use crate::value::NodeValue;

/// Maximum size of a message as JSON, in bytes.
pub(crate) const MOST_MESSAGE: usize = 16 << 10;

/// Maximum number of messages that wait for one agent, counted in the state that a step sees.
pub(crate) const MOST_WAITING: usize = 256;

/// Maximum length of a name, in bytes.
const LONGEST: usize = 64;

/// A channel for messages of one type between named agents of one run. Create it once, as a
/// `static`. Using a name that the mailbox does not contain is an error.
///
/// [`Context::send_mail`](crate::Context::send_mail) and
/// [`Context::take_mail`](crate::Context::take_mail) write and read it; [`tools`](Self::tools) lets
/// models do the same.
///
/// ```
/// use agentflow::mailbox::Mailbox;
///
/// static NOTES: Mailbox<String> = Mailbox::new("notes", &["planner", "writer"]);
/// assert_eq!(NOTES.agents(), ["planner", "writer"]);
/// ```
///
/// ```compile_fail
/// use agentflow::mailbox::Mailbox;
///
/// static TWICE: Mailbox<String> = Mailbox::new("notes", &["writer", "writer"]);
/// ```
#[doc(alias = "AgentMessage")]
#[doc(alias = "message_queue")]
pub struct Mailbox<M> {
    name: &'static str,
    agents: &'static [&'static str],
    of: PhantomData<fn() -> M>,
}

/// Types that a mailbox can carry: any type that implements `serde::Serialize`,
/// `serde::Deserialize` and `schemars::JsonSchema`, owns its data and is `Send`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a message of a mailbox",
    label = "a message is recorded with the step that sends it, so that it is there after a crash",
    note = "derive `serde::Serialize`, `serde::Deserialize` and `schemars::JsonSchema` for `{Self}`; it must own its data \
            and be `Send`"
)]
pub trait MailMessage: NodeValue {}

#[diagnostic::do_not_recommend]
impl<M: NodeValue> MailMessage for M {}

impl<M> Mailbox<M> {
    /// Creates a mailbox with a name and the names of its agents. Only the mailbox uses these
    /// names: they can be names of agents, of steps, or of other code that sends and takes
    /// messages.
    ///
    /// # Panics
    /// If a name is empty, has more than 64 bytes or has characters other than ASCII letters,
    /// digits, `_` and `-`, if an agent is named twice, and if there is no agent. In a `static`,
    /// this is a compile error.
    pub const fn new(name: &'static str, agents: &'static [&'static str]) -> Self {
        assert!(
            is_name(name, LONGEST),
            "the name of a mailbox has 1 to 64 ASCII letters, digits, `_` and `-`"
        );
        assert!(!agents.is_empty(), "a mailbox is between agents; name them");
        let mut at = 0;
        // A `const fn` cannot use iterators.
        while at < agents.len() {
            assert!(
                is_name(agents[at], LONGEST),
                "the name of an agent in a mailbox has 1 to 64 ASCII letters, digits, `_` and `-`"
            );
            let mut other = 0;
            while other < at {
                assert!(
                    !is_same(agents[at], agents[other]),
                    "an agent is named twice in a mailbox"
                );
                other += 1;
            }
            at += 1;
        }
        Self { name, agents, of: PhantomData }
    }

    /// The name of the mailbox.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The names of the agents.
    pub fn agents(&self) -> &'static [&'static str] {
        self.agents
    }

    /// Returns the agent's name as a static string, or an error message that lists the known names.
    pub(crate) fn known(&self, agent: &str) -> Result<&'static str, String> {
        self.agents.iter().find(|known| **known == agent).copied().ok_or_else(|| {
            let agents = self.agents.iter().copied();
            let near = did_you_mean(nearest(agent, agents.clone()));
            let all = agents.collect::<Vec<_>>().join(", ");
            format!("it has no agent `{}`{near}; its agents are: {all}", head(agent, LONGEST))
        })
    }

    /// Returns the prefix of all keys of the mailbox.
    pub(crate) fn keys(&self) -> String {
        format!("{MAIL}{}:", self.name)
    }
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

impl<M> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Self { name: self.name, agents: self.agents, of: PhantomData }
    }
}

impl<M> fmt::Debug for Mailbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("name", &self.name).field("agents", &self.agents).finish()
    }
}

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Mail<M> {
    /// Name of the sender, as given to [`Context::send_mail`](crate::Context::send_mail).
    pub from: Arc<str>,
    /// The message.
    pub message: M,
}

impl<M> Mail<M> {
    pub(crate) fn new(from: &str, message: M) -> Self {
        Self { from: from.into(), message }
    }
}

/// Key of a stored message. Keys are ordered as messages are delivered. A message with a lower
/// number was sent before, or concurrently with, a message with a higher number: a step that has
/// seen a message gives its own message the next number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MailKey {
    pub(crate) number: u64,
    pub(crate) sent_at: StepPath,
    pub(crate) from: Arc<str>,
    pub(crate) to: Arc<str>,
}

impl MailKey {
    /// Formats the key as it is recorded, with the [prefix](Mailbox::keys) of the mailbox.
    pub(crate) fn text(&self, keys: &str) -> String {
        let Self { number, sent_at, from, to } = self;
        format!("{keys}{to}:{number}:{from}:{sent_at}")
    }

    /// Parses the part of a key after the prefix.
    pub(crate) fn read(rest: &str) -> Option<Self> {
        // The path is the last part, since it can contain colons.
        let mut parts = rest.splitn(4, ':');
        let (to, number, from, sent_at) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let (number, sent_at) = (number.parse().ok()?, sent_at.parse().ok()?);
        Some(Self { number, sent_at, from: from.into(), to: to.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTES: Mailbox<String> = Mailbox::new("notes", &["a", "b"]);

    #[test]
    fn a_key_is_read_as_it_was_written() {
        let keys = NOTES.keys();
        for path in ["read", "tool#12.x[3]", "a/b[2]/tool#1.c:d", "odd:name", "a/call#2/model#3"] {
            let key = MailKey {
                number: 7,
                sent_at: path.parse().unwrap(),
                from: "b".into(),
                to: "a".into(),
            };
            let text = key.text(&keys);
            assert_eq!(MailKey::read(text.strip_prefix(&keys).unwrap()), Some(key), "{text}");
        }
    }

    #[test]
    fn what_nobody_wrote_is_no_message() {
        for rest in [
            "",
            "a",
            "a:1",
            "a:1:b",
            "a:-1:b:x",
            "a:99999999999999999999:b:x",
            "a:x:b:x",
            ":::",
            "a:1:b:\n//",
        ] {
            let read = MailKey::read(rest);
            assert!(
                read.as_ref()
                    .is_none_or(|key| key.text("").parse::<String>() == Ok(rest.to_owned())),
                "{rest:?}: {read:?}"
            );
        }
        assert_eq!(MailKey::read("a:x:b:x"), None);
        assert_eq!(MailKey::read("a:99999999999999999999:b:x"), None);
    }

    #[test]
    fn messages_stand_by_number_and_then_by_path() {
        let key = |number, path: &str| MailKey {
            number,
            sent_at: path.parse().unwrap(),
            from: "a".into(),
            to: "b".into(),
        };
        let in_order = [
            key(2, "map[2]"),
            key(2, "map[10]"),
            key(2, "tool#2.x"),
            key(2, "tool#10.x"),
            key(10, "a"),
        ];
        assert!(in_order.is_sorted(), "{in_order:?}");
    }
}
