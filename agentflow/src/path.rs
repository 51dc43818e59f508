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
        if self.step != Step::Run {
            return Some(Self { prefix: self.prefix.clone(), step: Step::Run });
        }
        let prefix = self.prefix.as_deref()?;
        Some(match prefix.rsplit_once('/') {
            Some((parent, _)) => Self { prefix: Some(parent.into()), step: Step::Run },
            None => Self::root(),
        })
    }
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
            Step::Tool { turn, name, repeat: 0 } if !name.ends_with(']') => write!(f, "tool#{turn}.{name}"),
            Step::Tool { turn, name, repeat } => write!(f, "tool#{turn}.{name}[{repeat}]"),
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
        // A model may have called a tool that does not exist by any name, slashes included, so the step is found by
        // its marker and not by the last slash.
        let at = ["model#", "tool#"]
            .iter()
            .filter_map(|marker| {
                if text.starts_with(marker) { Some(0) } else { text.find(&format!("/{marker}")).map(|at| at + 1) }
            })
            .min();
        let Some(at) = at else {
            return Ok(Self { prefix: Some(text.into()), step: Step::Run });
        };
        let prefix = (at > 0).then(|| text[..at - 1].into());
        let last = &text[at..];
        let step = if let Some(turn) = last.strip_prefix("model#") {
            Step::Model { turn: turn.parse().map_err(|_| wrong())? }
        } else {
            let (turn, name) = last["tool#".len()..].split_once('.').ok_or_else(wrong)?;
            let (name, repeat) = match name.strip_suffix(']').and_then(|name| name.rsplit_once('[')) {
                Some((name, repeat)) => (name, repeat.parse().map_err(|_| wrong())?),
                None => (name, 0),
            };
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
        for name in ["a/b.c", "a[1]", "tool#1.a", "x/model#2", ""] {
            let path = StepPath::root().tool(1, name, 0);
            assert_eq!(path.to_string().parse::<StepPath>().unwrap(), path);
        }
    }

    #[test]
    fn what_is_no_path() {
        for text in ["model#x", "tool#1", "tool#.a", "a/tool#x.b"] {
            assert!(text.parse::<StepPath>().is_err(), "{text}");
        }
    }
}
