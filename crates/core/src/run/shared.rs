//! `RunShared`: the state that all steps of a run share, such as its log and its cancellation.
//! `requests.rs` routes its control requests.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::control_request::Reply;
use super::give_ups::GiveUpRequests;
use super::host::Host;
use super::journal::Journal;
use super::log::EventLog;
use super::nested::{NestedCall, NestedCallRegistry, PathClaims};
use super::options::RunData;
use super::requests::Listeners;
use super::state::{OpenSteps, RunState};
use super::step_states::StepStates;
use crate::error::{ControlError, Error, Result};
use crate::event::{Event, EventKind, EventSink, PauseReason, RunBody, RunId, RunStarted};
use crate::failure::Failure;
use crate::path::StepPath;
use crate::resource::Resources;
use crate::store::{MessageId, RunStatus, close_in_background};
use crate::time::Timestamp;

/// The state that all steps of a run share. Each run has one, so rarely used state is in
/// [`RareRunState`].
pub(crate) struct RunShared {
    pub(crate) id: RunId,
    pub(crate) host: Arc<Host>,
    pub(crate) cancellation: CancellationToken,
    pub(crate) log: EventLog,
    /// Maximum number of model calls of the run, including nested agents.
    pub(crate) max_llm_calls: AtomicU32,
    /// `true` while an operator pauses the run, or it is drained: no new work starts.
    pub(super) held: AtomicBool,
    /// `true` if this process drains the run: no new work starts here.
    pub(super) draining: AtomicBool,
    /// `true` if the run was stopped in this process without an end.
    pub(super) stopping: AtomicBool,
    /// `true` if the run compensates. Cancellation does not stop compensations.
    pub(super) undoing: AtomicBool,
    /// `true` if a step of this process has called a tool that must not be repeated.
    pub(super) wrote: AtomicBool,
    /// `true` if a handle of the run was given out, so its questions can be answered in this
    /// process.
    pub(super) has_handle: AtomicBool,
    /// `true` if the run has no spans.
    untraced: AtomicBool,
    /// The run's own data and resources, if any.
    own: OnceLock<Box<RunData>>,
    end: Mutex<End>,
    pub(super) operations: OnceLock<Box<RareRunState>>,
}

/// Determines whether the run can still be cancelled.
#[derive(Default)]
struct End {
    ended: Option<RunStatus>,
    /// `true` if the run stopped in this process without an end.
    stopped: bool,
}

/// State that is created when the run has nested agents or workflows, receives a request, or is
/// resumed.
#[derive(Default)]
pub(super) struct RareRunState {
    pub(super) cancel_reason: OnceLock<Arc<str>>,
    /// The operator who gave the cancel reason.
    cancelled_by: OnceLock<Arc<str>>,
    /// The agents and workflows that attempts at steps started.
    begun: OnceLock<Box<NestedCallRegistry>>,
    /// The workflows of the run that receive control requests.
    pub(super) listeners: Mutex<Listeners>,
    /// Replies to cancel requests, which wait for the end of the run. Changed only while the lock
    /// of `end` is held.
    cancels: Mutex<Vec<Reply>>,
    /// Ids of messages of other processes that were handled.
    taken: Mutex<HashSet<MessageId>>,
    pub(super) released: Notify,
    /// Start of the current hold, and total duration of the earlier holds.
    pub(super) held_for: Mutex<(Option<Instant>, Duration)>,
    /// The agents and workflows in steps that wait for the run to stop.
    pub(super) parked: Mutex<Vec<StepPath>>,
    /// Requests to give up compensations.
    pub(super) give_ups: GiveUpRequests,
    /// Notified when a question below a step is answered.
    pub(super) answered: Notify,
    /// Notified when the run receives a message or a close.
    pub(super) messaged: Notify,
    /// The task that executes a run with a store.
    task: OnceLock<AbortHandle>,
    /// Paths that the previous process left open.
    left_open: OnceLock<Vec<StepPath>>,
    /// Interrupted tool calls that must not be repeated, found when the run was resumed.
    pub(super) stopped_calls: OnceLock<Vec<StepPath>>,
    /// The state of the steps, once a step has accessed state.
    states: OnceLock<Box<Mutex<StepStates>>>,
}

/// Returns the status of a run with this end.
pub(super) fn status_of(end: &EventKind) -> RunStatus {
    match end {
        EventKind::RunCompleted(_) => RunStatus::Success,
        EventKind::RunCancelled { .. } => RunStatus::Cancelled,
        _ => RunStatus::Failed,
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunShared {
    pub(crate) fn new(id: RunId, host: &Arc<Host>, journal: Option<Journal>) -> Self {
        let log =
            EventLog::new(id.clone(), Arc::clone(&host.sinks), journal, host.redactor.clone());
        Self::with_log(id, host, log)
    }

    /// Creates a mirror of a run that another process executes.
    pub(super) fn mirror(id: RunId, host: &Arc<Host>) -> Self {
        let log = EventLog::new(id.clone(), Arc::new([]), None, None);
        Self::with_log(id, host, log)
    }

    /// Creates the run of a remote step. Its records are sent to the process that owns the run.
    pub(crate) fn of_step(
        id: RunId,
        host: &Arc<Host>,
        journal: Journal,
        sinks: Arc<[Arc<dyn EventSink>]>,
    ) -> Self {
        let log = EventLog::new(id.clone(), sinks, Some(journal), host.redactor.clone());
        Self::with_log(id, host, log)
    }

    fn with_log(id: RunId, host: &Arc<Host>, log: EventLog) -> Self {
        Self {
            log,
            id,
            host: Arc::clone(host),
            cancellation: CancellationToken::new(),
            max_llm_calls: AtomicU32::new(host.max_llm_calls),
            held: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            undoing: AtomicBool::new(false),
            wrote: AtomicBool::new(false),
            has_handle: AtomicBool::new(false),
            untraced: AtomicBool::new(false),
            own: OnceLock::new(),
            end: Mutex::default(),
            operations: OnceLock::new(),
        }
    }

    /// Sets the run's own data, and lowers the limit on model calls. Called once, before the run
    /// starts.
    pub(crate) fn with_own(self, own: Option<Box<RunData>>, max_llm_calls: Option<u32>) -> Self {
        if let Some(own) = own {
            // Cannot fail, since it is set once.
            let _ = self.own.set(own);
        }
        if let Some(calls) = max_llm_calls {
            self.max_llm_calls.fetch_min(calls, Ordering::Relaxed);
        }
        self
    }

    /// Enables streaming of model calls without a listener, if `wanted`.
    pub(crate) fn stream_if(&self, wanted: bool) {
        self.log.delta_listeners.fetch_add(usize::from(wanted), Ordering::Relaxed);
    }

    /// Disables the spans of the run, if `wanted`.
    pub(crate) fn untrace_if(&self, wanted: bool) {
        self.untraced.fetch_or(wanted, Ordering::Relaxed);
    }

    /// Returns `true` if the run has `tracing` spans.
    pub(crate) fn is_traced(&self) -> bool {
        !self.untraced.load(Ordering::Relaxed)
    }

    /// Returns the run's own data and resources.
    pub(crate) fn own(&self) -> Option<&RunData> {
        self.own.get().map(|own| &**own)
    }

    /// Returns the resources of the host, overlaid with the run's own resources.
    pub(crate) fn resources(&self) -> Resources {
        let mut resources = self.host.resources.clone();
        if let Some(own) = self.own() {
            resources.extend(&own.resources());
        }
        resources
    }

    /// Closes the resources that were created for the run, which has ended.
    pub(super) async fn close_resources(&self) {
        if let Some(resources) = self.own().and_then(RunData::take_resources) {
            resources.close().await;
        }
    }

    /// Builds the payload of `run.started`.
    pub(super) fn started(&self, body: RunBody) -> RunStarted {
        let mut started = RunStarted::new(body);
        if let Some(RunData { began, state, .. }) = self.own() {
            if let Some(caller) = began.caller() {
                started.caller = Some(Arc::clone(caller.shared_name()));
                started.caller_claims.clone_from(caller.claims());
            }
            started.trace_id = began.trace_id().map(Arc::from);
            started.tags.clone_from(began.tags());
            started.state.clone_from(state);
            started.document = began.shared_document().cloned();
        }
        started
    }

    pub(super) fn operations(&self) -> &RareRunState {
        self.operations.get_or_init(Box::default)
    }

    /// Returns the state of the steps, if a step has accessed state.
    #[inline]
    pub(crate) fn states(&self) -> Option<MutexGuard<'_, StepStates>> {
        self.operations.get()?.states.get().map(|states| locked(states))
    }

    /// Returns the state of the steps. Creates it if needed.
    pub(crate) fn states_or_new(&self) -> MutexGuard<'_, StepStates> {
        locked(self.operations().states.get_or_init(Box::default))
    }

    /// Applies a record to the state of the steps: a record from before a resume, or the start of
    /// the run.
    pub(crate) fn restore_state(&self, path: &StepPath, kind: &EventKind) {
        if StepStates::is_in(kind) {
            self.states_or_new().restore(path, kind);
        }
    }

    /// Returns the time of the host's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.host.clock.now()
    }

    /// Restores the events of a run that is resumed: the events of the snapshot, which replace the
    /// first `offset` events, and the later ones.
    pub(crate) fn restore(&self, offset: u64, kept: Vec<Event>, events: Vec<Event>) {
        let mut open = OpenSteps::default();
        for event in kept.iter().chain(&events) {
            open.apply(&event.path, &event.kind);
            self.restore_state(&event.path, &event.kind);
        }
        self.log.restore(offset, kept, events);
        // Cannot fail, since a run is restored once.
        let _ = self.operations().left_open.set(open.paths());
    }

    /// Records an end for subjects that an earlier process left open in nodes which a change of the
    /// definition invalidates.
    pub(crate) fn close_invalidated(&self, forgotten: &[StepPath]) {
        let state = RunState::from_records(&self.log.all_below(&StepPath::root()));
        for (path, kind) in state.closings("the workflow has changed") {
            if forgotten.iter().any(|node| path.belongs_to(node)) {
                self.record(path, kind);
            }
        }
    }

    /// Records an end for subjects below a step that an earlier process left open and that were not
    /// started again, because the step ends. Returns `true` if there may have been any.
    pub(crate) fn close_below(&self, step: &StepPath, reason: &str) -> bool {
        let left_open = self.operations.get().and_then(|operations| operations.left_open.get());
        let any = left_open.into_iter().flatten().any(|open| open.is_within(step));
        if any {
            let recorded = self.log.all_below(step);
            for (path, kind) in RunState::closings_below(step, &recorded, reason) {
                self.record(path, kind);
            }
        }
        any
    }

    /// Records an end for agents and workflows in steps that are still open, and for the open
    /// subjects in them, because the run ends.
    pub(super) fn close_strays(&self, reason: &str) {
        if self.log.has_nested() {
            let state = RunState::from_records(&self.log.all_below(&StepPath::root()));
            for (path, kind) in state.strays(reason) {
                self.record(path, kind);
            }
        }
    }

    /// Records an event with the current time.
    pub(crate) fn record(&self, path: StepPath, kind: EventKind) {
        self.record_at(self.now(), path, kind);
    }

    /// Records an event with a known time.
    pub(crate) fn record_at(&self, now: Timestamp, path: StepPath, kind: EventKind) {
        // Replies are added before the end is recorded, so that they are sent with its commit.
        if kind.ends_run() && path.is_root() {
            self.answer_cancels(&kind);
        }
        self.log.record(now, path, kind);
    }

    /// Prepares the replies to cancel requests. They are sent when the end of the run, which is the
    /// next record, is stored.
    fn answer_cancels(&self, end: &EventKind) {
        let status = status_of(end);
        let mut end = locked(&self.end);
        end.ended = Some(status);
        let Some(operations) = self.operations.get() else { return };
        for reply in locked(&operations.cancels).drain(..) {
            self.log.reply_with_next(
                reply,
                match status {
                    RunStatus::Cancelled => Ok(()),
                    status => Err(ControlError::over("cancelled", status)),
                },
            );
        }
    }

    /// Logs that the run has failed. The message is redacted like events.
    pub(super) fn log_failure(&self, name: &str, error: &Error) {
        let sentence = self.host.redacted(error);
        // The name and the message may contain foreign text. `Debug` keeps them on one line.
        tracing::info!(run = self.id.as_str(), name = ?name, error.type = error.kind().as_str(), error = ?sentence, "a run failed");
    }

    pub(super) fn request_cancel(
        &self,
        reason: String,
        by: Option<Arc<str>>,
        reply: Option<Reply>,
    ) {
        if !self.await_cancelled(reply) {
            return;
        }
        let operations = self.operations();
        operations.cancel_reason.get_or_init(|| {
            // The operator is stored with the reason, and only the first reason counts.
            by.into_iter().for_each(|by| drop(operations.cancelled_by.set(by)));
            reason.into()
        });
        self.cancellation.cancel();
    }

    /// Sends the outcome of a cancel request when the run ends. Returns `false` if the run has
    /// ended or stopped already.
    pub(super) fn await_cancelled(&self, reply: Option<Reply>) -> bool {
        let end = locked(&self.end);
        match end.ended {
            Some(status) => {
                drop(end);
                self.log.reply(reply, Err(ControlError::over("cancelled", status)));
                false
            }
            // The reply is dropped, and the caller looks up the run again.
            None if end.stopped => false,
            None => {
                locked(&self.operations().cancels).extend(reply);
                true
            }
        }
    }

    /// Marks a message of another process as handled. Returns `false` if it was handled before.
    pub(crate) fn take_message(&self, id: MessageId) -> bool {
        locked(&self.operations().taken).insert(id)
    }

    /// Closes the run in this process: stops recording events and drops the waiting replies, so
    /// that callers look up the run again. Releases a run without an end in its store.
    pub(crate) fn close(&self) {
        {
            let mut end = locked(&self.end);
            end.stopped = true;
            if let Some(operations) = self.operations.get() {
                locked(&operations.cancels).clear();
            }
        }
        self.forget_give_ups();
        self.log.close();
        // Dropping the resources closes them on another task.
        drop(self.own().and_then(RunData::take_resources));
        if let Some((store, Some(epoch))) = self.log.store()
            // A run with an end was released when the end was stored.
            && self.log.end().is_none()
            && let Ok(handle) = tokio::runtime::Handle::try_current()
        {
            close_in_background(&handle, store, &self.id, epoch);
        }
        self.host.forget(self);
        self.host.running.end(self);
    }

    /// Holds the run if an operator had paused it before its process ended.
    pub(crate) fn hold_as_recorded(&self) {
        if self.log.waits_for() == Some(PauseReason::Operator) {
            self.hold(true);
        }
    }

    /// Returns `true` while the run is held, by an operator or for draining.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst)
    }

    /// Sets the task that executes a run with a store.
    pub(super) fn executed_by(&self, task: AbortHandle) {
        // Cannot fail, since a run is executed once.
        let _ = self.operations().task.set(task);
    }

    /// Returns the task that executes the run, if the run has a store.
    pub(super) fn task(&self) -> Option<AbortHandle> {
        self.operations.get().and_then(|operations| operations.task.get()).cloned()
    }

    /// Returns the total time for which this process has held the run.
    pub(crate) fn held_for(&self) -> Duration {
        let Some(operations) = self.operations.get() else { return Duration::ZERO };
        let (since, total) = *locked(&operations.held_for);
        total + since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Returns the execution time of the agent or workflow at a path, including earlier processes.
    pub(crate) fn time_spent(&self, base: &StepPath) -> Duration {
        self.log.time_spent(base, self.now())
    }

    /// Waits until `is_held` equals `held`.
    pub(crate) async fn until_held(&self, held: bool) {
        let operations = self.operations();
        loop {
            let changed = operations.released.notified();
            if self.is_held() == held {
                return;
            }
            changed.await;
        }
    }

    /// Assigns the path of an agent or workflow that an attempt at a step starts: the recorded path
    /// of the same call, or a new one.
    ///
    /// # Errors
    /// [`Error::NestedOther`] if the attempt made a different call before, which may have had an
    /// effect.
    pub(crate) fn claim(
        &self,
        scope: StepPath,
        called: impl FnOnce() -> NestedCall,
    ) -> Result<StepPath> {
        let redactor = self.host.redactor.as_ref();
        self.with_claims(scope, |claims, scope| claims.claim(scope, || called().redacted(redactor)))
    }

    /// Assigns the path below which an attempt at a step records its tool calls. `known` is the
    /// recorded path.
    pub(crate) fn claim_base(&self, scope: StepPath, known: Option<StepPath>) -> StepPath {
        self.with_claims(scope, |claims, scope| claims.claim_base(scope, known))
    }

    fn with_claims<T>(
        &self,
        scope: StepPath,
        claim: impl FnOnce(&mut PathClaims, &StepPath) -> T,
    ) -> T {
        let mut nested = locked(&self.begun_by_steps().nested);
        // Only a resumed run can have records below a new attempt.
        let claims = nested.entry(scope.clone()).or_insert_with(|| match self.log.is_restored() {
            true => PathClaims::after(&scope, &self.log.records_below(&scope)),
            false => PathClaims::default(),
        });
        claim(claims, &scope)
    }

    /// Returns the reason why the output of a repeated attempt cannot be used: it made a different
    /// call instead of a recorded agent or workflow, or did not repeat a call that was interrupted
    /// during a write.
    pub(crate) fn left_over(&self, scope: impl FnOnce() -> StepPath) -> Option<Failure> {
        match self.log.is_restored() {
            true => self.with_claims(scope(), |claims, _| claims.left_over()),
            false => None,
        }
    }

    /// Returns `true` if an attempt may continue the work of an earlier attempt at a path. Only its
    /// first call for that path may.
    pub(crate) fn continues(&self, scope: &StepPath, base: &StepPath) -> bool {
        locked(&self.begun_by_steps().continued).insert((scope.clone(), base.clone()))
    }

    /// Resets the call numbers of an attempt that starts.
    pub(crate) fn forget_claims(&self, scope: impl FnOnce() -> StepPath) {
        let begun = self.operations.get().and_then(|operations| operations.begun.get());
        if let Some(begun) = begun {
            begun.forget(&scope());
        }
    }

    fn begun_by_steps(&self) -> &NestedCallRegistry {
        self.operations().begun.get_or_init(Box::default)
    }

    /// Returns `true` if the work in the run is cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled() && !self.undoing.load(Ordering::Relaxed)
    }

    /// Waits until the work in the run is cancelled.
    pub(crate) async fn cancelled(&self) {
        if self.undoing.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        self.cancellation.cancelled().await;
    }

    /// Cancels the run. The first reason counts.
    pub(crate) fn cancel(&self, reason: impl Into<Arc<str>>) {
        self.operations().cancel_reason.get_or_init(|| reason.into());
        self.cancellation.cancel();
    }

    /// Returns the operator who cancelled the run, if one did.
    pub(crate) fn cancelled_by(&self) -> Option<&Arc<str>> {
        self.operations.get()?.cancelled_by.get()
    }

    pub(crate) fn cancel_reason(&self) -> Arc<str> {
        let reason = self.operations.get().and_then(|operations| operations.cancel_reason.get());
        reason.cloned().unwrap_or_else(|| "no reason was given".into())
    }
}
