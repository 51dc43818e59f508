//! Executes the commands of the workflow's machine and records what happened.
//!
//! All steps of a run are polled inside one future: no task is spawned, and dropping the run drops them all. An event
//! is recorded before its effect begins and before anybody sees its outcome; in a run with a store it is committed by
//! then. The machine decides the next command.

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
use self::saving::SavedInOrder;
pub(crate) use self::saving::places_of_saved;
use self::task::{Ended, Task};
use self::turns::Turns;
pub(crate) use self::undoing::UndoingRun;
use super::decided::SeenBy;
use super::machine::{Command, Machine, Outcome, Phase, Unit};
use super::spec::{Body, NodeIndex, Outputs, Spec};
use super::step_error::{StepError, caught};
use crate::context::Context;
use crate::error::{Error, Failure, Result};
use crate::event::{EventKind, RunBody, RunCompleted, RunTerms, WorkflowCompleted, WorkflowStarted};
use crate::executor::{StepExecutor, StepsElsewhere};
use crate::middleware::AroundRun;
use crate::path::StepPath;
use crate::resource::Resources;
use crate::run::{
    Asked, InSegment, RunShared, Segment, SegmentKind, unless_cancelled, unless_failed_as_cancelled, within,
};
use crate::store::StoreError;
use crate::telemetry;
use crate::time::Timestamp;
use crate::tool::{Compensation, HeldBack, ValuePlace, answered_instead, can_be_answered, unanswerable};
use crate::value::Encoded;

/// One run of a workflow: of its own, or a step of another run, in whose journal it then records below that step.
pub(crate) struct WorkflowRun {
    segment: Segment<OfWorkflow>,
    machine: Machine,
    /// The paths of the nodes, when they are not those of the workflow itself.
    paths: Vec<StepPath>,
    /// What its nodes saved, once there is any state.
    saved: OnceLock<SavedInOrder>,
    resources: Resources,
    grants: Arc<[Arc<str>]>,
    /// The time that the run may be executed, and how much of it earlier processes used.
    time: Option<(Duration, Duration)>,
    tasks: FuturesUnordered<Task>,
    turns: Turns,
    control: mpsc::UnboundedReceiver<Asked>,
    commit: Option<Commit>,
    /// The errors that steps failed with, for the caller of a workflow that is called directly.
    originals: Vec<(NodeIndex, Box<dyn Any + Send>)>,
    /// Its outcome in an earlier life of the run.
    ended: Option<Result<Encoded, Arc<Failure>>>,
    /// Why it cannot continue what it did in an earlier life of the run.
    refused: Option<Error>,
    /// It waits for its step to drop it, as the step had done.
    held_back: Option<Box<HeldBack>>,
    /// It is what an item, a round or a branch of a node consists of.
    is_body: bool,
    /// The run is drained and something was not begun: the machine is not asked any more.
    leaves: bool,
    /// Who executes its steps, when that is not this process. What begins in a step stays where the step is.
    executor: Option<Arc<dyn StepExecutor>>,
    compensation: Compensation,
    /// What was open in it has its end.
    closed: bool,
}

/// The records in which a workflow begins and ends.
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

enum Happened {
    /// The run is drained, and nothing is running here any more.
    Quiet,
    /// A step waits for its turn.
    Waits,
    Task(Ended),
    Asked(Asked),
    Committed(Result<(), StoreError>),
}

impl WorkflowRun {
    /// A new run of its own.
    pub(crate) fn new(spec: &Arc<Spec>, inputs: Vec<Encoded>, shared: Arc<RunShared>, terms: RunTerms) -> Self {
        Self::begin(spec, inputs, Segment::new(shared), terms, None)
    }

    /// A run that is resumed from its journal, which is in the log. What it began with counts, whoever resumes it.
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
        let turns = Turns::of_caller(segment.is_run());
        let executor = if segment.is_run() { StepsElsewhere::of(&segment.shared.host) } else { None };
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
        match recorded {
            Some(recorded) => {
                run.machine.begins_with(run.state_at_begin());
                run.replay(&recorded);
            }
            None => {
                run.record_started(object, terms);
                run.machine.begins_with(run.state_at_begin());
            }
        }
        if let Some((_, spent)) = &mut run.time {
            *spent = run.segment.shared.time_spent(&run.segment.base);
        }
        // One that had ended before has nothing left to take requests for.
        if run.ended.is_none() {
            run.listen(sender);
        }
        run
    }

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

    /// Takes control requests from now on.
    fn listen(&mut self, sender: mpsc::UnboundedSender<Asked>) {
        self.segment.shared.listen(&self.segment.base, sender);
        match self.segment.is_run() {
            // What an operator paused before a restart is paused for agents, too.
            true => self.segment.shared.hold(self.machine.is_paused()),
            // Asked after it listens, so that no change is missed.
            false => self.machine.set_paused(self.segment.shared.is_held()),
        }
    }

    /// It has the resources and the grants of the context that it was begun in.
    pub(crate) fn is_begun_in(&mut self, cx: &Context) {
        self.resources.extend(cx.resources());
        self.grants = Arc::clone(cx.grants());
    }

    fn path(&self, unit: Unit) -> StepPath {
        let spec = self.machine.spec();
        let path = match self.paths.get(unit.node as usize) {
            Some(path) => path.clone(),
            None => spec.node(unit.node).path.clone(),
        };
        let Some(child) = unit.child else { return path };
        match &spec.node(unit.node).body {
            Body::Race(branches) | Body::Fallback(branches) => path.child(&branches[child as usize].name),
            _ => path.with_item(child),
        }
    }

    fn record(&mut self, unit: Unit, kind: EventKind) {
        let (path, now) = (self.path(unit), self.segment.shared.now());
        self.record_at(unit, path, now, kind);
    }

    /// The same with the path of the unit and the time.
    fn record_at(&mut self, unit: Unit, path: StepPath, mut now: Timestamp, kind: EventKind) {
        let ends = matches!(
            kind,
            EventKind::NodeCompleted { .. } | EventKind::NodeRetrying { .. } | EventKind::NodeFailed { .. }
        );
        // The nodes in the arms of a router are below its path and none of its work.
        if ends
            && !matches!(self.machine.spec().node(unit.node).body, Body::Router { .. })
            && self.segment.shared.close_below(&path, "the step has ended")
        {
            // It stands after those ends.
            now = self.segment.shared.now();
        }
        let kind = if ends { self.with_saved(unit, &path, kind) } else { kind };
        self.machine.apply(unit, &kind, now);
        self.segment.shared.log.record(now, path, kind);
    }

    /// Runs to the end, whatever it is. Of a run of its own, a cancellation ends it here; a step is dropped by its run.
    pub(crate) fn run_through(mut self) -> impl Future<Output = Result<Encoded, Failed>> + Send {
        let is_run = self.segment.is_run();
        let around = is_run.then(|| AroundRun::of(&self.machine.spec().name, &self.segment.shared)).flatten();
        // A block and not an `async fn`, which would keep room for `self` twice.
        async move {
            if let Some(around) = &around
                && let Err(error) = around.before().await
            {
                self.record_failed(&error);
                self.segment.keep().await?;
                return Err(error.into());
            }
            let ended = self.run_inside().await;
            // The run is closed before the hooks after it see its end.
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
            let driven = pin!(self.drive().instrument(span.clone()));
            match time {
                Some((limit, spent)) if is_run => {
                    let driven = pin!(within(&shared, &base, limit.saturating_sub(spent), driven));
                    unless_cancelled(&shared, &base, driven).await.map(|ended| ended.ok_or(limit))
                }
                // The workflow around it polls it.
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
            // Nobody dropped it with its run, which has ended.
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

    async fn end(&mut self, ended: Result<Outcome, StoreError>) -> Result<Encoded, Failed> {
        // A write that it began is finished by the commit below, which would wait for it for ever.
        self.commit = None;
        self.hand_up_state();
        let result = match ended.inspect_err(|_| self.segment.settle())? {
            Outcome::Completed(output) => {
                self.record_completed(WorkflowCompleted::new(output.clone()));
                Ok(output)
            }
            Outcome::Failed { node, error } => {
                // A body names the step that failed once, however many bodies are around it.
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

    async fn drive(&mut self) -> Result<Outcome, StoreError> {
        // What was asked for before the first step counts for it.
        while let Ok(request) = self.control.try_recv() {
            self.requested(request);
        }
        let mut turn = 0_u8;
        loop {
            // Steps that are always ready leave room for a cancellation, a time limit and requests.
            tokio::task::coop::consume_budget().await;
            turn = turn.wrapping_add(1);
            if turn.is_multiple_of(16)
                && let Ok(request) = self.control.try_recv()
            {
                self.requested(request);
            }
            self.give_turns();
            while !self.leaves
                && let Some(command) = self.machine.command()
            {
                if self.stays_unbegun(&command) {
                    self.leaves = true;
                    break;
                }
                if let Some(outcome) = self.act(command) {
                    return Ok(outcome);
                }
            }
            // Steps have just begun, or a step for which others wait has just ended.
            self.give_turns();
            self.begin_commit();
            match self.next().await {
                Happened::Quiet => self.leave().await?,
                Happened::Waits => {}
                Happened::Task(ended) => {
                    unless_failed_as_cancelled(&self.segment.shared, ended.is_failure()).await;
                    self.ended(ended)?;
                }
                Happened::Asked(request) => self.requested(request),
                Happened::Committed(committed) => {
                    self.commit = None;
                    committed?;
                    self.take_snapshot();
                }
            }
        }
    }

    fn next(&mut self) -> impl Future<Output = Happened> + '_ {
        std::future::poll_fn(|cx: &mut TaskContext<'_>| {
            if let Poll::Ready(Some(ended)) = Pin::new(&mut self.tasks).poll_next(cx) {
                return Poll::Ready(Happened::Task(ended));
            }
            if self.turns.have_changed() {
                return Poll::Ready(Happened::Waits);
            }
            // What a step has recorded by itself, such as the outcome of a call, is kept while it continues.
            self.begin_commit();
            if let Some(commit) = &mut self.commit
                && let Poll::Ready(committed) = commit.poll(cx)
            {
                return Poll::Ready(Happened::Committed(committed));
            }
            match self.control.poll_recv(cx) {
                Poll::Ready(Some(request)) => Poll::Ready(Happened::Asked(request)),
                _ if self.is_quiet() => Poll::Ready(Happened::Quiet),
                _ => Poll::Pending,
            }
        })
    }

    /// Does one command; the outcome, if it was the last.
    fn act(&mut self, command: Command) -> Option<Outcome> {
        match command {
            Command::Evaluate(node) => self.value(node),
            Command::Route(node) => {
                let unit = Unit::node(node);
                self.record(unit, EventKind::NodeStarted { attempt: 1, repeatable: true, tool: None });
                match self.evaluate(node) {
                    Ok(output) => self.record(unit, EventKind::NodeCompleted { output, duration_ms: 0, saved: None }),
                    Err(error) => self.fail(unit, error),
                }
            }
            Command::Start { unit, attempt, scope } => self.start(unit, attempt, scope),
            Command::Open(node) => {
                let repeatable = self.machine.spec().node(node).policy.repeatable.unwrap_or(true);
                self.record(Unit::node(node), EventKind::NodeStarted { attempt: 1, repeatable, tool: None });
            }
            Command::Close { node, output } => match self.within_event(Unit::node(node), output) {
                Ok(output) => {
                    self.record(Unit::node(node), EventKind::NodeCompleted { output, duration_ms: 0, saved: None });
                }
                Err(error) => self.fail(Unit::node(node), error),
            },
            Command::Ask(node) => self.ask(node),
            Command::Skip { node, reason } => self.record(Unit::node(node), EventKind::NodeSkipped { reason }),
            Command::Fail { unit, error } => {
                let (attempt, error) = (self.machine.attempts(unit), self.with_stopped(unit, error));
                self.record(unit, EventKind::NodeFailed { attempt, error });
            }
            Command::Cancel { unit, reason } => self.cancel(unit, reason),
            Command::Pause(reason) => self.record_own(EventKind::paused(reason)),
            Command::Finish(outcome) => return Some(outcome),
        }
        None
    }

    fn ask(&mut self, node: NodeIndex) {
        let spec = Arc::clone(self.machine.spec());
        let definition = spec.node(node);
        let is_filled = definition.question_text.is_some()
            || definition.question_about.is_some()
            || matches!(definition.body, Body::Gate { .. });
        let seen = (definition.sees_state && is_filled).then(|| self.outputs_seen(node));
        let outputs: &dyn Outputs = seen.as_ref().map_or(&self.machine as &dyn Outputs, |seen| seen);
        let request = match &definition.body {
            Body::Gate { question, .. } => {
                ValuePlace::compute(Some(&self.segment.shared.host), || caught(|| question(outputs)))
            }
            _ => super::approval_of(&spec, definition, &SeenBy::by(definition.decided.as_ref(), outputs)),
        };
        self.unsee(node);
        match request {
            Ok(request) => {
                let policy = &definition.policy;
                let limit = match definition.body {
                    Body::Gate { .. } => policy.timeout_ms,
                    _ => policy.approve_timeout_ms,
                };
                if limit.is_none() && !can_be_answered(&self.segment.shared) {
                    let failure = unanswerable(&format!("`{}` asks a person", definition.path));
                    return self.fail(Unit::node(node), StepError::recorded(failure));
                }
                let bits = self.segment.shared.host.question_bits();
                let request = Arc::new(request.within(limit, &policy.on_timeout).asked_as(bits));
                self.record(Unit::node(node), EventKind::ApprovalRequested(Arc::clone(&request)));
                answered_instead(&self.segment.shared, &self.path(Unit::node(node)), &request);
                if let Some(since) = self.machine.asked(node).map(|asked| asked.since) {
                    self.set_timer(Unit::node(node), since);
                }
            }
            Err(error) => self.fail(Unit::node(node), error),
        }
    }

    /// Waits until the next attempt, or until an answer comes too late.
    fn set_timer(&mut self, unit: Unit, since: Timestamp) {
        let now = self.segment.shared.now();
        let left = match self.machine.phase(unit) {
            // A clock that was set back does not make it longer.
            Phase::Backoff { until, delay_ms } => until.since(now).min(Duration::from_millis(delay_ms.into())),
            Phase::Asking => {
                let asked = self.machine.asked(unit.node);
                let Some(limit) = asked.and_then(|asked| asked.question.timeout()) else { return };
                limit.saturating_sub(now.since(since))
            }
            _ => return,
        };
        self.tasks.push(Task::timer(unit, since, left));
    }

    /// A step has ended, or a wait is over.
    fn ended(&mut self, ended: Ended) -> Result<(), StoreError> {
        match ended {
            Ended::Step { unit, path, began, result } => {
                match result.and_then(|output| self.within_limits(unit, output)) {
                    Ok(output) => {
                        let now = self.segment.shared.now();
                        let duration_ms = millis(now.since(began));
                        self.record_at(unit, path, now, EventKind::NodeCompleted { output, duration_ms, saved: None });
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
