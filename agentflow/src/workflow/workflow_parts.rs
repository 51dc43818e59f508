//! The definition of a workflow by parts: its nodes, the workflows that it calls, and the agents and tools that are called
//! in it, as far as that is written in it. It compares nothing.

use std::collections::HashSet;
use std::sync::Arc;

use super::callee::{Callee, callee};
use super::graph::Graph;
use super::spec::Spec;
use crate::definition::{Aspect, Definition, Known, PartOf};

impl Spec {
    /// The definition by parts; computed when it is first asked for.
    pub(crate) fn parts(&self) -> &Arc<Known> {
        self.parts.get_or_init(|| {
            let mut definition = Definition::default();
            let graph = Graph::of(self);
            for node in &graph.nodes {
                definition.add(PartOf::Node, &node.name, Aspect::Plan, &graph.shape(node));
                let rules = (&node.policy, &node.after, &node.order);
                definition.add(PartOf::Node, &node.name, Aspect::Policy, &rules);
            }
            add_callees(self, &mut HashSet::new(), &mut definition);
            Known::new(definition)
        })
    }
}

fn add_callees(spec: &Spec, seen: &mut HashSet<std::any::TypeId>, definition: &mut Definition) {
    for node in &spec.nodes {
        for function in node.callee.iter().chain(&node.callees) {
            if !seen.insert(*function) {
                continue;
            }
            match callee(*function) {
                Some(Callee::Tool(tool)) => definition.add_tool(tool.definition()),
                Some(Callee::Agent(agent)) => agent.add_parts(definition),
                Some(Callee::Workflow(called)) => {
                    definition.add(PartOf::Workflow, &called.name, Aspect::Plan, called.own_hash());
                    add_callees(&called, seen, definition);
                }
                None => {}
            }
        }
        for (_, body) in node.bodies() {
            add_callees(body, seen, definition);
        }
    }
}
