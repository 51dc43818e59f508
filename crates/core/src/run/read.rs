//! Reads a run's journal from its store, page by page, starting at the newest snapshot.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::event::{Event, EventKind, Redefined, RunBody, RunId, RunStarted, WorkflowStarted};
use crate::store::{EventFilter, Snapshot, Store, StoreError, StoreErrorKind};

/// Number of events per read.
const PAGE: usize = 10_000;

/// The journal of a run.
pub(crate) struct RunJournal {
    /// Number of events that precede `events`.
    pub(crate) offset: u64,
    /// The events after the offset.
    pub(crate) events: Vec<Event>,
    /// The events of the snapshot, which replace the events before the offset.
    pub(crate) kept: Vec<Event>,
}

/// Reads all events of a run after a sequence number.
pub(crate) async fn read_events(
    store: &Arc<dyn Store>,
    run: &RunId,
    after: u64,
) -> Result<Vec<Event>, StoreError> {
    let mut events = store.read(run, after, PAGE).await?;
    // A page that is not full is the last one.
    while !events.is_empty() && events.len() % PAGE == 0 {
        let page = store.read(run, after + events.len() as u64, PAGE).await?;
        if page.is_empty() {
            break;
        }
        events.extend(page);
    }
    Ok(events)
}

/// Reads the events of a run that a filter selects.
pub(crate) async fn read_selected_events(
    store: &Arc<dyn Store>,
    run: &RunId,
    filter: &EventFilter,
) -> Result<Vec<Event>, StoreError> {
    let mut events = store.read_selected(run, filter, 0, PAGE).await?;
    while let Some(last) = events.last().filter(|_| events.len() % PAGE == 0) {
        let page = store.read_selected(run, filter, last.seq, PAGE).await?;
        if page.is_empty() {
            break;
        }
        events.extend(page);
    }
    Ok(events)
}

/// Reads the journal of a run, as needed to resume it.
pub(crate) async fn read_journal(
    store: &Arc<dyn Store>,
    run: &RunId,
) -> Result<RunJournal, StoreError> {
    let snapshot = store.snapshot(run).await?;
    // Ignores a snapshot of a newer release. The journal contains the same facts in individual
    // events.
    let is_known = |snapshot: &Snapshot| {
        !snapshot.events.iter().any(|event| matches!(event.kind, EventKind::Unknown(_)))
    };
    let Snapshot { seq: offset, events: kept } =
        snapshot.filter(is_known).unwrap_or_else(|| Snapshot::new(0, Vec::new()));
    let events = read_events(store, run, offset).await?;
    Ok(RunJournal { offset, events, kept })
}

fn redefined(kind: &EventKind) -> Option<&Redefined> {
    match kind {
        EventKind::RunResumed { redefined, .. } => redefined.as_deref(),
        _ => None,
    }
}

impl RunJournal {
    /// Creates a journal from all events of a run.
    pub(crate) fn whole(events: Vec<Event>) -> Self {
        Self { offset: 0, events, kept: Vec::new() }
    }

    /// Returns the relevant events in order: the events of the snapshot, then the later ones.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Event> {
        self.kept.iter().chain(&self.events)
    }

    /// Returns the start of the run. Fails if the journal contains an event that this release does
    /// not know.
    pub(crate) fn started(&self, run: &RunId) -> Result<&RunStarted> {
        let started = self.beginning(run)?;
        let unknown = |event: &Event| match &event.kind {
            EventKind::Unknown(unknown) => Some((event.seq, Arc::clone(&unknown.name))),
            _ => None,
        };
        if let Some((seq, name)) = self.all().find_map(unknown) {
            let message = format!(
                "event {seq} of the run `{run}`, `{name}`, was recorded by a newer release and means something that this \
                 one does not know, so the run is not resumed here; update agentflow, or cancel the run"
            );
            return Err(StoreError::new(StoreErrorKind::NewerVersion, message).into());
        }
        Ok(started)
    }

    /// Returns the start of the run, without checking later events.
    pub(crate) fn beginning(&self, run: &RunId) -> Result<&RunStarted> {
        let Some(EventKind::RunStarted(started)) = self.all().next().map(|event| &event.kind)
        else {
            let message = format!(
                "the journal of the run `{run}` does not begin with its start; restore it from a copy"
            );
            return Err(StoreError::new(StoreErrorKind::Damaged, message).into());
        };
        if started.version > RunStarted::VERSION {
            let message = format!(
                "the run `{run}` was recorded by a newer release (version {}, this one knows {}); update agentflow",
                started.version,
                RunStarted::VERSION
            );
            return Err(StoreError::new(StoreErrorKind::NewerVersion, message).into());
        }
        Ok(started)
    }

    /// Returns the start of the workflow.
    pub(crate) fn workflow(&self, run: &RunId) -> Result<&WorkflowStarted> {
        match &self.started(run)?.body {
            RunBody::Workflow(workflow) => Ok(workflow),
            RunBody::Agent(agent) => Err(Error::Build {
                what: "workflow",
                name: Arc::clone(&agent.name),
                problem: format!(
                    "the run `{run}` is one of an agent; resume it with `RunRef::resume` or `Agent::resume`"
                ),
            }),
        }
    }

    /// Returns the id of the run's current definition by parts; `None` if an earlier release
    /// recorded none.
    pub(crate) fn parts(&self) -> Option<Arc<str>> {
        let of = |event: &Event| match &event.kind {
            EventKind::RunStarted(started) => Some(started.parts.clone()),
            kind => redefined(kind).map(|redefined| redefined.parts.clone()),
        };
        self.all().filter_map(of).last().flatten()
    }

    /// Returns the hash of the run's current definition, if it changed since the run started.
    pub(crate) fn definition(&self) -> Option<&Arc<str>> {
        self.all().filter_map(|event| redefined(&event.kind)?.definition.as_ref()).last()
    }
}
