//! `Condition`: the condition of an edge, as data. It depends only on recorded outputs and state,
//! so its result is the same after a crash.

use std::collections::HashMap;
use std::sync::Arc;

use agentflow_schema::diagnostic::{Diagnostic, ExcerptKind};
use agentflow_schema::expression::Expression;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cel_names::{CelVariables, cel_reads, cel_state_keys};
use super::mapping::{IsNode, Mapping, Names, Scope};
use super::outputs::{NodeIndex, Outputs};
use super::value_codes;
use crate::value::Encoded;

/// A condition on outputs and state.
///
/// The JSON form is an object with one of the keys `cel`, `is`, `equals`, `exists`, `not`, `all`
/// and `any`:
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
#[serde(
    rename_all = "snake_case",
    expecting = "a condition, such as {\"exists\": {\"from\": \"page\"}}"
)]
#[non_exhaustive]
pub enum Condition {
    /// The [`Expression`] is `true`. Its variables are
    /// - nodes and inputs, by name or as `nodes.page` and `nodes['arm/yes/page']`,
    /// - keys of the [state](crate::state), as `state.tone` and `state['user:name']`, and
    /// - in `until`, the previous output, as `item`.
    ///
    /// The expression is checked against the schemas of the outputs that it reads, if they are
    /// known.
    Cel(Expression),
    /// The value is `true`. Any value other than `true` and `false` is a failure.
    Is(Mapping),
    /// Both values are equal JSON.
    Equals(Mapping, Mapping),
    /// The output or the part of it exists and is not `null`.
    Exists(Mapping),
    /// The condition does not hold.
    Not(Box<Condition>),
    /// All conditions hold.
    All(Vec<Condition>),
    /// At least one condition holds.
    Any(Vec<Condition>),
}

impl Condition {
    /// Returns the nodes and inputs that the condition reads, and if their output may be missing.
    /// `is_node` returns `true` for names of nodes.
    pub(crate) fn reads<'c>(&'c self, is_node: IsNode<'_>) -> Vec<(&'c str, bool)> {
        match self {
            Self::Cel(expression) => cel_reads(expression, is_node),
            Self::Is(value) => value.reads(is_node),
            Self::Equals(one, other) => [one.reads(is_node), other.reads(is_node)].concat(),
            Self::Exists(value) => {
                value.reads(is_node).into_iter().map(|(node, _)| (node, true)).collect()
            }
            Self::Not(other) => other.reads(is_node),
            Self::All(all) | Self::Any(all) => {
                all.iter().flat_map(|of| of.reads(is_node)).collect()
            }
        }
    }

    /// Returns the state keys that the condition reads; see [`Mapping::state_keys`].
    pub(crate) fn state_keys<'c>(&'c self, is_node: IsNode<'_>) -> Vec<(&'c str, bool)> {
        match self {
            Self::Cel(expression) => cel_state_keys(expression, is_node),
            Self::Is(value) | Self::Exists(value) => value.state_keys(is_node),
            Self::Equals(one, other) => {
                [one.state_keys(is_node), other.state_keys(is_node)].concat()
            }
            Self::Not(other) => other.state_keys(is_node),
            Self::All(all) | Self::Any(all) => {
                all.iter().flat_map(|of| of.state_keys(is_node)).collect()
            }
        }
    }

    /// Returns the result if it is the same in every run, or `None` if it depends on outputs or
    /// state.
    pub(crate) fn constant(&self) -> Option<bool> {
        let scope = Scope { names: &HashMap::new(), outputs: &NoOutputs, item: None };
        // Every name counts as a node or a key here, because the graph is not known.
        let reads_nothing =
            self.reads(&|_| true).is_empty() && self.state_keys(&|_| true).is_empty();
        reads_nothing.then(|| self.holds(&scope).ok()).flatten()
    }

    /// Returns `true` if the condition holds. `all` and `any` stop at the first condition that
    /// decides the result.
    ///
    /// # Errors
    /// Returns a diagnostic if the condition cannot be evaluated.
    pub(crate) fn holds(&self, scope: &Scope<'_>) -> Result<bool, Diagnostic> {
        match self {
            Self::Cel(expression) => match expression.value(&CelVariables(scope)) {
                Ok(Value::Bool(holds)) => Ok(holds),
                Ok(other) => {
                    let found = Diagnostic::new(value_codes::EXPRESSION_NOT_A_BOOLEAN);
                    Err(found.source("expression", expression.shown()).absent("found", other))
                }
                Err(error) => {
                    Err(Diagnostic::from(error).within(ExcerptKind::Evaluated, expression.shown()))
                }
            },
            Self::Is(value) => match value.value(scope)? {
                Value::Bool(holds) => Ok(holds),
                other => {
                    let found = Diagnostic::new(value_codes::CONDITION_NOT_A_BOOLEAN);
                    Err(found.absent("found", other))
                }
            },
            Self::Equals(one, other) => Ok(one.value(scope)? == other.value(scope)?),
            Self::Exists(value) => Ok(value.value(scope).is_ok_and(|value| !value.is_null())),
            Self::Not(other) => other.holds(scope).map(|holds| !holds),
            Self::All(all) => first(all, scope, false).map(|found| !found),
            Self::Any(all) => first(all, scope, true),
        }
    }
}

/// Outputs in which no node has a value.
pub(super) struct NoOutputs;

impl Outputs for NoOutputs {
    fn output(&self, _: NodeIndex) -> Option<&Encoded> {
        None
    }
}

/// Returns `true` if any condition has the result `so`.
fn first(all: &[Condition], scope: &Scope<'_>, so: bool) -> Result<bool, Diagnostic> {
    for condition in all {
        if condition.holds(scope)? == so {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A condition with its names resolved to nodes.
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

    pub(crate) fn holds(&self, outputs: &dyn Outputs) -> Result<bool, Diagnostic> {
        self.condition.holds(&Scope { names: &self.names, outputs, item: None })
    }
}
