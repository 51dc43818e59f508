//! [`Limits`] of an agent's run. The machine and the driver enforce them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::large_outputs::LargeOutputs;
use crate::run::Host;
use crate::time::milliseconds;

const MAX_HANDOFFS: u32 = 8;

/// Limits of a run. Each has a default and its own error.
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::agent::Limits;
/// use agentflow::prelude::*;
///
/// let limits = Limits::default().max_steps(8).max_llm_calls(20).timeout(Duration::from_secs(60));
/// let agent = Agent::new("openai/gpt-5-mini").settings(limits);
/// # drop(agent);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Limits {
    pub(crate) max_steps: u32,
    pub(crate) max_llm_calls: u32,
    #[serde(rename = "timeout_ms", alias = "timeout", with = "milliseconds")]
    pub(crate) timeout: Duration,
    pub(crate) max_tool_failures: u32,
    pub(crate) max_tool_calls_per_turn: usize,
    pub(crate) max_parallel_tools: usize,
    pub(crate) output_retries: u32,
    #[serde(skip_serializing_if = "is_default_handoffs")]
    pub(crate) max_handoffs: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) large_outputs: Option<LargeOutputs>,
}

/// Skips the default in serialized form, so that definitions from before teams existed keep their
/// hash.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_default_handoffs(handoffs: &u32) -> bool {
    *handoffs == MAX_HANDOFFS
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_steps: 20,
            max_llm_calls: Host::MAX_LLM_CALLS,
            timeout: Duration::from_secs(60 * 60),
            max_tool_failures: 8,
            max_tool_calls_per_turn: 128,
            max_parallel_tools: 8,
            output_retries: 2,
            max_handoffs: MAX_HANDOFFS,
            large_outputs: None,
        }
    }
}

impl Limits {
    /// Returns the form that is hashed as part of an agent's definition. It must not change: the
    /// hash is compared with hashes in journals of earlier versions, which used a different form of
    /// the duration.
    pub(crate) fn hashed_form(&self) -> Value {
        let mut form = serde_json::to_value(self).unwrap_or_default();
        if let Some(fields) = form.as_object_mut() {
            fields.remove("timeout_ms");
            fields.insert("timeout".to_owned(), json!(self.timeout));
        }
        form
    }

    /// Sets the maximum number of turns: model calls with their tool calls. Default: 20. A run that
    /// needs more fails with [`Error::MaxStepsReached`](crate::Error::MaxStepsReached). A
    /// [message](crate::RunHandle::send_message) after an answer restarts the count.
    #[must_use]
    pub fn max_steps(mut self, steps: u32) -> Self {
        self.max_steps = steps;
        self
    }

    /// Sets the maximum number of model calls of the agent. For a top-level run it includes the
    /// calls of everything the run starts. Failed and interrupted calls count; answers of
    /// middleware do not. Default: 500. A further call fails with
    /// [`Error::LlmCallLimit`](crate::Error::LlmCallLimit). For workflows see
    /// [`RuntimeBuilder::max_llm_calls`](crate::runtime::RuntimeBuilder::max_llm_calls).
    #[must_use]
    pub fn max_llm_calls(mut self, calls: u32) -> Self {
        self.max_llm_calls = calls;
        self
    }

    /// Sets the maximum execution time of the run. Waiting for a person does not count. Default:
    /// one hour. The run then ends with [`Error::Timeout`](crate::Error::Timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the number of consecutive failed tool calls that ends the run with
    /// [`Error::ToolFailures`](crate::Error::ToolFailures). Default: 8.
    #[must_use]
    pub fn max_tool_failures(mut self, failures: u32) -> Self {
        self.max_tool_failures = failures;
        self
    }

    /// Sets the maximum number of tool calls in a turn. Further calls are not executed, and their
    /// results inform the model. Default: 128. 0 counts as 1.
    #[must_use]
    pub fn max_tool_calls_per_turn(mut self, calls: usize) -> Self {
        self.max_tool_calls_per_turn = calls;
        self
    }

    /// Sets the maximum number of tool calls of a turn that are executed concurrently. Default: 8.
    /// 0 counts as 1.
    #[must_use]
    pub fn max_parallel_tools(mut self, tools: usize) -> Self {
        self.max_parallel_tools = tools;
        self
    }

    /// Sets how often the model is called again after an answer that does not match the output
    /// type. Default: 2. After that the run fails with
    /// [`Error::InvalidOutput`](crate::Error::InvalidOutput).
    #[must_use]
    pub fn output_retries(mut self, retries: u32) -> Self {
        self.output_retries = retries;
        self
    }

    /// Sets the maximum number of handoffs between the agents of a [`Team`](super::Team) in a run.
    /// Default: 8. A further handoff fails with
    /// [`Error::HandoffLimit`](crate::Error::HandoffLimit).
    #[must_use]
    pub fn max_handoffs(mut self, handoffs: u32) -> Self {
        self.max_handoffs = handoffs;
        self
    }

    /// Saves large tool results as [artifacts](crate::artifact): the model receives the beginning,
    /// and reads more with the tool `read_artifact`, which is added to the agent. Default: off,
    /// since reading in pieces costs further turns. The model then receives each result as a whole,
    /// within the tool's [`max_output`](crate::tool::ToolPolicy::max_output).
    ///
    /// If a result cannot be saved, the model receives an error that states that the tool was
    /// executed. An agent that has another tool named `read_artifact` cannot be built. In a team,
    /// the setting applies only to the agent that has it.
    #[must_use]
    pub fn large_outputs(mut self, large: LargeOutputs) -> Self {
        self.large_outputs = Some(large);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hashed_form_is_that_of_earlier_versions() {
        let expected = json!({
            "max_steps": 20,
            "max_llm_calls": 500,
            "timeout": {"secs": 1, "nanos": 500_000_000},
            "max_tool_failures": 8,
            "max_tool_calls_per_turn": 128,
            "max_parallel_tools": 8,
            "output_retries": 2,
        });
        assert_eq!(Limits::default().timeout(Duration::from_millis(1500)).hashed_form(), expected);
    }
}
