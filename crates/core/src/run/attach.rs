//! Attaching to a run by its id: one that this process executes, or one of another process, which is followed through the
//! store. It controls nothing.

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

/// A run as it is now, and from now on.
pub(crate) async fn attach(host: &Arc<Host>, run: &RunId) -> Result<Life> {
    let store = host.require_store()?;
    if let Some(shared) = host.live.as_ref().and_then(|live| live.get(run)) {
        let (here, host) = (Arc::clone(&shared), Arc::clone(host));
        return Ok(Life::watched(shared, async move {
            here.log.until_closed().await;
            match here.log.end() {
                Some(end) => outcome(&here, end),
                // It stopped here and may continue elsewhere.
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

/// A run that is followed through the store, whoever executes it.
pub(super) async fn mirror(host: &Arc<Host>, run: &RunId) -> Result<Life> {
    let store = host.require_store()?;
    let mirror = mirrored(host, &store, run).await?;
    let (run, of) = (run.clone(), Arc::downgrade(&mirror));
    Ok(Life::watched(mirror, async move { follow(&store, &run, &of, &of).await }))
}

/// What is recorded of a run so far. Its log belongs to whoever looks: it has no sinks and writes nothing.
async fn mirrored(host: &Arc<Host>, store: &Arc<dyn Store>, run: &RunId) -> Result<Arc<RunShared>> {
    let mut events = read_events(store, run, 0).await?;
    let ended = RunRecord::from_events(&events).is_some_and(|run| run.status.has_ended());
    let end = if ended { events.pop() } else { None };
    let shared = Arc::new(RunShared::mirror(run.clone(), host));
    shared.log.restore(0, Vec::new(), events);
    if let Some(end) = end {
        shared.log.record(end.time, end.path, end.kind);
    }
    Ok(shared)
}

/// Records in a mirror what another process records, until the run has ended. Stops when nobody has a handle of the run,
/// and so `wanted`, any more.
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

/// The outcome of a run by its last event.
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
            Err(Error::Cancelled { reason }.with_not_undone(shared.log.not_undone()))
        }
        _ => Err(Error::Lost { reason: "the run has no end".to_owned() }),
    }
}
