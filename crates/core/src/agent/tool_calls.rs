//! The tool calls of a turn. They are executed concurrently up to a limit, each is recorded before
//! it starts and after it ends, and middleware hooks wrap it.
//!
//! `tool/execution/` makes a call, `tool/call_record.rs` creates the records, and
//! `middleware/tool_hooks.rs` calls the hooks.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use agentflow_schema::text::panic_text;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt, TryFutureExt};

use super::asking::{AdmittedCall, CallQueue, Word};
use super::driver::Run;
use super::large_outputs::LargeOutputs;
use super::machine::{PendingTool, Refused, closed};
use super::plan::{Plan, TurnTools};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::ANSWER_TOOL;
use crate::future::BoxFuture;
use crate::message::{ToolCall, ToolResult, ToolStatus};
use crate::middleware::{HookedCall, HookedResult, ToolHooks, ToolStep};
use crate::path::StepPath;
use crate::run::Around;
use crate::time::Timestamp;
use crate::tool::{
    CallSite, Effects, Executed, JsonBody, RecordedOutcome, RefusedCall, ToolExecution, ToolPolicy,
    began, describe_writes, ended, is_granted, millis_since, not_found,
};

impl Run {
    /// Replaces the model's tool name in an error with the catalogue name, which people know.
    pub(super) fn for_people(&self, error: Error) -> Error {
        let Error::ToolFailures { failures, tool, status, message } = error else { return error };
        let known = self.offered.tools.get(&*tool);
        let tool = known.map_or(tool, |known| known.catalogue_name().to_string());
        Error::ToolFailures { failures, tool, status, message }
    }

    /// Executes the tool calls of a turn, at most
    /// [`Limits::max_parallel_tools`](super::Limits::max_parallel_tools) at once. State for hooks
    /// is boxed.
    pub(super) async fn call_tools(&mut self, tools: Vec<PendingTool>) -> Result<()> {
        let at_once = self.machine.limits().max_parallel_tools.max(1);
        let mut calls = CallQueue::new(tools);
        let mut running = Running::default();
        let mut pace = Pace::default();
        let hooks = ToolHooks::among(&self.hooks);
        loop {
            // A call that waits for a person does not count towards the limit.
            while running.len() - calls.asking < at_once
                && let Some(call) = calls.next()
            {
                if pace.next().await {
                    self.moment = None;
                }
                if let Some(question) = self.asks(&call) {
                    calls.asking += 1;
                    running.push(question?);
                } else if let Some(hooks) = hooks.as_ref().filter(|_| self.has_hooks_around(&call))
                {
                    let AdmittedCall { tool, agreed, given } = call;
                    let step = self.tool_step(tool);
                    let ready = move |hooked| {
                        Stage::Ready(ReadyCall { hooked: Box::new(hooked), agreed, given })
                    };
                    running.push(Box::pin(hooks.clone().before(step).map_ok(ready)));
                } else if let Some(call) = self.start_tool(call) {
                    running.push(match self.plan.large_outputs {
                        None => Box::pin(call.run(None, None).map_ok(Stage::Ended)),
                        Some(large) => Box::pin(call.run_and_put_away(large).map_ok(Stage::Ended)),
                    });
                }
            }
            self.moment = None;
            let next = match calls.asking > 0 && calls.asking == running.len() {
                false => running.next().await,
                // Only questions are open and no call is executing: a drained run can stop here.
                true => {
                    let shared = self.shared();
                    tokio::select! {
                        biased;
                        next = running.next() => next,
                        () = shared.until_drained() => return self.leave().await.map(drop),
                    }
                }
            };
            match next.transpose()? {
                Some(Stage::Answered(answered)) => {
                    calls.asking -= 1;
                    let (tool, word) = *answered;
                    if let Some(call) = self.answered(tool, word) {
                        calls.agree(call);
                    }
                }
                Some(Stage::Ready(ready)) => {
                    if let Some(call) = self.start_hooked(ready) {
                        running.push(call);
                    }
                }
                Some(Stage::Ended(ended)) => self.end_tool(ended)?,
                None if calls.is_empty() => return Ok(()),
                None => {}
            }
        }
    }

    /// `true` if middleware sees a call. It does not see calls that must not be executed, the
    /// agent's answer, or handoffs.
    fn has_hooks_around(&self, AdmittedCall { tool, agreed, .. }: &AdmittedCall) -> bool {
        let answers = || self.plan.output.as_ref().is_some_and(|output| output.rule.by_tool);
        let of_name = self.offered.tools.get(&*tool.call.name);
        let refused =
            || of_name.is_some_and(|of_name| !is_granted(of_name.definition(), &self.scopes));
        let refused = || !agreed && refused();
        let of_run =
            (tool.call.name == ANSWER_TOOL && answers()) || self.is_transfer(&tool.call.name);
        tool.refused.is_none() && !of_run && !refused()
    }

    fn tool_step(&self, tool: PendingTool) -> ToolStep {
        let definition =
            self.offered.tools.get(&*tool.call.name).map(|tool| Arc::clone(tool.definition()));
        let agent = Some(Arc::clone(&self.plan.name));
        ToolStep::new(tool.call, definition, agent, self.step_context(&tool.path))
    }

    /// Records the start of a call after its hooks on the way in, and returns the call with the
    /// hooks on the way out.
    fn start_hooked(
        &mut self,
        ReadyCall { mut hooked, agreed, given: by_person }: ReadyCall,
    ) -> Option<Call> {
        let path = hooked.step.context().path().clone();
        let (call, given) = (hooked.call(), by_person.or_else(|| hooked.given()));
        let answered = hooked.answer.take();
        let call = match answered.is_some() {
            true => {
                // A hook provided the result, so the tool's policy does not apply.
                let now = self.segment.shared.now();
                self.record(path.clone(), began(Arc::clone(&call), None, given));
                self.running(path, call, false, Some(now))
            }
            false => {
                let tool = PendingTool { path, call, refused: None };
                self.start_tool(AdmittedCall { tool, agreed, given })?
            }
        };
        Some(Box::pin(call.run_hooked(hooked, answered, self.plan.large_outputs)))
    }

    /// Records the start of a call. If the call must not be executed, records its result and
    /// returns `None`.
    fn start_tool(
        &mut self,
        AdmittedCall { tool, agreed, given }: AdmittedCall,
    ) -> Option<RunningToolCall> {
        if let Some(mut result) = tool.refusal() {
            if tool.refused == Some(Refused::Interrupted) {
                result.output += &describe_writes(&self.segment.shared, &tool.path);
            }
            if tool.refused != Some(Refused::Interrupted) {
                self.record(tool.path.clone(), began(Arc::clone(&tool.call), None, None));
            }
            let result = Arc::new(result);
            self.segment.shared.close_below(&tool.path, "the tool was interrupted");
            self.record(tool.path, ended(RecordedOutcome::new(result), 0));
            return None;
        }
        let PendingTool { path, call, refused: _ } = tool;
        // A tool that is not offered or not granted is not executed, so its call has no effects.
        let without = ToolPolicy::default().effects(Effects::None);
        let policy = match self.offered.tools.get(&*call.name).map(|tool| tool.definition()) {
            Some(tool) => (agreed || is_granted(tool, &self.scopes)).then_some(&tool.policy),
            None => Some(&without),
        };
        // A call that waited for a person continues, so its start is recorded already.
        let begins = (!self.machine.asks(&path)).then(|| began(Arc::clone(&call), policy, given));
        let began = begins.map(|begins| {
            let now = self.moment();
            self.record_at(now, path.clone(), begins);
            now
        });
        Some(self.running(path, call, agreed, began))
    }

    /// Creates the execution of a call whose start is recorded.
    fn running(
        &self,
        path: StepPath,
        call: Arc<ToolCall>,
        agreed: bool,
        began: Option<Timestamp>,
    ) -> RunningToolCall {
        // The approval is valid for this call only.
        let scopes = match agreed {
            false => Arc::clone(&self.scopes),
            true => self
                .scopes
                .iter()
                .cloned()
                .chain([format!("approve:{}", call.name).into()])
                .collect(),
        };
        RunningToolCall {
            plan: Arc::clone(&self.plan),
            offered: Arc::clone(&self.offered),
            scopes,
            cx: Context::with_grants(
                self.shared(),
                path,
                self.resources.clone(),
                Arc::clone(&self.scopes),
            ),
            call,
            began,
        }
    }

    /// Records the result of a tool.
    ///
    /// # Errors
    /// [`Error::NestingLimit`] if the tool failed because of it. A model that received this error
    /// would call the tool again, at every level.
    fn end_tool(&mut self, call: EndedToolCall) -> Result<()> {
        let EndedToolCall { path, result, took, answered_by, too_deep } = call;
        let now = self.segment.shared.now();
        // Nested steps that are still open get their end first. Afterwards the clock has to be read
        // again, to keep the order of the times.
        let at = if self.segment.shared.close_below(&path, "the tool has ended") {
            self.segment.shared.now()
        } else {
            now
        };
        let too_deep = too_deep && !result.status.is_success();
        let result = self.check_saved_size(&path, result);
        let saved = self.saved_by_call(&path, result.status.is_success());
        let outcome = RecordedOutcome { answered_by, saved, ..RecordedOutcome::new(result) };
        self.record_at(at, path, ended(outcome, took.millis(|| now)));
        self.moment = Some(at);
        if too_deep {
            Err(Error::NestingLimit { depth: self.segment.shared.host.max_nesting })
        } else {
            Ok(())
        }
    }
}

/// A stage of a tool call: waiting for an answer, for hooks, or for the tool.
pub(super) type Call = BoxFuture<'static, Result<Stage>>;

/// The running calls of a turn. Most turns have a single call, which needs no set.
#[derive(Default)]
struct Running {
    only: Option<Call>,
    /// All calls, once there are at least two.
    many: Option<FuturesUnordered<Call>>,
}

impl Running {
    fn len(&self) -> usize {
        self.many.as_ref().map_or(usize::from(self.only.is_some()), FuturesUnordered::len)
    }

    fn push(&mut self, call: Call) {
        match (&mut self.many, self.only.take()) {
            (Some(many), _) => many.push(call),
            (None, None) => self.only = Some(call),
            (None, Some(first)) => self.many = Some([first, call].into_iter().collect()),
        }
    }

    /// Waits for the next stage of any call. Returns `None` if there are no calls.
    async fn next(&mut self) -> Option<Result<Stage>> {
        if let Some(many) = &mut self.many {
            return many.next().await;
        }
        let stage = self.only.as_mut()?.await;
        self.only = None;
        Some(stage)
    }
}

/// A call after its hooks on the way in.
pub(super) struct ReadyCall {
    hooked: Box<HookedCall>,
    /// `true` if a person approved the call.
    agreed: bool,
    /// The model's original arguments, if the approver changed them.
    given: Option<Arc<str>>,
}

/// Progress of a tool call.
pub(super) enum Stage {
    /// A person has answered the question about the call.
    Answered(Box<(PendingTool, Word)>),
    Ready(ReadyCall),
    Ended(EndedToolCall),
}

/// Yields to the scheduler after every 16 calls, so that the run's time limit and cancellation are
/// checked although the calls of a turn never wait.
#[derive(Default)]
struct Pace(u8);

impl Pace {
    /// Returns `true` if it yielded.
    async fn next(&mut self) -> bool {
        self.0 = (self.0 + 1) % 16;
        if self.0 == 0 {
            tokio::task::yield_now().await;
        }
        self.0 == 0
    }
}

/// A tool call that has started.
struct RunningToolCall {
    plan: Arc<Plan>,
    offered: Arc<TurnTools>,
    scopes: Arc<[Arc<str>]>,
    cx: Context,
    call: Arc<ToolCall>,
    /// Time of the recorded start. `None` if the call continues an earlier one.
    began: Option<Timestamp>,
}

pub(super) struct EndedToolCall {
    path: StepPath,
    result: Arc<ToolResult>,
    took: CallDuration,
    answered_by: Option<Arc<str>>,
    /// `true` if a nested call was refused because of the nesting limit.
    too_deep: bool,
}

/// Duration of a call.
#[derive(Clone, Copy)]
enum CallDuration {
    /// Start of a call that ends now.
    Since(Timestamp),
    Millis(u64),
}

impl CallDuration {
    fn millis(self, now: impl FnOnce() -> Timestamp) -> u64 {
        match self {
            Self::Since(began) => millis_since(began, now()),
            Self::Millis(millis) => millis,
        }
    }
}

impl RunningToolCall {
    /// Executes the call and saves its result if it is large.
    async fn run_and_put_away(self, large: LargeOutputs) -> Result<EndedToolCall> {
        let cx = self.cx.clone();
        let ended = self.run(None, None).await?;
        let took = CallDuration::Millis(ended.took.millis(|| cx.now()));
        Ok(EndedToolCall { result: large.save_if_large(&cx, ended.result).await, took, ..ended })
    }

    /// Executes the call with its hooks on the way out. `answered` is the result of a hook on the
    /// way in.
    async fn run_hooked(
        self,
        hooked: Box<HookedCall>,
        answered: Option<HookedResult>,
        large: Option<LargeOutputs>,
    ) -> Result<Stage> {
        let cx = self.cx.clone();
        let mut ended = self.run(Some(&hooked), answered).await?;
        ended.took = CallDuration::Millis(ended.took.millis(|| cx.now()));
        if let Some(large) = large {
            ended.result = large.save_if_large(&cx, ended.result).await;
        }
        Ok(Stage::Ended(ended))
    }

    async fn run(
        self,
        hooked: Option<&HookedCall>,
        answered: Option<HookedResult>,
    ) -> Result<EndedToolCall> {
        let Self { plan, offered, scopes, cx, call, began } = self;
        let since = match began {
            // Without a store the recorded time is still current. With a store, the start must be
            // committed before the tool has an effect.
            Some(began) if !cx.run().log.is_durable() => began,
            _ => {
                cx.run().log.commit().await?;
                cx.now()
            }
        };
        let tool = offered.tools.get(&*call.name);
        // An answer larger than the tool's own limit can be saved as an artifact.
        let room = plan.large_outputs.and_then(|_| LargeOutputs::max_size(&call.name));
        let execution = ToolExecution {
            definition: tool.map(|tool| tool.definition()),
            room: room.unwrap_or_default(),
            ..ToolExecution::at(&cx, CallSite::Agent)
        };
        let executed = async {
            match tool {
                Some(tool) => {
                    let body = JsonBody::new(&**tool, &scopes, CallSite::Agent);
                    execution.run(&call, false, body, hooked, answered).await
                }
                None => {
                    let unknown = RefusedCall(not_found(&call, offered.names()));
                    execution.run(&call, false, unknown, hooked, answered).await
                }
            }
        };
        // The future of a call that timed out can panic when it is dropped.
        let executed = AssertUnwindSafe(executed).catch_unwind();
        let (executed, too_deep) = Around::tool_call(cx.depth(), pin!(Some(executed))).await;
        let (result, answered_by) = match executed {
            Ok(Executed { hook_error: Some(error), .. }) => return Err(error),
            Ok(Executed { outcome, .. }) => (outcome.result, outcome.answered_by),
            Err(panic) => {
                let problem =
                    format!("the tool panicked as it was dropped: {}", panic_text(&*panic));
                (Arc::new(closed(&call, ToolStatus::Panicked, &problem)), None)
            }
        };
        let path = cx.path().clone();
        Ok(EndedToolCall { path, result, took: CallDuration::Since(since), answered_by, too_deep })
    }
}
