//! `RunLimits`: what a workflow says about how long its runs may be executed and how often they may call models. It bounds
//! nothing itself: a run takes it over when it begins, and records it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::RunTerms;

/// Bounds of each run of a workflow, beside those that the run is started with; of two the smaller one counts. They are
/// recorded when a run begins, so a run that is resumed has those it began with. A workflow that is called in another run has
/// no run of its own: the limits of that run count, and these do not.
///
/// Without any, a run has the limits of its runtime alone: see
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
#[serde(default, deny_unknown_fields, expecting = "limits, such as {\"max_llm_calls\": 20, \"timeout_ms\": 60000}")]
#[doc(alias = "ExecutionConfig")]
#[doc(alias = "with_config")]
#[non_exhaustive]
pub struct RunLimits {
    /// The most model calls of a run with everything that it starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_llm_calls: Option<u32>,
    /// The longest that a run may be executed, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

impl RunLimits {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// The most model calls of a run with everything that it starts, in all its lives. One more fails with
    /// [`Error::LlmCallLimit`](crate::Error::LlmCallLimit).
    #[must_use]
    pub fn max_llm_calls(mut self, calls: u32) -> Self {
        self.max_llm_calls = Some(calls);
        self
    }

    /// The longest that a run may be executed, in all its processes together; the time in which it is paused, for a person or
    /// an operator, does not count. Then what is running is stopped and the run fails with
    /// [`Error::Timeout`](crate::Error::Timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Makes what a run is started with no more than this.
    pub(super) fn bound(self, terms: &mut RunTerms) {
        fn smaller<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            one.into_iter().chain(other).min()
        }
        terms.max_llm_calls = smaller(terms.max_llm_calls, self.max_llm_calls);
        terms.timeout_ms = smaller(terms.timeout_ms, self.timeout_ms);
    }
}
