//! Does what the machine commands and records what happened.
//!
//! A run is one future: the model call and the tools of a turn are polled in place, so dropping the run drops them all.
//! An event is recorded before its effect begins and before anybody sees its outcome. Nothing here decides what comes
//! next; that is the machine's.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tracing::Instrument;

use super::machine::{AgentMachine, Command, OpenStep, Outcome, PendingTool, closed, interrupted};
use super::plan::Plan;
use super::request::{RunEnd, RunRequest};
use crate::context::{Context, RunShared};
use crate::error::{Error, Failure, Result};
use crate::event::{EventKind, Events, ModelDelta, RunStarted};
use crate::message::{Message, Part, ToolCall, ToolResult, ToolStatus};
use crate::model::{ModelError, ModelErrorKind, ModelEvent, ModelRequest, ModelResponse};
use crate::path::StepPath;
use crate::telemetry;
use crate::tool::{Effects, invoke, not_found};

/// One run, from its request to its end: whatever happens to it, its last event is recorded. Dropped before its end,
/// it records that it was cancelled.
pub(super) struct Run {
    plan: Arc<Plan>,
    shared: Arc<RunShared>,
    scopes: Arc<[Arc<str>]>,
    machine: AgentMachine,
    timeout: std::time::Duration,
    open: bool,
}

impl Run {
    pub(super) fn new(plan: &Arc<Plan>, request: RunRequest) -> Self {
        let RunRequest { conversation, run_id, max_steps, timeout, scopes } = request;
        let mut limits = plan.limits.clone();
        limits.max_steps = max_steps.unwrap_or(limits.max_steps);
        limits.timeout = timeout.unwrap_or(limits.timeout);
        let input = match &plan.instructions {
            None => conversation,
            Some(instructions) => {
                std::iter::once(instructions).chain(conversation.messages()).map(Arc::clone).collect()
            }
        };
        let scopes = match scopes.is_empty() {
            true => Arc::clone(&plan.scopes),
            false => plan.scopes.iter().cloned().chain(scopes).collect(),
        };
        let runtime = &plan.runtime;
        let mut run = Self {
            plan: Arc::clone(plan),
            shared: Arc::new(RunShared::new(
                run_id.unwrap_or_else(|| runtime.new_run_id()),
                runtime.clock(),
                plan.resources.clone(),
                runtime.sinks(),
            )),
            scopes,
            timeout: limits.timeout,
            machine: AgentMachine::new(limits, plan.output.as_ref().map(|output| output.rule.clone())),
            open: true,
        };
        let started = RunStarted::new(Arc::clone(&plan.name), input);
        run.record(StepPath::root(), EventKind::RunStarted(Arc::new(started)));
        run
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
        // A block and not an `async fn`, which would keep room for `self` twice.
        async move {
            let ended = {
                let driven = tokio::time::timeout(limit, self.drive()).instrument(span.clone());
                tokio::select! {
                    biased;
                    () = shared.cancellation.cancelled() => None,
                    ended = driven => Some(ended),
                }
            };
            let ended = match ended {
                Some(Ok(result)) => result,
                Some(Err(_)) => {
                    self.close_steps("the run reached its time limit");
                    Err(self.fail(Error::Timeout { limit }))
                }
                None => {
                    let reason = self.shared.cancel_reason();
                    self.close_cancelled(&reason);
                    Err(Error::Cancelled { reason })
                }
            };
            telemetry::record_run(&span, ended.as_ref().map(|end| &*end.completed));
            ended
        }
    }

    async fn drive(&mut self) -> Result<RunEnd> {
        let mut model_error = None;
        loop {
            match self.machine.command() {
                Command::CallModel { path } => model_error = self.call_model(&path).await.err(),
                Command::CallTools(tools) => self.call_tools(tools).await,
                Command::RejectOutput { path, problem } => {
                    self.record(path, EventKind::OutputRejected { problem });
                }
                Command::EndStep { step } => self.record(StepPath::root(), EventKind::RunStep { step }),
                Command::Finish(Outcome::Completed(completed)) => {
                    self.record(StepPath::root(), EventKind::RunCompleted(Arc::clone(&completed)));
                    self.open = false;
                    let conversation = self.machine.conversation().clone();
                    return Ok(RunEnd { completed, conversation, shared: self.shared() });
                }
                Command::Finish(Outcome::ModelFailed) => {
                    let error = model_error.take().unwrap_or_else(ModelError::truncated);
                    return Err(self.fail(error.into()));
                }
                Command::Finish(Outcome::Failed(error)) => return Err(self.fail(error)),
                Command::Finish(Outcome::Ended) => {
                    return Err(Error::Lost { reason: "the run had ended before".to_owned() });
                }
            }
        }
    }

    fn record(&mut self, path: StepPath, kind: EventKind) {
        self.machine.apply(&path, &kind);
        self.shared.log.record(self.shared.clock.now(), path, kind);
    }

    fn fail(&mut self, error: Error) -> Error {
        let failure = Arc::new(Failure::from(&error));
        self.record(StepPath::root(), EventKind::RunFailed { error: failure });
        self.open = false;
        error
    }

    /// One model call; what it came to is recorded.
    async fn call_model(&mut self, path: &StepPath) -> Result<(), ModelError> {
        let info = self.plan.model.info();
        let started = EventKind::ModelStarted { provider: Arc::clone(&info.provider), model: Arc::clone(&info.model) };
        self.record(path.clone(), started);
        let request = ModelRequest {
            messages: self.machine.conversation().clone(),
            tools: self.plan.manifest.clone(),
            output: self.plan.output.as_ref().and_then(|output| output.native.clone()),
            settings: Arc::clone(&self.plan.settings),
            stream: self.shared.log.wants_deltas(),
        };
        let content = self.plan.runtime.traces_content();
        let span = telemetry::chat_span(self.plan.model.info(), &self.shared.id, &request, content);
        let outcome = self.read_model(path, request).instrument(span.clone()).await;
        telemetry::record_chat(&span, outcome.as_ref(), content);
        match outcome {
            Ok(response) => {
                self.record(path.clone(), EventKind::ModelCompleted(Arc::new(response)));
                Ok(())
            }
            Err(error) => {
                self.record(path.clone(), EventKind::ModelFailed { error: Arc::new(Failure::from(&error)) });
                Err(error)
            }
        }
    }

    async fn read_model(&self, path: &StepPath, request: ModelRequest) -> Result<ModelResponse, ModelError> {
        let log = &self.shared.log;
        let mut asked = request.stream.then(|| self.shared.clock.now());
        // The stream is dropped before its answer is recorded, so that the conversation has one owner again and
        // pushing to it copies nothing.
        let mut stream = self.plan.model.stream(request);
        while let Some(event) = stream.next().await {
            if let Some(asked) = asked.take() {
                telemetry::record_first_piece(self.shared.clock.now().since(asked));
            }
            let delta = match event? {
                ModelEvent::Completed(response) => {
                    return Ok(with_call_ids(*response, self.machine.turn()));
                }
                _ if !log.wants_deltas() => continue,
                ModelEvent::Text(text) => ModelDelta::Text(text),
                ModelEvent::Reasoning(text) => ModelDelta::Reasoning(text),
                ModelEvent::ToolCall(call) => ModelDelta::ToolCall(Box::new(call)),
            };
            log.delta(self.shared.clock.now(), path, delta);
        }
        Err(ModelError::truncated())
    }

    /// The tool calls of a turn, at most so many at once as the limit says.
    async fn call_tools(&mut self, tools: Vec<PendingTool>) {
        let at_once = self.plan.limits.max_parallel_tools.max(1);
        let mut waiting = tools.into_iter();
        if waiting.len() == 1 {
            for tool in waiting {
                if let Some(call) = self.start_tool(tool) {
                    // Boxed, so that a run that waits for its model does not hold the room of a tool call.
                    let ended = Box::pin(call.run()).await;
                    self.end_tool(ended);
                }
            }
            return;
        }
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < at_once
                && let Some(tool) = waiting.next()
            {
                if let Some(call) = self.start_tool(tool) {
                    running.push(call.run());
                }
            }
            match running.next().await {
                Some(ended) => self.end_tool(ended),
                None if waiting.len() == 0 => return,
                None => {}
            }
        }
    }

    /// Records that a call begins. `None` when it must not run: then its result is recorded already.
    fn start_tool(&mut self, tool: PendingTool) -> Option<ToolRun> {
        let PendingTool { path, call, interrupted: was_interrupted } = tool;
        if was_interrupted {
            let result = Arc::new(interrupted(&call));
            self.record(path, EventKind::ToolFailed { result, duration_ms: 0 });
            return None;
        }
        let policy = self.plan.tools.get(&*call.name).map(|tool| &tool.definition().policy);
        let started = EventKind::ToolStarted {
            call: Arc::clone(&call),
            effects: policy.map_or(Effects::None, |policy| policy.effects),
            idempotent: policy.is_some_and(|policy| policy.idempotent),
        };
        self.record(path.clone(), started);
        Some(ToolRun {
            plan: Arc::clone(&self.plan),
            scopes: Arc::clone(&self.scopes),
            cx: Context::new(self.shared(), path),
            call,
        })
    }

    fn end_tool(&mut self, ToolEnded { path, result, duration_ms }: ToolEnded) {
        let kind = match result.status {
            ToolStatus::Success => EventKind::ToolCompleted { result, duration_ms },
            _ => EventKind::ToolFailed { result, duration_ms },
        };
        self.record(path, kind);
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
                    self.record(path, EventKind::ToolFailed { result, duration_ms: 0 });
                }
            }
        }
    }

    fn close_cancelled(&mut self, reason: &Arc<str>) {
        if self.open {
            self.close_steps("the run was cancelled");
            self.record(StepPath::root(), EventKind::RunCancelled { reason: Arc::clone(reason) });
            self.open = false;
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.open {
            self.shared.cancel("the run's future was dropped");
            let reason = self.shared.cancel_reason();
            self.close_cancelled(&reason);
        }
    }
}

/// A tool call that has begun.
struct ToolRun {
    plan: Arc<Plan>,
    scopes: Arc<[Arc<str>]>,
    cx: Context,
    call: Arc<ToolCall>,
}

struct ToolEnded {
    path: StepPath,
    result: Arc<ToolResult>,
    duration_ms: u64,
}

impl ToolRun {
    async fn run(self) -> ToolEnded {
        let Self { plan, scopes, cx, call } = self;
        let began = cx.now();
        let tool = plan.tools.get(&*call.name);
        let content = plan.runtime.traces_content();
        let span = telemetry::tool_span(&call, tool.map(|tool| &**tool.definition()), content);
        let result = match tool {
            Some(tool) => invoke(&**tool, &cx, &call, &scopes).instrument(span.clone()).await,
            None => not_found(&call, plan.tool_names()),
        };
        telemetry::record_tool(&span, &result, content);
        let duration_ms = u64::try_from(cx.now().since(began).as_millis()).unwrap_or(u64::MAX);
        ToolEnded { path: cx.path().clone(), result: Arc::new(result), duration_ms }
    }
}

/// An answer whose tool calls all have an id and none has another's: results are told apart by it.
fn with_call_ids(response: ModelResponse, turn: u32) -> ModelResponse {
    let ids: Vec<&str> = response.message.tool_calls().map(|call| call.id.as_str()).collect();
    let unique = ids.iter().enumerate().all(|(at, id)| !id.is_empty() && !ids[..at].contains(id));
    if unique {
        return response;
    }
    let mut calls = 0;
    let parts = response.message.parts().iter().map(|part| match part {
        Part::ToolCall(call) => {
            calls += 1;
            Part::ToolCall(Arc::new(ToolCall { id: format!("call_{turn}_{calls}"), ..ToolCall::clone(call) }))
        }
        other => other.clone(),
    });
    let message = Message::new(response.message.role(), parts.collect::<Vec<_>>());
    ModelResponse { message: Arc::new(message), ..response }
}
