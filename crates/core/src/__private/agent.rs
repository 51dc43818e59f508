//! Items that the expansion of `#[agent]` uses: the static definition of an agent, its tools, and
//! the check of its model's name.

use super::tool::LinkedTool;
pub use crate::agent::arguments::{
    AgentArguments, AgentParameter, ParameterProbe, UndecodableParameter,
};
pub use crate::agent::call::{
    AgentAnswer, AgentCall, AgentContext, AgentError, AgentOptions, AgentParam, AgentReturn,
    Answers, TextAnswerFallback,
};
pub use crate::agent::{Agent, AgentDefinition};
pub use crate::model::PromptCache;
use crate::tool::ToolRef;

/// Creates the static definition of an `#[agent]`.
pub const fn agent_definition(
    name: &'static str,
    instruction: &'static str,
    place: (&'static str, u32),
    options: AgentOptions,
) -> AgentDefinition {
    AgentDefinition::new(name, instruction, place, options)
}

/// Returns the parameters of an `#[agent]` function.
pub fn agent_parameters<const N: usize>(parameters: [AgentParameter; N]) -> Vec<AgentParameter> {
    parameters.into()
}

/// Returns the tools of `#[agent(tools = [..])]`.
pub fn linked_tools<const N: usize>(tools: [&'static LinkedTool; N]) -> Vec<ToolRef> {
    tools.map(|tool| ToolRef::linked(tool)).into()
}

/// Fails compilation if the provider of a model name cannot be determined.
#[track_caller]
pub const fn known_model(name: &str) {
    assert!(
        crate::model::has_known_prefix(name),
        "nothing is known of this model's provider; name it too, as in `openai/gpt-5-mini`"
    );
}
