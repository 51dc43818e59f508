//! The state and the artifacts of a run, from its journal: what its own steps saved, in the order of their places. It writes
//! nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::forgotten::Void;
use crate::artifact::ArtifactRef;
use crate::event::{Edge, Event, EventKind};
use crate::path::StepPath;
use crate::state::{SavedByStep, StateValues};

/// The values after these events. They are all events of a run from the first on, or a snapshot's with those after it.
pub(crate) fn state_of(events: &[Event]) -> StateValues {
    let began = events.iter().find_map(|event| match &event.kind {
        EventKind::RunStarted(started) => started.state.as_deref().cloned(),
        _ => None,
    });
    let mut values = began.unwrap_or_default();
    saved_in(events).into_iter().for_each(|saved| values.apply(saved));
    // An agent's answer is what it saves last.
    if let Some(EventKind::RunCompleted(completed)) = events.last().map(|event| &event.kind)
        && let Some(saved) = completed.agent().and_then(|answer| answer.saved.as_ref())
    {
        values.apply(saved);
    }
    values
}

/// The artifacts after these events, each name's last one last.
pub(crate) fn artifacts_of(events: &[Event]) -> Vec<ArtifactRef> {
    saved_in(events).into_iter().flat_map(|saved| saved.artifacts()).cloned().collect()
}

/// What the run's own steps saved, in the order of their places.
fn saved_in(events: &[Event]) -> Vec<&Arc<SavedByStep>> {
    let void = Void::of(events.iter().map(|event| &event.kind));
    let mut saved: BTreeMap<&StepPath, (u64, &Arc<SavedByStep>)> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        if void.covers(at, &event.path) {
            continue;
        }
        if let EventKind::RunResumed { redefined: Some(redefined), .. } = &event.kind
            && let Some(places) = &redefined.places
        {
            saved.retain(|path, _| places.contains_key(*path));
            for (path, (place, _)) in &mut saved {
                places.get(*path).into_iter().for_each(|now| *place = *now);
            }
        }
        match event.kind.saved().and_then(|saved| Some((saved.place()?, saved))) {
            Some(by_step) => drop(saved.insert(&event.path, by_step)),
            // It runs again.
            None if event.kind.shape().edge == Edge::Opens => drop(saved.remove(&event.path)),
            None => {}
        }
    }
    let mut in_order: Vec<_> = saved.into_values().collect();
    in_order.sort_by_key(|(place, _)| *place);
    in_order.into_iter().map(|(_, saved)| saved).collect()
}
