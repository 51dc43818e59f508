//! `AgentOutline`: what an agent consists of: its model, tools, toolsets, and the agents and workflows among its tools. It
//! runs and fetches nothing.

use std::any::Any;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::large_outputs::read_tool;
use super::limits::Limits;
use super::{Agent, AgentDefinition};
use crate::dry_run::{DryCall, DryRead, DryRun, DryStep};
use crate::tool::{Effects, ToolPolicy, ToolRef};

/// What an agent consists of; [`AgentOutline::of`] describes one, [`Runtime::agent_outline`](crate::Runtime::agent_outline) the one of a name. [`to_mermaid`](Self::to_mermaid) and [`to_dot`](Self::to_dot)
/// draw it, with the agents that are its tools and theirs, and those of its team.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AgentOutline {
    /// Its name.
    pub name: Arc<str>,
    /// Its model, such as `openai/gpt-5-mini`; empty when only a runtime has one for it.
    pub model: String,
    /// Its tools, as they are known by name, in the order in which they were given; last the one by which it reads
    /// [large answers](Limits::large_outputs), when it has that.
    pub tools: Vec<ToolOutline>,
    /// Its toolsets. Their tools are fetched when it runs.
    pub toolsets: Vec<Arc<str>>,
    /// The agents of its team that it may transfer the conversation to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handoffs: Vec<Arc<str>>,
    /// The other agents of the team that it is the first one of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub team: Vec<AgentOutline>,
    /// The scopes that it is granted.
    pub scopes: Vec<Arc<str>>,
    /// What bounds it.
    pub limits: Limits,
    /// The JSON Schema of its answer.
    pub output: Value,
    /// The keys of the application that its instructions show, such as `app:company`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<Arc<str>>,
    /// The key of the state under which its answer is saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saves: Option<Arc<str>>,
}

/// A tool of an [`AgentOutline`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolOutline {
    /// The name that a program knows it by.
    pub name: Arc<str>,
    /// How it is treated.
    pub policy: ToolPolicy,
    /// The JSON Schema of its answer, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The agent that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<Box<AgentOutline>>,
    /// The name of the workflow that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Arc<str>>,
}

/// The name of the workflow that a tool is.
#[derive(Debug)]
pub(crate) struct WorkflowName(pub(crate) Arc<str>);

impl ToolOutline {
    fn of(tool: &ToolRef) -> Self {
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

    /// What a person wants to know of it before an agent has it.
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
    /// What an agent consists of. No model is opened and no toolset is asked.
    pub fn of<O: 'static>(agent: &Agent<O>) -> Self {
        let of = &*agent.description;
        // An `#[agent]` may have another model in its runtime.
        let model = match of.definition {
            Some(definition) => definition.model_in(&of.host).ok(),
            None => Some(of.model.clone()),
        };
        let reads = of.limits.large_outputs.map(|large| ToolRef::from(read_tool(large)));
        let model = model.and_then(|model| model.info().ok()).map(|info| format!("{}/{}", info.provider, info.model));
        Self {
            name: Arc::clone(&of.name),
            model: model.unwrap_or_default(),
            tools: of.tools.iter().chain(reads.as_ref()).map(ToolOutline::of).collect(),
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

    /// What running the agent would do, without doing any of it: its model calls and the tools that these may ask for.
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
            reads: vec![DryRead { node: "message".to_owned(), schema: message.clone(), optional: false }],
            gives: self.output.clone(),
            calls: vec![DryCall::new("model", self.model.as_str())],
            ..step("model", "model", 1)
        };
        let tools = self.tools.iter().map(|tool| {
            let call = match (&tool.agent, &tool.workflow) {
                (Some(agent), _) => DryCall { what: "agent", ..DryCall::tool(&agent.name, &tool.policy) },
                (None, Some(workflow)) => DryCall { what: "workflow", ..DryCall::tool(workflow, &tool.policy) },
                (None, None) => DryCall::tool(&tool.name, &tool.policy),
            };
            DryStep {
                gives: tool.output.clone().unwrap_or(Value::Bool(true)),
                when: vec!["`model` asks for it".to_owned()],
                calls: vec![call],
                timeout_ms: tool.policy.timeout.and_then(|timeout| u64::try_from(timeout.as_millis()).ok()),
                repeatable: tool.policy.is_repeatable(),
                writes: tool.policy.effects == Effects::Write,
                ..step(&tool.name, "tool", 2)
            }
        });
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
