//! Where in a run a step is: a path of names, never a position in code. The one place that reads and writes its text.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The path of a step, such as `model#2` or `judge_risk/tool#2.search_incidents`; empty for the run itself.
///
/// Turns count from 1. A second call of the same tool in the same turn is `tool#2.search[1]`, a third
/// `tool#2.search[2]`. The items of a map and the rounds of a repetition are `node[0]`, `node[1]`. The text form is
/// what is stored and shown; inside, the path is kept apart so that nothing is formatted before somebody looks.
///
/// In its order, what is below a path follows it, then its items with what is below them; nothing else is in between.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct StepPath {
    /// The text of all segments but the step.
    prefix: Option<Arc<str>>,
    step: Step,
}

/// What a path ends in. Each event has a path, so there is no room for a tag.
#[derive(Clone, PartialEq, Eq, Default)]
struct Step {
    /// The name of a tool.
    tool: Option<Arc<str>>,
    turn: u32,
    /// Of a tool the repeat, of a model 1, else 0.
    count: u32,
}

impl Hash for StepPath {
    /// Few writes: a run looks steps up by their path several times for each.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.prefix.as_deref().unwrap_or_default().hash(state);
        state.write_u64(u64::from(self.step.turn) << 32 | u64::from(self.step.count));
        if let Some(tool) = &self.step.tool {
            tool.hash(state);
        }
    }
}

impl Step {
    const NONE: Self = Self { tool: None, turn: 0, count: 0 };

    fn model(turn: u32) -> Self {
        Self { tool: None, turn, count: 1 }
    }

    /// Whether the path ends with its prefix.
    fn is_empty(&self) -> bool {
        self.tool.is_none() && self.count == 0
    }
}

/// One part of a path, between two slashes of its text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathSegment<'p> {
    /// A node, an arm or a branch; an item of a map or a round of a repetition.
    Name { name: &'p str, item: Option<u32> },
    /// A model call of a turn.
    Model { turn: u32 },
    /// A tool call of a turn.
    Tool { turn: u32, name: Cow<'p, str>, repeat: u32 },
}

/// How the segments of a model and of a tool call begin.
const MODEL: &str = "model#";
const TOOL: &str = "tool#";

impl<'p> PathSegment<'p> {
    /// Reads what is written. Every text is a segment: what no step would be written as is a name.
    fn read(text: &'p str) -> Self {
        Self::read_step(text).unwrap_or_else(|| match item_of(text) {
            Some((name, item)) => Self::Name { name, item: Some(item) },
            None => Self::Name { name: text, item: None },
        })
    }

    fn read_step(text: &'p str) -> Option<Self> {
        if let Some(turn) = text.strip_prefix(MODEL) {
            return Some(Self::Model { turn: number(turn)? });
        }
        let (turn, written) = text.strip_prefix(TOOL)?.split_once('.')?;
        let (name, repeat) = match item_of(written) {
            // Only a name that ends like a repeat has a repeat of 0 behind it.
            Some((name, 0)) if !name.ends_with(']') => return None,
            Some((name, repeat)) => (name, repeat),
            None if written.ends_with(']') => return None,
            None => (written, 0),
        };
        Some(Self::Tool { turn: number(turn)?, name: unescaped(name)?, repeat })
    }
}

/// What stands before `[N]`, and the number.
fn item_of(text: &str) -> Option<(&str, u32)> {
    let (name, item) = text.strip_suffix(']')?.rsplit_once('[')?;
    Some((name, number(item)?))
}

/// A number as it is written here: digits, and no zero before others.
fn number(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|digit| digit.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

/// A model may have asked for a tool that does not exist, by any name: a slash in it separates no steps.
fn escaped(name: &str) -> Cow<'_, str> {
    match name.contains(['/', '%']) {
        true => name.replace('%', "%25").replace('/', "%2F").into(),
        false => name.into(),
    }
}

/// The name that is written so; `None` when none is.
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

/// What stands before the number of a question that a call asks in the middle.
const QUESTION: &str = "ask#";

impl StepPath {
    /// The run itself.
    pub const fn root() -> Self {
        Self { prefix: None, step: Step::NONE }
    }

    /// The model call of a turn, below this path.
    pub fn model(&self, turn: u32) -> Self {
        Self { prefix: self.as_prefix(), step: Step::model(turn) }
    }

    /// The tool call of a turn, below this path. `repeat` counts the calls of the same tool in the turn, from 0.
    pub fn tool(&self, turn: u32, name: impl Into<Arc<str>>, repeat: u32) -> Self {
        Self { prefix: self.as_prefix(), step: Step { tool: Some(name.into()), turn, count: repeat } }
    }

    /// A step of a name below this path, such as a node of a workflow. A name with slashes is several steps. One that
    /// would be read as a step without a turn is written with `%23` for its `#`.
    pub fn child(&self, name: &str) -> Self {
        if name.is_empty() {
            return self.clone();
        }
        let text = match self.as_prefix() {
            Some(prefix) => Cow::Owned(format!("{prefix}/{name}")),
            None => Cow::Borrowed(name),
        };
        text.parse().unwrap_or_else(|_| {
            let at = text.rfind('/').map_or(0, |at| at + 1);
            Self { prefix: Some(format!("{}{}", &text[..at], text[at..].replace('#', "%23")).into()), step: Step::NONE }
        })
    }

    /// An item of the node that is here.
    pub(crate) fn with_item(&self, item: u32) -> Self {
        let mut text = match self.step.is_empty() {
            true => self.names().to_owned(),
            false => self.to_string(),
        };
        // Writing to a string does not fail.
        let _ = write!(text, "[{item}]");
        Self { prefix: Some(text.into()), step: Step::NONE }
    }

    /// A path of names that are not checked yet.
    pub(crate) fn of_names(names: Arc<str>) -> Self {
        Self { prefix: Some(names), step: Step::NONE }
    }

    /// The path as text, when it is made of names alone.
    pub(crate) fn names(&self) -> &str {
        self.prefix.as_deref().unwrap_or_default()
    }

    /// The parts of the path, from the outermost.
    pub(crate) fn segments(&self) -> impl Iterator<Item = PathSegment<'_>> {
        read_segments(self.names()).chain(self.own_step())
    }

    /// The last segment, when it is a model or a tool call.
    fn own_step(&self) -> Option<PathSegment<'_>> {
        let Step { tool, turn, count } = &self.step;
        match (tool, *count) {
            (Some(name), repeat) => Some(PathSegment::Tool { turn: *turn, name: Cow::Borrowed(name), repeat }),
            (None, 0) => None,
            (None, _) => Some(PathSegment::Model { turn: *turn }),
        }
    }

    /// How many segments there are, an item counted as one more.
    pub(crate) fn depth(&self) -> usize {
        self.segments()
            .map(|segment| if matches!(segment, PathSegment::Name { item: Some(_), .. }) { 2 } else { 1 })
            .sum()
    }

    /// The last name with its item, as it is written; `None` when the path ends in a model or a tool call.
    pub(crate) fn last_name(&self) -> Option<&str> {
        let prefix = self.prefix.as_deref().filter(|_| self.step.is_empty())?;
        Some(prefix.rsplit_once('/').map_or(prefix, |(_, last)| last))
    }

    /// The node that this is an item of, and which item.
    pub(crate) fn item(&self) -> Option<(Self, u32)> {
        let (whole, item) = item_of(self.last_name()?)?;
        let text = self.names();
        // The name of the item is the end of the text.
        let end = text.len() - self.last_name()?.len() + whole.len();
        Some((Self { prefix: Some(text[..end].into()), step: Step::NONE }, item))
    }

    /// Whether this is `base` or below it. The items of a node are beside it.
    pub fn is_within(&self, base: &Self) -> bool {
        if base.is_root() || self == base {
            return true;
        }
        let Some(prefix) = self.prefix.as_deref() else { return false };
        match (base.step.is_empty(), base.prefix.as_deref()) {
            (true, Some(base)) => {
                prefix.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            (true, None) => true,
            _ => {
                let mut own = self.segments();
                base.segments().all(|segment| own.next() == Some(segment))
            }
        }
    }

    /// Whether this is `node`, one of its items, or below either.
    pub(crate) fn belongs_to(&self, node: &Self) -> bool {
        let mut own = self.segments();
        let mut of = node.segments().peekable();
        while let Some(part) = of.next() {
            let Some(own) = own.next() else { return false };
            let is_item = || match (&own, &part) {
                (PathSegment::Name { name: own, .. }, PathSegment::Name { name, item: None }) => own == name,
                _ => false,
            };
            if own != part && (of.peek().is_some() || !is_item()) {
                return false;
            }
        }
        true
    }

    /// Whether this is `base` itself or a model or tool call of the agent that is there, and not of one further down.
    pub(crate) fn is_step_of(&self, base: &Self) -> bool {
        self == base || (!self.step.is_empty() && self.parent().as_ref() == Some(base))
    }

    /// The turn of the model or tool call that it ends in.
    pub(crate) fn turn(&self) -> Option<u32> {
        (!self.step.is_empty()).then_some(self.step.turn)
    }

    /// Whether it ends in a tool call.
    pub(crate) fn is_tool_call(&self) -> bool {
        self.step.tool.is_some()
    }

    /// A question that the call which is here asks in the middle, from 1.
    #[cfg(any(feature = "mcp", feature = "a2a-client"))]
    pub(crate) fn question(&self, number: u32) -> Self {
        self.child(&format!("{QUESTION}{number}"))
    }

    /// Whether it ends in a question that a call asked in the middle.
    pub(crate) fn is_question(&self) -> bool {
        self.last_name().is_some_and(|name| name.starts_with(QUESTION))
    }

    /// Whether the last segments of this are those of `tail`, and there are more before.
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

    /// Whether this is the run itself.
    pub fn is_root(&self) -> bool {
        self.prefix.is_none() && self.step.is_empty()
    }

    /// The path this is below of; `None` for the run itself.
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

    /// What this is below of, the nearest first, to the run itself.
    pub(crate) fn parents(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(self.parent(), Self::parent)
    }

    /// The path of a text of which nothing is refused.
    fn read(text: Arc<str>) -> Self {
        let (prefix, last) = match text.rsplit_once('/') {
            Some((prefix, last)) => (Some(prefix), last),
            None => (None, &*text),
        };
        let step = match PathSegment::read(last) {
            PathSegment::Name { .. } => return Self { prefix: Some(text), step: Step::NONE },
            PathSegment::Model { turn } => Step::model(turn),
            PathSegment::Tool { turn, name, repeat } => Step { tool: Some(name.into()), turn, count: repeat },
        };
        Self { prefix: prefix.map(Into::into), step }
    }
}

impl Ord for StepPath {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        COMPARED.with(|compared| compared.set(compared.get() + 1));
        // An end comes before a further segment, and a node before its items: so what is below a path follows it. What two
        // paths have in common is not read: a journal's fold compares paths many times.
        let (a, b) = (self.names(), other.names());
        let common = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
        if common == a.len() && common == b.len() {
            return self.own_step().cmp(&other.own_step());
        }
        // A byte that differs may be in the middle of a character; a slash never is.
        let from = a.as_bytes()[..common].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
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

/// The segments of a text, none of an empty one.
fn read_segments(text: &str) -> impl Iterator<Item = PathSegment<'_>> {
    let segments = (!text.is_empty()).then(|| text.split('/'));
    segments.into_iter().flatten().map(PathSegment::read)
}

/// The first segment of a text, when it is a name without an item.
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

/// The text was no step path.
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
            Some(last) if last.starts_with(MODEL) || last.starts_with(TOOL) => Err(StepPathError(text.to_owned())),
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
