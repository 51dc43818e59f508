//! The edges that lead to a node: which are taken, and if enough of them are. Reads the machine and
//! changes nothing.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;

use super::{Machine, Phase, Unit, index};
use crate::failure::Failure;
use crate::workflow::entry::{Begins, Edge, Entry, When};
use crate::workflow::outputs::OutputsWithState;
use crate::workflow::spec::{Body, NodeIndex, Outputs, PlanNode};
use crate::workflow::step_error::StepError;

/// The recorded output of a router: one arm, or a list of arms.
#[derive(Deserialize)]
struct RecordedArms<'a> {
    #[serde(borrow, default)]
    arm: Option<Cow<'a, str>>,
    #[serde(default)]
    arms: Vec<String>,
}

impl Machine {
    /// Returns the arm that a router chose. `None` if it has not chosen or chooses several arms.
    pub(crate) fn chosen(&self, router: NodeIndex) -> Option<u32> {
        let Body::Router { arms, .. } = &self.spec.node(router).body else { return None };
        let chosen: RecordedArms<'_> = serde_json::from_str(self.output(router)?.as_str()).ok()?;
        let chosen = chosen.arm?;
        arms.iter().position(|arm| **arm == *chosen).map(index)
    }

    /// Returns `true` if the router chose the arm.
    fn takes(&self, router: NodeIndex, arm: u32) -> bool {
        let Body::Router { arms, .. } = &self.spec.node(router).body else { return false };
        let (Some(arm), Some(output)) = (arms.get(arm as usize), self.output(router)) else {
            return false;
        };
        serde_json::from_str::<RecordedArms<'_>>(output.as_str()).is_ok_and(|chosen| {
            chosen.arm.is_some_and(|chosen| **arm == *chosen)
                || chosen.arms.iter().any(|chosen| **arm == **chosen)
        })
    }

    /// Returns `true` if a decider skipped the node.
    fn is_skipped_by_decider(&self, node: NodeIndex) -> bool {
        let decided = self.spec.node(node).decided.as_ref();
        decided.is_some_and(|decided| decided.skips(self).is_some())
    }

    /// Returns the state of an edge.
    fn edge(&self, entry: &Entry) -> Edge {
        let phase = self.phase(Unit::node(entry.from));
        let of = |taken| if taken { Edge::Taken } else { Edge::NotTaken };
        // Nodes after a step that a decider skipped continue as if it had succeeded.
        let phase = if phase == Phase::Skipped && self.is_skipped_by_decider(entry.from) {
            Phase::Done
        } else {
            phase
        };
        match (phase, &entry.when) {
            (Phase::Done, When::Done) => Edge::Taken,
            (Phase::Done, When::Arm(arm)) => of(self.takes(entry.from, *arm)),
            (Phase::Done, When::Failed) => Edge::NotTaken,
            (Phase::Done, When::Holds(condition)) => {
                let holds = match condition.sees_state {
                    true => condition.holds(&OutputsWithState {
                        outputs: self,
                        state: self.state_behind(entry.from),
                    }),
                    false => condition.holds(self),
                };
                holds.map_or_else(Edge::Broken, of)
            }
            (Phase::Failed, When::Failed) if !self.nodes[entry.from as usize].cancelled => {
                Edge::Taken
            }
            (Phase::Failed | Phase::Skipped, _) => Edge::Dead,
            _ => Edge::Open,
        }
    }

    /// Returns `true` if the outcome is certain: enough edges are taken, or can no longer be taken.
    pub(super) fn is_known(&self, definition: &PlanNode) -> bool {
        if definition.begins.waits_for_all() {
            return true;
        }
        let (mut taken, mut open) = (0, 0);
        for entry in &definition.entries {
            match self.edge(entry) {
                Edge::Taken => taken += 1,
                Edge::Open => open += 1,
                Edge::NotTaken | Edge::Dead => {}
                Edge::Broken(_) => return true,
            }
        }
        let needed = definition.begins.needed(definition.entries.len());
        taken >= needed || taken + open < needed
    }

    /// Returns the failure of the first condition that cannot be evaluated.
    pub(super) fn broken(&self, definition: &PlanNode) -> Option<Failure> {
        let conditional =
            definition.entries.iter().filter(|entry| matches!(entry.when, When::Holds(_)));
        conditional.into_iter().find_map(|entry| match self.edge(entry) {
            Edge::Broken(problem) => {
                let from = &self.spec.node(entry.from).path;
                let what = format!("the condition of the edge from `{from}` failed");
                Some(StepError::of_value(&problem).within(&what).failure)
            }
            _ => None,
        })
    }

    /// Returns the reason why too few edges are taken, or `None` if the node is entered.
    pub(super) fn missing_edges_reason(&self, definition: &PlanNode) -> Option<Arc<str>> {
        let entries = &definition.entries;
        if entries.is_empty() {
            return None;
        }
        let edges: Vec<Edge> = entries.iter().map(|entry| self.edge(entry)).collect();
        let taken = edges.iter().filter(|edge| **edge == Edge::Taken).count();
        let needed = definition.begins.needed(entries.len());
        if taken >= needed {
            return None;
        }
        if definition.begins != Begins::All {
            return Some(
                format!("{taken} of its {} edges are taken, and it needs {needed}", entries.len())
                    .into(),
            );
        }
        let (entry, edge) = entries.iter().zip(&edges).find(|(_, edge)| **edge != Edge::Taken)?;
        let from = &self.spec.node(entry.from).path;
        Some(match (&entry.when, edge) {
            (When::Arm(_), Edge::NotTaken) => "another arm was taken".into(),
            (When::Failed, Edge::NotTaken) => format!("`{from}` did not fail").into(),
            (_, Edge::NotTaken) => {
                format!("the condition of the edge from `{from}` does not hold").into()
            }
            _ => self.missing_output_reason(entry.from),
        })
    }
}
