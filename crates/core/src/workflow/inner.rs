//! Builds the nested workflow of a node: the steps of its items, rounds or branches, if there is
//! more than one. It runs like any other workflow that is a step.

use agentflow_schema::diagnostic::Diagnostic;
use std::collections::HashSet;
use std::sync::Arc;

use super::builder::{Builder, TypeOf};
use super::graph_codes;
use super::node::Node;
use super::node_handle::{Handle, RawHandle, Reads};
use super::node_schema::{NodeSchema, ValueCheck};
use super::spec::{Body, NodeKind, Spec};
use crate::path::StepPath;

impl Builder {
    /// Builds the nested workflow of `node`. Its inputs are an item, if `item` gives its name and
    /// type, and the values of `reads`. Returns `None` if it has problems, which are recorded.
    pub(super) fn inner<R: Reads, O>(
        &mut self,
        node: &str,
        item: Option<(&'static str, TypeOf)>,
        reads: R,
        nodes: impl FnOnce(&mut Self, Option<RawHandle>, R) -> Handle<O>,
    ) -> Option<Arc<Spec>> {
        let name: Arc<str> = format!("{}/{}{node}", self.name, self.prefix).into();
        let mut inner = Self::new(Arc::clone(&name));
        (inner.concurrency, inner.stop) = (self.concurrency, self.stop);
        inner.decider.clone_from(&self.decider);
        if self.order.is_some() {
            inner.keep_order();
        }
        let item = item.map(|(name, of)| inner.add_nested_input(name, of));
        let read = reads.moved(&mut |outer| {
            let of = self.nodes.get(outer.node as usize).filter(|_| outer.builder == self.id);
            match of {
                Some(of) => inner.add_nested_input(
                    of.path.last_name().unwrap_or_default(),
                    (of.type_name.clone(), of.schema.clone()),
                ),
                // The node itself reports the handle of another builder.
                None => inner.add_nested_input("unknown", ("?".into(), NodeSchema::default())),
            }
        });
        let output = nodes(&mut inner, item, read);
        inner.rename_inputs();
        match inner.finish(name, output.raw()) {
            Ok(spec) => Some(Arc::new(spec)),
            Err(problems) => {
                let path = format!("{}{node}", self.prefix);
                let found = Diagnostic::new(graph_codes::WITHIN).name("node", path);
                self.problems.push(found.text("problem", super::joined(&problems)));
                None
            }
        }
    }

    /// Adds an input of a nested workflow. Its final name is chosen in `rename_inputs`.
    fn add_nested_input(&mut self, name: &str, described: TypeOf) -> RawHandle {
        let at = self.add(
            Node::new(name),
            NodeKind::Input,
            Vec::new(),
            Body::Input { fits: ValueCheck::Type(|_| Ok(())) },
            described,
        );
        // Nodes that are added later may have this name.
        self.names.remove(name);
        at
    }

    /// Renames inputs that have the name of a node. Nodes keep their names, which are part of
    /// recorded paths.
    fn rename_inputs(&mut self) {
        let first = |path: &StepPath| path.names().split('/').next().unwrap_or_default().to_owned();
        let others = self.nodes.iter().filter(|node| node.kind != NodeKind::Input);
        let mut taken: HashSet<String> = others.map(|node| first(&node.path)).collect();
        for node in self.nodes.iter_mut().filter(|node| node.kind == NodeKind::Input) {
            let mut name = node.path.names().to_owned();
            while !taken.insert(name.clone()) {
                name = format!("outer.{name}");
            }
            node.path = StepPath::from_names(name.into());
        }
    }
}
