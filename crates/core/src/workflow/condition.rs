//! `Condition`: whether an edge is taken, as data. It follows from the outputs of nodes alone, so it is the same after a
//! crash.

use std::collections::HashMap;
use std::sync::Arc;

use agentflow_schema::expression::Expression;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cel_names::{CelNames, cel_reads, cel_state_keys};
use super::mapping::{IsNode, Mapping, Names, Scope};
use super::outputs::{NodeIndex, Outputs};
use crate::value::Encoded;

/// A condition on the outputs of nodes.
///
/// As JSON it is an object with one of the keys `cel`, `is`, `equals`, `exists`, `not`, `all` and `any`:
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
///
/// let large: Condition = serde_json::from_value(json!({"cel": "order.total > 100 && state.kind == 'a'"})).unwrap();
/// assert_eq!(large, Condition::Cel("order.total > 100 && state.kind == 'a'".parse().unwrap()));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", expecting = "a condition, such as {\"exists\": {\"from\": \"page\"}}")]
#[non_exhaustive]
pub enum Condition {
    /// An [`Expression`] is `true`. Its variables are nodes and inputs, by their names or as `nodes.page` and
    /// `nodes['arm/yes/page']`; keys of the [state](crate::state), as `state.tone` and `state['user:name']`; and in `until`
    /// the last output, as `item`. What it reads is checked against the schemas of the outputs, where they are known.
    Cel(Expression),
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
    /// The nodes and inputs that it reads, with whether one may be missing. `is_node` says which names are those of nodes.
    pub(crate) fn reads<'c>(&'c self, is_node: IsNode<'_>) -> Vec<(&'c str, bool)> {
        match self {
            Self::Cel(expression) => cel_reads(expression, is_node),
            Self::Is(value) => value.reads(is_node),
            Self::Equals(one, other) => [one.reads(is_node), other.reads(is_node)].concat(),
            Self::Exists(value) => value.reads(is_node).into_iter().map(|(node, _)| (node, true)).collect(),
            Self::Not(other) => other.reads(is_node),
            Self::All(all) | Self::Any(all) => all.iter().flat_map(|of| of.reads(is_node)).collect(),
        }
    }

    /// The keys of the state that it reads, as [`Mapping::state_keys`].
    pub(crate) fn state_keys<'c>(&'c self, is_node: IsNode<'_>) -> Vec<(&'c str, bool)> {
        match self {
            Self::Cel(expression) => cel_state_keys(expression, is_node),
            Self::Is(value) | Self::Exists(value) => value.state_keys(is_node),
            Self::Equals(one, other) => [one.state_keys(is_node), other.state_keys(is_node)].concat(),
            Self::Not(other) => other.state_keys(is_node),
            Self::All(all) | Self::Any(all) => all.iter().flat_map(|of| of.state_keys(is_node)).collect(),
        }
    }

    /// Whether it holds in every run; `None` when it depends on outputs.
    pub(crate) fn constant(&self) -> Option<bool> {
        let scope = Scope { names: &HashMap::new(), outputs: &NoOutputs, item: None };
        // A name that may be that of a node or of a key says nothing before the run.
        let reads_nothing = self.reads(&|_| true).is_empty() && self.state_keys(&|_| true).is_empty();
        reads_nothing.then(|| self.holds(&scope).ok()).flatten()
    }

    /// Whether it holds. In `all` and `any`, what follows the first that decides is not looked at.
    ///
    /// # Errors
    /// A sentence that says why that cannot be said.
    pub(crate) fn holds(&self, scope: &Scope<'_>) -> Result<bool, String> {
        match self {
            Self::Cel(expression) => match expression.value(&CelNames(scope)) {
                Ok(Value::Bool(holds)) => Ok(holds),
                Ok(other) => Err(format!(
                    "`{}` is `{other}`, and not `true` or `false`; compare it with a value",
                    expression.shown()
                )),
                Err(error) => Err(format!("`{}` cannot be evaluated: {error}", expression.shown())),
            },
            Self::Is(value) => match value.value(scope)? {
                Value::Bool(holds) => Ok(holds),
                other => Err(format!("the value is `{other}`, and not `true` or `false`; compare it with `equals`")),
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
    pub(crate) sees_state: bool,
}

impl BoundCondition {
    pub(crate) fn new(condition: &Condition, names: Names) -> Self {
        let sees_state = !condition.state_keys(&|name| names.contains_key(name)).is_empty();
        Self { condition: Arc::new(condition.clone()), names, sees_state }
    }

    pub(crate) fn holds(&self, outputs: &dyn Outputs) -> Result<bool, String> {
        self.condition.holds(&Scope { names: &self.names, outputs, item: None })
    }
}
