//! [`StepPath`]: the identity of a step in its run, as a path of names, such as
//! `judge/tool#2.search`.
//!
//! Records, questions and control requests name their step by its path. A resumed run finds the
//! records of a step by path and never by position, so paths do not depend on the order in which
//! steps start. Only this module formats and parses the text of a path.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The path of a step, such as `model#2` or `judge_risk/tool#2.search_incidents`; empty for the run
/// itself.
///
/// Turns count from 1. A second call to the same tool in the same turn is `tool#2.search[1]`, a
/// third call is `tool#2.search[2]`. The items of a map and the rounds of a repetition are
/// `node[0]`, `node[1]`. The text form is stored and shown. In memory, the last segment is kept as
/// data, so that the text is only formatted when it is needed.
///
/// In the order of paths, a path is followed by the paths below it, then by its items and the paths
/// below them.
///
/// ```
/// use agentflow::path::StepPath;
///
/// let call: StepPath = "judge_risk/tool#2.search".parse().unwrap();
/// assert_eq!(call, StepPath::root().child("judge_risk").tool(2, "search", 0));
/// assert!(call.is_within(&StepPath::root().child("judge_risk")));
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct StepPath {
    /// Text of all segments except the last one, if that is a model or tool call.
    prefix: Option<Arc<str>>,
    step: LastSegment,
}

/// The last segment, if it is a model or tool call. Each event has a path, so the struct is kept
/// small: it encodes the kind of segment without a tag.
#[derive(Clone, PartialEq, Eq, Default)]
struct LastSegment {
    /// Name of the tool, for a tool call.
    tool: Option<Arc<str>>,
    turn: u32,
    /// For a tool call the repeat, for a model call 1, otherwise 0.
    count: u32,
}

impl Hash for StepPath {
    /// Hashes in few writes: a run looks up each step by its path several times.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.prefix.as_deref().unwrap_or_default().hash(state);
        state.write_u64(u64::from(self.step.turn) << 32 | u64::from(self.step.count));
        if let Some(tool) = &self.step.tool {
            tool.hash(state);
        }
    }
}

impl LastSegment {
    const NONE: Self = Self { tool: None, turn: 0, count: 0 };

    fn model(turn: u32) -> Self {
        Self { tool: None, turn, count: 1 }
    }

    /// Returns `true` if the path has no segment besides its prefix.
    fn is_empty(&self) -> bool {
        self.tool.is_none() && self.count == 0
    }
}

/// A segment of a path, between two slashes of its text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathSegment<'p> {
    /// A node, an arm or a branch; or an item of a map or a round of a repetition.
    Name { name: &'p str, item: Option<u32> },
    /// The model call of a turn.
    Model { turn: u32 },
    /// A tool call of a turn.
    Tool { turn: u32, name: Cow<'p, str>, repeat: u32 },
}

/// Prefixes of the segments of model and tool calls.
const MODEL: &str = "model#";
const TOOL: &str = "tool#";

impl<'p> PathSegment<'p> {
    /// Parses a segment. Every string is a segment: a string that is not exactly the form of a
    /// model or tool call is a name.
    fn read(text: &'p str) -> Self {
        Self::read_step(text).unwrap_or_else(|| match split_item(text) {
            Some((name, item)) => Self::Name { name, item: Some(item) },
            None => Self::Name { name: text, item: None },
        })
    }

    fn read_step(text: &'p str) -> Option<Self> {
        if let Some(turn) = text.strip_prefix(MODEL) {
            return Some(Self::Model { turn: number(turn)? });
        }
        let (turn, written) = text.strip_prefix(TOOL)?.split_once('.')?;
        let (name, repeat) = match split_item(written) {
            // A repeat of 0 is only written after a tool name that ends with `]`, to keep it apart
            // from a repeat.
            Some((name, 0)) if !name.ends_with(']') => return None,
            Some((name, repeat)) => (name, repeat),
            None if written.ends_with(']') => return None,
            None => (written, 0),
        };
        Some(Self::Tool { turn: number(turn)?, name: unescaped(name)?, repeat })
    }
}

/// Splits `name[N]` into the name and the number.
fn split_item(text: &str) -> Option<(&str, u32)> {
    let (name, item) = text.strip_suffix(']')?.rsplit_once('[')?;
    Some((name, number(item)?))
}

/// Parses a number in its only valid form: digits without leading zeros.
fn number(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|digit| digit.is_ascii_digit())
        && (text.len() == 1 || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

/// Escapes slashes in a tool's name. A model can request a tool with any name, and a slash would
/// separate segments.
fn escaped(name: &str) -> Cow<'_, str> {
    match name.contains(['/', '%']) {
        true => name.replace('%', "%25").replace('/', "%2F").into(),
        false => name.into(),
    }
}

/// Reverses [`escaped`]. Returns `None` if the text is not a valid escaped name.
fn unescaped(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(text.into());
    }
    let name = text.replace("%2F", "/").replace("%25", "%");
    (escaped(&name) == text).then(|| name.into())
}

impl fmt::Display for PathSegment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { name, item: None } => f.write_str(name),
            Self::Name { name, item: Some(item) } => write!(f, "{name}[{item}]"),
            Self::Model { turn } => write!(f, "{MODEL}{turn}"),
            Self::Tool { turn, name, repeat } => {
                write!(f, "{TOOL}{turn}.{}", escaped(name))?;
                match repeat {
                    0 if !name.ends_with(']') => Ok(()),
                    repeat => write!(f, "[{repeat}]"),
                }
            }
        }
    }
}

/// Prefix of the segment of a question that a call asks while it runs.
const QUESTION: &str = "ask#";

impl StepPath {
    /// The path of the run itself.
    pub const fn root() -> Self {
        Self { prefix: None, step: LastSegment::NONE }
    }

    /// The path of the model call of a turn, below this path.
    pub fn model(&self, turn: u32) -> Self {
        Self { prefix: self.as_prefix(), step: LastSegment::model(turn) }
    }

    /// The path of a tool call of a turn, below this path. `repeat` counts the calls to the same
    /// tool in the turn, from 0.
    pub fn tool(&self, turn: u32, name: impl Into<Arc<str>>, repeat: u32) -> Self {
        Self {
            prefix: self.as_prefix(),
            step: LastSegment { tool: Some(name.into()), turn, count: repeat },
        }
    }

    /// The path of a named step below this path, such as a node of a workflow. A name with slashes
    /// has several segments. A name that would be an invalid model or tool call is written with
    /// `%23` for each `#`.
    pub fn child(&self, name: &str) -> Self {
        if name.is_empty() {
            return self.clone();
        }
        let text = match self.as_prefix() {
            Some(prefix) => Cow::Owned(format!("{prefix}/{name}")),
            None => Cow::Borrowed(name),
        };
        // Parsing fails only if the last segment is an invalid model or tool call.
        text.parse().unwrap_or_else(|_| {
            let at = text.rfind('/').map_or(0, |at| at + 1);
            Self {
                prefix: Some(format!("{}{}", &text[..at], text[at..].replace('#', "%23")).into()),
                step: LastSegment::NONE,
            }
        })
    }

    /// The path of an item of this node.
    pub(crate) fn with_item(&self, item: u32) -> Self {
        let mut text = match self.step.is_empty() {
            true => self.names().to_owned(),
            false => self.to_string(),
        };
        // Writing to a string does not fail.
        let _ = write!(text, "[{item}]");
        Self { prefix: Some(text.into()), step: LastSegment::NONE }
    }

    /// Creates a path from names without checking them.
    pub(crate) fn from_names(names: Arc<str>) -> Self {
        Self { prefix: Some(names), step: LastSegment::NONE }
    }

    /// Returns the text of the segments before a model or tool call; for a path of names, the whole
    /// text.
    pub(crate) fn names(&self) -> &str {
        self.prefix.as_deref().unwrap_or_default()
    }

    /// The segments of the path, outermost first.
    pub(crate) fn segments(&self) -> impl Iterator<Item = PathSegment<'_>> {
        read_segments(self.names()).chain(self.own_step())
    }

    /// The last segment, if it is a model or tool call.
    fn own_step(&self) -> Option<PathSegment<'_>> {
        let LastSegment { tool, turn, count } = &self.step;
        match (tool, *count) {
            (Some(name), repeat) => {
                Some(PathSegment::Tool { turn: *turn, name: Cow::Borrowed(name), repeat })
            }
            (None, 0) => None,
            (None, _) => Some(PathSegment::Model { turn: *turn }),
        }
    }

    /// Returns the number of segments. An item counts as an additional segment.
    #[doc(hidden)]
    pub fn depth(&self) -> usize {
        self.segments()
            .map(
                |segment| {
                    if matches!(segment, PathSegment::Name { item: Some(_), .. }) { 2 } else { 1 }
                },
            )
            .sum()
    }

    /// Returns the last name with its item, as text. Returns `None` if the path ends in a model or
    /// tool call.
    pub(crate) fn last_name(&self) -> Option<&str> {
        let prefix = self.prefix.as_deref().filter(|_| self.step.is_empty())?;
        Some(prefix.rsplit_once('/').map_or(prefix, |(_, last)| last))
    }

    /// Splits the path of an item into the path of its node and the number of the item.
    pub(crate) fn item(&self) -> Option<(Self, u32)> {
        let (whole, item) = split_item(self.last_name()?)?;
        let text = self.names();
        // The text ends with the last name, so the node's path is a prefix of it.
        let end = text.len() - self.last_name()?.len() + whole.len();
        Some((Self { prefix: Some(text[..end].into()), step: LastSegment::NONE }, item))
    }

    /// Returns `true` if this is `base` or below it. The items of a node are not below the node.
    pub fn is_within(&self, base: &Self) -> bool {
        if base.is_root() || self == base {
            return true;
        }
        let Some(prefix) = self.prefix.as_deref() else { return false };
        match (base.step.is_empty(), base.prefix.as_deref()) {
            (true, Some(base)) => {
                // The prefix must end at a segment: `ab` is not within `a`.
                prefix
                    .strip_prefix(base)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            (true, None) => true,
            _ => {
                let mut own = self.segments();
                base.segments().all(|segment| own.next() == Some(segment))
            }
        }
    }

    /// Returns `true` if this is `node`, one of its items, or below either.
    ///
    /// ```
    /// use agentflow::path::StepPath;
    ///
    /// let notes: StepPath = "notes".parse().unwrap();
    /// for path in ["notes", "notes[3]", "notes[3]/tool#1.search", "notes/review"] {
    ///     assert!(path.parse::<StepPath>().unwrap().belongs_to(&notes));
    /// }
    /// assert!(!"notes_2".parse::<StepPath>().unwrap().belongs_to(&notes));
    /// ```
    pub fn belongs_to(&self, node: &Self) -> bool {
        let mut own = self.segments();
        let mut of = node.segments().peekable();
        while let Some(part) = of.next() {
            let Some(own) = own.next() else { return false };
            let is_item = || match (&own, &part) {
                (PathSegment::Name { name: own, .. }, PathSegment::Name { name, item: None }) => {
                    own == name
                }
                _ => false,
            };
            // Only the last segment of `node` may match an item of it.
            if own != part && (of.peek().is_some() || !is_item()) {
                return false;
            }
        }
        true
    }

    /// Returns `true` if this is `base`, or a model or tool call of the agent at `base`. Calls of
    /// nested agents do not count.
    pub(crate) fn is_step_of(&self, base: &Self) -> bool {
        self == base || (!self.step.is_empty() && self.parent().as_ref() == Some(base))
    }

    /// The turn of the model or tool call, if the path ends in one.
    pub(crate) fn turn(&self) -> Option<u32> {
        (!self.step.is_empty()).then_some(self.step.turn)
    }

    /// Returns `true` if the path ends in a tool call.
    pub(crate) fn is_tool_call(&self) -> bool {
        self.step.tool.is_some()
    }

    /// The path of a question that this call asks while it runs. Questions are numbered from 1.
    #[doc(hidden)]
    pub fn question(&self, number: u32) -> Self {
        self.child(&format!("{QUESTION}{number}"))
    }

    /// Returns `true` if the path ends in a question of a call.
    pub(crate) fn is_question(&self) -> bool {
        self.last_name().is_some_and(|name| name.starts_with(QUESTION))
    }

    /// Returns `true` if the path ends with the segments of `tail` and has at least one segment
    /// before them.
    pub(crate) fn ends_below(&self, tail: &Self) -> bool {
        let (own, tail): (Vec<_>, Vec<_>) = (self.segments().collect(), tail.segments().collect());
        own.len() > tail.len() && own.ends_with(&tail)
    }

    fn as_prefix(&self) -> Option<Arc<str>> {
        match self.step.is_empty() {
            true => self.prefix.clone(),
            false => Some(self.to_string().into()),
        }
    }

    /// Returns `true` for the path of the run itself.
    pub fn is_root(&self) -> bool {
        self.prefix.is_none() && self.step.is_empty()
    }

    /// The path without its last segment; `None` for the run itself.
    pub fn parent(&self) -> Option<Self> {
        let parent = match self.step.is_empty() {
            true => match self.prefix.as_deref()?.rsplit_once('/') {
                Some((parent, _)) => parent.into(),
                None => return Some(Self::root()),
            },
            false => match &self.prefix {
                Some(prefix) => Arc::clone(prefix),
                None => return Some(Self::root()),
            },
        };
        Some(Self::read(parent))
    }

    /// The paths that contain this path, nearest first, up to the run itself.
    pub(crate) fn parents(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(self.parent(), Self::parent)
    }

    /// Parses a string. Every string is accepted.
    fn read(text: Arc<str>) -> Self {
        let (prefix, last) = match text.rsplit_once('/') {
            Some((prefix, last)) => (Some(prefix), last),
            None => (None, &*text),
        };
        let step = match PathSegment::read(last) {
            PathSegment::Name { .. } => {
                return Self { prefix: Some(text), step: LastSegment::NONE };
            }
            PathSegment::Model { turn } => LastSegment::model(turn),
            PathSegment::Tool { turn, name, repeat } => {
                LastSegment { tool: Some(name.into()), turn, count: repeat }
            }
        };
        Self { prefix: prefix.map(Into::into), step }
    }
}

impl Ord for StepPath {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        COMPARED.with(|compared| compared.set(compared.get() + 1));
        // A path is ordered before its extensions, and a node before its items, so that the paths
        // below a path follow it directly. The common beginning of the two strings is not parsed,
        // since folding a journal compares many paths.
        let (a, b) = (self.names(), other.names());
        let common = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
        if common == a.len() && common == b.len() {
            return self.own_step().cmp(&other.own_step());
        }
        // The first difference can be in the middle of a UTF-8 character, so the strings are cut at
        // a slash, which is always a whole character.
        let from =
            a.as_bytes()[..common].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let (a, b) = (&a[from..], &b[from..]);
        if let (Some(first_a), Some(first_b)) = (plain_name(a), plain_name(b))
            && first_a != first_b
        {
            return first_a.cmp(first_b);
        }
        read_segments(a).chain(self.own_step()).cmp(read_segments(b).chain(other.own_step()))
    }
}

#[cfg(test)]
std::thread_local! {
    static COMPARED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns the number of comparisons of paths in this thread.
#[cfg(test)]
pub(crate) fn compared() -> usize {
    COMPARED.with(std::cell::Cell::get)
}

/// Iterates over the segments of a string. An empty string has none.
fn read_segments(text: &str) -> impl Iterator<Item = PathSegment<'_>> {
    let segments = (!text.is_empty()).then(|| text.split('/'));
    segments.into_iter().flatten().map(PathSegment::read)
}

/// Returns the first segment of a string, if it is a name without an item.
fn plain_name(text: &str) -> Option<&[u8]> {
    let bytes = text.as_bytes();
    let mut end = 0;
    while let Some(byte) = bytes.get(end).filter(|byte| **byte != b'/') {
        if *byte == b'[' {
            return None;
        }
        end += 1;
    }
    let is_step = || text.starts_with(MODEL) || text.starts_with(TOOL);
    (end > 0 && !is_step()).then(|| &bytes[..end])
}

impl PartialOrd for StepPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for StepPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(step) = self.own_step() else { return f.write_str(self.names()) };
        match &self.prefix {
            Some(prefix) => write!(f, "{prefix}/{step}"),
            None => step.fmt(f),
        }
    }
}

impl fmt::Debug for StepPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// Error for a string that is not a step path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a step path; one looks like `model#2` or `plan/tool#1.search[1]`")]
pub struct StepPathError(String);

impl FromStr for StepPath {
    type Err = StepPathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Ok(Self::root());
        }
        let path = Self::read(text.into());
        match path.last_name() {
            Some(last) if last.starts_with(MODEL) || last.starts_with(TOOL) => {
                Err(StepPathError(text.to_owned()))
            }
            _ => Ok(path),
        }
    }
}

impl Serialize for StepPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StepPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
