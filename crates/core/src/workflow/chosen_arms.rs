//! Choice of arms by a router that is data, in a run. `arm_sets.rs` determines the possible choices
//! when the workflow is built.

use std::sync::Arc;

use agentflow_schema::text::head;
use serde_json::json;

use super::condition::BoundCondition;
use super::outputs::Outputs;
use super::spec::Pure;
use super::step_error::StepError;
use crate::error::FailureKind;
use crate::value::Encoded;

/// Creates the function that chooses the first arm whose condition holds, or all such arms. An arm
/// without a condition is chosen if no earlier one was.
pub(super) fn pick(conditions: Vec<(Arc<str>, Option<BoundCondition>)>, all: bool) -> Pure {
    Arc::new(move |outputs, _| {
        let mut taken: Vec<&str> = Vec::new();
        for (arm, condition) in &conditions {
            let takes = match condition {
                None => taken.is_empty(),
                Some(condition) => condition.holds(outputs).map_err(|problem| {
                    let what = format!("the condition of the arm `{arm}` failed");
                    StepError::of_value(&problem).within(&what)
                })?,
            };
            if takes {
                taken.push(arm);
                if !all {
                    break;
                }
            }
        }
        if taken.is_empty() {
            return Err(StepError::new(
                FailureKind::RouteUnmatched,
                unmatched(&conditions, outputs),
            ));
        }
        let chosen = if all { json!({"arms": taken}) } else { json!({"arm": taken[0]}) };
        Encoded::new(&chosen).map_err(|error| StepError::value("the chosen arms", &error))
    })
}

/// Maximum number of bytes of a condition or a value in an error message.
const SHOWN: usize = 200;

/// Formats the error of a router without a matching arm: the conditions and the values that they
/// read.
fn unmatched(conditions: &[(Arc<str>, Option<BoundCondition>)], outputs: &dyn Outputs) -> String {
    let mut arms: Vec<String> = Vec::new();
    let mut values: Vec<String> = Vec::new();
    for (arm, condition) in conditions {
        let Some(BoundCondition { condition, names, .. }) = condition else { continue };
        let written = serde_json::to_string(&**condition).unwrap_or_default();
        arms.push(format!("`{arm}` if {}", head(&written, SHOWN)));
        for (node, _) in condition.reads(&|name| names.contains_key(name)) {
            let value = names
                .get(node)
                .and_then(|at| outputs.output(*at))
                .map_or("nothing", Encoded::as_str);
            values.push(format!("`{node}` is {}", head(value, SHOWN)));
        }
        for (key, _) in condition.state_keys(&|name| names.contains_key(name)) {
            let value = outputs.state().and_then(|state| state.get(key)?);
            let value = value.map_or_else(|| "not there".to_owned(), ToString::to_string);
            values.push(format!("`state.{key}` is {}", head(&value, SHOWN)));
        }
    }
    values.sort();
    values.dedup();
    let read = if values.is_empty() { String::new() } else { format!("; {}", values.join(", ")) };
    format!(
        "no condition of an arm holds, and no arm is without one: {}{read}; add an arm without a condition",
        arms.join(", ")
    )
}
