//! Shortens the journal of a workflow without losing its state, for snapshots.
//!
//! For a completed node, only the output is kept: its attempts and the records below it are
//! removed. Records of other nodes stay unchanged.

use std::collections::HashSet;

use super::spec::Spec;
use crate::event::{Edge, Event, EventKind, Shape, Subject};
use crate::path::StepPath;
use crate::run::InvalidatedRecords;

/// Returns a subset of the events that leads to the same state.
pub(crate) fn compact(spec: &Spec, mut events: Vec<Event>) -> Vec<Event> {
    // Events that a changed definition invalidated have no effect on the state.
    let void = InvalidatedRecords::from_kinds(events.iter().map(|event| &event.kind));
    let counts: Vec<bool> =
        events.iter().enumerate().map(|(at, event)| !void.covers(at, &event.path)).collect();
    let mut counts = counts.into_iter();
    events.retain(|_| counts.next().unwrap_or(true));
    let nodes: HashSet<&StepPath> = spec.nodes.iter().map(|node| &node.path).collect();
    let node_of = |event: &Event| node_of(&nodes, &event.path);
    let mut done = HashSet::new();
    for event in &events {
        match (&event.kind, node_of(event)) {
            (EventKind::NodeCompleted { .. }, Some((node, true))) => done.insert(node),
            _ => continue,
        };
    }
    let matters = |event: &Event| match node_of(event) {
        Some((node, itself)) if done.contains(&node) => {
            let Shape { subject, edge, .. } = event.kind.shape();
            // Failures and resets of a completed node also stopped and restarted other nodes, so
            // they are kept.
            let ends = subject == Subject::Node && edge == Edge::Closes;
            itself
                && (ends
                    || subject == Subject::Approval
                    || matches!(event.kind, EventKind::NodeReset { .. }))
        }
        _ => true,
    };
    let kept: Vec<bool> = events.iter().map(matters).collect();
    events.into_iter().zip(kept).filter_map(|(event, kept)| kept.then_some(event)).collect()
}

/// Returns the node that a path belongs to, and `true` if the path is the node itself.
fn node_of<'s>(nodes: &HashSet<&'s StepPath>, path: &StepPath) -> Option<(&'s StepPath, bool)> {
    if let Some(node) = nodes.get(path) {
        return Some((node, true));
    }
    let whole = |of: &StepPath| of.item().and_then(|(whole, _)| nodes.get(&whole).copied());
    let of = whole(path).or_else(|| {
        path.parents().find_map(|above| nodes.get(&above).copied().or_else(|| whole(&above)))
    });
    of.map(|node| (node, false))
}
