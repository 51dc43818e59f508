//! The keys of the state that data names: which can be read where, and which can be saved. It reads and saves nothing.

use serde_json::Value;

use crate::state::{StateKey, StateOwner};

/// What is wrong with the name of a key.
pub(super) fn problem_of_key(key: &str) -> Option<String> {
    key.parse::<StateKey<Value>>().err().map(|error| error.to_string())
}

/// The same where it is read; an empty name is that of all values.
fn problem_of_read(key: &str) -> Option<String> {
    (!key.is_empty()).then(|| problem_of_key(key)).flatten()
}

/// The same where nobody waits for a store: in the choice of an arm, in a question.
pub(super) fn problem_in_place(key: &str) -> Option<String> {
    problem_of_read(key).or_else(|| {
        StateOwner::split(key).0.outlives_runs().then(|| {
            format!(
                "`{key}` cannot be read here, since it is in the store; read it before, in a node or a part that makes a value, \
                 and name that one here"
            )
        })
    })
}

/// The same of the condition of an edge, which is looked at again after a crash.
pub(super) fn problem_in_edge(key: &str) -> Option<String> {
    problem_in_place(key).or_else(|| {
        let is_temporary = StateOwner::split(key).0 == StateOwner::Temp;
        is_temporary.then(|| {
            format!(
                "`{key}` is gone after a crash, and whether the edge is taken must not change; read it in a node of `value`, \
                 and that node here"
            )
        })
    })
}

/// The same of what a step reads, which can wait.
#[cfg_attr(not(feature = "dynamic"), allow(dead_code, reason = "graphs are executed with the feature `dynamic`"))]
pub(super) fn problem_in_step(key: &str) -> Option<String> {
    problem_of_read(key)
}
