//! Does what the machine commands and records what happened.
//!
//! A run is one future: the model call and the tools of a turn are polled in place, so dropping the run drops them all.
//! An event is recorded before its effect begins and before anybody sees its outcome; of a run with a store, it is
//! committed by then. Nothing here decides what comes next; that is the machine's.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use tracing::Instrument;

use super::deadline::within;
use super::hooks::{Hooks, hooks_of};
use super::machine::{AgentMachine, Command, OpenStep, Outcome, closed};
use super::plan::Plan;
use super::request::RunRequest;
use crate::context::Context;
use crate::error::{Error, Failure, Result};
use crate::event::{AgentCompleted, AgentStarted, EventKind, RunBody, RunCompleted, RunStarted, RunTerms};
use crate::message::ToolStatus;
use crate::model::{BoxFuture, ModelError, ModelErrorKind};
use crate::path::StepPath;
use crate::run::{Events, RunEnd, RunShared};
use crate::telemetry;
use crate::text::panic_text;

/// One run of an agent, from its request to its end: whatever happens to it, its last event is recorded. Dropped before
/// its end, it records that it was cancelled.
///
/// It is a run of its own, or a step of another run: then it records below that step, in that run's journal.
pub(super) struct Run {
    pub(super) plan: Arc<Plan>,
    pub(super) shared: Arc<RunShared>,
    /// Where it records; the root for a run of its own.
    pub(super) base: StepPath,
    pub(super) scopes: Arc<[Arc<str>]>,
    pub(super) machine: AgentMachine,
    timeout: Duration,
    /// How much of the time limit is used up, by earlier processes.
    spent: Duration,
    open: bool,
    /// What the run began with, until the hooks before it have seen it and it is recorded.
    pub(super) pending: Option<Box<AgentStarted>>,
    pub(super) hooks: Hooks,
}

impl Run {
    /// A run of its own.
    pub(super) fn new(plan: &Arc<Plan>, mut request: RunRequest) -> Self {
        let id = request.run_id.take().unwrap_or_else(|| plan.host.new_run_id());
        let shared = Arc::new(RunShared::new(id, &plan.host, plan.host.new_journal()));
        Self::begin(plan, request, shared, StepPath::root())
    }

    /// A run of its own whose journal is in the log already.
    pub(super) fn resumed(plan: &Arc<Plan>, shared: Arc<RunShared>) -> Self {
        Self::begin(plan, RunRequest::default(), shared, StepPath::root())
    }

    /// Begins a run, as a step of the one that a context belongs to or of its own, and gives all of it.
    pub(super) fn start(
        plan: &Arc<Plan>,
        request: RunRequest,
        step: Option<&Context>,
    ) -> BoxFuture<'static, Result<RunEnd>> {
        let run = match step {
            Some(cx) => Self::within(plan, request, cx),
            None => Self::new(plan, request),
        };
        Box::pin(run.run_through())
    }

    /// A step of the run that a context belongs to. What is recorded of it already is taken as done.
    fn within(plan: &Arc<Plan>, request: RunRequest, cx: &Context) -> Self {
        Self::begin(plan, request, Arc::clone(cx.run()), cx.claim())
    }

    fn begin(plan: &Arc<Plan>, request: RunRequest, shared: Arc<RunShared>, base: StepPath) -> Self {
        let RunRequest { conversation, run_id: _, max_steps, timeout, scopes } = request;
        let recorded = if shared.log.is_restored() { shared.log.records_below(&base) } else { Vec::new() };
        let began = recorded.iter().find_map(|(_, path, kind)| kind.agent_started().filter(|_| *path == base));
        // What the run began with counts, however it is resumed.
        let terms = began.map_or_else(|| terms_of(max_steps, timeout, scopes), |began| began.terms.clone());
        let mut limits = plan.limits.clone();
        limits.max_steps = terms.max_steps.unwrap_or(limits.max_steps);
        limits.timeout = terms.timeout_ms.map_or(limits.timeout, Duration::from_millis);
        let scopes = match terms.scopes.is_empty() {
            true => Arc::clone(&plan.scopes),
            false => plan.scopes.iter().chain(&terms.scopes).cloned().collect(),
        };
        let timeout = limits.timeout;
        let spent = match began {
            Some(_) => shared.log.time_spent(&base, shared.now()),
            None => Duration::ZERO,
        };
        let output = plan.output.as_ref().map(|output| output.rule.clone());
        let machine = AgentMachine::new(base.clone(), limits, output);
        if base.is_root() {
            shared.max_llm_calls.store(plan.limits.max_llm_calls, Ordering::Relaxed);
        }
        let hooks = hooks_of(plan, &shared);
        let mut run = Self {
            plan: Arc::clone(plan),
            shared,
            base,
            scopes,
            machine,
            timeout,
            spent,
            open: true,
            pending: None,
            hooks,
        };
        if began.is_some() {
            for (_, path, kind) in &recorded {
                run.machine.replay_one(path, kind);
            }
            if let Some(instructions) = &plan.instructions {
                run.machine.recognise(instructions);
            }
            return run;
        }
        if run.base.is_root() {
            run.shared.host.remember(&run.shared);
        }
        let input = match &plan.instructions {
            Some(instructions) => conversation.without_leading(instructions),
            None => conversation,
        };
        let mut started = AgentStarted::new(Arc::clone(&plan.name), plan.instructions.clone(), input);
        started.terms = terms;
        run.pending = Some(Box::new(started));
        if run.hooks.is_empty() {
            run.record_start();
        }
        run
    }

    /// Records that the agent begins, unless that is recorded already.
    pub(super) fn record_start(&mut self) {
        let Some(started) = self.pending.take() else { return };
        let kind = match self.base.is_root() {
            true => EventKind::RunStarted(Arc::new(RunStarted::new(RunBody::Agent(*started)))),
            false => EventKind::AgentStarted(Arc::new(*started)),
        };
        self.record(self.base.clone(), kind);
    }

    pub(super) fn shared(&self) -> Arc<RunShared> {
        Arc::clone(&self.shared)
    }

    pub(super) fn events(&self) -> Events {
        Events::new(self.shared())
    }

    /// Runs to the end, whatever it is.
    pub(super) fn run_through(mut self) -> impl Future<Output = Result<RunEnd>> + Send {
        let span = telemetry::agent_span(&self.plan.name, &self.shared.id, self.plan.model.info());
        let shared = self.shared();
        let limit = self.timeout;
        let left = limit.saturating_sub(self.spent);
        let is_step = !self.base.is_root();
        // A block and not an `async fn`, which would keep room for `self` twice.
        async move {
            let ended = {
                let driven = async {
                    match is_step {
                        true => within(&shared, left, Box::pin(self.drive())).await,
                        false => tokio::time::timeout(left, self.drive()).await.ok(),
                    }
                };
                let driven = async {
                    tokio::select! {
                        biased;
                        () = shared.cancellation.cancelled() => None,
                        ended = driven.instrument(span.clone()) => Some(ended),
                    }
                };
                // A tool can panic as it is dropped.
                AssertUnwindSafe(driven).catch_unwind().await
            };
            let ended = ended.unwrap_or_else(|panic| {
                let reason = format!("a tool panicked as it was dropped: {}", panic_text(&*panic));
                (!shared.cancellation.is_cancelled()).then_some(Some(Err(Error::Lost { reason })))
            });
            let result = match ended {
                Some(Some(result)) => result,
                Some(None) => {
                    self.close_steps("the run reached its time limit");
                    Err(Error::Timeout { limit })
                }
                None => {
                    let reason = self.shared.cancel_reason();
                    self.close_cancelled(&reason);
                    Err(Error::Cancelled { reason })
                }
            };
            let ended = self.end(result).await;
            if !self.hooks.is_empty() {
                Box::pin(self.after_run(&ended)).await;
            }
            telemetry::record_agent(&span, ended.as_ref().map(|end| &*end.completed));
            ended
        }
    }

    /// Records a failure, and sees to it that the end is kept.
    async fn end(&mut self, result: Result<RunEnd>) -> Result<RunEnd> {
        if let Err(error) = &result
            && self.open
            && !matches!(error, Error::Store(_))
        {
            self.close_steps("the run failed");
            if self.base.is_root() {
                telemetry::log_failed_run(&self.shared, &self.plan.name, error);
            }
            let error = Arc::new(Failure::from(error));
            self.record(
                self.base.clone(),
                match self.base.is_root() {
                    true => EventKind::RunFailed { error },
                    false => EventKind::AgentFailed { error },
                },
            );
        }
        self.open = false;
        self.commit().await?;
        if self.base.is_root() {
            self.shared.log.release().await?;
        }
        result
    }

    async fn drive(&mut self) -> Result<RunEnd> {
        let mut model_error = None;
        if !self.hooks.is_empty()
            && let Some(ended) = Box::pin(self.before_agent()).await?
        {
            return Ok(ended);
        }
        loop {
            // A model and tools that are always ready leave room for a cancellation and the time limit.
            tokio::task::coop::consume_budget().await;
            let command = self.machine.command();
            if self.shared.is_held() && matches!(command, Command::CallModel { .. } | Command::CallTools(_)) {
                // An operator paused the run: nothing new begins, and what was done is kept meanwhile.
                self.commit().await?;
                self.shared.until_held(false).await;
            }
            match command {
                Command::CallModel { path } => model_error = self.call_model(&path).await?.err(),
                Command::CallTools(tools) => self.call_tools(tools).await?,
                Command::RejectOutput { path, problem } => {
                    self.record(path, EventKind::OutputRejected { problem });
                }
                Command::EndStep { step } => self.record(self.base.clone(), EventKind::RunStep { step }),
                Command::Finish(Outcome::Completed(completed)) => {
                    let completed = match self.hooks.len() {
                        0 => completed,
                        hooks => Box::pin(self.after_agent(hooks, completed)).await?,
                    };
                    return Ok(self.completed(completed));
                }
                Command::Finish(Outcome::ModelFailed) => {
                    return Err(model_error.take().unwrap_or_else(|| self.recorded_failure()));
                }
                Command::Finish(Outcome::Failed(error)) => return Err(error),
                Command::Finish(Outcome::Ended(ended)) => {
                    self.open = false;
                    return match ended {
                        Some(Ok(completed)) => Ok(self.run_end(completed)),
                        Some(Err(failure)) => Err(Error::Recorded(failure)),
                        None => Err(Error::Lost { reason: "the run had ended before".to_owned() }),
                    };
                }
            }
        }
    }

    /// Records the answer.
    pub(super) fn completed(&mut self, completed: Arc<AgentCompleted>) -> RunEnd {
        let kind = match self.base.is_root() {
            true => EventKind::RunCompleted(Arc::new(RunCompleted::Agent(Arc::clone(&completed)))),
            false => EventKind::AgentCompleted(Arc::clone(&completed)),
        };
        self.record(self.base.clone(), kind);
        self.run_end(completed)
    }

    fn run_end(&mut self, completed: Arc<AgentCompleted>) -> RunEnd {
        self.open = false;
        RunEnd { completed, conversation: self.machine.history(), shared: self.shared() }
    }

    pub(super) fn record(&mut self, path: StepPath, kind: EventKind) {
        if self.pending.is_some() {
            self.record_start();
        }
        self.machine.apply(&path, &kind);
        self.shared.record(path, kind);
    }

    pub(super) async fn commit(&self) -> Result<()> {
        Ok(self.shared.log.commit().await?)
    }

    /// Gives every step that was going on its end.
    fn close_steps(&mut self, reason: &str) {
        for step in self.machine.open_steps() {
            match step {
                OpenStep::Model { path } => {
                    let error = ModelError::new(ModelErrorKind::Cancelled, reason);
                    self.record(path, EventKind::ModelFailed { error: Arc::new(Failure::from(&error)) });
                }
                OpenStep::Tool { path, call } => {
                    let output = format!("{reason} while this tool was running; whether it had its effect is unknown");
                    let result = Arc::new(closed(&call, ToolStatus::Cancelled, &output));
                    self.shared.close_below(&path, reason);
                    self.record(path, EventKind::ToolFailed { result, duration_ms: 0, answered_by: None });
                }
            }
        }
    }

    fn close_cancelled(&mut self, reason: &Arc<str>) {
        if self.open {
            self.record_start();
            self.close_steps("the run was cancelled");
            self.record(
                self.base.clone(),
                match self.base.is_root() {
                    true => EventKind::RunCancelled { reason: Arc::clone(reason) },
                    false => {
                        let error = Error::Cancelled { reason: Arc::clone(reason) };
                        EventKind::AgentFailed { error: Arc::new(Failure::from(&error)) }
                    }
                },
            );
            self.open = false;
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.open && self.base.is_root() {
            // Of a run with a store nothing of this is kept: it is unfinished there and can be taken up again.
            self.shared.cancel("the run's future was dropped");
        }
        if self.open {
            let reason: Arc<str> = match self.shared.cancellation.is_cancelled() {
                true => self.shared.cancel_reason(),
                false => "the step was dropped".into(),
            };
            self.close_cancelled(&reason);
        }
        if self.base.is_root() {
            self.shared.close();
        }
    }
}

fn terms_of(max_steps: Option<u32>, timeout: Option<Duration>, scopes: Vec<Arc<str>>) -> RunTerms {
    let timeout_ms = timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    RunTerms { max_steps, timeout_ms, scopes }
}
