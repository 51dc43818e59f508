//! The definition of a workflow by parts: its nodes, the workflows that it calls, and the agents
//! and tools that appear in its code. A comparison of parts shows which part of a definition has
//! changed.

use std::any::TypeId;
use std::collections::HashSet;
use std::sync::Arc;

use super::callee::{Callee, callee};
use super::graph::Graph;
#[cfg(feature = "dynamic")]
use super::spec::ReferencedDefinition;
use super::spec::Spec;
use crate::definition::{Aspect, Definition, Known, PartOf};

impl Spec {
    /// Returns the definition by parts. It is computed on first use.
    pub(crate) fn parts(&self) -> &Arc<Known> {
        self.parts.get_or_init(|| {
            let mut definition = Definition::default();
            let graph = Graph::from_plan(self);
            for node in &graph.nodes {
                definition.add(PartOf::Node, &node.name, Aspect::Plan, &graph.shape(node));
                let rules = (&node.policy, &node.after, &node.order);
                definition.add(PartOf::Node, &node.name, Aspect::Policy, &rules);
            }
            add_callees(self, &mut AddedCallees::default(), &mut definition);
            Known::new(definition)
        })
    }
}

/// Callees that were added already.
#[derive(Default)]
struct AddedCallees {
    functions: HashSet<TypeId>,
    /// Workflows that are called by name.
    #[cfg(feature = "dynamic")]
    workflows: HashSet<Arc<str>>,
}

fn add_callees(spec: &Spec, seen: &mut AddedCallees, definition: &mut Definition) {
    for node in &spec.nodes {
        #[cfg(feature = "dynamic")]
        for reference in &node.references {
            add_reference(reference, seen, definition);
        }
        for function in node.callee.iter().chain(&node.callees) {
            if !seen.functions.insert(*function) {
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

/// Adds a callee of a node that is data.
#[cfg(feature = "dynamic")]
fn add_reference(
    referenced: &ReferencedDefinition,
    seen: &mut AddedCallees,
    definition: &mut Definition,
) {
    match referenced {
        ReferencedDefinition::Tool(tool) => definition.add_tool(tool),
        ReferencedDefinition::Agent(agent) => agent.add_parts(definition),
        ReferencedDefinition::Unfetched(toolset) => definition.add_unknown_toolset(toolset),
        ReferencedDefinition::Workflow(called)
            if seen.workflows.insert(Arc::clone(&called.name)) =>
        {
            definition.add(PartOf::Workflow, &called.name, Aspect::Plan, called.own_hash());
            add_callees(called, seen, definition);
        }
        ReferencedDefinition::Workflow(_) => {}
    }
}
