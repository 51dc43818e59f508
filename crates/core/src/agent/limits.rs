//! `Limits`: what bounds an agent's run. The machine and the driver enforce it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::large_outputs::LargeOutputs;
use crate::run::Host;
use crate::time::milliseconds;

const MAX_HANDOFFS: u32 = 8;

/// Bounds of one run; each has a default and its own error.
///
/// ```
/// use agentflow::agent::Limits;
/// use agentflow::prelude::*;
///
/// let agent = Agent::new("openai/gpt-5-mini").settings(Limits::default().max_steps(5).output_retries(1));
/// # let _ = agent;
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

/// Of a run of one agent nothing is said: its definition is as it was before there were teams.
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
    /// Returns the form that is hashed for an agent's definition. It never changes: the hash is compared with hashes in
    /// journals of earlier versions, which wrote the duration in another form.
    pub(crate) fn hashed_form(&self) -> Value {
        let mut form = serde_json::to_value(self).unwrap_or_default();
        if let Some(fields) = form.as_object_mut() {
            fields.remove("timeout_ms");
            fields.insert("timeout".to_owned(), json!(self.timeout));
        }
        form
    }

    /// The most turns: model calls with the tool calls that they ask for. Default 20; a run that takes more fails with
    /// [`Error::MaxStepsReached`](crate::Error::MaxStepsReached). A [message](crate::RunHandle::send_message) that comes after
    /// an answer begins the count anew.
    #[must_use]
    pub fn max_steps(mut self, steps: u32) -> Self {
        self.max_steps = steps;
        self
    }

    /// The most model calls of the agent; of a run of its own, also of everything that the run starts. Failed calls and
    /// calls that a crash interrupted count, answers of middleware do not. Default 500; one more fails with
    /// [`Error::LlmCallLimit`](crate::Error::LlmCallLimit). For a run of a workflow see
    /// [`RuntimeBuilder::max_llm_calls`](crate::runtime::RuntimeBuilder::max_llm_calls).
    #[must_use]
    pub fn max_llm_calls(mut self, calls: u32) -> Self {
        self.max_llm_calls = calls;
        self
    }

    /// The longest that the run may be executed; the time in which it waits for a person does not count. Default one hour;
    /// then it ends with
    /// [`Error::Timeout`](crate::Error::Timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The most tool calls in a row that may fail. Default 8; one more ends the run with
    /// [`Error::ToolFailures`](crate::Error::ToolFailures).
    #[must_use]
    pub fn max_tool_failures(mut self, failures: u32) -> Self {
        self.max_tool_failures = failures;
        self
    }

    /// The most tool calls that a model may ask for in one turn. The others are not made, and their results say so to
    /// the model. Default 128; 0 counts as 1.
    #[must_use]
    pub fn max_tool_calls_per_turn(mut self, calls: usize) -> Self {
        self.max_tool_calls_per_turn = calls;
        self
    }

    /// The most tool calls of a turn that run at the same time. Default 8.
    #[must_use]
    pub fn max_parallel_tools(mut self, tools: usize) -> Self {
        self.max_parallel_tools = tools;
        self
    }

    /// How often a model is asked again whose answer does not fit the agent's output type. Default 2; then the run
    /// fails with [`Error::InvalidOutput`](crate::Error::InvalidOutput).
    #[must_use]
    pub fn output_retries(mut self, retries: u32) -> Self {
        self.output_retries = retries;
        self
    }

    /// How often the agents of a [`Team`](super::Team) may transfer the conversation in a run. Default 8; one more fails
    /// with [`Error::HandoffLimit`](crate::Error::HandoffLimit).
    #[must_use]
    pub fn max_handoffs(mut self, handoffs: u32) -> Self {
        self.max_handoffs = handoffs;
        self
    }

    /// Saves large answers of the agent's tools as [artifacts](crate::artifact): the model sees how each begins, and reads
    /// more of it with the tool `read_artifact`, which the agent then has. Default: every answer is given to the model as a
    /// whole, within the tool's [`max_output`](crate::tool::ToolPolicy::max_output), since what is read in pieces costs
    /// further turns.
    ///
    /// An answer that cannot be saved becomes an error that says so; the model learns that the tool ran. An agent with a tool
    /// of its own that is called `read_artifact` fails when it is built. In a team it counts for the agent that has it.
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
