//! Checks the state keys that a graph reads and saves, when the graph is loaded.

use agentflow_schema::diagnostic::{Diagnostic, DiagnosticSubject, Suggestion};
use agentflow_schema::schema::{Lack, lacks, part_at};
use agentflow_schema::text::nearest;
use serde_json::{Value, json};

use super::graph::GraphNode;
use super::graph_body::GraphBody;
use super::graph_codes;
use super::mapping::IsNode;
use super::mapping::pointer;
use super::of_graph::GraphLoader;
use super::question_text::{needed_keys_of_text, state_keys_of_text};
use super::saved_outputs::FIELDS;
use super::spec::NodeKind;
use super::state_reads::{problem_in_edge, problem_in_place, problem_in_step, problem_of_key};
use crate::state::StateOwner;

/// Checks whether a state key can be read at a place.
type KeyCheck = fn(&str) -> Option<Diagnostic>;

impl<'a> GraphLoader<'a> {
    /// Checks the state keys that are read by a node, by its question and by the conditions of its
    /// edges.
    pub(super) fn check_state(&mut self, node: &'a GraphNode) {
        let names = std::sync::Arc::clone(&self.names);
        let is_node: IsNode<'_> = &|name| names.contains_key(name);
        let check = match &node.does {
            Some(GraphBody::Route(_) | GraphBody::Ask(_)) => problem_in_place,
            _ => problem_in_step,
        };
        self.check_needed(node);
        let own = node.does.iter().flat_map(|does| does.state_keys(is_node));
        let own = own.map(|key| (key, check as KeyCheck, "the node"));
        let asked = node
            .question()
            .map(|text| state_keys_of_text(text, is_node))
            .unwrap_or_default()
            .into_iter();
        let own =
            own.chain(asked.map(|key| (key, problem_in_place as KeyCheck, "the question of")));
        let of_edges = node
            .edges
            .iter()
            .filter_map(|edge| edge.when.as_ref())
            .flat_map(|when| when.state_keys(is_node));
        let of_edges =
            of_edges.map(|key| (key, problem_in_edge as KeyCheck, "an edge to the node"));
        for ((key, bare), check, place) in own.chain(of_edges) {
            // The keys that are saved are known only after all nodes were checked.
            if bare {
                self.bare_keys.push((&node.name, key.to_owned()));
            } else if let Some(problem) = check(key) {
                let found = Diagnostic::new(graph_codes::STATE_READ).text("place", place);
                self.problems.push(found.name("node", &node.name).nested("problem", &problem));
            }
        }
    }

    /// Reports `temp:` keys that a node requires. They are lost after a crash, when another process
    /// continues the run.
    fn check_needed(&mut self, node: &'a GraphNode) {
        let names = std::sync::Arc::clone(&self.names);
        let is_node: IsNode<'_> = &|name| names.contains_key(name);
        let needed = node.does.iter().flat_map(|does| does.needed_keys(is_node));
        let mut needed: Vec<&str> = needed.collect();
        needed.extend(
            node.question().map(|text| needed_keys_of_text(text, is_node)).unwrap_or_default(),
        );
        // A change of the state sees the changes before it in the same node.
        let mut set = Vec::new();
        for transform in node.does.as_ref().map(GraphBody::transforms).unwrap_or_default() {
            let of_texts =
                transform.placeholders().filter(|(_, placeholder)| !placeholder.is_optional());
            needed.extend(of_texts.map(|(key, _)| key).filter(|key| !set.contains(key)));
            set.extend(transform.set_keys());
        }
        needed.retain(|key| StateOwner::split(key).0 == StateOwner::Temp);
        needed.sort_unstable();
        needed.dedup();
        for key in needed {
            let found = Diagnostic::new(graph_codes::NEEDS_TEMPORARY_KEY).name("node", &node.name);
            self.problems.push(found.name("key", key).text("word", key));
        }
    }

    /// Checks the values that a node saves.
    pub(super) fn check_saves(&mut self, node: &'a GraphNode) {
        let name = &node.name;
        self.check_transforms(node);
        let is_value = !matches!(node.does, None | Some(GraphBody::Route(_) | GraphBody::Ask(_)));
        if !node.saves.is_empty() && (!is_value || node.kind == NodeKind::Input) {
            self.problems.push(Diagnostic::new(graph_codes::SAVES_NOTHING).name("node", name));
        }
        let output = self.schemas.get(name.as_str()).cloned().unwrap_or(Value::Bool(true));
        for (key, at) in &node.saves {
            let fields = key == FIELDS;
            if let Some(problem) = (!fields).then(|| problem_of_key(key)).flatten() {
                self.problems.push(
                    Diagnostic::new(graph_codes::INVALID_SAVED_KEY)
                        .name("node", name)
                        .nested("problem", &problem),
                );
            }
            if let Err(problem) = pointer(at.clone()) {
                self.problems.push(
                    Diagnostic::new(graph_codes::INVALID_SAVED_POINTER)
                        .name("node", name)
                        .name("key", key)
                        .nested("problem", &problem),
                );
            } else if let Some(Lack::Never(lack)) = lacks(&output, at, true) {
                self.problems.push(
                    Diagnostic::new(graph_codes::SAVED_PART_MISSING)
                        .name("node", name)
                        .name("key", key)
                        .name("pointer", at)
                        .nested("problem", &lack),
                );
            } else if fields {
                // The schema names the fields, unless it allows others.
                let part = part_at(&output, at);
                self.fits_schema(
                    name,
                    "what it saves field by field",
                    &part,
                    &json!({"type": "object"}),
                );
                let properties = part["properties"].as_object();
                self.known_keys
                    .extend(properties.into_iter().flatten().map(|(field, _)| field.clone()));
                self.saves_any_key |= part["additionalProperties"] != false;
            }
            self.known_keys.insert(key.clone());
        }
    }

    /// Checks the changes that a node makes to the state.
    fn check_transforms(&mut self, node: &'a GraphNode) {
        let transforms = node.does.as_ref().map(GraphBody::transforms).unwrap_or_default();
        if let Some(GraphBody::Transform(_)) = &node.does
            && transforms.is_empty()
        {
            self.problems
                .push(Diagnostic::new(graph_codes::CHANGES_NOTHING).name("node", &node.name));
        }
        for transform in transforms {
            let problems = transform.problems();
            for problem in problems {
                self.problems.push(problem.of(DiagnosticSubject::node(&*node.name)));
            }
            for (key, placeholder) in transform.placeholders() {
                if self.names.contains_key(key) && !self.known_keys.contains(key) {
                    let found =
                        Diagnostic::new(graph_codes::CHANGE_READS_NODE).name("node", &node.name);
                    let found = found.source("placeholder", format!("{{{}}}", placeholder.path()));
                    self.problems.push(found.text("word", key));
                } else if StateOwner::split(key).0 != StateOwner::Temp
                    && !placeholder.is_optional()
                    && placeholder.parts().first().is_some_and(|first| first == key)
                {
                    self.bare_keys.push((&node.name, key.to_owned()));
                }
            }
            self.known_keys.extend(transform.set_keys().into_iter().map(str::to_owned));
        }
    }

    /// Reports bare names in templates that match no known key.
    pub(super) fn check_bare_keys(&mut self) {
        if self.saves_any_key {
            // Fields with unknown names are saved, so any key may exist.
            return;
        }
        for (node, key) in std::mem::take(&mut self.bare_keys) {
            if self.known_keys.contains(&key) {
                continue;
            }
            let known = self.graph.nodes.iter().map(|node| node.name.as_str());
            let near = nearest(&key, known.chain(self.known_keys.iter().map(String::as_str)));
            let found = Diagnostic::new(graph_codes::UNKNOWN_PLACEHOLDER).name("node", node);
            let found = found.source("placeholder", format!("{{{key}}}")).text("word", key);
            self.problems.push(found.suggest(Suggestion::similar(near)));
        }
    }
}
