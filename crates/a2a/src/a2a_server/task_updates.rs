//! A stream of a task's updates, derived from the events and the record of its run.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::StreamExt;

use super::fault::Fault;
use super::served_settings::Shared;
use super::shown_task::{build_task, context_of, is_settled, results_of, status_of};
use crate::a2a::{A2aArtifactUpdate, A2aStatusUpdate, A2aTaskState, A2aUpdate};
use agentflow_core::Caller;
use agentflow_core::event::{EventKind, RunId};
use agentflow_core::run::Events;
use agentflow_core::store::RunRecord;

/// A stream of the updates of one task.
pub(super) struct TaskUpdates {
    shared: Arc<Shared>,
    caller: Caller,
    run: RunId,
    events: Events,
    waiting: VecDeque<A2aUpdate>,
    /// State and status text that were sent last.
    shown: (A2aTaskState, Option<String>),
    /// `true` if the run may have changed since it was read. Stays set if reading it is cancelled.
    is_stale: bool,
    /// `true` if the stream also ends when the task waits for its client.
    stops_when_settled: bool,
    is_over: bool,
}

impl TaskUpdates {
    /// Starts the stream. The first update is the current task.
    pub(super) async fn start(
        shared: &Arc<Shared>,
        caller: &Caller,
        run: &RunId,
        stops_when_settled: bool,
    ) -> Result<Self, Fault> {
        let record = shared.record(caller, run).await?;
        // Events are read from the position of the record, so no change between the two reads is
        // lost.
        let events = shared
            .runtime
            .for_caller(caller)
            .run(run)
            .events(record.events)
            .await
            .map_err(|error| Fault::internal(&error))?;
        let task = build_task(shared, caller, &record, true).await?;
        let over =
            record.status.has_ended() || (stops_when_settled && is_settled(task.status.state));
        Ok(Self {
            shared: Arc::clone(shared),
            caller: caller.clone(),
            run: run.clone(),
            events,
            shown: (task.status.state, task.said()),
            waiting: VecDeque::from([A2aUpdate::Task(Box::new(task))]),
            is_stale: false,
            stops_when_settled,
            is_over: over,
        })
    }

    /// Returns the next update, or `None` at the end. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Result<A2aUpdate, Fault>> {
        loop {
            if let Some(update) = self.waiting.pop_front() {
                return Some(Ok(update));
            }
            if self.is_over {
                return None;
            }
            if self.is_stale {
                if let Err(fault) = self.look().await {
                    self.is_over = true;
                    return Some(Err(fault));
                }
                continue;
            }
            match self.events.next().await {
                Some(event) => self.is_stale = changes_state(&event.kind),
                // The event stream ended: the run ended, or its journal cannot be read. Reading the
                // record decides.
                None => {
                    if let Err(fault) = self.look().await {
                        self.is_over = true;
                        return Some(Err(fault));
                    }
                    self.is_over = true;
                }
            }
        }
    }

    async fn look(&mut self) -> Result<(), Fault> {
        let record = self
            .shared
            .runtime
            .for_caller(&self.caller)
            .run(&self.run)
            .record()
            .await
            .map_err(|error| Fault::internal(&error))?;
        let updates = self.changes(&record).await?;
        self.waiting.extend(updates);
        self.is_stale = false;
        self.is_over =
            record.status.has_ended() || (self.stops_when_settled && is_settled(self.shown.0));
        Ok(())
    }

    async fn changes(&mut self, record: &RunRecord) -> Result<Vec<A2aUpdate>, Fault> {
        let status = status_of(&self.shared, &self.caller, record).await?;
        let shown = (status.state, status.message.as_ref().map(crate::a2a::A2aMessage::text));
        if shown == self.shown {
            return Ok(Vec::new());
        }
        let (task_id, context_id) = (record.run_id.to_string(), context_of(record));
        let results = results_of(&self.shared, record).await?.artifacts.into_iter();
        let mut updates: Vec<A2aUpdate> = results
            .map(|artifact| {
                A2aUpdate::Artifact(Box::new(A2aArtifactUpdate::whole(
                    task_id.clone(),
                    context_id.clone(),
                    artifact,
                )))
            })
            .collect();
        updates
            .push(A2aUpdate::Status(Box::new(A2aStatusUpdate::new(task_id, context_id, status))));
        self.shown = shown;
        Ok(updates)
    }
}

/// Returns `true` if an event may change the state of the task.
fn changes_state(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::RunPaused { .. }
            | EventKind::RunResumed { .. }
            | EventKind::RunCompleted(_)
            | EventKind::RunFailed { .. }
            | EventKind::RunCancelled { .. }
            | EventKind::RunCompensating { .. }
    )
}
