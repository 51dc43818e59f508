//! The JSON forms of the graph of a workflow and of the graph of a run.

use agentflow_core::runtime::RunGraph;
use agentflow_core::workflow::{DisplayEdge, Graph};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{RunSummary, time_text};

/// An edge between two nodes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Edge")]
pub(crate) struct EdgeResource {
    /// Node at which the edge starts.
    pub(crate) from: String,
    /// Node at which the edge ends.
    pub(crate) to: String,
    /// `output`, `arm`, `condition`, `failure`, `state` or `order`.
    pub(crate) kind: String,
    /// Arm, condition, key of the state or reason of the order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
}

impl From<&DisplayEdge> for EdgeResource {
    fn from(edge: &DisplayEdge) -> Self {
        Self {
            from: edge.from.clone(),
            to: edge.to.clone(),
            kind: word(&edge.kind),
            label: edge.label.clone(),
        }
    }
}

/// Returns a value that is serialized as a word.
fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// The graph of a workflow.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Graph")]
pub(crate) struct GraphResource {
    /// Name of the workflow.
    pub(crate) workflow_id: String,
    /// Hash of the definition.
    pub(crate) definition: String,
    /// JSON Schema of the inputs.
    pub(crate) input_schema: Value,
    /// JSON Schema of the output.
    pub(crate) output_schema: Value,
    /// Nodes in source order.
    pub(crate) nodes: Vec<GraphNodeResource>,
    /// Edges between the nodes.
    pub(crate) edges: Vec<EdgeResource>,
}

/// A node of the graph of a workflow.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "GraphNode")]
pub(crate) struct GraphNodeResource {
    /// Name of the node.
    pub(crate) node_id: String,
    /// Kind of the node, such as `tool`, `agent` or `gate`.
    pub(crate) kind: String,
    /// Tool, agent or workflow that the node calls, as written.
    pub(crate) calls: String,
    /// Status of the node. In the graph of a workflow, every node is `pending`.
    pub(crate) status: String,
}

impl From<&Graph> for GraphResource {
    fn from(graph: &Graph) -> Self {
        let nodes = graph.display_nodes().into_iter().map(|node| GraphNodeResource {
            node_id: node.name.clone(),
            kind: word(&node.kind),
            calls: node.calls.clone(),
            status: "pending".to_owned(),
        });
        Self {
            workflow_id: graph.name.clone(),
            definition: graph.hash(),
            input_schema: graph.input_schema(),
            output_schema: graph.output_schema(),
            nodes: nodes.collect(),
            edges: graph.edges().iter().map(EdgeResource::from).collect(),
        }
    }
}

/// The graph of a run with the status of its nodes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RunGraph")]
pub(crate) struct RunGraphResource {
    /// The run.
    pub(crate) run: RunSummary,
    /// Nodes in source order. For a run of an agent, its model and tool calls.
    pub(crate) nodes: Vec<RunNodeResource>,
    /// Edges between the nodes.
    pub(crate) edges: Vec<EdgeResource>,
}

/// A node of the graph of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RunGraphNode")]
pub(crate) struct RunNodeResource {
    /// Name of the node.
    pub(crate) node_id: String,
    /// Kind of the node. Absent for a call of an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    /// Status of the node; `pending` if it has not started.
    pub(crate) status: String,
    /// Number of attempts that were started.
    pub(crate) attempts: usize,
    /// Time at which the first attempt started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started_at: Option<String>,
    /// Time at which the last attempt ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<String>,
    /// Items or rounds of a node that is executed several times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) items: Option<ItemsResource>,
}

/// Numbers of items of a node.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Items")]
pub(crate) struct ItemsResource {
    /// Items that have started, including those that have ended.
    pub(crate) started: usize,
    /// Items that have ended with an output.
    pub(crate) success: usize,
    /// Items that have failed.
    pub(crate) failed: usize,
}

impl From<RunGraph> for RunGraphResource {
    fn from(graph: RunGraph) -> Self {
        let nodes = graph.nodes.iter().map(|node| RunNodeResource {
            node_id: node.name.clone(),
            kind: node.kind.as_ref().map(word),
            status: node.status.as_str().to_owned(),
            attempts: node.attempts,
            started_at: node.started.map(time_text),
            finished_at: node.ended.map(time_text),
            items: node.items.map(|items| ItemsResource {
                started: items.started,
                success: items.success,
                failed: items.failed,
            }),
        });
        Self {
            nodes: nodes.collect(),
            edges: graph.edges.iter().map(EdgeResource::from).collect(),
            run: graph.run.into(),
        }
    }
}
