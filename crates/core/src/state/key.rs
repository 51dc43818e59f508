//! [`StateKey`] and [`StateOwner`]: the name of a state value with its type, its owner and its
//! lifetime.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use crate::value::NodeValue;

/// Maximum length of a key's name, in bytes.
const LONGEST: usize = 128;

/// The name of a state value, with the type of the value. Define it once as a `static` and use it
/// for all reads and writes. An invalid name is a compile error.
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
/// In text and in journals, a key is written as its name with the prefix of its
/// [owner](StateOwner): `tone`, `temp:draft`. Use `parse` to read it.
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

/// The owner of a state value, which determines its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StateOwner {
    /// The session of the run, or the run itself if it has no session. The value is stored in the
    /// journal and available after a crash. The next run of the session starts with it if this run
    /// completes. No prefix.
    Session,
    /// The caller of the run, see [`StartRun::caller`](crate::runtime::StartRun::caller). The value
    /// outlives the run and is shared by all runs of this caller in the same store. The prefix is
    /// `user:`.
    User,
    /// The application. The value outlives the run and is shared by all runs in the same store. The
    /// prefix is `app:`.
    App,
    /// The run, while a single process executes it. The value is not stored. The prefix is `temp:`.
    Temp,
}

impl StateOwner {
    /// Returns the prefix of keys, such as `temp:`. Empty for [`Session`](Self::Session).
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Session => "",
            Self::User => "user:",
            Self::App => "app:",
            Self::Temp => "temp:",
        }
    }

    /// All variants.
    const ALL: [Self; 4] = [Self::Session, Self::User, Self::App, Self::Temp];

    /// `true` if values of this owner outlive the run.
    pub(crate) fn outlives_runs(self) -> bool {
        matches!(self, Self::User | Self::App)
    }

    /// Splits the text of a key into owner and name.
    pub(crate) fn split(text: &str) -> (Self, &str) {
        let with_prefix = Self::ALL.into_iter().filter(|owner| !owner.prefix().is_empty());
        let found = with_prefix
            .filter_map(|owner| Some((owner, text.strip_prefix(owner.prefix())?)))
            .next();
        found.unwrap_or((Self::Session, text))
    }
}

/// `true` if the text consists of 1 to `longest` ASCII letters, digits, `_` and `-`.
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

/// Types of state values: any type with `serde::Serialize`, `serde::Deserialize` and
/// `schemars::JsonSchema` that owns its data and is `Send`.
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
    /// Creates a key of the session. In a [session](crate::session), later runs have the value too.
    /// Without a session, it belongs to the run.
    ///
    /// # Panics
    /// If the name is empty, longer than 128 bytes, or contains anything except ASCII letters,
    /// digits, `_` and `-`. In a `static` this is a compile error.
    pub const fn session(name: &'static str) -> Self {
        Self::with_owner(StateOwner::Session, name)
    }

    /// Creates a key of the run's caller. The value outlives the run.
    ///
    /// # Panics
    /// As [`session`](Self::session).
    pub const fn user(name: &'static str) -> Self {
        Self::with_owner(StateOwner::User, name)
    }

    /// Creates a key of the application. The value outlives the run.
    ///
    /// # Panics
    /// As [`session`](Self::session).
    pub const fn app(name: &'static str) -> Self {
        Self::with_owner(StateOwner::App, name)
    }

    /// Creates a key of a value in memory. It exists while this process executes the run, and is
    /// lost after a crash. Use it for data that can be computed again, such as a cache; readers
    /// must handle a missing value.
    ///
    /// # Panics
    /// As [`session`](Self::session).
    pub const fn temp(name: &'static str) -> Self {
        Self::with_owner(StateOwner::Temp, name)
    }

    const fn with_owner(owner: StateOwner, name: &'static str) -> Self {
        assert!(
            is_name(name, LONGEST),
            "the name of a state key has 1 to 128 ASCII letters, digits, `_` and `-`; whose value it is, its constructor says"
        );
        Self { owner, name: Cow::Borrowed(name), of: PhantomData }
    }

    /// Returns the owner of the value.
    pub fn owner(&self) -> StateOwner {
        self.owner
    }

    /// Returns the name without the prefix.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<T> FromStr for StateKey<T> {
    type Err = StateKeyError;

    /// Parses a key that is known only at run time, such as `temp:draft`.
    fn from_str(text: &str) -> Result<Self, StateKeyError> {
        let (owner, name) = StateOwner::split(text);
        match is_name(name, LONGEST) {
            true => Ok(Self { owner, name: Cow::Owned(name.to_owned()), of: PhantomData }),
            false => Err(StateKeyError(text.to_owned())),
        }
    }
}

/// Error for a string that is not the name of a state key.
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
