//! Executes the commands of the workflow machine and records their outcomes.
//!
//! [`WorkflowRun`] asks the machine for the next command, executes it and applies the resulting
//! event to the machine and to the log of the run. It then waits for the first of: a step that
//! ends, a timer, a control request, a finished write.
//!
//! All steps are polled inside the future of the run. No task is spawned, and dropping the run
//! drops all steps. An event is recorded before its effect starts and before its outcome is
//! visible. In a run with a store, it is committed by then.
//!
//! - `task`, `starting`: attempts at steps and timers.
//! - `within_step`, `continued`, `replay`: nested workflows, and workflows that continue from
//!   recorded events.
//! - `handed_out`, `lost_step`: steps given to an executor. `elsewhere`: steps executed for a run
//!   of another process.
//! - `requested`: control requests. `closing`: failures, cancellation and compensation.
//!   `leaving_workflow`: draining.
//! - `values`, `saving`, `keeping`, `turns`: values, state, commits, and the written order of
//!   calls.

mod closing;
mod continued;
mod elsewhere;
mod handed_out;
mod keeping;
mod leaving_workflow;
mod lost_step;
mod replay;
mod requested;
mod saving;
mod starting;
mod task;
mod turns;
mod undoing;
mod values;
mod within_step;

use std::any::Any;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tracing::Instrument;

pub(crate) use self::closing::Failed;
use self::closing::millis;
pub(crate) use self::elsewhere::execute;
use self::keeping::Commit;
use self::saving::SavedStates;
pub(crate) use self::saving::places_of_saved;
use self::task::{Ended, Task};
use self::turns::CallOrders;
pub(crate) use self::undoing::CompensatingRun;
use super::decided::RevisedOutputs;
use super::machine::{Command, Machine, Outcome, Phase, Unit};
use super::spec::{Body, NodeIndex, Outputs, Spec};
use super::step_error::{StepError, caught};
use crate::context::Context;
use crate::error::{Error, Failure, Result};
use crate::event::{
    EventKind, RunBody, RunCompleted, RunTerms, WorkflowCompleted, WorkflowStarted,
};
use crate::executor::{RemoteSteps, StepExecutor};
use crate::middleware::RunHooks;
use crate::path::StepPath;
use crate::resource::Resources;
use crate::run::{
    Asked, InSegment, RunShared, Segment, SegmentKind, unless_cancelled,
    unless_failed_as_cancelled, within,
};
use crate::store::StoreError;
use crate::telemetry;
use crate::time::Timestamp;
use crate::tool::{
    Compensation, HeldBack, ValueScope, answer_with_replacement, can_be_answered, unanswerable,
};
use crate::value::Encoded;

/// A workflow being executed: a run, or a nested workflow that records below the path of its step.
pub(crate) struct WorkflowRun {
    segment: Segment<OfWorkflow>,
    machine: Machine,
    /// Paths of the nodes, if the workflow is nested. Empty for a run, whose paths are in the plan.
    paths: Vec<StepPath>,
    /// State that the nodes saved. Created when any state exists.
    saved: OnceLock<SavedStates>,
    resources: Resources,
    grants: Arc<[Arc<str>]>,
    /// Time limit of the run, and the part of it that earlier processes used.
    time: Option<(Duration, Duration)>,
    tasks: FuturesUnordered<Task>,
    turns: CallOrders,
    control: mpsc::UnboundedReceiver<Asked>,
    commit: Option<Commit>,
    /// Typed errors of failed steps, for the direct caller of the workflow.
    originals: Vec<(NodeIndex, Box<dyn Any + Send>)>,
    /// Outcome of a nested workflow that ended before this attempt at its step.
    ended: Option<Result<Encoded, Arc<Failure>>>,
    /// Error of a nested workflow that cannot continue from its records.
    refused: Option<Error>,
    /// Set if the step dropped this nested workflow before a restart. The workflow then waits to be
    /// dropped again.
    held_back: Option<Box<HeldBack>>,
    /// `true` if this is the body of an item, a round or a branch of a node.
    is_body: bool,
    /// `true` if the run is draining and a command was not executed. The machine is not polled any
    /// more.
    leaves: bool,
    /// Executor of the steps, if they are not executed in this process. Nested workflows have none:
    /// they run where their step runs.
    executor: Option<Arc<dyn StepExecutor>>,
    compensation: Compensation,
    /// `true` if all open steps have been recorded as ended.
    closed: bool,
}

/// The events with which a workflow starts and ends.
pub(crate) enum OfWorkflow {}

impl SegmentKind for OfWorkflow {
    type Started = WorkflowStarted;
    type Completed = WorkflowCompleted;

    fn body(started: WorkflowStarted) -> RunBody {
        RunBody::Workflow(started)
    }

    fn run_completed(completed: WorkflowCompleted) -> RunCompleted {
        RunCompleted::Workflow(completed)
    }

    fn started(started: WorkflowStarted) -> EventKind {
        EventKind::WorkflowStarted(Arc::new(started))
    }

    fn completed(completed: WorkflowCompleted) -> EventKind {
        EventKind::WorkflowCompleted(completed)
    }

    fn failed(error: Arc<Failure>) -> EventKind {
        EventKind::WorkflowFailed { error }
    }
}

/// The event that the driver waited for.
enum DriverEvent {
    /// The run is draining and no step makes progress.
    Quiet,
    /// A call has started to wait for earlier steps.
    Waits,
    Task(Ended),
    Asked(Asked),
    Committed(Result<(), StoreError>),
}

impl WorkflowRun {
    /// Creates a run and records its start.
    pub(crate) fn new(
        spec: &Arc<Spec>,
        inputs: Vec<Encoded>,
        shared: Arc<RunShared>,
        terms: RunTerms,
    ) -> Self {
        Self::begin(spec, inputs, Segment::new(shared), terms, None)
    }

    /// Resumes a run from its journal, which the log has read. The recorded terms apply, not those
    /// of the current caller.
    pub(crate) fn resumed(spec: &Arc<Spec>, inputs: Vec<Encoded>, shared: Arc<RunShared>) -> Self {
        let segment = Segment::new(shared);
        let recorded = segment.recorded();
        let terms = recorded.iter().find_map(|(_, _, kind)| match kind {
            EventKind::RunStarted(started) => Some(started.terms().clone()),
            _ => None,
        });
        Self::begin(spec, inputs, segment, terms.unwrap_or_default(), Some(recorded))
    }

    fn begin(
        spec: &Arc<Spec>,
        inputs: Vec<Encoded>,
        segment: Segment<OfWorkflow>,
        terms: RunTerms,
        recorded: Option<Vec<(Timestamp, StepPath, EventKind)>>,
    ) -> Self {
        let object = super::input_object::to_object(&spec.input_names(), &inputs);
        let paths = match segment.is_run() {
            true => Vec::new(),
            false => spec.nodes.iter().map(|node| segment.base.child(node.path.names())).collect(),
        };
        segment.shared.stream_if(terms.stream && segment.is_run());
        segment.shared.untrace_if(terms.untraced && segment.is_run());
        let (sender, control) = mpsc::unbounded_channel();
        let turns = CallOrders::of_caller(segment.is_run());
        let executor =
            if segment.is_run() { RemoteSteps::find_executor(&segment.shared.host) } else { None };
        let mut run = Self {
            machine: Machine::new(Arc::clone(spec), inputs),
            resources: segment.shared.resources(),
            grants: terms.scopes.as_slice().into(),
            time: terms.timeout_ms.map(|limit| (Duration::from_millis(limit), Duration::ZERO)),
            segment,
            paths,
            saved: OnceLock::new(),
            tasks: FuturesUnordered::new(),
            turns,
            control,
            commit: None,
            originals: Vec::new(),
            ended: None,
            refused: None,
            held_back: None,
            is_body: false,
            leaves: false,
            executor,
            compensation: Compensation::new(terms.compensate),
            closed: false,
        };
        // Conditions on edges see the state at the start, so the machine needs it before it
        // replays.
        match recorded {
            Some(recorded) => {
                run.machine.set_initial_state(run.state_at_begin());
                run.replay(&recorded);
            }
            None => {
                run.record_started(object, terms);
                run.machine.set_initial_state(run.state_at_begin());
            }
        }
        if let Some((_, spent)) = &mut run.time {
            *spent = run.segment.shared.time_spent(&run.segment.base);
        }
        // A workflow that had already ended does not accept control requests.
        if run.ended.is_none() {
            run.listen(sender);
        }
        run
    }

    /// Records the start of the workflow with its inputs and, in a run with a store, the hash of
    /// its definition.
    fn record_started(&mut self, inputs: Encoded, terms: RunTerms) {
        let spec = Arc::clone(self.machine.spec());
        let definition = match self.segment.shared.log.is_durable() {
            true => Arc::clone(spec.hash()),
            false => "".into(),
        };
        let mut started = WorkflowStarted::new(Arc::clone(&spec.name), definition, inputs);
        started.terms = terms;
        let mut kind = self.segment.begins(started);
        if self.segment.is_run() && self.segment.shared.log.is_durable() {
            kind = kind.with_parts(&spec.parts().id);
        }
        self.segment.shared.restore_state(&self.segment.base, &kind);
        self.record_own(kind);
    }

    /// Registers the workflow as a recipient of control requests.
    fn listen(&mut self, sender: mpsc::UnboundedSender<Asked>) {
        self.segment.shared.listen(&self.segment.base, sender);
        match self.segment.is_run() {
            // An operator's pause from before a restart applies to agents in the run, too.
            true => self.segment.shared.hold(self.machine.is_paused()),
            // Read after registering, so that no change is missed.
            false => self.machine.set_paused(self.segment.shared.is_held()),
        }
    }

    /// Adopts the resources and grants of the context in which the workflow was started.
    pub(crate) fn adopt_context(&mut self, cx: &Context) {
        self.resources.extend(cx.resources());
        self.grants = Arc::clone(cx.grants());
    }

    /// Returns the path of a unit in the run.
    fn path(&self, unit: Unit) -> StepPath {
        let spec = self.machine.spec();
        let path = match self.paths.get(unit.node as usize) {
            Some(path) => path.clone(),
            None => spec.node(unit.node).path.clone(),
        };
        let Some(child) = unit.child else { return path };
        match &spec.node(unit.node).body {
            Body::Race(branches) | Body::Fallback(branches) => {
                path.child(&branches[child as usize].name)
            }
            _ => path.with_item(child),
        }
    }

    /// Records an event of a unit at the current time and applies it to the machine.
    fn record(&mut self, unit: Unit, kind: EventKind) {
        let (path, now) = (self.path(unit), self.segment.shared.now());
        self.record_at(unit, path, now, kind);
    }

    /// Records an event of a unit with a known path and time, and applies it to the machine.
    fn record_at(&mut self, unit: Unit, path: StepPath, mut now: Timestamp, kind: EventKind) {
        let ends = matches!(
            kind,
            EventKind::NodeCompleted { .. }
                | EventKind::NodeRetrying { .. }
                | EventKind::NodeFailed { .. }
        );
        // Nodes in the arms of a router have paths below the router, but are not part of its work.
        if ends
            && !matches!(self.machine.spec().node(unit.node).body, Body::Router { .. })
            && self.segment.shared.close_below(&path, "the step has ended")
        {
            // The end of the step must not be older than the ends below it.
            now = self.segment.shared.now();
        }
        let kind = if ends { self.with_saved(unit, &path, kind) } else { kind };
        self.machine.apply(unit, &kind, now);
        self.segment.shared.log.record(now, path, kind);
    }

    /// Drives the workflow to its end. A run handles its own cancellation; a nested workflow is
    /// dropped by its run.
    pub(crate) fn run_through(mut self) -> impl Future<Output = Result<Encoded, Failed>> + Send {
        let is_run = self.segment.is_run();
        let around = is_run
            .then(|| RunHooks::for_run(&self.machine.spec().name, &self.segment.shared))
            .flatten();
        // A block instead of an `async fn`, whose future would contain `self` twice.
        async move {
            if let Some(around) = &around
                && let Err(error) = around.before().await
            {
                self.record_failed(&error);
                self.segment.keep().await?;
                return Err(error.into());
            }
            let ended = self.run_inside().await;
            // The run is closed before the middleware observes its end.
            drop(self);
            if let Some(around) = &around {
                around.after(ended.as_ref().map(drop).map_err(|failed| &failed.error)).await;
            }
            ended
        }
    }

    async fn run_inside(&mut self) -> Result<Encoded, Failed> {
        if let Some(held) = self.held_back.take() {
            self.segment.settle();
            return Err(Error::Recorded(Arc::new(held.until_dropped().await)).into());
        }
        if let Some(ended) = self.ended.take() {
            self.segment.settle();
            self.hand_up_state();
            return ended.map_err(|failure| Error::of_recorded(failure).into());
        }
        if let Some(error) = self.refused.take() {
            self.segment.settle();
            self.segment.shared.close_below(&self.segment.base, "the workflow has changed");
            return Err(error.into());
        }
        let span = telemetry::workflow_span(&self.machine.spec().name, &self.segment.shared);
        let shared = Arc::clone(&self.segment.shared);
        let is_run = self.segment.is_run();
        let (time, base) = (self.time, self.segment.base.clone());
        let is_body = self.is_body;
        let ended = {
            // Only a run has a time limit. A nested workflow is bounded by the limits of its step.
            let driven = pin!(self.drive().instrument(span.clone()));
            match time {
                Some((limit, spent)) if is_run => {
                    let driven = pin!(within(&shared, &base, limit.saturating_sub(spent), driven));
                    unless_cancelled(&shared, &base, driven).await.map(|ended| ended.ok_or(limit))
                }
                // The workflow that contains the body polls it and handles cancellation.
                _ if is_body => Some(Ok(driven.await)),
                _ => unless_cancelled(&shared, &base, driven).await.map(Ok),
            }
        };
        let ended = match ended {
            Some(Ok(ended)) => self.end(ended).await,
            Some(Err(limit)) => self.end_over_time(limit).await,
            None if is_run && shared.is_stopping() => {
                self.segment.settle();
                Err(shared.left().await.into())
            }
            // The run has ended while the nested workflow is still polled, for example by a spawned
            // task.
            None if !is_run => {
                self.segment.settle();
                Err(Error::Cancelled { reason: shared.cancel_reason() }.into())
            }
            None => {
                let reason = shared.cancel_reason();
                self.commit = None;
                let error = self.compensate_cancelled(&reason).await?;
                self.record_cancelled(&reason);
                self.segment.keep().await?;
                Err(error.into())
            }
        };
        if let Err(failed) = &ended {
            telemetry::record_failure(&span, &failed.error);
        }
        ended
    }

    /// Records the outcome of the machine and compensates if the run failed.
    async fn end(&mut self, ended: Result<Outcome, StoreError>) -> Result<Encoded, Failed> {
        // The final commit completes any write that has started. Waiting for that write after this
        // would never finish.
        self.commit = None;
        self.hand_up_state();
        let result = match ended.inspect_err(|_| self.segment.settle())? {
            Outcome::Completed(output) => {
                self.record_completed(WorkflowCompleted::new(output.clone()));
                Ok(output)
            }
            Outcome::Failed { node, error } => {
                // Nested bodies report the failed step once, not once per level.
                let is_named = self.is_body && self.machine.spec().node(node).inner.is_some();
                let error = match is_named {
                    true => Error::Recorded(error),
                    false => Error::Node { node: self.path(Unit::node(node)), failure: error },
                };
                let error = self.compensate(error).await?;
                self.record_failed(&error);
                let of_node = self.originals.iter().position(|(of, _)| *of == node);
                let original = of_node.map(|at| self.originals.swap_remove(at).1);
                Err(Failed { error, original })
            }
        };
        self.segment.keep().await?;
        result
    }

    /// Executes commands until the workflow ends, and returns its outcome.
    async fn drive(&mut self) -> Result<Outcome, StoreError> {
        // Requests that arrived before the first step apply to it.
        while let Ok(request) = self.control.try_recv() {
            self.requested(request);
        }
        let mut turn = 0_u8;
        loop {
            // Steps that are always ready must not starve cancellation, the time limit and control
            // requests.
            tokio::task::coop::consume_budget().await;
            turn = turn.wrapping_add(1);
            if turn.is_multiple_of(16)
                && let Ok(request) = self.control.try_recv()
            {
                self.requested(request);
            }
            self.release_waiting_calls();
            while !self.leaves
                && let Some(command) = self.machine.command()
            {
                if self.is_deferred_by_drain(&command) {
                    self.leaves = true;
                    break;
                }
                if let Some(outcome) = self.act(command) {
                    return Ok(outcome);
                }
            }
            // Steps may have just started, or a step that others wait for may have just ended.
            self.release_waiting_calls();
            self.begin_commit();
            match self.next().await {
                DriverEvent::Quiet => self.leave().await?,
                DriverEvent::Waits => {}
                DriverEvent::Task(ended) => {
                    unless_failed_as_cancelled(&self.segment.shared, ended.is_failure()).await;
                    self.ended(ended)?;
                }
                DriverEvent::Asked(request) => self.requested(request),
                DriverEvent::Committed(committed) => {
                    self.commit = None;
                    committed?;
                    self.take_snapshot();
                }
            }
        }
    }

    /// Waits for the next event.
    fn next(&mut self) -> impl Future<Output = DriverEvent> + '_ {
        std::future::poll_fn(|cx: &mut TaskContext<'_>| {
            // Ended steps come first: their outcomes free places for others.
            if let Poll::Ready(Some(ended)) = Pin::new(&mut self.tasks).poll_next(cx) {
                return Poll::Ready(DriverEvent::Task(ended));
            }
            if self.turns.have_changed() {
                return Poll::Ready(DriverEvent::Waits);
            }
            // Records that a step made while running, such as the outcome of a call, are committed
            // while it continues.
            self.begin_commit();
            if let Some(commit) = &mut self.commit
                && let Poll::Ready(committed) = commit.poll(cx)
            {
                return Poll::Ready(DriverEvent::Committed(committed));
            }
            match self.control.poll_recv(cx) {
                Poll::Ready(Some(request)) => Poll::Ready(DriverEvent::Asked(request)),
                _ if self.is_quiet() => Poll::Ready(DriverEvent::Quiet),
                _ => Poll::Pending,
            }
        })
    }

    /// Executes a command. Returns the outcome of the workflow if this was the last command.
    fn act(&mut self, command: Command) -> Option<Outcome> {
        match command {
            Command::Evaluate(node) => self.value(node),
            Command::Route(node) => {
                let unit = Unit::node(node);
                self.record(
                    unit,
                    EventKind::NodeStarted { attempt: 1, repeatable: true, tool: None },
                );
                match self.evaluate(node) {
                    Ok(output) => self.record(
                        unit,
                        EventKind::NodeCompleted { output, duration_ms: 0, saved: None },
                    ),
                    Err(error) => self.fail(unit, error),
                }
            }
            Command::Start { unit, attempt, scope } => self.start(unit, attempt, scope),
            Command::Open(node) => {
                let repeatable = self.machine.spec().node(node).policy.repeatable.unwrap_or(true);
                self.record(
                    Unit::node(node),
                    EventKind::NodeStarted { attempt: 1, repeatable, tool: None },
                );
            }
            Command::Close { node, output } => {
                match self.check_event_size(Unit::node(node), output) {
                    Ok(output) => {
                        self.record(
                            Unit::node(node),
                            EventKind::NodeCompleted { output, duration_ms: 0, saved: None },
                        );
                    }
                    Err(error) => self.fail(Unit::node(node), error),
                }
            }
            Command::Ask(node) => self.ask(node),
            Command::Skip { node, reason } => {
                self.record(Unit::node(node), EventKind::NodeSkipped { reason });
            }
            Command::Fail { unit, error } => {
                let (attempt, error) =
                    (self.machine.attempts(unit), self.with_stopped_calls(unit, error));
                self.record(unit, EventKind::NodeFailed { attempt, error });
            }
            Command::Cancel { unit, reason } => self.cancel(unit, reason),
            Command::Pause(reason) => self.record_own(EventKind::paused(reason)),
            Command::Finish(outcome) => return Some(outcome),
        }
        None
    }

    /// Records the question of a node and starts its timeout.
    fn ask(&mut self, node: NodeIndex) {
        if let Err(error) = self.check_allowed(node) {
            return self.fail(Unit::node(node), error);
        }
        let spec = Arc::clone(self.machine.spec());
        let definition = spec.node(node);
        let is_filled = definition.question_text.is_some()
            || definition.question_about.is_some()
            || matches!(definition.body, Body::Gate { .. });
        let seen = (definition.sees_state && is_filled).then(|| self.outputs_with_state(node));
        let outputs: &dyn Outputs =
            seen.as_ref().map_or(&self.machine as &dyn Outputs, |seen| seen);
        let request = match &definition.body {
            Body::Gate { question, .. } => {
                ValueScope::compute(Some(&self.segment.shared.host), || {
                    caught(|| question(outputs))
                })
                .unwrap_or_else(|failure| Err(StepError::recorded(failure)))
            }
            _ => super::approval_of(
                &spec,
                definition,
                &RevisedOutputs::by(definition.decided.as_ref(), outputs),
            ),
        };
        self.unsee(node);
        match request {
            Ok(request) => {
                let policy = &definition.policy;
                let limit = match definition.body {
                    Body::Gate { .. } => policy.timeout_ms,
                    _ => policy.approve_timeout_ms,
                };
                // A question that can never be answered and has no timeout would block the run
                // forever.
                if limit.is_none() && !can_be_answered(&self.segment.shared) {
                    let failure = unanswerable(&format!("`{}` asks a person", definition.path));
                    return self.fail(Unit::node(node), StepError::recorded(failure));
                }
                let bits = self.segment.shared.host.question_bits();
                let request = request
                    .within(limit, &policy.on_timeout)
                    .for_callers(&policy.allowed_roles, &policy.allowed_users)
                    .with_random_id(bits);
                let request = Arc::new(request);
                self.record(Unit::node(node), EventKind::ApprovalRequested(Arc::clone(&request)));
                // Test replacements and dry runs may answer for the person.
                answer_with_replacement(
                    &self.segment.shared,
                    &self.path(Unit::node(node)),
                    &request,
                );
                if let Some(since) = self.machine.asked(node).map(|asked| asked.since) {
                    self.set_timer(Unit::node(node), since);
                }
            }
            Err(error) => self.fail(Unit::node(node), error),
        }
    }

    /// Starts the timer for the next attempt or for the timeout of a question.
    fn set_timer(&mut self, unit: Unit, since: Timestamp) {
        let now = self.segment.shared.now();
        let left = match self.machine.phase(unit) {
            // A clock that was set back must not extend the delay.
            Phase::Backoff { until, delay_ms } => {
                until.since(now).min(Duration::from_millis(delay_ms.into()))
            }
            Phase::Asking => {
                let asked = self.machine.asked(unit.node);
                let Some(limit) = asked.and_then(|asked| asked.question.timeout()) else { return };
                limit.saturating_sub(now.since(since))
            }
            _ => return,
        };
        self.tasks.push(Task::timer(unit, since, left));
    }

    /// Handles the end of a step or a timer.
    fn ended(&mut self, ended: Ended) -> Result<(), StoreError> {
        match ended {
            Ended::Step { unit, path, began, result } => {
                match result.and_then(|output| self.within_limits(unit, output)) {
                    Ok(output) => {
                        let now = self.segment.shared.now();
                        let duration_ms = millis(now.since(began));
                        self.record_at(
                            unit,
                            path,
                            now,
                            EventKind::NodeCompleted { output, duration_ms, saved: None },
                        );
                    }
                    Err(error) => self.fail(unit, error),
                }
            }
            Ended::Uncommitted(error) => return Err(error),
            Ended::Timer { unit, since } => match self.machine.phase(unit) {
                Phase::Backoff { .. } => self.machine.wake(unit),
                Phase::Asking => self.unanswered(unit, since),
                _ => {}
            },
        }
        Ok(())
    }
}
