//! `AgentOutline`: an agent as data: its model, tools, toolsets, and the agents and workflows among
//! its tools. Creating an outline does not call a model or fetch a toolset.

use std::any::Any;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::large_outputs::read_tool;
use super::limits::Limits;
use super::{Agent, AgentDefinition};
use crate::dry_run::{DryCall, DryRead, DryRun, DryStep};
use crate::tool::{Effects, ToolPolicy, ToolRef};

/// The structure of an agent. [`AgentOutline::of`] returns the outline of an agent,
/// [`CatalogueReader::agent_outline`](crate::runtime::CatalogueReader::agent_outline) the outline of a registered agent.
/// [`to_mermaid`](Self::to_mermaid) and [`to_dot`](Self::to_dot) draw it, including nested agents
/// and the members of its team.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AgentOutline {
    /// Name of the agent.
    pub name: Arc<str>,
    /// Model, such as `openai/gpt-5-mini`. Empty if only a runtime selects the model.
    pub model: String,
    /// Tools with their catalogue names, in the order in which they were added. If [large
    /// outputs](Limits::large_outputs) are saved, the last one is the tool that reads them.
    pub tools: Vec<ToolOutline>,
    /// Names of the toolsets. Their tools are fetched during a run.
    pub toolsets: Vec<Arc<str>>,
    /// Members of the team to which the agent can hand off the conversation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handoffs: Vec<Arc<str>>,
    /// The other members of the team, if this agent is the first one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub team: Vec<AgentOutline>,
    /// Scopes that are granted to the agent.
    pub scopes: Vec<Arc<str>>,
    /// Limits of each run.
    pub limits: Limits,
    /// JSON Schema of the answer.
    pub output: Value,
    /// Application keys that the instructions show, such as `app:company`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<Arc<str>>,
    /// State key under which the answer is saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saves: Option<Arc<str>>,
}

/// A tool of an [`AgentOutline`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolOutline {
    /// Catalogue name of the tool.
    pub name: Arc<str>,
    /// Policy of the tool.
    pub policy: ToolPolicy,
    /// JSON Schema of the result, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The agent that the tool calls, if it is an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<Box<AgentOutline>>,
    /// Name of the workflow that the tool calls, if it is a workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Arc<str>>,
}

/// Name of a workflow that is used as a tool.
#[derive(Debug)]
pub(crate) struct WorkflowName(pub(crate) Arc<str>);

impl ToolOutline {
    fn new(tool: &ToolRef) -> Self {
        let inside = tool.inside();
        let of = |inside: &dyn Any| inside.downcast_ref::<AgentOutline>().cloned().map(Box::new);
        Self {
            name: Arc::clone(tool.catalogue_name()),
            policy: tool.definition().policy.clone(),
            output: tool.output_schema(),
            agent: inside.as_deref().and_then(of),
            workflow: inside
                .as_deref()
                .and_then(|inside| inside.downcast_ref::<WorkflowName>())
                .map(|name| Arc::clone(&name.0)),
        }
    }

    /// Returns labels for side effects, approval and scopes.
    pub(super) fn marks(&self) -> Vec<String> {
        let mut marks = Vec::new();
        if self.policy.effects == Effects::Write {
            marks.push("has effects".to_owned());
        }
        if self.policy.approve {
            marks.push("needs approval".to_owned());
        }
        marks.extend(self.policy.scopes.iter().map(|scope| format!("needs the scope {scope}")));
        marks
    }
}

impl AgentOutline {
    /// Creates the outline of an agent. No model is called and no toolset is fetched.
    pub fn of<O: 'static>(agent: &Agent<O>) -> Self {
        let of = &*agent.description;
        // A runtime may select another model for an `#[agent]`.
        let model = match of.definition {
            Some(definition) => definition.model_in(&of.host).ok(),
            None => Some(of.model.clone()),
        };
        let reads = of.limits.large_outputs.map(|large| ToolRef::from(read_tool(large)));
        let model = model
            .and_then(|model| model.info().ok())
            .map(|info| format!("{}/{}", info.provider, info.model));
        Self {
            name: Arc::clone(&of.name),
            model: model.unwrap_or_default(),
            tools: of.tools.iter().chain(reads.as_ref()).map(ToolOutline::new).collect(),
            toolsets: of.toolsets.iter().map(|toolset| Arc::clone(toolset.name())).collect(),
            handoffs: of.targets.iter().map(|target| Arc::clone(&target.name)).collect(),
            team: of.members.iter().map(Self::of).collect(),
            scopes: of.scopes.clone(),
            limits: of.limits.clone(),
            output: agent.answer_schema(),
            reads: of.definition.map(AgentDefinition::shown_keys).unwrap_or_default(),
            saves: of.output_key.as_ref().map(|output_key| Arc::clone(&output_key.key)),
        }
    }

    /// Describes the steps that a run would execute: the model call and the tools that it may
    /// request. Executes nothing.
    pub fn dry_run(&self) -> DryRun {
        let message = json!({"type": "string"});
        let step = |name: &str, kind: &str, stage: u32| DryStep {
            name: name.to_owned(),
            kind: kind.to_owned(),
            stage,
            reads: Vec::new(),
            reads_state: Vec::new(),
            saves_state: Vec::new(),
            after: Vec::new(),
            when: Vec::new(),
            enough: None,
            gives: Value::Bool(true),
            calls: Vec::new(),
            asks: None,
            timeout_ms: None,
            attempts: 1,
            repeatable: true,
            writes: false,
            ends: false,
            bodies: Vec::new(),
        };
        let model = DryStep {
            reads: vec![DryRead {
                node: "message".to_owned(),
                schema: message.clone(),
                optional: false,
            }],
            gives: self.output.clone(),
            calls: vec![DryCall::new("model", self.model.as_str())],
            ..step("model", "model", 1)
        };
        let tools = self.tools.iter().map(|tool| {
            // A nested agent or workflow is reported under its own name, with the policy of the
            // tool.
            let call = match (&tool.agent, &tool.workflow) {
                (Some(agent), _) => {
                    DryCall { what: "agent", ..DryCall::tool(&agent.name, &tool.policy) }
                }
                (None, Some(workflow)) => {
                    DryCall { what: "workflow", ..DryCall::tool(workflow, &tool.policy) }
                }
                (None, None) => DryCall::tool(&tool.name, &tool.policy),
            };
            DryStep {
                gives: tool.output.clone().unwrap_or(Value::Bool(true)),
                when: vec!["`model` asks for it".to_owned()],
                calls: vec![call],
                timeout_ms: tool
                    .policy
                    .timeout
                    .and_then(|timeout| u64::try_from(timeout.as_millis()).ok()),
                repeatable: tool.policy.is_repeatable(),
                writes: tool.policy.effects == Effects::Write,
                ..step(&tool.name, "tool", 2)
            }
        });
        // Toolsets are not fetched here, so the worst case is assumed: their tools have side
        // effects and must not be repeated.
        let toolsets = self.toolsets.iter().map(|toolset| DryStep {
            when: vec!["`model` asks for a tool of it".to_owned()],
            writes: true,
            repeatable: false,
            ..step(toolset, "toolset", 2)
        });
        DryRun {
            what: "agent",
            name: Arc::clone(&self.name),
            input: message,
            output: self.output.clone(),
            steps: std::iter::once(model).chain(tools).chain(toolsets).collect(),
            limits: serde_json::to_value(&self.limits).unwrap_or_default(),
            issues: Vec::new(),
        }
    }
}
