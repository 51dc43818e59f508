//! Where in a run a step is: a path of names, never a position in code.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The path of a step, such as `model#2` or `judge_risk/tool#2.search_incidents`; empty for the run itself.
///
/// Turns count from 1. A second call of the same tool in the same turn is `tool#2.search[1]`, a third `tool#2.search[2]`.
/// The text form is what is stored and shown; inside, the path is kept apart so that nothing is formatted before
/// somebody looks.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct StepPath {
    prefix: Option<Arc<str>>,
    step: Step,
}

#[derive(Clone, PartialEq, Eq, Hash, Default)]
enum Step {
    #[default]
    Run,
    Model {
        turn: u32,
    },
    Tool {
        turn: u32,
        name: Arc<str>,
        repeat: u32,
    },
}

impl StepPath {
    /// The run itself.
    pub const fn root() -> Self {
        Self { prefix: None, step: Step::Run }
    }

    /// The model call of a turn, below this path.
    pub fn model(&self, turn: u32) -> Self {
        Self { prefix: self.as_prefix(), step: Step::Model { turn } }
    }

    /// The tool call of a turn, below this path. `repeat` counts the calls of the same tool in the turn, from 0.
    pub fn tool(&self, turn: u32, name: impl Into<Arc<str>>, repeat: u32) -> Self {
        Self { prefix: self.as_prefix(), step: Step::Tool { turn, name: name.into(), repeat } }
    }

    /// A step of a name below this path, such as a node of a workflow.
    pub fn child(&self, name: &str) -> Self {
        let prefix = match self.as_prefix() {
            Some(prefix) => format!("{prefix}/{name}").into(),
            None => name.into(),
        };
        Self { prefix: Some(prefix), step: Step::Run }
    }

    /// A path of names alone, none of them `model#..` or `tool#..`.
    pub(crate) fn of_names(names: Arc<str>) -> Self {
        Self { prefix: Some(names), step: Step::Run }
    }

    /// The path as text, when it is made of names alone.
    pub(crate) fn names(&self) -> &str {
        self.prefix.as_deref().unwrap_or_default()
    }

    /// Whether this is `base` or below it.
    pub fn is_within(&self, base: &Self) -> bool {
        if base.is_root() || self == base {
            return true;
        }
        let Some(prefix) = self.prefix.as_deref() else { return false };
        match (&base.step, base.prefix.as_deref()) {
            (Step::Run, Some(base)) => is_at_or_below(prefix, base),
            (Step::Run, None) => true,
            _ => is_at_or_below(prefix, &base.to_string()),
        }
    }

    /// Whether this is a node of a name, one of its items, or below either.
    pub(crate) fn is_within_node(&self, node: &str) -> bool {
        let rest = self.prefix.as_deref().and_then(|prefix| prefix.strip_prefix(node));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '[']))
    }

    /// Whether this is `base` itself or a model or tool call of the agent that is there, and not of one further down.
    pub(crate) fn is_step_of(&self, base: &Self) -> bool {
        self == base || (self.step != Step::Run && self.parent().as_ref() == Some(base))
    }

    fn as_prefix(&self) -> Option<Arc<str>> {
        match self.step {
            Step::Run => self.prefix.clone(),
            _ => Some(self.to_string().into()),
        }
    }

    /// Whether this is the run itself.
    pub fn is_root(&self) -> bool {
        self.prefix.is_none() && self.step == Step::Run
    }

    /// The path this is below of; `None` for the run itself.
    pub fn parent(&self) -> Option<Self> {
        let parent = match self.step {
            Step::Run => self.prefix.as_deref()?.rsplit_once('/').map(|(parent, _)| parent),
            _ => self.prefix.as_deref(),
        };
        // A prefix may end in a model or tool step: what is below a tool has the tool as its parent.
        Some(parent.map_or_else(Self::root, |parent| {
            parent.parse().unwrap_or_else(|_| Self { prefix: Some(parent.into()), step: Step::Run })
        }))
    }
}

fn is_at_or_below(path: &str, base: &str) -> bool {
    path.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl fmt::Display for StepPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(prefix) = &self.prefix {
            f.write_str(prefix)?;
            if self.step != Step::Run {
                f.write_str("/")?;
            }
        }
        match &self.step {
            Step::Run => Ok(()),
            Step::Model { turn } => write!(f, "model#{turn}"),
            Step::Tool { turn, name, repeat } => {
                write!(f, "tool#{turn}.")?;
                // A model may have asked for a tool that does not exist, by any name: a slash in it is no step.
                match name.contains(['/', '%']) {
                    true => f.write_str(&name.replace('%', "%25").replace('/', "%2F"))?,
                    false => f.write_str(name)?,
                }
                match repeat {
                    0 if !name.ends_with(']') => Ok(()),
                    repeat => write!(f, "[{repeat}]"),
                }
            }
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
#[error("`{0}` is no step path; one looks like `model#2` or `plan/tool#1.search[1]`")]
pub struct StepPathError(String);

impl FromStr for StepPath {
    type Err = StepPathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Ok(Self::root());
        }
        let wrong = || StepPathError(text.to_owned());
        let (prefix, last) = match text.rsplit_once('/') {
            Some((prefix, last)) => (Some(prefix), last),
            None => (None, text),
        };
        if !last.starts_with("model#") && !last.starts_with("tool#") {
            return Ok(Self { prefix: Some(text.into()), step: Step::Run });
        }
        let prefix = prefix.map(Into::into);
        let step = if let Some(turn) = last.strip_prefix("model#") {
            Step::Model { turn: turn.parse().map_err(|_| wrong())? }
        } else {
            let (turn, name) = last["tool#".len()..].split_once('.').ok_or_else(wrong)?;
            let (name, repeat) = match name.strip_suffix(']').and_then(|name| name.rsplit_once('[')) {
                Some((name, repeat)) => (name, repeat.parse().map_err(|_| wrong())?),
                None => (name, 0),
            };
            let name = name.replace("%2F", "/").replace("%25", "%");
            Step::Tool { turn: turn.parse().map_err(|_| wrong())?, name: name.into(), repeat }
        };
        Ok(Self { prefix, step })
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
mod tests {
    use super::StepPath;

    #[test]
    fn text_form_and_back() {
        let root = StepPath::root();
        let node: StepPath = "notes/plan".parse().unwrap();
        for (path, text, parent) in [
            (root.clone(), "", None),
            (root.model(2), "model#2", Some("")),
            (root.tool(1, "search", 0), "tool#1.search", Some("")),
            (node.tool(3, "search", 2), "notes/plan/tool#3.search[2]", Some("notes/plan")),
            (node.clone(), "notes/plan", Some("notes")),
        ] {
            assert_eq!(path.to_string(), text);
            assert_eq!(text.parse::<StepPath>().unwrap(), path);
            assert_eq!(path.parent().map(|parent| parent.to_string()).as_deref(), parent);
        }
    }

    #[test]
    fn a_tool_of_an_odd_name_is_still_one_step() {
        for name in ["a/b.c", "a[1]", "tool#1.a", "x/model#2", "", "50%", "%2F", "a/b]"] {
            let path = StepPath::root().tool(1, name, 0);
            assert_eq!(path.to_string().parse::<StepPath>().unwrap(), path);
            let below = path.model(1);
            assert_eq!(below.to_string().parse::<StepPath>().unwrap(), below);
            assert_eq!(below.parent(), Some(path));
        }
    }

    #[test]
    fn what_is_within_what() {
        let path = |text: &str| text.parse::<StepPath>().unwrap();
        for (inner, outer) in [
            ("a", ""),
            ("a", "a"),
            ("a/b", "a"),
            ("a/model#1", "a"),
            ("a/tool#1.x/b", "a/tool#1.x"),
            // The calls of an agent that is a tool of an agent.
            ("tool#1.x/model#1", "tool#1.x"),
            ("tool#1.x/tool#1.y", "tool#1.x"),
            ("a/tool#1.x/tool#2.y[1]", "a/tool#1.x"),
            ("tool#1.x/tool#1.y/tool#1.z", "tool#1.x/tool#1.y"),
            ("tool#1.x/tool#1.y/tool#1.z", "tool#1.x"),
        ] {
            assert!(path(inner).is_within(&path(outer)), "{inner} in {outer}");
        }
        for (inner, outer) in [
            ("", "a"),
            ("ab", "a"),
            ("a[1]", "a"),
            ("b/a", "a"),
            ("model#1", "a"),
            ("tool#1.xy/model#1", "tool#1.x"),
            ("tool#1.x[1]/model#1", "tool#1.x"),
            ("tool#1.x", "tool#1.x/tool#1.y"),
            ("tool#2.x", "tool#1.x"),
        ] {
            assert!(!path(inner).is_within(&path(outer)), "{inner} in {outer}");
        }
        assert_eq!(path("a").child("b"), path("a/b"));
        assert_eq!(StepPath::root().child("b"), path("b"));
    }

    #[test]
    fn what_is_no_path() {
        for text in ["model#x", "tool#1", "tool#.a", "a/tool#x.b"] {
            assert!(text.parse::<StepPath>().is_err(), "{text}");
        }
    }
}
