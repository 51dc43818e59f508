//! `RunLimits`: limits of the execution time and the model calls of a workflow's runs. A run copies
//! and records them when it begins.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::RunTerms;

/// Limits of each run of a workflow. If a run is started with limits too, the smaller ones apply.
/// The limits are recorded when a run begins, so a resumed run keeps its limits. They do not apply
/// if the workflow is called in another run: the limits of that run apply.
///
/// Without these limits, a run has only the limits of its runtime. See
/// [`RuntimeBuilder::max_llm_calls`](crate::runtime::RuntimeBuilder::max_llm_calls).
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::workflow::{Graph, RunLimits};
///
/// let limits = RunLimits::new().max_llm_calls(20).timeout(Duration::from_secs(60));
/// let graph = Graph::new("review", "verdict").limits(limits);
/// # let _ = graph;
/// ```
///
/// As JSON and in documents it is an object: `{"max_llm_calls": 20, "timeout_ms": 60000}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "limits, such as {\"max_llm_calls\": 20, \"timeout_ms\": 60000}"
)]
#[doc(alias = "ExecutionConfig")]
#[doc(alias = "with_config")]
#[non_exhaustive]
pub struct RunLimits {
    /// Maximum number of model calls in a run, including the agents and workflows that it calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_llm_calls: Option<u32>,
    /// Maximum execution time of a run, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

impl RunLimits {
    /// Creates limits that restrict nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of model calls in a run, including the agents and workflows that it
    /// calls. The count continues when the run is resumed. A further call fails with
    /// [`Error::LlmCallLimit`](crate::Error::LlmCallLimit).
    #[must_use]
    pub fn max_llm_calls(mut self, calls: u32) -> Self {
        self.max_llm_calls = Some(calls);
        self
    }

    /// Sets the maximum execution time of a run, in all its processes together. Time in which the
    /// run is paused, for a person or an operator, does not count. At the limit, all running steps
    /// are stopped, and the run fails with [`Error::Timeout`](crate::Error::Timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Lowers the limits in the terms of a run to these limits.
    pub(super) fn bound(self, terms: &mut RunTerms) {
        fn smaller<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            one.into_iter().chain(other).min()
        }
        terms.max_llm_calls = smaller(terms.max_llm_calls, self.max_llm_calls);
        terms.timeout_ms = smaller(terms.timeout_ms, self.timeout_ms);
    }
}
