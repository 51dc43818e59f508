//! Computes the state and the artifacts of a run from its journal: the values that its own steps
//! saved, in the order of the steps' positions in the plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::forgotten::InvalidatedRecords;
use super::read::read_events;
use crate::artifact::ArtifactRef;
use crate::event::{Edge, Event, EventKind, RunId, SessionArtifact};
use crate::path::StepPath;
use crate::state::{SavedByStep, StateValues};
use crate::store::{Store, StoreError};

/// Returns the state after these events: either all events of a run, or the events of a snapshot
/// and the later ones.
pub fn state_of(events: &[Event]) -> StateValues {
    let began = events.iter().find_map(|event| match &event.kind {
        EventKind::RunStarted(started) => started.state.as_deref().cloned(),
        _ => None,
    });
    let mut values = began.unwrap_or_default();
    saved_in(events).into_iter().for_each(|saved| values.apply(saved));
    // An agent saves its answer last.
    if let Some(EventKind::RunCompleted(completed)) = events.last().map(|event| &event.kind)
        && let Some(saved) = completed.agent().and_then(|answer| answer.saved.as_ref())
    {
        values.apply(saved);
    }
    values
}

/// Returns the artifacts after these events. The newest artifact of a name follows the older ones.
pub(crate) fn artifacts_from_events(events: &[Event]) -> Vec<ArtifactRef> {
    saved_in(events).into_iter().flat_map(|saved| saved.artifacts()).cloned().collect()
}

/// Returns the newest artifact of each name in the session history that ends with this run, in the
/// order of the names. It includes the artifacts from the start of the run and the run's own.
pub(crate) fn session_artifacts(run: &RunId, events: &[Event]) -> Vec<SessionArtifact> {
    let began = events.iter().find_map(|event| match &event.kind {
        EventKind::RunStarted(started) => Some(started.artifacts.to_vec()),
        _ => None,
    });
    let own = artifacts_from_events(events)
        .into_iter()
        .map(|artifact| SessionArtifact::new(run.clone(), artifact));
    let all = began.unwrap_or_default().into_iter().chain(own);
    all.map(|of| (Arc::clone(&of.artifact.name), of))
        .collect::<BTreeMap<_, _>>()
        .into_values()
        .collect()
}

/// Returns the matching artifacts in the session history that ends with the run `last`, newest run
/// first. If `all` is `false`, stops at the first run that has one.
pub(crate) async fn artifacts_up_to(
    store: &Arc<dyn Store>,
    last: Option<RunId>,
    is_it: impl Fn(&ArtifactRef) -> bool,
    all: bool,
) -> Result<Vec<SessionArtifact>, StoreError> {
    let (mut found, mut next) = (Vec::new(), last);
    while let Some(run) = next.take() {
        let events = read_events(store, &run, 0).await?;
        let own = artifacts_from_events(&events).into_iter().rev().filter(&is_it);
        found.extend(own.map(|artifact| SessionArtifact::new(run.clone(), artifact)));
        next = events.into_iter().find_map(|event| match event.kind {
            EventKind::RunStarted(started) => {
                started.session.as_ref().and_then(|place| place.after.clone())
            }
            _ => None,
        });
        if !all && !found.is_empty() {
            break;
        }
    }
    Ok(found)
}

/// Returns the saved values of the run's own steps, in the order of the steps' positions.
fn saved_in(events: &[Event]) -> Vec<&Arc<SavedByStep>> {
    let void = InvalidatedRecords::from_kinds(events.iter().map(|event| &event.kind));
    let mut saved: BTreeMap<&StepPath, (u64, &Arc<SavedByStep>)> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        if void.covers(at, &event.path) {
            continue;
        }
        if let EventKind::RunResumed { redefined: Some(redefined), .. } = &event.kind
            && let Some(places) = &redefined.places
        {
            // Values of nodes that the new definition lacks are dropped. The other nodes may have
            // moved.
            saved.retain(|path, _| places.contains_key(*path));
            for (path, (place, _)) in &mut saved {
                places.get(*path).into_iter().for_each(|now| *place = *now);
            }
        }
        match event.kind.saved().and_then(|saved| Some((saved.place()?, saved))) {
            Some(by_step) => drop(saved.insert(&event.path, by_step)),
            // The step runs again, so its earlier values no longer count.
            None if event.kind.shape().edge == Edge::Opens => drop(saved.remove(&event.path)),
            None => {}
        }
    }
    let mut in_order: Vec<_> = saved.into_values().collect();
    in_order.sort_by_key(|(place, _)| *place);
    in_order.into_iter().map(|(_, saved)| saved).collect()
}
