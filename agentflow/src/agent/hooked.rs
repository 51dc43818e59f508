//! The driver's steps with middleware around them: hooks on the way in, the step itself, hooks on the way out.
//!
//! Everything that a hook changes or answers is recorded as if the model, the tool or the agent had done it, with the name
//! of who did. The machine knows no hooks.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::driver::{Hooks, Run, with_call_ids};
use super::machine::PendingTool;
use super::plan::Plan;
use super::tool_calls::{Pace, ToolEnded, ToolRun};
use crate::context::Context;
use crate::error::{Error, Failure, Result};
use crate::event::{ANSWER_TOOL, AgentCompleted, EventKind, ModelDelta};
use crate::message::{Role, ToolCall, ToolResult};
use crate::middleware::{self, AgentStep, Flow, ModelStep, Place, Recovery, RunInfo, ToolStep};
use crate::model::{BoxFuture, Model, ModelError, ModelResponse, StopReason, Usage};
use crate::path::StepPath;
use crate::run::{RunEnd, RunShared};
use crate::tool::Effects;

/// What stands around an agent in a run: the run's middleware, then the agent's own.
pub(super) fn hooks_of(plan: &Plan, shared: &RunShared) -> Option<Hooks> {
    let (run, own) = (middleware::of_host(&shared.host), &plan.middleware);
    match (run.is_empty(), own.is_empty()) {
        (true, true) => None,
        (false, true) => Some(run),
        (true, false) => Some(Arc::clone(own)),
        (false, false) => Some(run.iter().chain(own.iter()).cloned().collect()),
    }
}

impl Run {
    fn hooks(&self) -> Hooks {
        self.hooks.clone().unwrap_or_default()
    }

    fn run_info(&self) -> RunInfo {
        RunInfo::new(Arc::clone(&self.plan.name), Arc::clone(&self.shared))
    }

    fn step_context(&self, path: &StepPath) -> Context {
        Context::new(Arc::clone(&self.shared), path.clone(), self.plan.resources.clone())
    }

    /// The hooks before the run and the agent. The end, when one of them answered.
    pub(super) async fn before_agent(&mut self) -> Result<Option<RunEnd>> {
        if self.base.is_root() {
            let info = self.run_info();
            for hook in middleware::of_host(&self.shared.host).iter() {
                hook.before_run(&info).await?;
            }
        }
        // Of an agent that is taken up the journal has what it began with.
        let Some(started) = &self.pending else { return Ok(None) };
        let mut step = AgentStep {
            conversation: started.request(),
            agent: Arc::clone(&self.plan.name),
            cx: self.step_context(&self.base),
        };
        for (depth, hook) in self.hooks().iter().enumerate() {
            if let Flow::Return(message) = hook.before_agent(&mut step).await? {
                self.begin_with(step);
                let mut completed = AgentCompleted::new(Arc::new(message), StopReason::Stop, 0, Usage::default());
                completed.answered_by = Some(hook.name().into());
                let completed = self.after_agent(depth, Arc::new(completed)).await?;
                return Ok(Some(self.completed(completed)));
            }
        }
        self.begin_with(step);
        self.record_start();
        Ok(None)
    }

    fn begin_with(&mut self, step: AgentStep) {
        let Some(started) = &mut self.pending else { return };
        // Hooks see the instructions in front; one may have changed them or taken them away.
        let messages = step.conversation.messages();
        match messages.split_first() {
            Some((first, rest)) if started.instructions.is_some() && first.role() == Role::System => {
                started.instructions = Some(Arc::clone(first));
                started.input = rest.iter().map(Arc::clone).collect();
            }
            _ => (started.instructions, started.input) = (None, step.conversation),
        }
    }

    /// The hooks after the agent, of the outer `depth` layers.
    pub(super) async fn after_agent(
        &self,
        depth: usize,
        mut completed: Arc<AgentCompleted>,
    ) -> Result<Arc<AgentCompleted>> {
        let step = AgentStep {
            conversation: self.machine.request().clone(),
            agent: Arc::clone(&self.plan.name),
            cx: self.step_context(&self.base),
        };
        for hook in self.hooks()[..depth].iter().rev() {
            hook.after_agent(&step, Arc::make_mut(&mut completed)).await?;
        }
        Ok(completed)
    }

    /// The hooks after the run.
    pub(super) async fn after_run(&self, ended: &Result<RunEnd>) {
        if self.base.is_root() {
            let info = self.run_info();
            for hook in middleware::of_host(&self.shared.host).iter().rev() {
                hook.after_run(&info, ended.as_ref().map(drop)).await;
            }
        }
    }

    /// One model call with all its attempts; what each came to is recorded.
    pub(super) async fn call_model_hooked(&mut self, path: &StepPath) -> Result<Result<()>> {
        let mut model = Arc::clone(&self.plan.model);
        loop {
            // What the attempt holds in budgets is given back when its end is recorded.
            let mut places = Vec::new();
            let attempt = self.attempt(path, &mut model, &mut places).await?;
            match attempt {
                Attempted::Answered(response) => {
                    self.record(path.clone(), EventKind::ModelCompleted(Arc::new(response)));
                    return Ok(Ok(()));
                }
                Attempted::Replaced { error, response } => {
                    self.record_retry(path, &error, Duration::ZERO);
                    self.record_model_start(path, &model);
                    self.record(path.clone(), EventKind::ModelCompleted(Arc::new(response)));
                    return Ok(Ok(()));
                }
                Attempted::Failed(error) => {
                    if let Some(after) = self.patience(&error) {
                        drop(places);
                        if self.wait_to_call_again(path, &error, after).await? {
                            continue;
                        }
                        return Ok(Ok(()));
                    }
                    self.record(path.clone(), EventKind::ModelFailed { error: Arc::new(Failure::from(&*error)) });
                    return Ok(Err(Error::Model(error)));
                }
                Attempted::Again { error, after } => {
                    drop(places);
                    if !self.wait_to_call_again(path, &error, after).await? {
                        return Ok(Ok(()));
                    }
                }
            }
        }
    }

    fn record_model_start(&mut self, path: &StepPath, model: &Arc<dyn Model>) {
        let info = model.info();
        let started = EventKind::ModelStarted { provider: Arc::clone(&info.provider), model: Arc::clone(&info.model) };
        self.record(path.clone(), started);
    }

    /// One attempt: the way in, the call, the way out. Its start is recorded, its outcome is not.
    async fn attempt(
        &mut self,
        path: &StepPath,
        model: &mut Arc<dyn Model>,
        places: &mut Vec<Place>,
    ) -> Result<Attempted> {
        let hooks = self.hooks();
        let mut step = ModelStep {
            request: self.model_request(),
            model: Arc::clone(model),
            agent: Arc::clone(&self.plan.name),
            cx: self.step_context(path),
            attempts: self.machine.attempts().to_vec(),
            typed: self.plan.output.is_some(),
            notes: Vec::new(),
            places: Vec::new(),
        };
        let mut depth = 0;
        let mut outcome = None;
        for hook in hooks.iter() {
            match hook.before_model(&mut step).await {
                Ok(Flow::Continue) => depth += 1,
                Ok(Flow::Return(response)) => {
                    outcome = Some(Ok(answered(response, hook.name(), self.machine.turn())));
                    break;
                }
                Err(Error::Model(error)) => {
                    outcome = Some(Err(error));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        places.append(&mut step.places);
        if outcome.is_none() {
            self.check_calls()?;
        }
        self.record_model_start(path, &step.model);
        self.commit().await?;
        let mut outcome = match outcome {
            Some(Ok(response)) => {
                self.show(path, &response);
                Ok(response)
            }
            Some(failed) => failed,
            None => self.ask_model(path, &step.model, step.request.clone()).await.map_err(Arc::new),
        };
        let mut failed = None;
        for hook in hooks[..depth].iter().rev() {
            match &mut outcome {
                Ok(response) => {
                    if let Err(error) = hook.after_model(&mut step, response).await {
                        match error {
                            Error::Model(error) => outcome = Err(error),
                            error => return self.ended_by(path, outcome, error),
                        }
                    }
                }
                Err(error) => match hook.on_model_error(&mut step, error).await {
                    Ok(Flow::Continue) => {}
                    Ok(Flow::Return(Recovery::Answer(response))) => {
                        failed = Some(Arc::clone(error));
                        outcome = Ok(answered(*response, hook.name(), self.machine.turn()));
                    }
                    Ok(Flow::Return(Recovery::Again { after })) => {
                        *model = Arc::clone(&step.model);
                        return Ok(Attempted::Again { error: Arc::clone(error), after });
                    }
                    Err(Error::Model(other)) => *error = other,
                    Err(error) => return self.ended_by(path, outcome, error),
                },
            }
        }
        *model = Arc::clone(&step.model);
        Ok(match (outcome, failed) {
            (Ok(response), None) => Attempted::Answered(response),
            (Ok(response), Some(error)) => Attempted::Replaced { error, response },
            (Err(error), _) => Attempted::Failed(error),
        })
    }

    /// Records what the call came to before a hook's error ends the run: it was made, and it cost something.
    fn ended_by(
        &mut self,
        path: &StepPath,
        outcome: Result<ModelResponse, Arc<ModelError>>,
        error: Error,
    ) -> Result<Attempted> {
        let kind = match outcome {
            Ok(response) => EventKind::ModelCompleted(Arc::new(response)),
            Err(failed) => EventKind::ModelFailed { error: Arc::new(Failure::from(&*failed)) },
        };
        self.record(path.clone(), kind);
        Err(error)
    }

    /// Shows an answer that no model gave as one piece, to those who read pieces.
    fn show(&self, path: &StepPath, response: &ModelResponse) {
        let text = response.text();
        if self.shared.log.wants_deltas() && !text.is_empty() {
            self.shared.log.delta(self.shared.now(), path, ModelDelta::Text(text.into_owned()));
        }
    }

    /// The tool calls of a turn, at most so many at once as the limit says.
    pub(super) async fn call_tools_hooked(&mut self, tools: Vec<PendingTool>) -> Result<()> {
        let at_once = self.plan.limits.max_parallel_tools.max(1);
        let hooks = self.hooks();
        let mut waiting = tools.into_iter();
        let mut pace = Pace::default();
        let mut running: FuturesUnordered<BoxFuture<'static, Result<Stage>>> = FuturesUnordered::new();
        loop {
            while running.len() < at_once
                && let Some(tool) = waiting.next()
            {
                let answers = self.plan.output.as_ref().is_some_and(|output| output.rule.by_tool);
                pace.next().await;
                if tool.refused.is_some() || answers && tool.call.name == ANSWER_TOOL {
                    if let Some(call) = self.start_tool(tool) {
                        running.push(Box::pin(async move { Ok(Stage::Ended(call.run().await?)) }));
                    }
                    continue;
                }
                running.push(Box::pin(before_tool(Arc::clone(&hooks), self.tool_step(tool))));
            }
            match running.next().await.transpose()? {
                Some(Stage::Ready { step, depth, answer }) => {
                    let hooks = Arc::clone(&hooks);
                    let path = step.cx.path().clone();
                    if let Some((result, by)) = answer {
                        let call = Arc::new(changed(&step));
                        self.record(
                            path.clone(),
                            EventKind::ToolStarted { call, effects: Effects::None, idempotent: true },
                        );
                        let ended = ToolEnded::answered(path, result, by);
                        running.push(Box::pin(after_tool(hooks, depth, step, Called::Answered(ended))));
                        continue;
                    }
                    let tool = PendingTool { path, call: Arc::new(changed(&step)), refused: None };
                    if let Some(call) = self.start_tool(tool) {
                        running.push(Box::pin(after_tool(hooks, depth, step, Called::Runs(call))));
                    }
                }
                Some(Stage::Ended(ended)) => self.end_tool(ended)?,
                None if waiting.len() == 0 => return Ok(()),
                None => {}
            }
        }
    }

    fn tool_step(&self, tool: PendingTool) -> ToolStep {
        let definition = self.plan.tools.get(&*tool.call.name).map(|tool| Arc::clone(tool.definition()));
        ToolStep {
            arguments: tool.call.arguments.clone(),
            definition,
            agent: Arc::clone(&self.plan.name),
            cx: self.step_context(&tool.path),
            call: tool.call,
        }
    }
}

/// What an attempt at a model call came to.
enum Attempted {
    Answered(ModelResponse),
    /// It failed, and middleware gave an answer.
    Replaced {
        error: Arc<ModelError>,
        response: ModelResponse,
    },
    Failed(Arc<ModelError>),
    Again {
        error: Arc<ModelError>,
        after: Duration,
    },
}

fn answered(response: ModelResponse, by: &str, turn: u32) -> ModelResponse {
    ModelResponse { answered_by: Some(by.into()), ..with_call_ids(response, turn) }
}

/// How far a tool call has come.
enum Stage {
    Ready { step: ToolStep, depth: usize, answer: Option<(ToolResult, Arc<str>)> },
    Ended(ToolEnded),
}

enum Called {
    Runs(ToolRun),
    Answered(ToolEnded),
}

/// What the tool is called with.
fn changed(step: &ToolStep) -> ToolCall {
    ToolCall { arguments: step.arguments.clone(), ..ToolCall::clone(&step.call) }
}

async fn before_tool(hooks: Hooks, mut step: ToolStep) -> Result<Stage> {
    for (depth, hook) in hooks.iter().enumerate() {
        if let Flow::Return(result) = hook.before_tool(&mut step).await? {
            let result = of_call(result, &step.call);
            return Ok(Stage::Ready { step, depth, answer: Some((result, hook.name().into())) });
        }
    }
    Ok(Stage::Ready { step, depth: hooks.len(), answer: None })
}

async fn after_tool(hooks: Hooks, depth: usize, step: ToolStep, called: Called) -> Result<Stage> {
    let mut ended = match called {
        Called::Runs(call) => call.run().await?,
        Called::Answered(ended) => ended,
    };
    for hook in hooks[..depth].iter().rev() {
        if ended.result.status.is_success() {
            let result = Arc::make_mut(&mut ended.result);
            hook.after_tool(&step, result).await?;
            (result.call_id, result.name) = (step.call.id.clone(), step.call.name.clone());
        } else if let Flow::Return(result) = hook.on_tool_error(&step, &ended.result).await? {
            ended.result = Arc::new(of_call(result, &step.call));
            ended.answered_by = Some(hook.name().into());
        }
    }
    Ok(Stage::Ended(ended))
}

/// A result always answers the call that it is of.
fn of_call(result: ToolResult, call: &ToolCall) -> ToolResult {
    ToolResult { call_id: call.id.clone(), name: call.name.clone(), ..result }
}
