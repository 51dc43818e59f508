//! A node of the document form `edges` with a pool of candidates. It becomes a separate workflow: a
//! model picks a candidate, and a router calls it. The choice is the output of a node, so a resumed
//! run reuses it. Only the candidates of the document are used; names are not resolved here.

use serde_json::{Value, json};

use super::bound_server::{Candidate, Pool};
use super::document_agent::DocumentAgent;
use super::edges_node::{INPUT, SharedNodeSettings, arguments, asked, shaped};
use crate::model::ModelSettings;
use crate::workflow::{
    Begins, CONCURRENCY, Condition, Graph, GraphBody, GraphEdge, GraphNode, Mapping, NodePolicy,
    OnError, Reference, ResolvedDependency, Route, Routes,
};

/// Instructions of the model that picks a candidate.
const INSTRUCTIONS: &str = "You choose which one of several candidates is called for a task. You are shown the task, the \
                            candidates, a line each that begins with the number of the candidate, and what the one that you \
                            choose is given. Answer with the number alone, such as 0.";

/// The workflow of a pool, with its agents.
pub(super) struct PoolWorkflow {
    pub(super) graph: Graph,
    pub(super) agents: Vec<DocumentAgent>,
}

/// Properties of the node that apply to every candidate.
pub(super) struct Task<'t> {
    /// Name of the node.
    pub(super) node: &'t str,
    /// Task of the candidates. May be empty for candidates with a tool.
    pub(super) text: &'t str,
    /// `true` if the document maps inputs. They are the arguments of a prompt.
    pub(super) has_inputs: bool,
    /// Retries and time limit of a call.
    pub(super) policy: NodePolicy,
}

impl PoolWorkflow {
    /// Generates the workflow of a pool. `bindings` are the bindings of its candidates.
    pub(super) fn new(
        pool: &Pool<'_>,
        bindings: &[ResolvedDependency],
        task: &Task<'_>,
        common: &SharedNodeSettings<'_>,
    ) -> Self {
        let name = format!("{}.{}", common.workflow, task.node);
        let agent = |name: String, instructions: &str, tools| DocumentAgent {
            name: name.into(),
            model: common.model.map(Into::into),
            instructions: instructions.to_owned(),
            description: None,
            tools,
            settings: ModelSettings::default(),
        };
        let picks = format!("{name}.pick");
        let mut agents = vec![agent(picks.clone(), INSTRUCTIONS, Vec::new())];
        let mut graph = Graph::new(&name, "output");
        graph.concurrency = CONCURRENCY;
        let pick = Reference::agent(picks, question(pool, task));
        let last = pool.candidates.len().saturating_sub(1);
        let value = |name: &str, value: Mapping| GraphNode::new(name, GraphBody::Value(value));
        // If the answer is not a number, this node fails and is skipped, and the first candidate is
        // called.
        let within = format!("int(pick) < 0 ? 0 : (int(pick) > {last} ? {last} : int(pick))");
        let number = within.parse().map_or_else(|_| Mapping::Value(json!(0)), Mapping::Cel);
        let index =
            Mapping::From { node: "number".to_owned(), at: String::new(), or: Some(json!(0)) };
        let arms = (0..=last).map(|at| match at == last {
            true => Route::otherwise(at.to_string()),
            false => {
                let is = Condition::Equals(Mapping::from("index"), Mapping::Value(json!(at)));
                Route::when(at.to_string(), is)
            }
        });
        graph.nodes.extend([
            GraphNode::input(INPUT, json!(true)),
            GraphNode::new("pick", GraphBody::Call(pick)).policy(task.policy.clone()),
            value("number", number).policy(NodePolicy::default().on_error(OnError::Skip)),
            value("index", index),
            GraphNode::new("way", GraphBody::Route(Routes::first(arms))),
        ]);
        let mut output = GraphNode::new("output", GraphBody::Value(Mapping::Value(Value::Null)));
        let mut ends = Vec::new();
        for (at, candidate) in pool.candidates.iter().enumerate() {
            let resolved = format!("resolved_{at}");
            let binding = bindings.get(at).cloned().unwrap_or_default();
            // The output of this node records the binding that was chosen.
            let of = value(&resolved, Mapping::Value(json!(binding)));
            graph.nodes.push(of.edge(GraphEdge::from("way").arm(at.to_string())));
            let given = Mapping::from(INPUT);
            let call = match (candidate.called_agent(), candidate.server, candidate.tool) {
                (Some(agent), None, _) => asked(agent, task.text, INPUT),
                (_, server, Some(tool)) => {
                    let name = format!("mcp.{}.{tool}", server.unwrap_or_default());
                    let (resource, prompt) = (candidate.resource, candidate.prompt);
                    let given = (task.has_inputs || prompt.is_none()).then_some(given);
                    let given = arguments(resource, prompt, given);
                    Reference::tool(name, given).giving(shaped(json!(tool), server))
                }
                (_, server, None) => {
                    let chooses = format!("{name}.{at}");
                    let tools = vec![format!("mcp.{}", server.unwrap_or_default()).into()];
                    agents.push(agent(chooses.clone(), task.text, tools));
                    Reference::agent(chooses, given).giving(shaped(Value::Null, server))
                }
            };
            let end = Self::call_name(task.node, at);
            let mut node = GraphNode::new(&end, GraphBody::Call(call)).policy(task.policy.clone());
            node.dependencies.push(binding);
            graph.nodes.push(node.edge(GraphEdge::from(resolved)));
            output = output.edge(GraphEdge::from(&end));
            ends.push(Mapping::from(end));
        }
        output.does = Some(GraphBody::Value(Mapping::First(ends)));
        graph.nodes.push(output.begins(Begins::Barrier(1)));
        Self { graph, agents }
    }

    /// Returns the name of the node that calls a candidate.
    pub(super) fn call_name(node: &str, at: usize) -> String {
        format!("{node}.{at}")
    }
}

/// Returns the message to the model: the task, a line for each candidate, and the input of the
/// node.
fn question(pool: &Pool<'_>, task: &Task<'_>) -> Mapping {
    let or = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let line = |(at, of): (usize, &Candidate<'_>)| {
        let [server, tool, agent, endpoint] = [of.server, of.tool, of.agent, of.endpoint].map(or);
        let more = [("resource", of.resource), ("prompt", of.prompt)];
        let more =
            more.iter().filter_map(|(name, value)| value.map(|value| format!(" {name}={value}")));
        format!(
            "{at}: server={server} tool={tool} agent={agent} endpoint={endpoint}{}",
            more.collect::<String>()
        )
    };
    let lines: Vec<String> = pool.candidates.iter().enumerate().map(line).collect();
    let text = [task.text, lines.join("\n").as_str()].join("\n\n");
    let text = format!("{}\n\n{{{INPUT}}}", text.trim().replace('{', "{{").replace('}', "}}"));
    text.parse().map_or_else(|_| Mapping::Value(json!(lines.join("\n"))), Mapping::Template)
}
