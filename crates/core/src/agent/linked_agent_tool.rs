//! An `#[agent]` function as a tool: the model passes the function's arguments. The agent is
//! executed as a step of the calling run.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{AgentDefinition, AgentOutline};
use crate::context::Context;
use crate::error::Result;
use crate::tool::{
    Effects, IntoTools, Tool, ToolDefinition, ToolError, ToolFuture, ToolHost, ToolList,
    ToolOutput, ToolPolicy, ToolRef,
};

/// Tool that calls an `AgentDefinition`.
struct LinkedAgentTool {
    agent: &'static AgentDefinition,
    definition: Arc<ToolDefinition>,
}

impl AgentDefinition {
    /// `true` if a tool of the agent has side effects outside the run.
    pub(crate) fn writes(&'static self) -> bool {
        self.agent().writes()
    }
}

impl LinkedAgentTool {
    async fn answer(&self, cx: &Context, arguments: &str) -> Result<ToolOutput, ToolError> {
        let answer = self.agent.asked(arguments)?.ask_in(cx).await;
        answer.map(ToolOutput::encoded).map_err(|error| ToolError::from_error(&error))
    }
}

impl Tool for LinkedAgentTool {
    fn definition(&self) -> &Arc<ToolDefinition> {
        &self.definition
    }

    fn call<'a>(&'a self, cx: &'a Context, arguments: &'a str) -> ToolFuture<'a> {
        ToolFuture::pending(self.answer(cx, arguments))
    }

    fn inside(&self) -> Option<Box<dyn std::any::Any>> {
        Some(Box::new(AgentOutline::of(&self.agent.agent())))
    }

    fn output_schema(&self) -> Option<Value> {
        Some(self.agent.described().answer_schema())
    }

    fn checks_arguments(&self) -> bool {
        true
    }

    fn within(&self, of: ToolHost<'_>) -> Option<Result<ToolRef>> {
        // Building the agent here reports missing resources and an unknown model together with the
        // agent that calls the tool.
        let bound = self.agent.input_schema().and_then(|_| {
            drop(self.agent.agent().host(of.host).resources(of.resources).build()?);
            Ok(ToolRef::from(Self { agent: self.agent, definition: Arc::clone(&self.definition) }))
        });
        Some(bound)
    }
}

impl From<&'static AgentDefinition> for ToolRef {
    /// Returns the `#[agent]` as a tool with the agent's name and the function's arguments.
    fn from(agent: &'static AgentDefinition) -> Self {
        // `within` reports a parameter without a schema, when an agent receives the tool.
        let parameters = agent.input_schema().unwrap_or_else(|_| json!({"type": "object"}));
        let effects = if agent.writes() { Effects::Write } else { Effects::Read };
        // A repeated call at the same step resumes the agent instead of starting it again, so it is
        // idempotent.
        let policy = ToolPolicy::default().effects(effects).idempotent();
        let described = agent.described();
        let description = described.description();
        let mut definition =
            ToolDefinition::new(agent.name(), description.about(), parameters).policy(policy);
        definition.public_description = Some(description.public());
        Self::from(LinkedAgentTool { agent, definition: Arc::new(definition) })
    }
}

impl IntoTools for &'static AgentDefinition {
    fn into_tools(self) -> ToolList {
        ToolRef::from(self).into_tools()
    }
}
