//! Makes a workflow's journal shorter without losing its state: the content of a snapshot.
//!
//! Of a finished node it keeps only the output; its attempts and the steps below it are left out. It changes nothing
//! about a node that is not finished.

use std::collections::HashSet;

use super::spec::Spec;
use crate::event::{Edge, Event, EventKind, Shape, Subject};
use crate::path::StepPath;
use crate::run::Void;

/// The events that lead to the same state as all of them.
pub(crate) fn compact(spec: &Spec, mut events: Vec<Event>) -> Vec<Event> {
    let void = Void::of(events.iter().map(|event| &event.kind));
    let counts: Vec<bool> = events.iter().enumerate().map(|(at, event)| !void.covers(at, &event.path)).collect();
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
            // That it failed and was reset stopped other nodes and made them run again.
            let ends = subject == Subject::Node && edge == Edge::Closes;
            itself && (ends || subject == Subject::Approval || matches!(event.kind, EventKind::NodeReset { .. }))
        }
        _ => true,
    };
    let kept: Vec<bool> = events.iter().map(matters).collect();
    events.into_iter().zip(kept).filter_map(|(event, kept)| kept.then_some(event)).collect()
}

/// The node that a path belongs to, and whether it is the node itself and nothing below it.
fn node_of<'s>(nodes: &HashSet<&'s StepPath>, path: &StepPath) -> Option<(&'s StepPath, bool)> {
    if let Some(node) = nodes.get(path) {
        return Some((node, true));
    }
    let whole = |of: &StepPath| of.item().and_then(|(whole, _)| nodes.get(&whole).copied());
    let of =
        whole(path).or_else(|| path.parents().find_map(|above| nodes.get(&above).copied().or_else(|| whole(&above))));
    of.map(|node| (node, false))
}
