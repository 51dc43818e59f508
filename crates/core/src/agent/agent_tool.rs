//! `AgentTool`: an agent that other agents call as a tool. The agent is executed as a step of the
//! calling run.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::run_request::RunRequest;
use super::{Agent, AgentOutline};
use crate::context::Context;
use crate::error::Result;
use crate::run::Host;
use crate::tool::{
    Effects, IntoTools, Tool, ToolDefinition, ToolError, ToolFuture, ToolHost, ToolList,
    ToolOutput, ToolPolicy, ToolRef, read_arguments,
};

/// Length in bytes of the part of the instructions that serves as a tool description.
pub(super) const DESCRIPTION: usize = 1024;

/// An agent as a tool. [`Agent::tools`] accepts an agent directly; use this type to change the
/// tool's name, description or policy.
///
/// The model passes a `request`, which is a string. An agent of an `#[agent]` function, such as
/// `judge::agent(..)`, takes no arguments and uses the prompt of the function. The result is the
/// text of the answer, or the JSON of the agent's output type.
///
/// A call is part of the calling run: the agent's events are recorded below the call, it has the
/// caller's grants in addition to its own, it stops when the run ends, and after a crash the call
/// continues where it was. An agent without a runtime uses the runtime and the resources of the
/// calling agent.
///
/// ```
/// use agentflow::agent::AgentTool;
/// use agentflow::prelude::*;
/// use agentflow_testing::{ScriptedModel, Turn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let expert = Agent::new(ScriptedModel::new([Turn::text("A green one.")])).name("tea_expert").instruct("You know tea.");
/// let model = ScriptedModel::new([
///     Turn::call("ask_about_tea", serde_json::json!({"request": "Which tea wakes me?"})),
///     Turn::text("Drink a green one."),
/// ]);
/// let agent = Agent::new(model).tools(AgentTool::new(expert).name("ask_about_tea"));
/// assert_eq!(agent.run("I am tired.").await?.output(), "Drink a green one.");
/// # Ok(())
/// # }
/// ```
pub struct AgentTool<O = String> {
    agent: Agent<O>,
    definition: Arc<ToolDefinition>,
}

#[derive(Deserialize)]
struct Arguments {
    request: String,
}

impl<O: 'static> AgentTool<O> {
    /// Creates a tool with the name of the agent. The model sees the agent's
    /// [description](super::AgentSettings::description), or the beginning of its instructions;
    /// clients of a server never see the instructions. The tool has side effects if a tool of the
    /// agent has.
    pub fn new(agent: Agent<O>) -> Self {
        let description = &agent.description;
        let about = Some(description.about()).filter(|about| !about.is_empty());
        let about = about.unwrap_or_else(|| description.public());
        let parameters = match &description.prompt {
            Some(_) => json!({"type": "object", "properties": {}, "additionalProperties": false}),
            None => json!({
                "type": "object",
                "properties": {"request": {"type": "string", "description": "What the agent is asked, with all that it needs to know."}},
                "required": ["request"],
                "additionalProperties": false,
            }),
        };
        let effects = if agent.writes() { Effects::Write } else { Effects::Read };
        // A repeated call at the same step resumes the agent instead of starting it again, so it is
        // idempotent.
        let policy = ToolPolicy::default().effects(effects).idempotent();
        let mut definition =
            ToolDefinition::new(Arc::clone(&description.name), about, parameters).policy(policy);
        definition.public_description = Some(description.public());
        Self { agent, definition: Arc::new(definition) }
    }

    /// Sets the name of the tool. Default: the agent's name.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        Arc::make_mut(&mut self.definition).name = name.into();
        self
    }

    /// Sets the description of the tool. Default: the agent's
    /// [description](super::AgentSettings::description), or else the beginning of its instructions.
    #[must_use]
    pub fn description(mut self, description: impl Into<Arc<str>>) -> Self {
        let definition = Arc::make_mut(&mut self.definition);
        (definition.description, definition.public_description) = (description.into(), None);
        self
    }

    /// Changes the policy. The default has the effects of the agent's tools and is idempotent, so
    /// the call may be repeated after a crash.
    #[must_use]
    pub fn policy(mut self, change: impl FnOnce(ToolPolicy) -> ToolPolicy) -> Self {
        let definition = Arc::make_mut(&mut self.definition);
        definition.policy = change(std::mem::take(&mut definition.policy));
        self
    }

    async fn answer(&self, cx: &Context, arguments: &str) -> Result<ToolOutput, ToolError> {
        let request = match self.agent.description.prompt {
            Some(_) => {
                read_arguments::<Value>(arguments, &self.definition.parameters)?;
                RunRequest::default()
            }
            None => RunRequest::new(
                read_arguments::<Arguments>(arguments, &self.definition.parameters)?.request,
            ),
        };
        let answer = self.agent.answer_in(cx, request).await;
        answer.map(ToolOutput::encoded).map_err(|error| ToolError::from_error(&error))
    }
}

impl<O: 'static> Tool for AgentTool<O> {
    fn definition(&self) -> &Arc<ToolDefinition> {
        &self.definition
    }

    fn call<'a>(&'a self, cx: &'a Context, arguments: &'a str) -> ToolFuture<'a> {
        ToolFuture::pending(self.answer(cx, arguments))
    }

    fn inside(&self) -> Option<Box<dyn std::any::Any>> {
        Some(Box::new(AgentOutline::of(&self.agent)))
    }

    fn output_schema(&self) -> Option<Value> {
        Some(self.agent.answer_schema())
    }

    fn checks_arguments(&self) -> bool {
        true
    }

    fn within(&self, of: ToolHost<'_>) -> Option<Result<ToolRef>> {
        let agent = match Arc::ptr_eq(&self.agent.description.host, Host::of_process()) {
            true => {
                let own = self.agent.description.resources.clone();
                self.agent.clone().host(of.host).resources(of.resources).resources(&own)
            }
            false => self.agent.clone(),
        };
        // Building the agent here reports missing resources and an unknown model together with the
        // calling agent.
        let bound =
            agent.build().map(|agent| Self { agent, definition: Arc::clone(&self.definition) });
        Some(bound.map(ToolRef::from))
    }
}

impl<O: 'static> From<Agent<O>> for ToolRef {
    fn from(agent: Agent<O>) -> Self {
        AgentTool::new(agent).into()
    }
}

impl<O: 'static> IntoTools for Agent<O> {
    fn into_tools(self) -> ToolList {
        ToolRef::from(self).into_tools()
    }
}

impl<O: 'static> IntoTools for AgentTool<O> {
    fn into_tools(self) -> ToolList {
        ToolRef::from(self).into_tools()
    }
}

impl<O> Clone for AgentTool<O> {
    fn clone(&self) -> Self {
        Self { agent: self.agent.clone(), definition: Arc::clone(&self.definition) }
    }
}

impl<O> fmt::Debug for AgentTool<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AgentTool").field(&self.definition.name).finish()
    }
}
