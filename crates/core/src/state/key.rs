//! `StateKey` and `StateOwner`: the name of a value of the state, with its type and whose value it is. It holds no value.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use crate::value::NodeValue;

/// The longest name of a key, in bytes.
const LONGEST: usize = 128;

/// The name of a value of the state, with the type of the value. Make it once, as a `static`, and use it wherever the value
/// is read or written; a wrong name does not compile.
///
/// ```
/// use agentflow::state::StateKey;
///
/// static TONE: StateKey<String> = StateKey::session("tone");
/// static DRAFT: StateKey<Vec<String>> = StateKey::temp("draft");
/// assert_eq!(TONE.to_string(), "tone");
/// assert_eq!(DRAFT.to_string(), "temp:draft");
/// ```
///
/// In text, as in journals, a key is its name with the [owner](StateOwner) before it: `tone`, `temp:draft`. Text is read with
/// `parse`.
///
/// ```compile_fail
/// use agentflow::state::StateKey;
///
/// static WRONG: StateKey<u32> = StateKey::session("how many");
/// ```
pub struct StateKey<T> {
    owner: StateOwner,
    name: Cow<'static, str>,
    of: PhantomData<fn() -> T>,
}

/// Whose value a key names, and so how long the value lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StateOwner {
    /// The session of the run, of a run without one the run itself: the value is in its journal, and is there after a
    /// crash. The next run of the session begins with it when this one has completed. It has no prefix.
    Session,
    /// The caller of the run, as [`StartRun::caller`](crate::runtime::StartRun::caller) says: the value outlives the run, and
    /// all runs of this caller over the same store have it. Its prefix is `user:`.
    User,
    /// The application: the value outlives the run, and all runs over the same store have it. Its prefix is `app:`.
    App,
    /// The run, as long as one process executes it: the value is written nowhere. Its prefix is `temp:`.
    Temp,
}

impl StateOwner {
    /// What stands before the name of a key, such as `temp:`; empty for [`Session`](Self::Session).
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Session => "",
            Self::User => "user:",
            Self::App => "app:",
            Self::Temp => "temp:",
        }
    }

    /// All of them.
    const ALL: [Self; 4] = [Self::Session, Self::User, Self::App, Self::Temp];

    /// Whether its values outlive the run.
    pub(crate) fn outlives_runs(self) -> bool {
        matches!(self, Self::User | Self::App)
    }

    /// The owner and the name of a key in text.
    pub(crate) fn split(text: &str) -> (Self, &str) {
        let with_prefix = Self::ALL.into_iter().filter(|owner| !owner.prefix().is_empty());
        let found = with_prefix.filter_map(|owner| Some((owner, text.strip_prefix(owner.prefix())?))).next();
        found.unwrap_or((Self::Session, text))
    }
}

/// Whether text is a name of at most so many bytes: ASCII letters, digits, `_` and `-`.
pub(crate) const fn is_name(name: &str, longest: usize) -> bool {
    let bytes = name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !(bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_' || bytes[at] == b'-') {
            return false;
        }
        at += 1;
    }
    !bytes.is_empty() && bytes.len() <= longest
}

/// What a key of the state can name: any type with `serde::Serialize`, `serde::Deserialize` and `schemars::JsonSchema` that
/// owns its data and is `Send`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a value of the state",
    label = "a value of the state is recorded with its step, so that it is there after a crash",
    note = "derive `serde::Serialize`, `serde::Deserialize` and `schemars::JsonSchema` for `{Self}`; it must own its data \
            and be `Send`"
)]
pub trait StateValue: NodeValue {}

#[diagnostic::do_not_recommend]
impl<T: NodeValue> StateValue for T {}

impl<T> StateKey<T> {
    /// A value of the session: of a run that is one of a [session](crate::session), the runs after it have it too; of any other
    /// it is the run's own.
    ///
    /// # Panics
    /// When the name has anything but ASCII letters, digits, `_` and `-`, is empty, or has more than 128 of them. In a
    /// `static` that is an error of the compiler.
    pub const fn session(name: &'static str) -> Self {
        Self::of(StateOwner::Session, name)
    }

    /// A value of the caller of the run, which outlives the run.
    ///
    /// # Panics
    /// As [`session`](Self::session).
    pub const fn user(name: &'static str) -> Self {
        Self::of(StateOwner::User, name)
    }

    /// A value of the application, which outlives the run.
    ///
    /// # Panics
    /// As [`session`](Self::session).
    pub const fn app(name: &'static str) -> Self {
        Self::of(StateOwner::App, name)
    }

    /// A value that is in memory alone: it lives as long as this process executes the run, and is gone after a crash. It is
    /// for what can be computed again, such as a cache; whoever reads it must be able to do without.
    ///
    /// # Panics
    /// As [`session`](Self::session).
    pub const fn temp(name: &'static str) -> Self {
        Self::of(StateOwner::Temp, name)
    }

    const fn of(owner: StateOwner, name: &'static str) -> Self {
        assert!(
            is_name(name, LONGEST),
            "the name of a state key has 1 to 128 ASCII letters, digits, `_` and `-`; whose value it is, its constructor says"
        );
        Self { owner, name: Cow::Borrowed(name), of: PhantomData }
    }

    /// Whose value it is.
    pub fn owner(&self) -> StateOwner {
        self.owner
    }

    /// The name, without its owner.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<T> FromStr for StateKey<T> {
    type Err = StateKeyError;

    /// Reads a key that is known at run time alone, such as `temp:draft`.
    fn from_str(text: &str) -> Result<Self, StateKeyError> {
        let (owner, name) = StateOwner::split(text);
        match is_name(name, LONGEST) {
            true => Ok(Self { owner, name: Cow::Owned(name.to_owned()), of: PhantomData }),
            false => Err(StateKeyError(text.to_owned())),
        }
    }
}

/// Text that is not the name of a state key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not the name of a state key; a name has 1 to 128 ASCII letters, digits, `_` and `-`, with `user:`, `app:` or \
     `temp:` before it where that is its owner"
)]
pub struct StateKeyError(String);

impl<T> fmt::Display for StateKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.owner.prefix(), self.name)
    }
}

impl<T> fmt::Debug for StateKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateKey({self})")
    }
}

impl<T> Clone for StateKey<T> {
    fn clone(&self) -> Self {
        Self { owner: self.owner, name: self.name.clone(), of: PhantomData }
    }
}
