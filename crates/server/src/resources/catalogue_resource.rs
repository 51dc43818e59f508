//! The JSON forms of the tools, toolsets and agents that a runtime knows.

use agentflow_core::runtime::CatalogueEntry;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// A tool.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Tool")]
pub(crate) struct ToolResource {
    /// Name of the tool.
    pub(crate) name: String,
    /// Purpose of the tool.
    pub(crate) description: String,
    /// JSON Schema of the arguments.
    pub(crate) input_schema: Value,
    /// JSON Schema of the output, if the tool declares one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output_schema: Option<Value>,
    /// Policy of the tool: side effects, approval, scopes and limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<Value>,
}

impl From<&CatalogueEntry> for ToolResource {
    fn from(entry: &CatalogueEntry) -> Self {
        Self {
            name: entry.name.to_string(),
            description: entry.description.to_string(),
            input_schema: entry.input.clone().unwrap_or_default(),
            output_schema: entry.output.clone(),
            policy: entry.policy.as_ref().and_then(|policy| serde_json::to_value(policy).ok()),
        }
    }
}

/// A toolset, such as the tools of an MCP server.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Toolset")]
pub(crate) struct ToolsetResource {
    /// Name of the toolset.
    pub(crate) name: String,
    /// Description of the toolset.
    pub(crate) description: String,
    /// Origin of the toolset, such as the configuration.
    pub(crate) origin: Value,
}

impl From<&CatalogueEntry> for ToolsetResource {
    fn from(entry: &CatalogueEntry) -> Self {
        Self {
            name: entry.name.to_string(),
            description: entry.description.to_string(),
            origin: serde_json::to_value(&entry.origin).unwrap_or_default(),
        }
    }
}

/// An agent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Agent")]
pub(crate) struct AgentResource {
    /// Name of the agent.
    pub(crate) name: String,
    /// Purpose of the agent. Never contains its instructions.
    pub(crate) description: String,
    /// JSON Schema of the message or the arguments.
    pub(crate) input_schema: Value,
    /// JSON Schema of the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output_schema: Option<Value>,
}

impl From<&CatalogueEntry> for AgentResource {
    fn from(entry: &CatalogueEntry) -> Self {
        Self {
            name: entry.name.to_string(),
            description: entry.description.to_string(),
            input_schema: entry.input.clone().unwrap_or_default(),
            output_schema: entry.output.clone(),
        }
    }
}
