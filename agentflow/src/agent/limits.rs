//! What bounds a run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Bounds of one run; each has a default and its own error.
///
/// ```
/// use agentflow::agent::Limits;
///
/// let limits = Limits::default().max_steps(5);
/// assert_eq!(limits.max_steps, 5);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Limits {
    /// The most turns (one model call with the tool calls it asks for). Default 20.
    pub max_steps: u32,
    /// The most model calls of the agent; of a run of its own, also of everything that the run starts. Calls that failed
    /// and calls that a crash cut short count, answers of middleware do not. Default 500. For a run of a workflow see
    /// [`RuntimeBuilder::max_llm_calls`](crate::runtime::RuntimeBuilder::max_llm_calls).
    pub max_llm_calls: u32,
    /// The longest the run may take. Default one hour.
    pub timeout: Duration,
    /// The most tool calls that may fail in a row before the run gives up. Default 8.
    pub max_tool_failures: u32,
    /// The most tool calls that a model may ask for in one turn. The others are not made, and their results say
    /// so to the model. Default 128; 0 counts as 1.
    pub max_tool_calls_per_turn: usize,
    /// The most tool calls of a turn that run at the same time. Default 8.
    pub max_parallel_tools: usize,
    /// How often a model is asked again whose answer does not fit the agent's output type. Default 2.
    pub output_retries: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_steps: 20,
            max_llm_calls: 500,
            timeout: Duration::from_secs(60 * 60),
            max_tool_failures: 8,
            max_tool_calls_per_turn: 128,
            max_parallel_tools: 8,
            output_retries: 2,
        }
    }
}

impl Limits {
    /// Sets the most turns.
    #[must_use]
    pub fn max_steps(mut self, steps: u32) -> Self {
        self.max_steps = steps;
        self
    }

    /// Sets the most model calls.
    #[must_use]
    pub fn max_llm_calls(mut self, calls: u32) -> Self {
        self.max_llm_calls = calls;
        self
    }

    /// Sets the longest the run may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the most tool calls that may fail in a row.
    #[must_use]
    pub fn max_tool_failures(mut self, failures: u32) -> Self {
        self.max_tool_failures = failures;
        self
    }

    /// Sets the most tool calls of one turn; 0 counts as 1.
    #[must_use]
    pub fn max_tool_calls_per_turn(mut self, calls: usize) -> Self {
        self.max_tool_calls_per_turn = calls;
        self
    }

    /// Sets how often a model is asked again whose answer does not fit.
    #[must_use]
    pub fn output_retries(mut self, retries: u32) -> Self {
        self.output_retries = retries;
        self
    }

    /// Sets the most tool calls that run at the same time; 0 counts as 1.
    #[must_use]
    pub fn max_parallel_tools(mut self, tools: usize) -> Self {
        self.max_parallel_tools = tools;
        self
    }
}
