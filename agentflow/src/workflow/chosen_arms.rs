//! Which arms a router that is data takes in a run. Which it can take is looked at in `arm_sets.rs`, when the workflow is built.

use std::sync::Arc;

use serde_json::json;

use super::condition::BoundCondition;
use super::spec::Pure;
use super::step_error::StepError;
use crate::error::FailureKind;
use crate::value::Encoded;

/// Takes the first arm whose condition holds, or all of them. An arm without a condition is taken when none before it is.
pub(super) fn pick(conditions: Vec<(Arc<str>, Option<BoundCondition>)>, all: bool) -> Pure {
    Arc::new(move |outputs, _| {
        let mut taken: Vec<&str> = Vec::new();
        for (arm, condition) in &conditions {
            let takes = match condition {
                None => taken.is_empty(),
                Some(condition) => condition.holds(outputs).map_err(|problem| {
                    StepError::new(
                        FailureKind::Value,
                        format!("whether the arm `{arm}` is taken cannot be said: {problem}"),
                    )
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
                "no condition of an arm holds, and no arm is without one",
            ));
        }
        let chosen = if all { json!({"arms": taken}) } else { json!({"arm": taken[0]}) };
        Encoded::new(&chosen).map_err(|error| StepError::value("the chosen arms", &error))
    })
}
