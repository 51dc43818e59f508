//! Builds the workflow that stands below a node: what its items, rounds or branches consist of, when that is more than
//! one step. It is run as any other workflow that is a step.

use std::collections::HashSet;
use std::sync::Arc;

use super::builder::{Builder, TypeOf};
use super::node::Node;
use super::node_handle::{Handle, RawHandle, Reads};
use super::node_schema::{Fits, NodeSchema};
use super::spec::{Body, NodeKind, Spec};
use crate::path::StepPath;

impl Builder {
    /// A workflow below a node: what its items, rounds or branches consist of. Its inputs are an item of the type that
    /// `item` describes, if there is one, and what `reads` reads.
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
        let item = item.map(|(name, of)| inner.inner_input(name, of));
        let read = reads.moved(&mut |outer| {
            let of = self.nodes.get(outer.node as usize).filter(|_| outer.builder == self.id);
            match of {
                Some(of) => inner
                    .inner_input(of.path.last_name().unwrap_or_default(), (of.type_name.clone(), of.schema.clone())),
                // The node itself reports that it reads this.
                None => inner.inner_input("unknown", ("?".into(), NodeSchema::default())),
            }
        });
        let output = nodes(&mut inner, item, read);
        inner.rename_inputs();
        match inner.finish(name, output.raw()) {
            Ok(spec) => Some(Arc::new(spec)),
            Err(problem) => {
                self.problems.push(format!("within `{}{node}`: {problem}", self.prefix));
                None
            }
        }
    }

    /// An input of a workflow below a node. It is named when all other names are known.
    fn inner_input(&mut self, name: &str, described: TypeOf) -> RawHandle {
        let at = self.add(
            Node::new(name),
            NodeKind::Input,
            Vec::new(),
            Body::Input { fits: Fits::Type(|_| Ok(())) },
            described,
        );
        self.names.remove(name);
        at
    }

    /// Inputs of a workflow below a node give way to its nodes: theirs are the names that stand in paths.
    fn rename_inputs(&mut self) {
        let first = |path: &StepPath| path.names().split('/').next().unwrap_or_default().to_owned();
        let others = self.nodes.iter().filter(|node| node.kind != NodeKind::Input);
        let mut taken: HashSet<String> = others.map(|node| first(&node.path)).collect();
        for node in self.nodes.iter_mut().filter(|node| node.kind == NodeKind::Input) {
            let mut name = node.path.names().to_owned();
            while !taken.insert(name.clone()) {
                name = format!("outer.{name}");
            }
            node.path = StepPath::of_names(name.into());
        }
    }
}
