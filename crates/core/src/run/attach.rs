//! Attaches to a run by its id: a run that this process executes, or a run of another process,
//! which is followed through the store.

use std::sync::{Arc, OnceLock, Weak};

use super::by_id::LOOK;
use super::handle::{Ended, Life};
use super::host::Host;
use super::read::read_events;
use super::result::RunEnd;
use super::shared::RunShared;
use crate::error::{Error, Result};
use crate::event::{EventKind, RunCompleted, RunId};
use crate::store::{RunRecord, Store, StoreError};

/// Attaches to a run.
pub(crate) async fn attach(host: &Arc<Host>, run: &RunId) -> Result<Life> {
    let store = host.require_store()?;
    if let Some(shared) = host.live.as_ref().and_then(|live| live.get(run)) {
        let (here, host) = (Arc::clone(&shared), Arc::clone(host));
        return Ok(Life::watched(shared, async move {
            here.log.until_closed().await;
            match here.log.end() {
                Some(end) => outcome(&here, end),
                // The run stopped here and may continue in another process.
                None => {
                    let (run, wanted) = (here.id.clone(), Arc::downgrade(&here));
                    drop(here);
                    let mirror = mirrored(&host, &store, &run).await?;
                    follow(&store, &run, &Arc::downgrade(&mirror), &wanted).await
                }
            }
        }));
    }
    mirror(host, run).await
}

/// Follows a run through the store.
pub(super) async fn mirror(host: &Arc<Host>, run: &RunId) -> Result<Life> {
    let store = host.require_store()?;
    let mirror = mirrored(host, &store, run).await?;
    let (run, of) = (run.clone(), Arc::downgrade(&mirror));
    Ok(Life::watched(mirror, async move { follow(&store, &run, &of, &of).await }))
}

/// Creates a mirror of a run with all events recorded so far. Its log has no sinks and is not
/// written to a store.
async fn mirrored(host: &Arc<Host>, store: &Arc<dyn Store>, run: &RunId) -> Result<Arc<RunShared>> {
    let mut events = read_events(store, run, 0).await?;
    let ended = RunRecord::from_events(&events).is_some_and(|run| run.status.has_ended());
    // The end is recorded below instead of restored, because an end among restored records does not
    // count.
    let end = if ended { events.pop() } else { None };
    let shared = Arc::new(RunShared::mirror(run.clone(), host));
    shared.log.restore(0, Vec::new(), events);
    if let Some(end) = end {
        shared.log.record(end.time, end.path, end.kind);
    }
    Ok(shared)
}

/// Copies the events that another process records into the mirror, until the run has ended. Stops
/// when the last handle of the run, and therefore `wanted`, was dropped.
async fn follow(
    store: &Arc<dyn Store>,
    run: &RunId,
    mirror: &Weak<RunShared>,
    wanted: &Weak<RunShared>,
) -> Result<Ended> {
    let (mut pause, longest) = LOOK;
    loop {
        {
            let Some(shared) = mirror.upgrade().filter(|_| wanted.strong_count() > 0) else {
                return Err(Error::Lost { reason: "nobody waits for the run any more".to_owned() });
            };
            if let Some(end) = shared.log.end() {
                shared.log.close();
                return outcome(&shared, end);
            }
        }
        tokio::time::sleep(pause).await;
        // Polls less often while the run does not record events.
        pause = longest.min(pause * 2);
        let read = async {
            let seen = mirror.upgrade().map_or(0, |shared| shared.log.visible());
            let events = read_events(store, run, seen).await?;
            match events.is_empty() && store.record(run).await?.is_none() {
                true => Err(StoreError::not_found(run)),
                false => Ok(events),
            }
        };
        let read = read.await;
        let Some(shared) = mirror.upgrade() else { continue };
        match read {
            Ok(events) => {
                for event in events {
                    pause = LOOK.0;
                    shared.log.record(event.time, event.path, event.kind);
                }
            }
            Err(error) => {
                shared.log.close();
                return Err(error.into());
            }
        }
    }
}

/// Returns the outcome of a run from its last event.
fn outcome(shared: &Arc<RunShared>, end: EventKind) -> Result<Ended> {
    match end {
        EventKind::RunCompleted(completed) => Ok(match &*completed {
            RunCompleted::Agent(agent) => Ended::Agent(RunEnd {
                completed: Arc::clone(agent),
                conversation: OnceLock::new(),
                shared: Arc::clone(shared),
            }),
            RunCompleted::Workflow(workflow) => Ended::Workflow(workflow.output.clone()),
        }),
        EventKind::RunFailed { error } => Err(Error::Recorded(error)),
        EventKind::RunCancelled { reason, .. } => {
            Err(Error::Cancelled { reason }.with_uncompensated(shared.log.not_undone()))
        }
        _ => Err(Error::Lost { reason: "the run has no end".to_owned() }),
    }
}
