//! Reports which tool an agent called in a node, by adding its name to the output of the node.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::node_dependency::{ResolvedDependency, server_and_tool};
use super::step_error::StepError;
use crate::agent::ErasedAgent;
use crate::context::Context;
use crate::event::EventKind;
use crate::tool::wire_name;
use crate::value::Encoded;

/// Output fields for the tool and its server.
const TOOL_USED: &str = "tool_used";
const SERVER_ID: &str = "server_id";

/// An agent in a node that is bound to tool servers.
pub(super) struct ChoosingAgent {
    agent: ErasedAgent,
    cx: Context,
    bound: Arc<[ResolvedDependency]>,
}

impl ChoosingAgent {
    /// Returns `None` for a node that is bound to no server.
    pub(super) fn new(
        agent: &ErasedAgent,
        cx: &Context,
        bound: &Arc<[ResolvedDependency]>,
    ) -> Option<Self> {
        let is_bound = bound.iter().any(|of| of.server_id.is_some());
        is_bound.then(|| Self { agent: agent.clone(), cx: cx.clone(), bound: Arc::clone(bound) })
    }

    /// Adds the name of the last successfully called tool to an output that has a field for it.
    pub(super) fn named(&self, output: Encoded) -> Result<Encoded, StepError> {
        let Some((server, tool)) = self.last_call() else { return Ok(output) };
        let Ok(mut fields) = output.decode::<Map<String, Value>>() else { return Ok(output) };
        if !fields.contains_key(TOOL_USED) {
            return Ok(output);
        }
        fields.insert(TOOL_USED.to_owned(), tool.into());
        fields.insert(SERVER_ID.to_owned(), server.into());
        Encoded::new(&fields)
            .map_err(|error| StepError::value("the name of the tool cannot be recorded", &error))
    }

    /// Returns the server and the tool of the last successful call below the node.
    fn last_call(&self) -> Option<(String, String)> {
        let records = self.cx.run().log.records_below(self.cx.path());
        records.iter().rev().find_map(|(_, _, kind)| match kind {
            EventKind::ToolCompleted { result, .. } if result.status.is_success() => {
                self.tool_of_server(&result.name)
            }
            _ => None,
        })
    }

    /// Splits the tool name used by the model into server and tool.
    fn tool_of_server(&self, called: &str) -> Option<(String, String)> {
        if let Some(name) = self.agent.catalogue_name(called) {
            let (server, tool) = server_and_tool(&name, &self.bound)?;
            return Some((server, tool.to_owned()));
        }
        // The agent finished before a restart, so its tool list was not fetched again. The name is
        // split by the known servers.
        let servers = self.bound.iter().filter_map(|of| of.server_id.as_deref());
        let tools = servers.filter_map(|server| {
            let tool = called.strip_prefix(&wire_name(&format!("mcp.{server}.")))?;
            Some((server.to_owned(), tool.to_owned()))
        });
        tools.max_by_key(|(server, _)| server.len())
    }
}
