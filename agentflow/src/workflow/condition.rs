//! `Condition`: whether an edge is taken, as data. It follows from the outputs of nodes alone, so it is the same after a
//! crash.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::mapping::{Mapping, Names, Scope};
use super::outputs::{NodeIndex, Outputs};
use crate::value::Encoded;

/// A condition on the outputs of nodes.
///
/// As JSON it is an object with one of the keys `is`, `equals`, `exists`, `not`, `all` and `any`:
///
/// ```
/// use agentflow::workflow::{Condition, Mapping};
/// use serde_json::json;
///
/// let express: Condition = serde_json::from_value(json!({
///     "any": [{"is": {"from": "order", "at": "/urgent"}}, {"equals": [{"from": "kind"}, {"value": "express"}]}]
/// })).unwrap();
/// let urgent = Condition::Is(Mapping::from_part("order", "/urgent"));
/// let kind = Condition::Equals(Mapping::from("kind"), Mapping::Value("express".into()));
/// assert_eq!(express, Condition::Any(vec![urgent, kind]));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", expecting = "a condition, such as {\"exists\": {\"from\": \"page\"}}")]
#[non_exhaustive]
pub enum Condition {
    /// The value is `true`. Any other value than `true` and `false` is a failure.
    Is(Mapping),
    /// Both values are the same JSON.
    Equals(Mapping, Mapping),
    /// There is such an output or part, and it is not `null`.
    Exists(Mapping),
    /// The other way round.
    Not(Box<Condition>),
    /// All of them hold.
    All(Vec<Condition>),
    /// One of them holds.
    Any(Vec<Condition>),
}

impl Condition {
    /// The nodes and inputs that it reads, with whether one may be missing.
    pub(crate) fn reads(&self) -> Vec<(&str, bool)> {
        match self {
            Self::Is(value) => value.reads(),
            Self::Equals(one, other) => [one.reads(), other.reads()].concat(),
            Self::Exists(value) => value.reads().into_iter().map(|(node, _)| (node, true)).collect(),
            Self::Not(other) => other.reads(),
            Self::All(all) | Self::Any(all) => all.iter().flat_map(Self::reads).collect(),
        }
    }

    /// Whether it holds in every run; `None` when it depends on outputs.
    pub(crate) fn constant(&self) -> Option<bool> {
        let scope = Scope { names: &HashMap::new(), outputs: &NoOutputs, item: None };
        self.reads().is_empty().then(|| self.holds(&scope).ok()).flatten()
    }

    /// Whether it holds. In `all` and `any`, what follows the first that decides is not looked at.
    ///
    /// # Errors
    /// A sentence that says why that cannot be said.
    pub(crate) fn holds(&self, scope: &Scope<'_>) -> Result<bool, String> {
        match self {
            Self::Is(value) => match value.value(scope)? {
                Value::Bool(holds) => Ok(holds),
                other => Err(format!("a condition is `true` or `false`, and this one is `{other}`")),
            },
            Self::Equals(one, other) => Ok(one.value(scope)? == other.value(scope)?),
            Self::Exists(value) => Ok(value.value(scope).is_ok_and(|value| !value.is_null())),
            Self::Not(other) => other.holds(scope).map(|holds| !holds),
            Self::All(all) => first(all, scope, false).map(|found| !found),
            Self::Any(all) => first(all, scope, true),
        }
    }
}

/// Where no node has an output.
pub(super) struct NoOutputs;

impl Outputs for NoOutputs {
    fn output(&self, _: NodeIndex) -> Option<&Encoded> {
        None
    }
}

/// Whether one of them is so.
fn first(all: &[Condition], scope: &Scope<'_>, so: bool) -> Result<bool, String> {
    for condition in all {
        if condition.holds(scope)? == so {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A condition in a workflow.
#[derive(Clone, Debug)]
pub(crate) struct BoundCondition {
    pub(crate) condition: Arc<Condition>,
    pub(crate) names: Names,
}

impl BoundCondition {
    pub(crate) fn holds(&self, outputs: &dyn Outputs) -> Result<bool, String> {
        self.condition.holds(&Scope { names: &self.names, outputs, item: None })
    }
}
