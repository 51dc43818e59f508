//! `KnownNodes`: the nodes in a journal with their states.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::state::{NodeInfo, NodeState};
use crate::event::ApprovalRequest;
use crate::path::StepPath;

/// The nodes of a run. The cost of applying an event does not depend on the length of the journal.
#[derive(Default)]
pub(crate) struct KnownNodes {
    all: HashMap<StepPath, NodeInfo>,
    /// Nodes that run, wait or ask; few at any moment. They are sorted, so that the nodes below a
    /// path are adjacent.
    unfinished: BTreeSet<StepPath>,
    /// Keeps only nodes that ask.
    only_asking: bool,
}

impl KnownNodes {
    pub(super) fn only_asking() -> Self {
        Self { only_asking: true, ..Self::default() }
    }

    pub(super) fn set(&mut self, path: &StepPath, state: NodeState) {
        if self.only_asking && !matches!(state, NodeState::Asking(_)) {
            return self.remove(path);
        }
        let is_unfinished = state.is_unfinished();
        let was_unfinished = match self.all.get_mut(path) {
            Some(node) => std::mem::replace(&mut node.state, state).is_unfinished(),
            None => {
                self.all.insert(path.clone(), NodeInfo { state });
                false
            }
        };
        match (was_unfinished, is_unfinished) {
            (false, true) => drop(self.unfinished.insert(path.clone())),
            (true, false) => drop(self.unfinished.remove(path)),
            _ => {}
        }
    }

    fn remove(&mut self, path: &StepPath) {
        if self.all.remove(path).is_some() {
            self.unfinished.remove(path);
        }
    }

    /// Marks the unfinished nodes below a path as stopped.
    pub(super) fn stop_below(&mut self, path: &StepPath) {
        // The paths below `path` are adjacent in the sorted set.
        let from = self.unfinished.range::<StepPath, _>((Bound::Included(path), Bound::Unbounded));
        let below = from.take_while(|of| of.belongs_to(path)).filter(|of| *of != path);
        for of in below.cloned().collect::<Vec<_>>() {
            self.set(&of, NodeState::Stopped);
        }
    }

    /// Removes the nodes of these paths.
    pub(super) fn forget(&mut self, forgotten: impl Fn(&StepPath) -> bool) {
        self.all.retain(|path, _| !forgotten(path));
        self.unfinished.retain(|path| !forgotten(path));
    }

    pub(crate) fn get(&self, path: &StepPath) -> Option<&NodeInfo> {
        self.all.get(path)
    }

    pub(super) fn running_mut(&mut self, path: &StepPath) -> Option<&mut bool> {
        match self.all.get_mut(path) {
            Some(NodeInfo { state: NodeState::Running { repeatable } }) => Some(repeatable),
            _ => None,
        }
    }

    pub(super) fn get_key_value(&self, path: &StepPath) -> Option<(&StepPath, &NodeInfo)> {
        self.all.get_key_value(path)
    }

    /// Returns the nodes in arbitrary order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&StepPath, &NodeInfo)> {
        self.all.iter()
    }

    /// Returns the open questions, in the order of their paths.
    pub(crate) fn asking(&self) -> impl Iterator<Item = (&StepPath, &Arc<ApprovalRequest>)> {
        self.unfinished.iter().filter_map(|path| match &self.all.get(path)?.state {
            NodeState::Asking(request) => Some((path, request)),
            _ => None,
        })
    }

    /// Returns the paths of all nodes, in order.
    pub(super) fn names(&self) -> Vec<&StepPath> {
        let mut names: Vec<&StepPath> = self.all.keys().collect();
        names.sort_unstable();
        names
    }
}

impl NodeState {
    fn is_unfinished(&self) -> bool {
        matches!(self, Self::Running { .. } | Self::Waiting | Self::Asking(_))
    }
}
