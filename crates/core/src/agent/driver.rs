//! Executes the commands of the agent's machine and records what happened.
//!
//! A run is one future: the model call and the tools of a turn are polled in place, so dropping the run drops them all.
//! An event is recorded before its effect begins and before anybody sees its outcome; in a run with a store it is
//! committed by then. The machine decides the next command, never this file.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow_schema::text::panic_text;
use futures_util::FutureExt;
use tracing::{Instrument, Span};

use super::call_ids::CallIds;
use super::changed_agent::BegunOtherwise;
use super::hook_calls::{HookChain, hooks_of};
use super::kept_agent::{Kept, KeptEnd, called, kept};
use super::limits::Limits;
use super::machine::{AgentMachine, Command, Outcome};
use super::of_agent::OfAgent;
use super::plan::{Offered, Plan};
use super::run_request::RunRequest;
use super::session_run::InSession;
use super::taking_over::InTeam;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::{AgentCompleted, AgentStarted, AnswerForm, EventKind, RunTerms};
use crate::failure::{RUN_CANCELLED, RUN_OVER_TIME};
use crate::future::BoxFuture;
use crate::path::StepPath;
use crate::resource::Resources;
use crate::run::{
    Events, InSegment, RunEnd, RunShared, Segment, unless_cancelled, was_dropped, was_dropped_with_step, within,
};
use crate::telemetry;
use crate::time::Timestamp;
use crate::tool::{
    BegunCompensation, Compensation, HeldBack, StepPlace, check_compensations, compensated, compensated_cancelled,
    continue_compensating, lived,
};

/// One run of an agent, from its request to its end: whatever happens to it, its last event is recorded. Dropped before
/// its end, it records that it was cancelled.
pub(super) struct Run {
    pub(super) segment: Segment<OfAgent>,
    pub(super) plan: Arc<Plan>,
    /// The tools of the turn.
    pub(super) offered: Arc<Offered>,
    pub(super) scopes: Arc<[Arc<str>]>,
    pub(super) resources: Resources,
    pub(super) machine: AgentMachine,
    /// How much of the time limit is used up, by earlier processes.
    spent: Duration,
    /// What the run began with, until the hooks before it have seen it and it is recorded.
    pub(super) pending: Option<Box<AgentStarted>>,
    /// The version that it began with, when that was another one.
    began_otherwise: Option<Box<BegunOtherwise>>,
    /// The session that it is a run of, until it has what was said there before.
    pub(super) session: Option<Box<InSession>>,
    pub(super) hooks: HookChain,
    compensation: Compensation,
    /// Of a team: what the agent that takes over needs to know of the run.
    pub(super) team: Option<Box<InTeam>>,
    pub(super) call_ids: Mutex<CallIds>,
    /// The time of the last record, where nothing but the driver has run since.
    pub(super) moment: Option<Timestamp>,
}

/// An agent that a step calls: it runs, or waits for the step to drop it, as the step had done.
type InStep = std::result::Result<Run, Box<HeldBack>>;

impl InSegment for Run {
    type Kind = OfAgent;

    fn segment(&mut self) -> &mut Segment<OfAgent> {
        &mut self.segment
    }

    fn name(&self) -> &str {
        &self.first_plan().name
    }

    fn record_own(&mut self, kind: EventKind) {
        self.record(self.segment.base.clone(), kind);
    }

    fn close_steps_cancelled(&mut self, _: &Arc<str>) {
        self.record_start();
        self.close_steps(RUN_CANCELLED);
    }
}

impl Run {
    /// A run of its own.
    ///
    /// # Errors
    /// When it lacks a resource; nothing of it has begun then.
    pub(super) fn new(plan: &Arc<Plan>, mut request: RunRequest) -> Result<Self> {
        if let Some(session) = &mut request.session {
            request.options.session = Some(InSession::asked(session, plan)?);
        }
        let id = request.options.run_id.take().unwrap_or_else(|| plan.host.new_run_id());
        let given = request.options.resources.clone();
        let own = request.options.begin(&plan.host.factories, &id, &plan.name)?;
        request.options.resources = given;
        let shared = RunShared::new(id, &plan.host, plan.host.new_journal()).with_own(own, None);
        plan.check(&shared, &request.options.resources)?;
        let shared = Arc::new(shared);
        plan.host.running.begin(&shared)?;
        #[cfg(feature = "mcp-server")]
        if let Some(first) = request.first_events.take() {
            first.begin(&shared);
        }
        Ok(Self::begin(plan, request, shared))
    }

    /// A run of its own whose journal is in the log already.
    pub(super) fn resumed(plan: &Arc<Plan>, shared: Arc<RunShared>) -> Self {
        Self::begin(plan, RunRequest::default(), shared)
    }

    /// Begins a run, as a step of the one that a context belongs to or of its own, and gives all of it.
    pub(super) fn start(
        plan: &Arc<Plan>,
        request: RunRequest,
        step: Option<&Context>,
    ) -> Result<BoxFuture<'static, Result<RunEnd>>> {
        let request = request.unlive();
        let run = match step {
            Some(cx) => match Self::in_step(plan, request, cx)? {
                Ok(run) => run,
                Err(held) => {
                    return Ok(Box::pin(async move { Err(Error::Recorded(Arc::new(held.until_dropped().await))) }));
                }
            },
            None => Self::new(plan, request)?,
        };
        Ok(Box::pin(run.run_through()))
    }

    /// A step of the run that a context belongs to. What is recorded of it already is taken as done.
    fn in_step(plan: &Arc<Plan>, request: RunRequest, cx: &Context) -> Result<InStep> {
        let shared = Arc::clone(cx.run());
        InSession::refuse_in_step(plan, &request)?;
        plan.check(&shared, &request.options.resources)?;
        let held_back = |base: &StepPath, lived| {
            let agent = format!("the agent `{}`", plan.name);
            Ok(Err(Box::new(HeldBack::at(StepPlace::current(), base, agent, lived))))
        };
        if let Some(Kept { base, recorded, ended, decided }) = kept(plan, &request, cx) {
            if let KeptEnd::HeldBack(lived) = ended {
                return held_back(&base, lived);
            }
            let mut run = Self::again(plan, request, Segment::within(shared, base, cx.path().clone()), recorded);
            if decided {
                run.began_otherwise = None;
            }
            match ended {
                KeptEnd::Stopped => run.record_further_start(),
                _ => run.settle_if_ended(),
            }
            return Ok(Ok(run));
        }
        let base = cx.claim(|| called(plan, &request)).inspect_err(StepPlace::end_with)?;
        let segment = Segment::within(shared, base, cx.path().clone());
        let recorded = segment.recorded();
        let ends = |(_, path, kind): &(_, StepPath, EventKind)| {
            *path == segment.base && matches!(kind, EventKind::AgentStarted(_) | EventKind::AgentFailed { .. })
        };
        // The step had dropped it before it was stopped: what it had not begun then is not begun now.
        match recorded.iter().rposition(ends) {
            Some(at) if matches!(&recorded[at].2, EventKind::AgentFailed { error } if was_dropped(error)) => {
                held_back(&segment.base, lived(&recorded[..=at], &segment.base))
            }
            at => {
                let ended = at.map(|at| &recorded[at].2);
                let again = matches!(ended, Some(EventKind::AgentFailed { error }) if was_dropped_with_step(error));
                let mut run = Self::again(plan, request, segment, recorded);
                match again {
                    true => run.record_further_start(),
                    false => run.settle_if_ended(),
                }
                Ok(Ok(run))
            }
        }
    }

    /// Records no second end of an agent whose end is recorded: its step may be cancelled before it reads that end.
    fn settle_if_ended(&mut self) {
        if matches!(self.machine.command(), Command::Finish(Outcome::Ended(Some(_)))) {
            self.segment.settle();
        }
    }

    fn begin(plan: &Arc<Plan>, request: RunRequest, shared: Arc<RunShared>) -> Self {
        let segment = Segment::new(shared);
        let recorded = segment.recorded();
        Self::again(plan, request, segment, recorded)
    }

    /// One of which something may be recorded.
    fn again(
        plan: &Arc<Plan>,
        request: RunRequest,
        segment: Segment<OfAgent>,
        recorded: Vec<(Timestamp, StepPath, EventKind)>,
    ) -> Self {
        let RunRequest { conversation, max_steps, options, session, callbacks, .. } = request;
        let (shared, base) = (&segment.shared, &segment.base);
        // The last beginning: a further one may be of another version.
        let began = recorded.iter().rev().find_map(|(_, path, kind)| kind.agent_started().filter(|_| path == base));
        // What the run began with counts, however it is resumed.
        let new_terms = || RunTerms { max_steps, ..options.terms() };
        let terms = began.map_or_else(new_terms, |began| began.terms.clone());
        let limits = match (terms.max_steps, terms.timeout_ms, terms.max_llm_calls) {
            (None, None, None) => Arc::clone(&plan.limits),
            (steps, timeout, calls) => Arc::new(Limits {
                max_steps: steps.unwrap_or(plan.limits.max_steps),
                timeout: timeout.map_or(plan.limits.timeout, Duration::from_millis),
                max_llm_calls: calls.unwrap_or(u32::MAX).min(plan.limits.max_llm_calls),
                ..Limits::clone(&plan.limits)
            }),
        };
        let scopes = match terms.scopes.is_empty() {
            true => Arc::clone(&plan.scopes),
            false => plan.scopes.iter().chain(&terms.scopes).cloned().collect(),
        };
        let spent = match began {
            Some(_) => shared.time_spent(base),
            None => Duration::ZERO,
        };
        let output = plan.output.as_ref().map(|output| output.rule.clone());
        if segment.is_run() {
            shared.max_llm_calls.store(limits.max_llm_calls, Ordering::Relaxed);
            shared.stream_if(terms.stream);
            shared.untrace_if(terms.untraced);
        }
        let compensation = Compensation::new(terms.compensate && segment.is_run());
        let mut machine = AgentMachine::new(base.clone(), limits, output);
        machine.in_round(StepPlace::round(&segment.step).is_some());
        let hooks = hooks_of(plan, shared, &callbacks.0);
        let resources = plan.resources_in(shared, &options.resources);
        let team = InTeam::of(plan, &options.resources, &terms.scopes, (&hooks, callbacks.0));
        if team.is_some() {
            machine.in_team();
        }
        let (offered, of) = (Arc::clone(&plan.offered), Arc::clone(plan));
        let began_otherwise = match segment.is_run() {
            true => None,
            false => BegunOtherwise::of(plan, began.and_then(|began| began.definition.as_ref())),
        };
        let session = session.map(|session| Box::new(InSession::Asked(*session)));
        let mut run = Self {
            segment,
            plan: of,
            offered,
            scopes,
            resources,
            machine,
            spent,
            pending: None,
            began_otherwise,
            session,
            hooks,
            compensation,
            team,
            call_ids: Mutex::default(),
            moment: None,
        };
        if began.is_some() {
            for (_, path, kind) in &recorded {
                if path.is_root() {
                    run.compensation.replay(kind);
                    run.note_session(kind);
                }
                run.hand_up_recorded(path, kind);
                run.hand_up_recorded_answer(path, kind);
                run.machine.replay_one(path, kind);
                if let EventKind::AgentHandoff(transfer) = kind
                    && *path == run.segment.base
                {
                    run.takes_over(&transfer.to);
                }
            }
            if let Some(instructions) = &plan.instructions {
                run.machine.recognise(instructions);
            }
            return run;
        }
        if run.segment.is_run() {
            run.segment.shared.host.remember(&run.segment.shared);
        }
        let input = match &plan.instructions {
            Some(instructions) => conversation.without_leading(instructions),
            None => conversation,
        };
        let mut started = AgentStarted::new(Arc::clone(&plan.name), plan.instructions.clone(), input);
        started.terms = terms;
        started.answer = plan.output.as_ref().map_or(AnswerForm::Text, |output| output.rule.form);
        run.pending = Some(Box::new(started));
        if run.hooks.is_empty() && run.session.is_none() {
            run.record_start();
        }
        run
    }

    /// Records that the agent begins, unless that is recorded already.
    pub(super) fn record_start(&mut self) {
        let Some(mut started) = self.pending.take() else { return };
        let (is_run, durable) = (self.segment.is_run(), self.segment.shared.log.is_durable());
        if !durable {
            self.warn_unanswerable();
        }
        if durable && !is_run {
            started.definition = Some(Arc::clone(&self.first_plan().parts().id));
        }
        let mut kind = self.segment.begins(*started);
        if durable && is_run {
            kind = kind.with_parts(&self.first_plan().parts().id);
        }
        self.segment.shared.restore_state(&self.segment.base, &kind);
        self.record_own(kind);
    }

    pub(super) fn shared(&self) -> Arc<RunShared> {
        Arc::clone(&self.segment.shared)
    }

    pub(super) fn events(&self) -> Events {
        Events::new(self.shared(), 0)
    }

    /// Runs to the end, whatever it is.
    pub(super) fn run_through(mut self) -> impl Future<Output = Result<RunEnd>> + Send {
        let span = telemetry::agent_span(&self.plan.name, &self.segment.shared, self.plan.model.info());
        // A block and not an `async fn`, which would keep room for `self` twice.
        async move {
            if let Some(begun) = self.compensation.take_begun() {
                return Box::pin(self.continue_compensation(*begun)).await;
            }
            // A tool can panic as it is dropped.
            let ended = AssertUnwindSafe(self.drive_within_limit(&span)).catch_unwind().await;
            self.ended(ended, &span).await
        }
    }

    /// Records the end that the run has come to, and sees to it that it is kept.
    async fn ended(
        &mut self,
        ended: std::thread::Result<Option<Option<Result<RunEnd>>>>,
        span: &Span,
    ) -> Result<RunEnd> {
        let ended = ended.unwrap_or_else(|panic| {
            let reason = format!("a tool panicked as it was dropped: {}", panic_text(&*panic));
            let cancelled = self.segment.shared.cancellation.is_cancelled();
            (!cancelled).then_some(Some(Err(Error::Lost { reason })))
        });
        if self.waits_for_session() {
            return Box::pin(self.ended_before_its_beginning(ended)).await;
        }
        let ended = match ended {
            Some(Some(result)) => Some(result),
            Some(None) => {
                self.close_steps(RUN_OVER_TIME);
                Some(Err(Error::Timeout { limit: self.machine.limits().timeout }))
            }
            None => None,
        };
        let ended = match ended {
            Some(Err(error)) if self.may_fall_back(&error) => Box::pin(self.fallback(error)).await,
            ended => ended,
        };
        let result = match ended {
            Some(result) => result,
            None if self.segment.is_run() && self.segment.shared.is_stopping() => {
                self.segment.settle();
                return Err(self.segment.shared.left().await.into());
            }
            // Nobody dropped it with its run, which has ended.
            None if !self.segment.is_run() && self.segment.shared.log.is_closed() => {
                self.segment.settle();
                return Err(Error::Cancelled { reason: self.segment.shared.cancel_reason() });
            }
            None => {
                let reason = self.segment.shared.cancel_reason();
                let error = match self.compensation.is_asked() {
                    true => {
                        let cx = self.as_a_whole();
                        Box::pin(compensated_cancelled(self, cx, &reason)).await?
                    }
                    false => Error::Cancelled { reason: Arc::clone(&reason) },
                };
                self.record_cancelled(&reason);
                Err(error)
            }
        };
        let result = match result {
            // The journal ends where the store failed.
            Ok(_) | Err(Error::Store(_)) => {
                self.segment.settle();
                result
            }
            Err(mut error) if self.segment.is_open() => {
                self.close_steps("the run failed");
                if self.compensation.is_asked() {
                    let cx = self.as_a_whole();
                    error = Box::pin(compensated(self, cx, error)).await?;
                }
                self.record_failed(&error);
                Err(error)
            }
            failed => failed,
        };
        let ended = match self.segment.keep().await {
            Ok(()) => result,
            Err(error) => Err(error.into()),
        };
        if let Some(around) = self.around_run() {
            Box::pin(around.after(ended.as_ref().map(drop))).await;
        }
        telemetry::record_agent(span, ended.as_ref().map(|end| &*end.completed));
        ended
    }

    /// The context of the run, in which what it had done is undone.
    fn as_a_whole(&self) -> Context {
        Context::new(self.shared(), StepPath::root(), self.resources.clone()).granted(&self.scopes)
    }

    async fn continue_compensation(&mut self, begun: BegunCompensation) -> Result<RunEnd> {
        let cx = self.as_a_whole();
        let error = continue_compensating(self, cx, begun).await?;
        self.segment.keep().await?;
        Err(error)
    }

    /// Drives the agent in its span. `None` when the run is cancelled before the end, and has ended where the agent is in a
    /// step; `Some(None)` when the time limit is reached before.
    async fn drive_within_limit(&mut self, span: &Span) -> Option<Option<Result<RunEnd>>> {
        let (shared, base) = (self.shared(), self.segment.base.clone());
        let left = self.machine.limits().timeout.saturating_sub(self.spent);
        // Pinned where they are made: a future that is moved into another one has room in both.
        let driven = pin!(
            async {
                let drive = pin!(self.drive());
                within(&shared, &base, left, drive).await
            }
            .instrument(span.clone())
        );
        unless_cancelled(&shared, &base, driven).await
    }

    async fn drive(&mut self) -> Result<RunEnd> {
        if self.segment.shared.log.is_durable() && self.segment.shared.host.lacks_parts(self.first_plan().parts()) {
            let parts = Arc::clone(self.first_plan().parts());
            let shared = Arc::clone(&self.segment.shared);
            Box::pin(async move { shared.host.put_parts(&parts).await }).await?;
        }
        if let Some(other) = self.began_otherwise.take()
            && !matches!(self.machine.command(), Command::Finish(Outcome::Ended(_)))
            && let Err(error) =
                Box::pin(other.check(self.first_plan(), &self.segment.shared.host, &self.segment.base)).await
        {
            // It is not over: an operator may let it continue.
            self.segment.settle();
            return Err(error);
        }
        if self.first_plan().is_undone() && self.segment.shared.log.compensates() {
            let tools = self.first_plan().described_tools();
            let shared = Arc::clone(&self.segment.shared);
            let scopes = Arc::clone(&self.scopes);
            Box::pin(async move { check_compensations(&shared.host, &tools, &scopes).await }).await?;
        }
        if let Some(problem) = self.team.as_mut().and_then(|team| team.problem.take()) {
            return Err(problem);
        }
        let mut model_error = None;
        let mut has_tools = false;
        if !self.hooks.is_empty()
            && let Some(ended) = Box::pin(self.before_agent()).await?
        {
            return Ok(ended);
        }
        if self.session.is_some() {
            Box::pin(self.enter_session()).await?;
        }
        loop {
            // A model and tools that are always ready leave room for a cancellation and the time limit.
            if !tokio::task::coop::has_budget_remaining() {
                self.moment = None;
            }
            tokio::task::coop::consume_budget().await;
            self.take_mail();
            let command = self.machine.command();
            if self.segment.shared.is_held() && matches!(command, Command::CallModel { .. } | Command::CallTools(_)) {
                // An operator paused the run: nothing new begins, and what was done is kept meanwhile.
                self.moment = None;
                self.commit().await?;
                self.segment.shared.until_released().await;
                if self.segment.shared.is_draining() {
                    return self.leave().await;
                }
                // It may have been sent a message meanwhile.
                continue;
            }
            if !self.plan.toolsets.is_empty() {
                match command {
                    // The calls of this turn are those of the tools that it was shown, if that was in this process.
                    Command::CallTools(_) if has_tools => {}
                    Command::CallModel { .. } | Command::CallTools(_) => {
                        self.moment = None;
                        self.offered = Box::pin(self.plan.fetched(&self.offered, &self.resources)).await?;
                        has_tools = true;
                    }
                    _ => {}
                }
            }
            if matches!(command, Command::CallModel { .. }) && self.is_snapshot_due() {
                self.moment = None;
                Box::pin(self.keep_snapshot()).await?;
            }
            match command {
                Command::CallModel { path } => model_error = self.call_model(&path).await?.err(),
                Command::CallTools(tools) => self.call_tools(tools).await?,
                Command::RejectOutput { path, problem } => {
                    self.record(path, EventKind::OutputRejected { problem });
                }
                Command::Transfer { to } => {
                    self.moment = None;
                    self.transfer(&to)?;
                    has_tools = false;
                }
                Command::EndStep { step } => {
                    self.hand_up_turn();
                    let now = self.moment();
                    self.record_at(now, self.segment.base.clone(), EventKind::RunStep { step });
                    self.moment = Some(now);
                }
                Command::Deliver { number } => self.record_own(EventKind::MessageDelivered { number }),
                Command::AwaitMessage => {
                    if let Some(ended) = Box::pin(self.await_mail()).await {
                        return ended;
                    }
                }
                // A message came since the machine was asked.
                Command::Finish(Outcome::Completed(_)) if !self.ends_with_answer() => {}
                Command::Finish(Outcome::Completed(completed)) => {
                    let completed = match self.first_hooks().len() {
                        0 => completed,
                        hooks => Box::pin(self.after_agent(hooks, completed)).await?,
                    };
                    return self.completed(completed);
                }
                Command::Finish(Outcome::ModelFailed) => {
                    return Err(model_error.map_or_else(|| self.recorded_failure(), Error::Model));
                }
                Command::Finish(Outcome::Failed(error)) => return Err(self.for_people(error)),
                Command::Finish(Outcome::Ended(ended)) => {
                    self.segment.settle();
                    return match ended {
                        Some(Ok(completed)) => Ok(self.run_end(completed)),
                        Some(Err(failure)) => Err(Error::of_recorded(failure)),
                        None => Err(Error::Lost { reason: "the run had ended before".to_owned() }),
                    };
                }
            }
        }
    }

    /// The run is drained: stops it here, when this is the run; an agent in a step waits for that.
    pub(super) async fn leave(&self) -> Result<RunEnd> {
        let Segment { shared, base, .. } = &self.segment;
        match self.segment.is_run() {
            true => shared.stop(),
            false => shared.park(base).await,
        }
        std::future::pending().await
    }

    /// Records the answer.
    pub(super) fn completed(&mut self, completed: Arc<AgentCompleted>) -> Result<RunEnd> {
        let completed = self.saved_with_answer(completed)?;
        self.record_completed(Arc::clone(&completed));
        Ok(self.run_end(completed))
    }

    fn run_end(&self, completed: Arc<AgentCompleted>) -> RunEnd {
        RunEnd { completed, conversation: self.machine.conversation().into(), shared: self.shared() }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.settle_before_its_beginning();
        self.dropped();
    }
}
