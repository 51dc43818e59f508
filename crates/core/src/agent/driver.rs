//! Executes the commands of the agent's machine and records the resulting events.
//!
//! A run is one future: it polls the model call and the tool calls of a turn directly, so dropping
//! the run drops them all. An event is recorded before its effect begins, and an outcome before it
//! is visible to others. In a run with a store it is committed by then. The machine decides the
//! next command, never this file.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow_schema::text::panic_text;
use futures_util::FutureExt;
use tracing::{Instrument, Span};

use super::call_ids::CallIds;
use super::changed_agent::RecordedVersion;
use super::hook_calls::{HookChain, hooks_of};
use super::kept_agent::{EarlierAgentEnd, Kept, called, kept};
use super::limits::Limits;
use super::machine::{AgentMachine, Command, Outcome};
use super::of_agent::OfAgent;
use super::plan::{Plan, TurnTools};
use super::run_request::RunRequest;
use super::session_run::InSession;
use super::taking_over::TeamRunState;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::{AgentCompleted, AgentStarted, AnswerForm, EventKind, RunTerms};
use crate::failure::{RUN_CANCELLED, RUN_OVER_TIME};
use crate::future::BoxFuture;
use crate::path::StepPath;
use crate::resource::Resources;
use crate::run::{
    Events, InSegment, RunEnd, RunShared, Segment, unless_cancelled, was_dropped,
    was_dropped_with_step, within,
};
use crate::telemetry;
use crate::time::Timestamp;
use crate::tool::{
    Compensation, CurrentStep, HeldBack, StartedCompensation, check_compensations, compensated,
    compensated_cancelled, continue_compensating, lived,
};

/// A run of an agent, from its request to its end. Its last event is always recorded: if it is
/// dropped early, it records that it was cancelled.
pub(super) struct Run {
    pub(super) segment: Segment<OfAgent>,
    pub(super) plan: Arc<Plan>,
    /// Tools that are offered to the model in the current turn.
    pub(super) offered: Arc<TurnTools>,
    pub(super) scopes: Arc<[Arc<str>]>,
    pub(super) resources: Resources,
    pub(super) machine: AgentMachine,
    /// Part of the time limit that earlier processes used up.
    spent: Duration,
    /// The start event, until the hooks before the run have seen it and it is recorded.
    pub(super) pending: Option<Box<AgentStarted>>,
    /// The definition with which the run started, if it differs from the current one.
    began_otherwise: Option<Box<RecordedVersion>>,
    /// Session of the run, until its history is loaded.
    pub(super) session: Option<Box<InSession>>,
    pub(super) hooks: HookChain,
    compensation: Compensation,
    /// State for handoffs, if the agent belongs to a team: passed to the agent that takes over.
    pub(super) team: Option<Box<TeamRunState>>,
    pub(super) call_ids: Mutex<CallIds>,
    /// Time of the last record, if only the driver has been active since. Saves reading the clock.
    pub(super) moment: Option<Timestamp>,
}

/// An agent called by a step: either a run, or a call that waits until its step drops it, because
/// the step dropped it before the crash too.
type AgentInStep = std::result::Result<Run, Box<HeldBack>>;

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
    /// Creates a top-level run, which is not a step of another run.
    ///
    /// # Errors
    /// If a required resource is missing. Nothing is recorded in that case.
    pub(super) fn new(plan: &Arc<Plan>, mut request: RunRequest) -> Result<Self> {
        if let Some(session) = &mut request.session {
            request.options.session = Some(InSession::asked(session, plan)?);
        }
        let id = request.options.run_id.take().unwrap_or_else(|| plan.host.new_run_id());
        let given = request.options.resources.clone();
        // Factories create the run's own resources here; the request's resources are restored for
        // the check below.
        let own = request.options.begin(&plan.host.factories, &id, &plan.name)?;
        request.options.resources = given;
        let shared = RunShared::new(id, &plan.host, plan.host.new_journal()).with_own(own, None);
        plan.check(&shared, &request.options.resources)?;
        let shared = Arc::new(shared);
        plan.host.running.begin(&shared)?;
        if let Some(first) = request.first_events.take() {
            first.begin(&shared);
        }
        Ok(Self::begin(plan, request, shared))
    }

    /// Creates the run for a journal that is loaded already.
    pub(super) fn resumed(plan: &Arc<Plan>, shared: Arc<RunShared>) -> Self {
        Self::begin(plan, RunRequest::default(), shared)
    }

    /// Creates a run and returns the future that executes it: as a step of the context's run, or as
    /// a top-level run.
    pub(super) fn start(
        plan: &Arc<Plan>,
        request: RunRequest,
        step: Option<&Context>,
    ) -> Result<BoxFuture<'static, Result<RunEnd>>> {
        let request = request.without_live();
        let run = match step {
            Some(cx) => match Self::in_step(plan, request, cx)? {
                Ok(run) => run,
                Err(held) => {
                    return Ok(Box::pin(async move {
                        Err(Error::Recorded(Arc::new(held.until_dropped().await)))
                    }));
                }
            },
            None => Self::new(plan, request)?,
        };
        Ok(Box::pin(run.run_through()))
    }

    /// Creates a run that is a step of the context's run. Events that are recorded for it already
    /// are replayed.
    fn in_step(plan: &Arc<Plan>, request: RunRequest, cx: &Context) -> Result<AgentInStep> {
        let shared = Arc::clone(cx.run());
        InSession::refuse_in_step(plan, &request)?;
        plan.check(&shared, &request.options.resources)?;
        let held_back = |base: &StepPath, lived| {
            let agent = format!("the agent `{}`", plan.name);
            Ok(Err(Box::new(HeldBack::at(CurrentStep::current(), base, agent, lived))))
        };
        // A new attempt at the step claims a new path. If an earlier attempt called the same agent
        // with the same request, the call continues there.
        if let Some(Kept { base, recorded, ended, decided }) = kept(plan, &request, cx) {
            if let EarlierAgentEnd::HeldBack(lived) = ended {
                return held_back(&base, lived);
            }
            let mut run = Self::again(
                plan,
                request,
                Segment::within(shared, base, cx.path().clone()),
                recorded,
            );
            if decided {
                run.began_otherwise = None;
            }
            match ended {
                EarlierAgentEnd::Stopped => run.record_restart(),
                _ => run.settle_if_ended(),
            }
            return Ok(Ok(run));
        }
        let base = cx.claim(|| called(plan, &request)).inspect_err(CurrentStep::end_with)?;
        let segment = Segment::within(shared, base, cx.path().clone());
        let recorded = segment.recorded();
        let ends = |(_, path, kind): &(_, StepPath, EventKind)| {
            *path == segment.base
                && matches!(kind, EventKind::AgentStarted(_) | EventKind::AgentFailed { .. })
        };
        // The step dropped this agent before the process stopped, for example because another
        // branch was faster. It must not begin new work now.
        match recorded.iter().rposition(ends) {
            Some(at) if matches!(&recorded[at].2, EventKind::AgentFailed { error } if was_dropped(error)) => {
                held_back(&segment.base, lived(&recorded[..=at], &segment.base))
            }
            at => {
                let ended = at.map(|at| &recorded[at].2);
                let again = matches!(ended, Some(EventKind::AgentFailed { error }) if was_dropped_with_step(error));
                let mut run = Self::again(plan, request, segment, recorded);
                match again {
                    true => run.record_restart(),
                    false => run.settle_if_ended(),
                }
                Ok(Ok(run))
            }
        }
    }

    /// Prevents a second end event for an agent whose end is recorded. Its step may be cancelled
    /// before it reads that end.
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

    /// Creates a run from the events that are recorded for it, if any.
    fn again(
        plan: &Arc<Plan>,
        request: RunRequest,
        segment: Segment<OfAgent>,
        recorded: Vec<(Timestamp, StepPath, EventKind)>,
    ) -> Self {
        let RunRequest { conversation, max_steps, options, session, callbacks, .. } = request;
        let (shared, base) = (&segment.shared, &segment.base);
        // The last start event counts: a later one may have recorded a different version.
        let began = recorded
            .iter()
            .rev()
            .find_map(|(_, path, kind)| kind.agent_started().filter(|_| path == base));
        // The recorded terms win over the terms of the request that resumes the run.
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
        // Settings of the whole run. An agent in a step uses the settings of the enclosing run.
        if segment.is_run() {
            shared.max_llm_calls.store(limits.max_llm_calls, Ordering::Relaxed);
            shared.stream_if(terms.stream);
            shared.untrace_if(terms.untraced);
        }
        let compensation = Compensation::new(terms.compensate && segment.is_run());
        let mut machine = AgentMachine::new(base.clone(), limits, output);
        machine.in_round(CurrentStep::round(&segment.step).is_some());
        let hooks = hooks_of(plan, shared, &callbacks.0);
        let resources = plan.resources_in(shared, &options.resources);
        let team =
            TeamRunState::new(plan, &options.resources, &terms.scopes, (&hooks, callbacks.0));
        if team.is_some() {
            machine.in_team();
        }
        let (offered, of) = (Arc::clone(&plan.offered), Arc::clone(plan));
        let began_otherwise = match segment.is_run() {
            true => None,
            false => RecordedVersion::if_different(
                plan,
                began.and_then(|began| began.definition.as_ref()),
            ),
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
                run.replay_saved_state(path, kind);
                run.replay_answer_state(path, kind);
                run.machine.replay_one(path, kind);
                if let EventKind::AgentHandoff(transfer) = kind
                    && *path == run.segment.base
                {
                    run.switch_agent(&transfer.to);
                }
            }
            // Journals of earlier releases contain the instructions as the first message of the
            // conversation.
            if let Some(instructions) = &plan.instructions {
                run.machine.detect_instructions(instructions);
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
        let mut started =
            AgentStarted::new(Arc::clone(&plan.name), plan.instructions.clone(), input);
        started.terms = terms;
        started.answer = plan.output.as_ref().map_or(AnswerForm::Text, |output| output.rule.form);
        run.pending = Some(Box::new(started));
        // Hooks and sessions may change or refuse the start, so it is recorded after them.
        if run.hooks.is_empty() && run.session.is_none() {
            run.record_start();
        }
        run
    }

    /// Records the start of the agent, unless it is recorded already.
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

    /// Runs to the end, also if the run is cancelled or a tool panics.
    pub(super) fn run_through(mut self) -> impl Future<Output = Result<RunEnd>> + Send {
        let span =
            telemetry::agent_span(&self.plan.name, &self.segment.shared, self.plan.model.info());
        // An `async` block instead of an `async fn`: the latter would reserve space for `self`
        // twice.
        async move {
            if let Some(begun) = self.compensation.take_begun() {
                return Box::pin(self.continue_compensation(*begun)).await;
            }
            // The destructor of a tool's future can panic.
            let ended = AssertUnwindSafe(self.drive_within_limit(&span)).catch_unwind().await;
            self.ended(ended, &span).await
        }
    }

    /// Records the end of the run and commits it. `None` means cancelled, `Some(None)` that the
    /// time limit was exceeded.
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
            // The process is draining. The run stays unfinished in the store, so no end is
            // recorded.
            None if self.segment.is_run() && self.segment.shared.is_stopping() => {
                self.segment.settle();
                return Err(self.segment.shared.left().await.into());
            }
            // The enclosing run has ended, but this future was not dropped with it. The journal
            // accepts no more events.
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
            // After a store error the journal cannot be written.
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

    /// Context of the whole run, in which completed steps are compensated.
    fn as_a_whole(&self) -> Context {
        Context::new(self.shared(), StepPath::root(), self.resources.clone()).granted(&self.scopes)
    }

    async fn continue_compensation(&mut self, begun: StartedCompensation) -> Result<RunEnd> {
        let cx = self.as_a_whole();
        let error = continue_compensating(self, cx, begun).await?;
        self.segment.keep().await?;
        Err(error)
    }

    /// Drives the agent in its tracing span. Returns `None` if the run was cancelled, or if the
    /// agent is a step and its run has ended; `Some(None)` if the time limit was exceeded.
    async fn drive_within_limit(&mut self, span: &Span) -> Option<Option<Result<RunEnd>>> {
        let (shared, base) = (self.shared(), self.segment.base.clone());
        let left = self.machine.limits().timeout.saturating_sub(self.spent);
        // Pinned here: a future that is moved into another one takes space in both.
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
        // Stores the parts of the definition once, so that a later process can report what changed.
        if self.segment.shared.log.is_durable()
            && self.segment.shared.host.lacks_parts(self.first_plan().parts())
        {
            let parts = Arc::clone(self.first_plan().parts());
            let shared = Arc::clone(&self.segment.shared);
            Box::pin(async move { shared.host.put_parts(&parts).await }).await?;
        }
        if let Some(other) = self.began_otherwise.take()
            && !matches!(self.machine.command(), Command::Finish(Outcome::Ended(_)))
            && let Err(error) = Box::pin(other.check(
                self.first_plan(),
                &self.segment.shared.host,
                &self.segment.base,
            ))
            .await
        {
            // The run stays unfinished: an operator may allow it to continue with this version.
            self.segment.settle();
            return Err(error);
        }
        // Compensating tools must exist and accept their arguments, before any tool is called.
        if self.first_plan().is_undone() && self.segment.shared.log.compensates() {
            let tools = self.first_plan().described_tools();
            let shared = Arc::clone(&self.segment.shared);
            let scopes = Arc::clone(&self.scopes);
            Box::pin(async move { check_compensations(&shared.host, &tools, &scopes).await })
                .await?;
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
            // A model and tools that are always ready would starve the cancellation and the time
            // limit.
            if !tokio::task::coop::has_budget_remaining() {
                self.moment = None;
            }
            tokio::task::coop::consume_budget().await;
            self.take_mail();
            let command = self.machine.command();
            if self.segment.shared.is_held()
                && matches!(command, Command::CallModel { .. } | Command::CallTools(_))
            {
                // An operator paused the run: no new call starts, and finished work is committed
                // meanwhile.
                self.moment = None;
                self.commit().await?;
                self.segment.shared.until_released().await;
                if self.segment.shared.is_draining() {
                    return self.leave().await;
                }
                // Messages may have arrived during the pause, so the machine decides again.
                continue;
            }
            if !self.plan.toolsets.is_empty() {
                match command {
                    // The tools of this turn must be those that its model call was sent. After a
                    // restart they are fetched again.
                    Command::CallTools(_) if has_tools => {}
                    Command::CallModel { .. } | Command::CallTools(_) => {
                        self.moment = None;
                        self.offered =
                            Box::pin(self.plan.fetched(&self.offered, &self.resources)).await?;
                        has_tools = true;
                    }
                    _ => {}
                }
            }
            if matches!(command, Command::CallModel { .. }) && self.is_snapshot_due() {
                self.moment = None;
                Box::pin(self.write_snapshot()).await?;
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
                    self.publish_turn_state();
                    let now = self.moment();
                    self.record_at(now, self.segment.base.clone(), EventKind::RunStep { step });
                    self.moment = Some(now);
                }
                Command::Deliver { number } => {
                    self.record_own(EventKind::MessageDelivered { number });
                }
                Command::AwaitMessage => {
                    if let Some(ended) = Box::pin(self.await_mail()).await {
                        return ended;
                    }
                }
                // A message arrived after the machine returned this command, so the run continues.
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

    /// Leaves a drained run unfinished. A top-level run stops here; an agent in a step waits until
    /// its run stops. Never returns.
    pub(super) async fn leave(&self) -> Result<RunEnd> {
        let Segment { shared, base, .. } = &self.segment;
        match self.segment.is_run() {
            true => shared.stop(),
            false => shared.park(base).await,
        }
        std::future::pending().await
    }

    /// Records the answer and the end of the agent.
    pub(super) fn completed(&mut self, completed: Arc<AgentCompleted>) -> Result<RunEnd> {
        let completed = self.saved_with_answer(completed)?;
        self.record_completed(Arc::clone(&completed));
        Ok(self.run_end(completed))
    }

    fn run_end(&self, completed: Arc<AgentCompleted>) -> RunEnd {
        RunEnd {
            completed,
            conversation: self.machine.conversation().into(),
            shared: self.shared(),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.settle_before_its_beginning();
        self.dropped();
    }
}
