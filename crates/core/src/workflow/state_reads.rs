//! Checks of the state keys that a graph names: which keys can be read at which place, and which
//! can be saved.

use agentflow_schema::diagnostic::Diagnostic;

use super::graph_codes;

use crate::state::StateOwner;

/// Checks the name of a key.
pub(super) fn problem_of_key(key: &str) -> Option<Diagnostic> {
    crate::state::invalid_key(key)
}

/// Checks a key that is read. The empty name represents all values.
fn problem_of_read(key: &str) -> Option<Diagnostic> {
    (!key.is_empty()).then(|| problem_of_key(key)).flatten()
}

/// Checks a key that is read where a run cannot wait for the store: in the choice of an arm, or in
/// a question.
pub(super) fn problem_in_place(key: &str) -> Option<Diagnostic> {
    problem_of_read(key).or_else(|| {
        StateOwner::split(key)
            .0
            .outlives_runs()
            .then(|| Diagnostic::new(graph_codes::STORED_KEY).name("key", key))
    })
}

/// Checks a key in the condition of an edge. Such a condition is evaluated again after a crash.
pub(super) fn problem_in_edge(key: &str) -> Option<Diagnostic> {
    problem_in_place(key).or_else(|| {
        let is_temporary = StateOwner::split(key).0 == StateOwner::Temp;
        is_temporary.then(|| Diagnostic::new(graph_codes::TEMPORARY_KEY).name("key", key))
    })
}

/// Checks a key that a step reads. A step can wait for the store.
#[cfg_attr(
    not(feature = "dynamic"),
    allow(dead_code, reason = "graphs are executed with the feature `dynamic`")
)]
pub(super) fn problem_in_step(key: &str) -> Option<Diagnostic> {
    problem_of_read(key)
}
