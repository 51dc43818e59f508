//! `RemoteRun`: a run that another process owns, as needed to execute one of its steps in this
//! process.
//!
//! Events recorded here are forwarded to the process that owns the run. This process stores nothing
//! of the run.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::{
    ExecutorError, ExecutorErrorKind, StepAnswer, StepBatch, StepCall, StepDelivery, StepRecorder,
};
use crate::error::{ControlError, Result};
use crate::event::{Event, EventKind, EventSink, RunBody, RunId, RunStarted, WorkflowStarted};
use crate::future::BoxFuture;
use crate::path::StepPath;
use crate::run::{Host, Journal, RunData, RunShared, read_outcome};
use crate::store::{Append, Epoch, RunFilter, RunRecord, Store, StoreError, StoreErrorKind};
use crate::time::Timestamp;
use crate::tool_definition::Effects;
use crate::value::Encoded;

/// The connection of one execution of a call to the run.
pub(crate) struct Delivery {
    pub(crate) recorder: Arc<dyn StepRecorder>,
    id: StepDelivery,
}

impl Delivery {
    pub(crate) fn new(host: &Host, call: &StepCall, recorder: Arc<dyn StepRecorder>) -> Self {
        Self { recorder, id: StepDelivery::new(call, host.delivery_id()) }
    }

    /// Takes the step of the call. No part of the step has run before. A runtime that starts to
    /// drain meanwhile keeps the step.
    ///
    /// # Errors
    /// Fails if another execution of the call took the step, or the run no longer waits for the
    /// step.
    pub(crate) async fn take(&self) -> Result<(), ExecutorError> {
        self.recorder.record(self.id.first()).await
    }
}

/// Creates the error for a runtime that is draining and does not accept steps.
pub(crate) fn drained(call: &StepCall) -> ExecutorError {
    ExecutorError::lost(format!(
        "the step `{}` of the run `{}` was given to a runtime that is being drained, which takes none; give it to another one",
        call.path, call.run
    ))
}

/// A run owned by another process. Executes one of its steps; dropping it stops the step.
pub(crate) struct RemoteRun {
    shared: Arc<RunShared>,
    forwarded: Arc<ForwardingStore>,
}

impl RemoteRun {
    /// Creates the run from a call.
    ///
    /// # Errors
    /// Fails if a resource of the run cannot be created, or this runtime is being drained.
    pub(crate) fn begin(host: &Arc<Host>, call: &StepCall, delivery: &Delivery) -> Result<Self> {
        let recorder = &delivery.recorder;
        let mut started = WorkflowStarted::new(
            Arc::clone(&call.workflow),
            Arc::clone(&call.definition),
            Encoded::null(),
        );
        started.terms.compensate = call.compensate;
        let mut started = RunStarted::new(RunBody::Workflow(started));
        started.caller.clone_from(&call.caller);
        started.caller_claims.clone_from(&call.caller_claims);
        started.trace_id.clone_from(&call.trace_id);
        started.tags.clone_from(&call.tags);
        // Resources come from the factories of this runtime, as on a resume.
        let own = RunData::resumed(&host.factories, &call.run, &started)?;
        let forwarded = Arc::new(ForwardingStore {
            recorder: Arc::clone(recorder),
            delivery: delivery.id.clone(),
            // Batch 0 took the step.
            sent: Mutex::new(1),
            refused: OnceLock::new(),
            max_event_bytes: call.max_event_bytes,
        });
        let journal = Journal::forwarding(Arc::clone(&forwarded) as Arc<dyn Store>, call.durable);
        let sinks: Arc<[Arc<dyn EventSink>]> = match call.deltas {
            true => Arc::new([Arc::new(Deltas(Arc::clone(recorder))) as _]),
            false => Arc::new([]),
        };
        let shared = RunShared::of_step(call.run.clone(), host, journal, sinks);
        let shared = Arc::new(shared.with_own(Some(own), Some(call.max_llm_calls)));
        host.running.begin(&shared)?;
        let run = Self { shared, forwarded };
        let now = run.shared.now();
        let event = |kind| Event {
            run_id: call.run.clone(),
            seq: 0,
            part: 0,
            time: now,
            path: StepPath::root(),
            kind,
        };
        let mut events = vec![event(EventKind::RunStarted(Arc::new(started)))];
        // The clocks of the two processes differ, so only the age of a record counts.
        let ago = |time: Timestamp| call.at.since(time);
        let earlier = |time: Timestamp| {
            Timestamp::from_millis(now.as_millis().saturating_sub(millis(ago(time))))
        };
        events.extend(
            call.records.iter().cloned().map(|event| Event { time: earlier(event.time), ..event }),
        );
        if !call.spent.is_empty() {
            events.push(event(EventKind::RunSpent(Arc::new(call.spent.clone()))));
        }
        // The step then finds the records of its earlier attempts and does not repeat recorded
        // work.
        run.shared.restore(0, Vec::new(), events);
        Ok(run)
    }

    pub(crate) fn shared(&self) -> &Arc<RunShared> {
        &self.shared
    }

    /// Reports the strongest effect of the calls that wait for the steps above to the process that
    /// owns the run.
    pub(crate) fn tell_waits(
        &self,
        effects: Effects,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let forwarded = Arc::clone(&self.forwarded);
        Box::pin(async move { forwarded.send(Vec::new(), Vec::new(), Some(effects)).await })
    }
}

impl Drop for RemoteRun {
    fn drop(&mut self) {
        self.shared.close();
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Forwards deltas of model calls and progress of steps. Recorded events are forwarded by the
/// journal.
struct Deltas(Arc<dyn StepRecorder>);

impl EventSink for Deltas {
    fn emit(&self, event: &Event) {
        match &event.kind {
            EventKind::ModelDelta(delta) => self.0.delta(&event.path, delta.clone()),
            EventKind::StepProgress { value } => self.0.progress(&event.path, value.clone()),
            _ => {}
        }
    }

    fn wants_deltas(&self) -> bool {
        true
    }
}

/// The journal of a run that another process owns. Forwards all appended events to that process.
struct ForwardingStore {
    recorder: Arc<dyn StepRecorder>,
    delivery: StepDelivery,
    /// Number of batches sent so far. The lock allows one batch in flight.
    sent: Mutex<u64>,
    /// The error of a failed batch. No batch follows it: the failed batch may have arrived, so
    /// sending its events again under a new number could store them twice.
    refused: OnceLock<StoreError>,
    max_event_bytes: Option<u64>,
}

impl ForwardingStore {
    async fn send(
        &self,
        events: Vec<Event>,
        answers: Vec<StepAnswer>,
        waits: Option<Effects>,
    ) -> Result<(), StoreError> {
        let mut sent = self.sent.lock().await;
        if let Some(refused) = self.refused.get() {
            return Err(refused.clone());
        }
        let (delivery, number) = (self.delivery.clone(), *sent);
        *sent += 1;
        let kept =
            self.recorder.record(StepBatch { delivery, number, events, answers, waits }).await;
        kept.map_err(|error| {
            let kind = match error.kind() {
                // Like a writer that lost its lease: this delivery no longer owns the step.
                ExecutorErrorKind::Ended | ExecutorErrorKind::Taken => StoreErrorKind::Fenced,
                _ => StoreErrorKind::Io,
            };
            let refused = StoreError::new(
                kind,
                format!("the run did not keep the records of its step: {error}"),
            );
            self.refused.get_or_init(|| refused).clone()
        })
    }
}

/// Error of all operations but `append`: the journal serves a single step, so it cannot be opened
/// or read.
fn only_appended<T>() -> Result<T, StoreError> {
    Err(StoreError::new(
        StoreErrorKind::Unsupported,
        "the run is kept by the process that handed out its step",
    ))
}

#[async_trait]
impl Store for ForwardingStore {
    async fn create(&self, _: &RunId, _: Vec<Event>) -> Result<Epoch, StoreError> {
        only_appended()
    }

    async fn open(&self, _: &RunId) -> Result<Epoch, StoreError> {
        only_appended()
    }

    async fn append(&self, _: &RunId, _: Epoch, append: Append) -> Result<(), StoreError> {
        let Append { mut events, answered, .. } = append;
        // Events at the root are recorded by the process that owns the run.
        events.retain(|event| !event.path.is_root());
        let answers: Vec<StepAnswer> = answered
            .into_iter()
            .map(|answered| {
                let outcome = read_outcome(&answered.outcome)
                    .unwrap_or_else(|| Err(ControlError::not_understood()));
                StepAnswer::new(answered.message.0, outcome)
            })
            .collect();
        if events.is_empty() && answers.is_empty() {
            return Ok(());
        }
        self.send(events, answers, None).await
    }

    async fn amend(&self, _: &RunId, _: u64, _: Vec<Event>) -> Result<(), StoreError> {
        only_appended()
    }

    async fn read(&self, _: &RunId, _: u64, _: usize) -> Result<Vec<Event>, StoreError> {
        only_appended()
    }

    async fn list(&self, _: RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        only_appended()
    }

    fn max_event_bytes(&self) -> Option<u64> {
        self.max_event_bytes
    }
}

impl fmt::Debug for ForwardingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forwarded").finish_non_exhaustive()
    }
}
