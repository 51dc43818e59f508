//! An `#[agent]` function as a tool: a model gives it the function's arguments. It decides nothing about the call; the agent
//! runs as a step of the run that calls it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{AgentDefinition, AgentOutline};
use crate::context::Context;
use crate::error::Result;
use crate::tool::{
    Effects, IntoTools, Tool, ToolDefinition, ToolError, ToolFuture, ToolHost, ToolList, ToolOutput, ToolPolicy,
    ToolRef,
};

/// Made of an `AgentDefinition`.
struct LinkedAgentTool {
    agent: &'static AgentDefinition,
    definition: Arc<ToolDefinition>,
}

impl AgentDefinition {
    /// Whether one of its tools changes something outside of the run.
    pub(crate) fn writes(&'static self) -> bool {
        self.agent().writes()
    }
}

impl LinkedAgentTool {
    async fn answer(&self, cx: &Context, arguments: &str) -> Result<ToolOutput, ToolError> {
        let answer = self.agent.asked(arguments)?.ask_in(cx).await;
        answer.map(ToolOutput::encoded).map_err(|error| ToolError::of(&error))
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
        // What it lacks is reported with the agent that calls it.
        let bound = self.agent.input_schema().and_then(|_| {
            drop(self.agent.agent().host(of.host).resources(of.resources).build()?);
            Ok(ToolRef::from(Self { agent: self.agent, definition: Arc::clone(&self.definition) }))
        });
        Some(bound)
    }
}

impl From<&'static AgentDefinition> for ToolRef {
    /// The `#[agent]` as a tool of its name, which takes the function's arguments.
    fn from(agent: &'static AgentDefinition) -> Self {
        // A parameter without a schema is reported by the agent that is given this.
        let parameters = agent.input_schema().unwrap_or_else(|_| json!({"type": "object"}));
        let effects = if agent.writes() { Effects::Write } else { Effects::Read };
        // Called twice at one step, it continues what it did there.
        let policy = ToolPolicy::default().effects(effects).idempotent();
        let described = agent.described();
        let description = described.description();
        let mut definition = ToolDefinition::new(agent.name(), description.about(), parameters).policy(policy);
        definition.public_description = Some(description.public());
        Self::from(LinkedAgentTool { agent, definition: Arc::new(definition) })
    }
}

impl IntoTools for &'static AgentDefinition {
    fn into_tools(self) -> ToolList {
        ToolRef::from(self).into_tools()
    }
}
