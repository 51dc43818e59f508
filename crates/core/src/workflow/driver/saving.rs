//! The state that steps read and save. A step sees the state saved by its predecessors, in the
//! order of the plan. It does not depend on which of two concurrent steps is faster.
//!
//! This module selects the steps. `StepStates` holds the values.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::WorkflowRun;
use crate::context::Context;
use crate::error::FailureKind;
use crate::event::EventKind;
use crate::path::StepPath;
use crate::run::{RunShared, Seen, StepStates};
use crate::state::{EXIT, IN_TAP, MOST_SAVED, SavedByStep, WITHOUT_OUTPUT, too_much_saved};
use crate::value::Encoded;
use crate::workflow::machine::Unit;
use crate::workflow::outputs::OutputsWithState;
use crate::workflow::saved_outputs::saved_of;
use crate::workflow::spec::{Body, NodeIndex, NodeKind, Outputs, Spec};
use crate::workflow::step_error::StepError;

/// Returns the plan positions of the nodes that saved state. `None` if the run has no state.
pub(crate) fn places_of_saved(spec: &Spec, shared: &RunShared) -> Option<BTreeMap<StepPath, u64>> {
    let states = shared.states()?;
    let places = (0..).zip(&spec.nodes).filter(|(_, node)| states.saved_by(&node.path).is_some());
    Some(places.map(|(place, node)| (node.path.clone(), place)).collect())
}

/// A node and the state that it saved. `None` when the node starts again.
type SavedByNode = (NodeIndex, Option<Arc<SavedByStep>>);

/// Saved state of the nodes, in the order in which they ended. Append-only, so that a length
/// identifies the state that a step sees.
#[derive(Clone)]
pub(super) struct SavedStates(Arc<Mutex<Vec<SavedByNode>>>);

impl SavedStates {
    fn all(&self) -> MutexGuard<'_, Vec<SavedByNode>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, node: NodeIndex, saved: Option<Arc<SavedByStep>>) {
        self.all().push((node, saved));
    }

    /// Returns the state of each node when the list had `until` entries.
    fn states_at(&self, until: usize) -> HashMap<NodeIndex, Option<Arc<SavedByStep>>> {
        self.all().iter().take(until).cloned().collect()
    }
}

impl WorkflowRun {
    /// Prepares the state for an attempt at a unit.
    pub(super) fn open_state(&self, unit: Unit, path: &StepPath) {
        if let Some(mut states) = self.segment.shared.states() {
            let sees = self.sees(unit, &states);
            if unit.child.is_none() && states.saved_by(path).is_some() {
                // The node runs again, so its earlier state is no longer valid.
                self.saved_in_order(&states).add(unit.node, None);
            }
            states.open(path, sees);
        }
    }

    /// Returns the state that a unit sees: saved by its predecessors and, for ordered items, by
    /// earlier items. `None` if empty.
    fn sees(&self, unit: Unit, states: &StepStates) -> Option<Seen> {
        let spec = self.machine.spec();
        // Items of a map run concurrently. Rounds, and the items of a `for`, run one after another.
        let is_in_order = match spec.node(unit.node).body {
            Body::Repeat { .. } => true,
            _ => spec.node(unit.node).kind == NodeKind::Each,
        };
        let rounds = unit.child.filter(|_| is_in_order).unwrap_or(0);
        let rounds = (0..rounds)
            .filter_map(|child| states.saved_by(&self.path(Unit::child(unit.node, child))));
        let rounds: Vec<Arc<SavedByStep>> = rounds.cloned().collect();
        let saved = self.saved_in_order(states);
        let until = saved.all().len();
        if until == 0 && rounds.is_empty() {
            return None;
        }
        let (spec, saved) = (Arc::clone(spec), saved.clone());
        // Merged only when a step reads state, which most steps do not.
        Some(Seen::lazy(move || {
            let of_nodes = saved.states_at(until);
            let of_nodes =
                spec.all_before(unit.node).filter_map(|node| of_nodes.get(&node)?.clone());
            of_nodes.chain(rounds).fold(SavedByStep::default(), |mut all, saved| {
                all.apply(&saved);
                all
            })
        }))
    }

    /// Returns the list of saved states. It starts with the nodes that completed before this
    /// process.
    fn saved_in_order(&self, states: &StepStates) -> &SavedStates {
        self.saved.get_or_init(|| {
            let nodes = (0..).zip(&self.machine.spec().nodes).map(|(node, _)| node);
            let done = nodes.filter(|node| self.machine.output(*node).is_some());
            let saved = done.filter_map(|node| {
                Some((node, Some(Arc::clone(states.saved_by(&self.path(Unit::node(node)))?))))
            });
            SavedStates(Arc::new(Mutex::new(saved.collect())))
        })
    }

    /// Merges the state that a completed node saved.
    fn add_saved(&self, node: NodeIndex, states: &StepStates, to: &mut SavedByStep) {
        if self.machine.output(node).is_some()
            && let Some(saved) = states.saved_by(&self.path(Unit::node(node)))
        {
            to.apply(saved);
        }
    }

    /// Selects the values that the node declares to save from its output.
    fn values_to_save(
        &self,
        unit: Unit,
        output: &Encoded,
    ) -> Result<Vec<(String, Encoded)>, StepError> {
        let saves = &self.machine.spec().node(unit.node).saves;
        match unit.child.is_none() && !saves.is_empty() {
            true => saved_of(saves, output).map_err(|problem| StepError::of_value(&problem)),
            false => Ok(Vec::new()),
        }
    }

    /// Returns `true` if the node is an agent that ended the enclosing loop without an answer. Its
    /// declared keys stay unchanged.
    fn is_without_output(&self, unit: Unit, output: &Encoded) -> bool {
        let exit = || {
            self.segment
                .shared
                .states()
                .and_then(|states| states.find(&self.path(unit), EXIT).flatten())
        };
        output.as_str() == "\"\"" && exit().is_some_and(|exit| exit.as_str() == WITHOUT_OUTPUT)
    }

    /// Saves the declared parts of a node's output. They become part of the record of the output.
    ///
    /// # Errors
    /// If a value cannot be saved; see [`Context::set`].
    pub(super) fn save_output(&self, unit: Unit, output: &Encoded) -> Result<(), StepError> {
        let values = self.values_to_save(unit, output)?;
        if values.is_empty() || self.is_without_output(unit, output) {
            return Ok(());
        }
        let cx =
            Context::new(Arc::clone(&self.segment.shared), self.path(unit), self.resources.clone());
        values
            .into_iter()
            .try_for_each(|(key, value)| cx.set_encoded(key, value))
            .map_err(StepError::from_error)
    }

    /// Returns the outputs and the state for a node that is computed in place. Call
    /// [`unsee`](Self::unsee) afterwards.
    pub(super) fn outputs_with_state(&self, node: NodeIndex) -> OutputsWithState<'_> {
        let path = self.path(Unit::node(node));
        self.open_state(Unit::node(node), &path);
        let state = self.segment.shared.states().map(|states| states.seen_by(&path));
        OutputsWithState { outputs: &self.machine, state: state.unwrap_or_default() }
    }

    /// Discards the state that a node computed in place has seen.
    pub(super) fn unsee(&self, node: NodeIndex) {
        if self.machine.spec().node(node).sees_state
            && let Some(mut states) = self.segment.shared.states()
        {
            states.discard(&self.path(Unit::node(node)));
        }
    }

    /// Returns the recorded state at the start of the workflow. Values held only in memory are
    /// excluded.
    pub(super) fn state_at_begin(&self) -> Option<Arc<SavedByStep>> {
        let seen = self.segment.shared.states()?.seen_by(&self.segment.step);
        Arc::new(seen).recorded()
    }

    /// Returns the size of the state that the unit and its items saved, after checking the limits.
    ///
    /// # Errors
    /// [`FailureKind::TooLarge`] if a step saved more than its limit. [`FailureKind::Value`] if a
    /// tap saved anything.
    pub(super) fn checked_saved_size(&self, unit: Unit) -> Result<usize, StepError> {
        let Some(states) = self.segment.shared.states() else { return Ok(0) };
        let own = states.size(&self.path(unit));
        let within = self
            .machine
            .units(unit.node)
            .filter(|within| unit.child.is_none() && within.child.is_some());
        let within = within
            .filter_map(|within| states.saved_by(&self.path(within)))
            .map(|saved| saved.size());
        let size = own + within.sum::<usize>();
        // Covers state that was saved without `Context::set`, such as the answer of an agent.
        if size > 0 && self.machine.spec().node(unit.node).policy.tap {
            return Err(StepError::new(FailureKind::Value, IN_TAP.to_owned()));
        }
        match size > MOST_SAVED {
            true => Err(StepError::new(FailureKind::TooLarge, too_much_saved(size))),
            false => Ok(size),
        }
    }

    /// Adds the saved state to the record of a completed unit. Discards the state of a failed
    /// attempt.
    pub(super) fn with_saved(&self, unit: Unit, path: &StepPath, kind: EventKind) -> EventKind {
        let Some(mut states) = self.segment.shared.states() else { return kind };
        let EventKind::NodeCompleted { output, duration_ms, .. } = kind else {
            states.discard(path);
            return kind;
        };
        let mut has_parts = false;
        if unit.child.is_none() {
            // Merged by index, so that the result does not depend on which item was faster.
            for (place, child) in self.machine.units(unit.node).enumerate() {
                if child.child.is_some() {
                    has_parts = true;
                    states.merge_into_parent(&self.path(child), path, place);
                }
            }
        }
        let is_own = self.segment.is_run() && unit.child.is_none();
        let is_over = || matches!(self.machine.spec().node(unit.node).body, Body::Repeat { .. });
        // The request to end a repetition must not reach an enclosing repetition.
        if is_own || unit.child.is_none() && is_over() {
            states.forget(path, EXIT);
        }
        if has_parts {
            // The declared keys of the node override the values saved by its items.
            for (key, value) in self.values_to_save(unit, &output).unwrap_or_default() {
                states.change(path, &key, Some(value));
            }
        }
        let saved = states.end(path, is_own.then_some(unit.node.into()));
        if unit.child.is_none()
            && let Some(done) = states.saved_by(path)
        {
            self.saved_in_order(&states).add(unit.node, Some(Arc::clone(done)));
        }
        EventKind::NodeCompleted { output, duration_ms, saved }
    }

    /// Hands the state of a nested workflow to its step, in the order of the plan.
    pub(super) fn hand_up_state(&self) {
        let segment = &self.segment;
        if segment.is_run() {
            return;
        }
        if let Some(mut states) = segment.shared.states() {
            let mut saved = SavedByStep::default();
            for (node, _) in (0..).zip(&self.machine.spec().nodes) {
                self.add_saved(node, &states, &mut saved);
            }
            if !saved.is_empty() {
                let place = segment.shared.log.place_of(|path| *path == segment.base);
                states.apply(&segment.step, &saved, place);
            }
        }
    }
}
