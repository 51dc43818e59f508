//! `RunRef::graph`: the graph of a run with the status and the times of its nodes.

use std::collections::HashMap;

use serde::Serialize;

use crate::error::Result;
use crate::runtime::runs::inspect::{NodeReport, NodeStatus, RunReport};
use crate::runtime::runs::run_ref::RunRef;
use crate::store::RunRecord;
use crate::time::Timestamp;
use crate::workflow::{DisplayEdge, Graph, NodeKind};

/// The graph of a run, for a page or a drawing. [`RunRef::graph`] returns it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RunGraph {
    /// Entry of the run in the store's list.
    pub run: RunRecord,
    /// Nodes that a person sees, in source order. For a run of an agent, its model and tool calls
    /// in the order of their turns.
    pub nodes: Vec<RunGraphNode>,
    /// Edges between the nodes. Empty for a run of an agent.
    pub edges: Vec<DisplayEdge>,
}

/// A node of the graph of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunGraphNode {
    /// Name of the node, including the arms that contain it.
    pub name: String,
    /// Kind of the node. `None` for a call of an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<NodeKind>,
    /// Status of the node. A node that has not started is pending.
    pub status: NodeStatus,
    /// Number of attempts that were started.
    pub attempts: usize,
    /// Time at which the first attempt started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// Time at which the last attempt ended. `None` while an attempt is running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Items or rounds of a node that is executed several times. `None` if none has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<ItemCounts>,
}

/// Numbers of items of a node, such as the items of a `map!`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ItemCounts {
    /// Items that have started, including those that have ended.
    pub started: usize,
    /// Items that have ended with an output.
    pub success: usize,
    /// Items that have failed.
    pub failed: usize,
}

impl RunRef<'_> {
    /// Returns the graph of the run with the status and the times of its nodes.
    ///
    /// The graph is the definition that the run was started with, also if the program has another
    /// one now. A store that keeps no definitions gives a graph without edges and without the nodes
    /// that have not started.
    ///
    /// ```
    /// # use agentflow::prelude::*;
    /// # use agentflow::runtime::NodeStatus;
    /// # use agentflow::store::MemoryStore;
    /// /// Double a number.
    /// #[tool]
    /// async fn double(number: u32) -> u32 {
    ///     number * 2
    /// }
    ///
    /// #[workflow]
    /// async fn doubled_twice(number: u32) -> Result<u32> {
    ///     let once = double(number).await;
    ///     let both = double(once).await;
    ///     Ok(both)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().store(MemoryStore::new()).build();
    /// let run = runtime.start(doubled_twice::workflow(), 3).await?;
    /// let id = run.run_id().clone();
    /// assert_eq!(run.result().await?, 12);
    ///
    /// let graph = runtime.run(&id).graph().await?;
    /// assert!(graph.nodes.iter().all(|node| node.status == NodeStatus::Success));
    /// assert!(graph.edges.iter().any(|edge| edge.from == "once" && edge.to == "both"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the runtime has no store, or the store does not have the run.
    #[doc(alias = "build_graph_response")]
    pub async fn graph(self) -> Result<RunGraph> {
        let store = self.runtime.require_store()?;
        let report = self.inspect().await?;
        let graph: Option<Graph> = match &report.run.definition {
            Some(hash) => {
                store.definition(hash).await?.and_then(|graph| serde_json::from_str(&graph).ok())
            }
            None => None,
        };
        Ok(match graph {
            Some(graph) => RunGraph::new(&graph, report),
            None => RunGraph::from_report(report),
        })
    }
}

impl RunGraph {
    fn new(graph: &Graph, report: RunReport) -> Self {
        let edges = graph.edges();
        let reports: HashMap<&str, &NodeReport> =
            report.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
        let has_started =
            |name: &str| reports.get(name).is_some_and(|node| node.status != NodeStatus::Pending);
        let mut nodes = Vec::new();
        for node in graph.display_nodes() {
            let mut shown = match reports.get(node.name.as_str()) {
                Some(found) => RunGraphNode::from_report(found),
                None => RunGraphNode::pending(&node.name),
            };
            shown.kind = Some(node.kind);
            shown.items = ItemCounts::count(&node.name, &report.nodes);
            // Inputs and computed values are not recorded. A value is there when a node that uses
            // it has started.
            let is_used =
                || edges.iter().any(|edge| edge.from == node.name && has_started(&edge.to));
            let is_known = match node.kind {
                NodeKind::Input => true,
                NodeKind::Value | NodeKind::Check => {
                    report.run.status == crate::store::RunStatus::Success || is_used()
                }
                _ => false,
            };
            if shown.attempts == 0 && is_known {
                shown.status = NodeStatus::Success;
            }
            nodes.push(shown);
        }
        Self { run: report.run, nodes, edges }
    }

    /// Creates the graph of a run without a definition: its started nodes, without edges.
    fn from_report(report: RunReport) -> Self {
        let nodes = report.nodes.iter().map(RunGraphNode::from_report).collect();
        Self { run: report.run, nodes, edges: Vec::new() }
    }
}

impl RunGraphNode {
    fn pending(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: None,
            status: NodeStatus::Pending,
            attempts: 0,
            started: None,
            ended: None,
            items: None,
        }
    }

    fn from_report(report: &NodeReport) -> Self {
        Self {
            status: report.status,
            attempts: report.attempts.len(),
            started: report.attempts.first().map(|attempt| attempt.began),
            ended: report.attempts.last().and_then(|attempt| attempt.ended),
            ..Self::pending(&report.name)
        }
    }
}

impl ItemCounts {
    /// Counts the items of a node, whose names are `node[0]`, `node[1]` and so on.
    fn count(node: &str, reports: &[NodeReport]) -> Option<Self> {
        let mut counts = Self::default();
        for report in reports {
            let index = report.name.strip_prefix(node).and_then(|rest| rest.strip_prefix('['));
            let Some(index) = index.and_then(|rest| rest.strip_suffix(']')) else { continue };
            // A name such as `node[0]/other[1]` belongs to an item.
            if !index.bytes().all(|digit| digit.is_ascii_digit()) {
                continue;
            }
            counts.started += usize::from(report.status != NodeStatus::Pending);
            counts.success += usize::from(report.status == NodeStatus::Success);
            counts.failed += usize::from(report.status == NodeStatus::Failed);
        }
        (counts.started > 0).then_some(counts)
    }
}
