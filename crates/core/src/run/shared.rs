//! `RunShared`: what all steps of one run share, such as its log and its cancellation. `requests.rs` routes its control requests.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::control_request::Reply;
use super::give_ups::GiveUps;
use super::host::Host;
use super::journal::Journal;
use super::log::EventLog;
use super::nested::{BegunBySteps, Claims, NestedCall};
use super::options::RunOwn;
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

/// What all steps of one run share. Every run has one, so what few runs need is in [`Operations`].
pub(crate) struct RunShared {
    pub(crate) id: RunId,
    pub(crate) host: Arc<Host>,
    pub(crate) cancellation: CancellationToken,
    pub(crate) log: EventLog,
    /// The most model calls of the run and all it starts.
    pub(crate) max_llm_calls: AtomicU32,
    /// An operator paused the run, or it is drained: nothing new is started in it.
    pub(super) held: AtomicBool,
    /// It is drained: nothing new is started in it here.
    pub(super) draining: AtomicBool,
    /// It was stopped here without an end.
    pub(super) stopping: AtomicBool,
    /// It undoes what it had done, which no cancellation stops.
    pub(super) undoing: AtomicBool,
    /// A call of a tool that may not be repeated has begun here in a step.
    pub(super) wrote: AtomicBool,
    /// A handle of the run was given out, so its questions can be answered in this process.
    pub(super) has_handle: AtomicBool,
    /// It has no spans.
    untraced: AtomicBool,
    /// What it has of its own, when there is something.
    own: OnceLock<Box<RunOwn>>,
    end: Mutex<End>,
    pub(super) operations: OnceLock<Box<Operations>>,
}

/// Whether the run can still be cancelled.
#[derive(Default)]
struct End {
    ended: Option<RunStatus>,
    /// The run stopped here without an end.
    stopped: bool,
}

/// What is there once something is nested in the run, somebody asks something of it, or it is resumed.
#[derive(Default)]
pub(super) struct Operations {
    pub(super) cancel_reason: OnceLock<Arc<str>>,
    /// The operator who gave that reason.
    cancelled_by: OnceLock<Arc<str>>,
    /// What attempts at steps have begun, once one has.
    begun: OnceLock<Box<BegunBySteps>>,
    /// The workflows of the run that take control requests.
    pub(super) listeners: Mutex<Listeners>,
    /// Who asked for the run to be cancelled and waits for its end, until that is recorded. It is changed by whoever
    /// holds the lock of the run's end.
    cancels: Mutex<Vec<Reply>>,
    /// Messages of other processes that were taken and have no outcome in the store yet.
    taken: Mutex<HashSet<MessageId>>,
    pub(super) released: Notify,
    /// Since when an operator holds the run, and how long it was held before.
    pub(super) held_for: Mutex<(Option<Instant>, Duration)>,
    /// The agents and workflows in steps that wait for the run to stop.
    pub(super) parked: Mutex<Vec<StepPath>>,
    /// What was asked of it while it undoes what it had done.
    pub(super) give_ups: GiveUps,
    /// A question below a step was answered.
    pub(super) answered: Notify,
    /// A message was sent, or the run was closed.
    pub(super) messaged: Notify,
    /// What executes a run with a store here.
    task: OnceLock<AbortHandle>,
    /// What the process before this one left open.
    left_open: OnceLock<Vec<StepPath>>,
    /// The calls of tools that may not be repeated and were stopped when the run was resumed.
    pub(super) stopped_calls: OnceLock<Vec<StepPath>>,
    /// The state, once a step has touched it.
    states: OnceLock<Box<Mutex<StepStates>>>,
}

/// The status of a run that ended so.
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
        let log = EventLog::new(id.clone(), Arc::clone(&host.sinks), journal, host.redactor.clone());
        Self::with_log(id, host, log)
    }

    /// The run of another process, as it is recorded there.
    pub(super) fn mirror(id: RunId, host: &Arc<Host>) -> Self {
        let log = EventLog::new(id.clone(), Arc::new([]), None, None);
        Self::with_log(id, host, log)
    }

    /// The run of another process, of which a step is executed here: what it records goes there.
    pub(crate) fn of_step(id: RunId, host: &Arc<Host>, journal: Journal, sinks: Arc<[Arc<dyn EventSink>]>) -> Self {
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

    /// Has this of its own, and makes no more model calls than this. It is said once, before the run begins.
    pub(crate) fn with_own(self, own: Option<Box<RunOwn>>, max_llm_calls: Option<u32>) -> Self {
        if let Some(own) = own {
            // It is empty before.
            let _ = self.own.set(own);
        }
        if let Some(calls) = max_llm_calls {
            self.max_llm_calls.fetch_min(calls, Ordering::Relaxed);
        }
        self
    }

    /// If `wanted`, streams model calls from now on, also without a listener.
    pub(crate) fn stream_if(&self, wanted: bool) {
        self.log.delta_listeners.fetch_add(usize::from(wanted), Ordering::Relaxed);
    }

    /// If `wanted`, the run has no spans from now on.
    pub(crate) fn untrace_if(&self, wanted: bool) {
        self.untraced.fetch_or(wanted, Ordering::Relaxed);
    }

    /// Returns true if the run has `tracing` spans.
    pub(crate) fn is_traced(&self) -> bool {
        !self.untraced.load(Ordering::Relaxed)
    }

    /// What the run has of its own.
    pub(crate) fn own(&self) -> Option<&RunOwn> {
        self.own.get().map(|own| &**own)
    }

    /// The resources of the run: the host's, and those that it has of its own above them.
    pub(crate) fn resources(&self) -> Resources {
        let mut resources = self.host.resources.clone();
        if let Some(own) = self.own() {
            resources.extend(&own.resources());
        }
        resources
    }

    /// Closes the resources that were made for the run, which has ended.
    pub(super) async fn close_resources(&self) {
        if let Some(resources) = self.own().and_then(RunOwn::take_resources) {
            resources.close().await;
        }
    }

    /// The record of the run's beginning.
    pub(super) fn started(&self, body: RunBody) -> RunStarted {
        let mut started = RunStarted::new(body);
        if let Some(RunOwn { began, state, .. }) = self.own() {
            started.caller = began.caller().map(Arc::from);
            started.trace_id = began.trace_id().map(Arc::from);
            started.tags.clone_from(began.tags());
            started.state.clone_from(state);
        }
        started
    }

    pub(super) fn operations(&self) -> &Operations {
        self.operations.get_or_init(Box::default)
    }

    /// The state of the run, when a step of it has touched state.
    #[inline]
    pub(crate) fn states(&self) -> Option<MutexGuard<'_, StepStates>> {
        self.operations.get()?.states.get().map(|states| locked(states))
    }

    /// The same, made when it is needed.
    pub(crate) fn states_or_new(&self) -> MutexGuard<'_, StepStates> {
        locked(self.operations().states.get_or_init(Box::default))
    }

    /// Takes in what a record says of the state: one of an earlier life of the run, or its beginning.
    pub(crate) fn restore_state(&self, path: &StepPath, kind: &EventKind) {
        if StepStates::is_in(kind) {
            self.states_or_new().restore(path, kind);
        }
    }

    /// The time by the host's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.host.clock.now()
    }

    /// Takes in the events of an earlier life of the run: what still matters of the first `offset`, and those after.
    pub(crate) fn restore(&self, offset: u64, kept: Vec<Event>, events: Vec<Event>) {
        let mut open = OpenSteps::default();
        for event in kept.iter().chain(&events) {
            open.apply(&event.path, &event.kind);
            self.restore_state(&event.path, &event.kind);
        }
        self.log.restore(offset, kept, events);
        // The run is restored once.
        let _ = self.operations().left_open.set(open.paths());
    }

    /// Gives an end to what an earlier process left open in nodes that a change of the definition forgets.
    pub(crate) fn close_forgotten(&self, forgotten: &[StepPath]) {
        let state = RunState::of_records(&self.log.all_below(&StepPath::root()));
        for (path, kind) in state.closings("the workflow has changed") {
            if forgotten.iter().any(|node| path.belongs_to(node)) {
                self.record(path, kind);
            }
        }
    }

    /// Gives an end to what an earlier process left open below a step and what was not begun again; the step ends. Whether
    /// there may have been such.
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

    /// Gives an end to the agents and workflows in steps that have none, and to what is open in them: the run ends.
    pub(super) fn close_strays(&self, reason: &str) {
        if self.log.has_nested() {
            let state = RunState::of_records(&self.log.all_below(&StepPath::root()));
            for (path, kind) in state.strays(reason) {
                self.record(path, kind);
            }
        }
    }

    /// Records what happened, now.
    pub(crate) fn record(&self, path: StepPath, kind: EventKind) {
        self.record_at(self.now(), path, kind);
    }

    /// The same where the time is known already.
    pub(crate) fn record_at(&self, now: Timestamp, path: StepPath, kind: EventKind) {
        if kind.ends_run() && path.is_root() {
            self.answer_cancels(&kind);
        }
        self.log.record(now, path, kind);
    }

    /// The run ends with the next record: whoever asked for that has the outcome when it is kept.
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

    /// Says in the log of the program that the run has failed. Whatever is removed from events is removed here too.
    pub(super) fn log_failure(&self, name: &str, error: &Error) {
        let sentence = self.host.redacted(error);
        // The name and the sentence may hold what others wrote: as `Debug` shows them they have one line.
        tracing::info!(run = self.id.as_str(), name = ?name, error.type = error.kind().as_str(), error = ?sentence, "a run failed");
    }

    pub(super) fn request_cancel(&self, reason: String, by: Option<Arc<str>>, reply: Option<Reply>) {
        if !self.await_cancelled(reply) {
            return;
        }
        let operations = self.operations();
        operations.cancel_reason.get_or_init(|| {
            // The operator belongs to the reason that counts.
            by.into_iter().for_each(|by| drop(operations.cancelled_by.set(by)));
            reason.into()
        });
        self.cancellation.cancel();
    }

    /// Gives the outcome of a cancellation with the end of the run; whether that is still to come.
    pub(super) fn await_cancelled(&self, reply: Option<Reply>) -> bool {
        let end = locked(&self.end);
        match end.ended {
            Some(status) => {
                drop(end);
                self.log.reply(reply, Err(ControlError::over("cancelled", status)));
                false
            }
            // Whoever asked looks elsewhere.
            None if end.stopped => false,
            None => {
                locked(&self.operations().cancels).extend(reply);
                true
            }
        }
    }

    /// Takes a message of another process, once.
    pub(crate) fn take_message(&self, id: MessageId) -> bool {
        locked(&self.operations().taken).insert(id)
    }

    /// Nothing more is recorded here: whoever waits for an outcome has to look elsewhere. A run that has no end yet is
    /// free for others.
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
        drop(self.own().and_then(RunOwn::take_resources));
        if let Some((store, Some(epoch))) = self.log.store()
            && self.log.end().is_none()
            && let Ok(handle) = tokio::runtime::Handle::try_current()
        {
            close_in_background(&handle, store, &self.id, epoch);
        }
        self.host.forget(self);
        self.host.running.end(self);
    }

    /// Holds the run where an operator had paused it before its process ended.
    pub(crate) fn hold_as_recorded(&self) {
        if self.log.waits_for() == Some(PauseReason::Operator) {
            self.hold(true);
        }
    }

    /// Whether an operator has paused the run.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst)
    }

    /// The run has a store and is executed by this task.
    pub(super) fn executed_by(&self, task: AbortHandle) {
        // A run is executed once.
        let _ = self.operations().task.set(task);
    }

    /// What executes the run here, when it has a store.
    pub(super) fn task(&self) -> Option<AbortHandle> {
        self.operations.get().and_then(|operations| operations.task.get()).cloned()
    }

    /// How long this process has held the run so far.
    pub(crate) fn held_for(&self) -> Duration {
        let Some(operations) = self.operations.get() else { return Duration::ZERO };
        let (since, total) = *locked(&operations.held_for);
        total + since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// How long something at a path was executed, also by earlier processes.
    pub(crate) fn time_spent(&self, base: &StepPath) -> Duration {
        self.log.time_spent(base, self.now())
    }

    /// Waits until the run is held, or is not.
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

    /// The path below which an agent or a workflow records what it does that an attempt at a step begins: the one that an
    /// earlier life of the run gave to the same call, else a new one.
    ///
    /// # Errors
    /// [`Error::NestedOther`] when the attempt had called something else, which may have had an effect.
    pub(crate) fn claim(&self, scope: StepPath, called: impl FnOnce() -> NestedCall) -> Result<StepPath> {
        let redactor = self.host.redactor.as_ref();
        self.with_claims(scope, |claims, scope| claims.claim(scope, || called().redacted(redactor)))
    }

    /// The path below which an attempt at a step records its calls of tools; `known` is where it did so before.
    pub(crate) fn claim_base(&self, scope: StepPath, known: Option<StepPath>) -> StepPath {
        self.with_claims(scope, |claims, scope| claims.claim_base(scope, known))
    }

    fn with_claims<T>(&self, scope: StepPath, claim: impl FnOnce(&mut Claims, &StepPath) -> T) -> T {
        let mut nested = locked(&self.begun_by_steps().nested);
        let claims = nested.entry(scope.clone()).or_insert_with(|| match self.log.is_restored() {
            true => Claims::after(&scope, &self.log.records_below(&scope)),
            false => Claims::default(),
        });
        claim(claims, &scope)
    }

    /// Why the output of an attempt at a step that was run again cannot be trusted: it called something else in the place
    /// of an agent or a workflow that it had begun, or did not call one that was stopped in the middle of a write.
    pub(crate) fn left_over(&self, scope: impl FnOnce() -> StepPath) -> Option<Failure> {
        match self.log.is_restored() {
            true => self.with_claims(scope(), |claims, _| claims.left_over()),
            false => None,
        }
    }

    /// Whether an attempt continues what an earlier one began at a path: only its first call that would does.
    pub(crate) fn continues(&self, scope: &StepPath, base: &StepPath) -> bool {
        locked(&self.begun_by_steps().continued).insert((scope.clone(), base.clone()))
    }

    /// An attempt at a step begins: what it begins is counted from the first one.
    pub(crate) fn forget_claims(&self, scope: impl FnOnce() -> StepPath) {
        let begun = self.operations.get().and_then(|operations| operations.begun.get());
        if let Some(begun) = begun {
            begun.forget(&scope());
        }
    }

    fn begun_by_steps(&self) -> &BegunBySteps {
        self.operations().begun.get_or_init(Box::default)
    }

    /// Whether what runs in it is cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled() && !self.undoing.load(Ordering::Relaxed)
    }

    /// Waits until what runs in it is cancelled.
    pub(crate) async fn cancelled(&self) {
        if self.undoing.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        self.cancellation.cancelled().await;
    }

    /// Asks the run to stop; the first reason counts.
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
