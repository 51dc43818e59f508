//! The tool calls of a turn: started within the limit of concurrent calls, each recorded before it begins and when it
//! ends, with the hooks of middleware around it.
//!
//! `tool/invoke.rs` enforces a tool's policy, `tool/call_record.rs` makes the records, and `middleware/tool_hooks.rs` calls
//! the hooks.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use agentflow_schema::text::panic_text;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt, TryFutureExt};
use tracing::Instrument;

use super::asking::{Admission, Admitted, Word};
use super::driver::Run;
use super::large_outputs::LargeOutputs;
use super::machine::{PendingTool, Refused, closed};
use super::plan::{Offered, Plan};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::ANSWER_TOOL;
use crate::future::BoxFuture;
use crate::message::{ToolCall, ToolResult, ToolStatus};
use crate::middleware::{HookedAnswer, HookedCall, ToolHooks, ToolStep};
use crate::path::StepPath;
use crate::run::{Around, unless_failed_as_cancelled};
use crate::telemetry;
use crate::time::Timestamp;
use crate::tool::{
    Effects, RecordedOutcome, SeenTo, ToolPolicy, began, ended, invoke_with_room, is_granted, millis_since, not_found,
    written_within,
};

impl Run {
    /// An error of this agent as a person reads it, who knows its tools by their names in the catalogue.
    pub(super) fn for_people(&self, error: Error) -> Error {
        let Error::ToolFailures { failures, tool, status, message } = error else { return error };
        let known = self.offered.tools.get(&*tool);
        let tool = known.map_or(tool, |known| known.catalogue_name().to_string());
        Error::ToolFailures { failures, tool, status, message }
    }

    /// The tool calls of a turn, at most so many at once as the limit says. What hooks need is boxed.
    pub(super) async fn call_tools(&mut self, tools: Vec<PendingTool>) -> Result<()> {
        let at_once = self.machine.limits().max_parallel_tools.max(1);
        let mut calls = Admission::of(tools);
        let mut running = Running::default();
        let mut pace = Pace::default();
        let hooks = ToolHooks::among(&self.hooks);
        loop {
            // A call that waits for a person is in nobody's way.
            while running.len() - calls.asking < at_once
                && let Some(call) = calls.next()
            {
                if pace.next().await {
                    self.moment = None;
                }
                if let Some(question) = self.asks(&call) {
                    calls.asking += 1;
                    running.push(question?);
                } else if let Some(hooks) = hooks.as_ref().filter(|_| self.has_hooks_around(&call)) {
                    let Admitted { tool, agreed, given } = call;
                    let step = self.tool_step(tool);
                    let ready = move |hooked| Stage::Ready(ReadyCall { hooked: Box::new(hooked), agreed, given });
                    running.push(Box::pin(hooks.clone().before(step).map_ok(ready)));
                } else if let Some(call) = self.start_tool(call) {
                    running.push(match self.plan.large_outputs {
                        None => Box::pin(call.run().map_ok(Stage::Ended)),
                        Some(large) => Box::pin(call.run_and_put_away(large).map_ok(Stage::Ended)),
                    });
                }
            }
            self.moment = None;
            let next = match calls.asking > 0 && calls.asking == running.len() {
                false => running.next().await,
                // Nothing of the turn is running here: a run that is drained stops.
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
                Some(Stage::Ended(ended)) => {
                    unless_failed_as_cancelled(&self.segment.shared, !ended.result.status.is_success()).await;
                    self.end_tool(ended)?;
                }
                None if calls.is_empty() => return Ok(()),
                None => {}
            }
        }
    }

    /// Whether middleware sees a call: none sees one that must not run, nor one that is the agent's answer or transfers
    /// the conversation.
    fn has_hooks_around(&self, Admitted { tool, agreed, .. }: &Admitted) -> bool {
        let answers = || self.plan.output.as_ref().is_some_and(|output| output.rule.by_tool);
        let of_name = self.offered.tools.get(&*tool.call.name);
        let refused = || of_name.is_some_and(|of_name| !is_granted(of_name.definition(), &self.scopes));
        let refused = || !agreed && refused();
        let of_run = (tool.call.name == ANSWER_TOOL && answers()) || self.is_transfer(&tool.call.name);
        tool.refused.is_none() && !of_run && !refused()
    }

    fn tool_step(&self, tool: PendingTool) -> ToolStep {
        let definition = self.offered.tools.get(&*tool.call.name).map(|tool| Arc::clone(tool.definition()));
        let agent = Some(Arc::clone(&self.plan.name));
        ToolStep::new(tool.call, definition, agent, self.step_context(&tool.path))
    }

    /// Records that a call begins which the hooks before it have seen, and gives it with the hooks after it.
    fn start_hooked(&mut self, ReadyCall { mut hooked, agreed, given: by_person }: ReadyCall) -> Option<Call> {
        let path = hooked.step.context().path().clone();
        let (call, given) = (hooked.call(), by_person.or_else(|| hooked.given()));
        let called = match hooked.answer.take() {
            Some(HookedAnswer { result, answered_by }) => {
                self.record(path.clone(), began(call, None, given));
                // The tool has nothing to do with it.
                Called::Answered(ToolEnded { path, result, took: Took::Millis(0), answered_by, too_deep: false })
            }
            None => {
                let tool = PendingTool { path, call, refused: None };
                Called::Runs(self.start_tool(Admitted { tool, agreed, given })?)
            }
        };
        Some(Box::pin(after_tool(hooked, called, self.plan.large_outputs)))
    }

    /// Records that a call begins. `None` when it must not run: then its result is recorded already.
    fn start_tool(&mut self, Admitted { tool, agreed, given }: Admitted) -> Option<ToolRun> {
        if let Some(mut result) = tool.refusal() {
            if tool.refused == Some(Refused::Interrupted) {
                result.output += &written_within(&self.segment.shared, &tool.path);
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
        // Of a tool that is not offered nothing is called.
        let without = ToolPolicy::default().effects(Effects::None);
        let policy = self.offered.tools.get(&*call.name).map_or(&without, |tool| &tool.definition().policy);
        // One that asked people continues.
        let begins = (!self.machine.asks(&path)).then(|| began(Arc::clone(&call), Some(policy), given));
        let began = begins.map(|begins| {
            let now = self.moment();
            self.record_at(now, path.clone(), begins);
            now
        });
        // Who agreed to a call agreed to that one.
        let scopes = match agreed {
            false => Arc::clone(&self.scopes),
            true => self.scopes.iter().cloned().chain([format!("approve:{}", call.name).into()]).collect(),
        };
        Some(ToolRun {
            plan: Arc::clone(&self.plan),
            offered: Arc::clone(&self.offered),
            scopes,
            cx: Context::with_grants(self.shared(), path, self.resources.clone(), Arc::clone(&self.scopes)),
            call,
            began,
        })
    }

    /// Records a tool's answer.
    ///
    /// # Errors
    /// [`Error::NestingLimit`] when it failed for that: a model that sees it would call the tool again, at every level.
    fn end_tool(&mut self, call: ToolEnded) -> Result<()> {
        let ToolEnded { path, result, took, answered_by, too_deep } = call;
        let now = self.segment.shared.now();
        let at =
            if self.segment.shared.close_below(&path, "the tool has ended") { self.segment.shared.now() } else { now };
        let too_deep = too_deep && !result.status.is_success();
        let result = self.within_saved(&path, result);
        let saved = self.saved_by_call(&path, result.status.is_success());
        let outcome = RecordedOutcome { answered_by, saved, ..RecordedOutcome::new(result) };
        self.record_at(at, path, ended(outcome, took.millis(|| now)));
        self.moment = Some(at);
        if too_deep { Err(Error::NestingLimit { depth: self.segment.shared.host.max_nesting }) } else { Ok(()) }
    }
}

/// What a turn waits for: a call, or the hooks before it.
pub(super) type Call = BoxFuture<'static, Result<Stage>>;

/// The calls of a turn that are running. Most turns have one, and one needs no set.
#[derive(Default)]
struct Running {
    only: Option<Call>,
    /// All of them, once there was a second one.
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

    /// What happens next in one of them; `None` when there is none.
    async fn next(&mut self) -> Option<Result<Stage>> {
        if let Some(many) = &mut self.many {
            return many.next().await;
        }
        let stage = self.only.as_mut()?.await;
        self.only = None;
        Some(stage)
    }
}

/// A call that the hooks before it have seen.
pub(super) struct ReadyCall {
    hooked: Box<HookedCall>,
    /// A person agreed to it.
    agreed: bool,
    /// The model's arguments, when that person changed them.
    given: Option<Arc<str>>,
}

/// How far a tool call has come.
pub(super) enum Stage {
    /// A person has answered the question about it.
    Answered(Box<(PendingTool, Word)>),
    Ready(ReadyCall),
    Ended(ToolEnded),
}

enum Called {
    Runs(ToolRun),
    Answered(ToolEnded),
}

/// The call itself, and the hooks on the way out.
async fn after_tool(hooked: Box<HookedCall>, called: Called, large: Option<LargeOutputs>) -> Result<Stage> {
    let mut ended = match called {
        Called::Runs(call) => call.run().await?,
        Called::Answered(ended) => ended,
    };
    ended.took = Took::Millis(ended.took.millis(|| hooked.step.context().now()));
    let mut answer = HookedAnswer { result: ended.result, answered_by: ended.answered_by };
    hooked.after(&mut answer).await?;
    (ended.result, ended.answered_by) = (answer.result, answer.answered_by);
    if let Some(large) = large {
        ended.result = large.put_away(hooked.step.context(), ended.result).await;
    }
    Ok(Stage::Ended(ended))
}

/// Lets the scheduler have its turn now and then, and with it the run's time limit and cancellation: the calls of a
/// turn may be many and never wait.
#[derive(Default)]
struct Pace(u8);

impl Pace {
    /// Whether it was the scheduler's turn.
    async fn next(&mut self) -> bool {
        self.0 = (self.0 + 1) % 16;
        if self.0 == 0 {
            tokio::task::yield_now().await;
        }
        self.0 == 0
    }
}

/// A tool call that has begun.
struct ToolRun {
    plan: Arc<Plan>,
    offered: Arc<Offered>,
    scopes: Arc<[Arc<str>]>,
    cx: Context,
    call: Arc<ToolCall>,
    /// When it was recorded that it begins, unless that is a while ago.
    began: Option<Timestamp>,
}

pub(super) struct ToolEnded {
    path: StepPath,
    result: Arc<ToolResult>,
    took: Took,
    answered_by: Option<Arc<str>>,
    /// Something in it was refused because it was nested too deep.
    too_deep: bool,
}

/// How long a call took.
#[derive(Clone, Copy)]
enum Took {
    /// It has ended this moment.
    Since(Timestamp),
    Millis(u64),
}

impl Took {
    fn millis(self, now: impl FnOnce() -> Timestamp) -> u64 {
        match self {
            Self::Since(began) => millis_since(began, now()),
            Self::Millis(millis) => millis,
        }
    }
}

impl ToolRun {
    /// The call, whose answer is saved when it is large.
    async fn run_and_put_away(self, large: LargeOutputs) -> Result<ToolEnded> {
        let cx = self.cx.clone();
        let ended = self.run().await?;
        let took = Took::Millis(ended.took.millis(|| cx.now()));
        Ok(ToolEnded { result: large.put_away(&cx, ended.result).await, took, ..ended })
    }

    async fn run(self) -> Result<ToolEnded> {
        let Self { plan, offered, scopes, cx, call, began } = self;
        let since = match began {
            Some(began) if !cx.run().log.is_durable() => began,
            _ => {
                cx.run().log.commit().await?;
                cx.now()
            }
        };
        let tool = offered.tools.get(&*call.name);
        let content = plan.host.trace_content && cx.host().redactor.is_none();
        let span = telemetry::tool_span(&call, tool.map(|tool| &**tool.definition()), cx.run(), content);
        let (result, too_deep) = match tool {
            Some(tool) => {
                // One that took too long can panic as it is dropped.
                let room = plan.large_outputs.and_then(|_| LargeOutputs::room_for(&call.name));
                let invoked = invoke_with_room(&**tool, &cx, &call, &scopes, SeenTo::Recorded, room);
                let invoked = AssertUnwindSafe(invoked).catch_unwind().instrument(span.clone());
                let (invoked, too_deep) = Around::tool_call(cx.depth(), pin!(Some(invoked))).await;
                let result = invoked.unwrap_or_else(|panic| {
                    let problem = format!("the tool panicked as it was dropped: {}", panic_text(&*panic));
                    closed(&call, ToolStatus::Panicked, &problem)
                });
                (result, too_deep)
            }
            None => (not_found(&call, offered.names()), false),
        };
        telemetry::record_tool(&span, &result, content);
        let took = Took::Since(since);
        Ok(ToolEnded { path: cx.path().clone(), result: Arc::new(result), took, answered_by: None, too_deep })
    }
}
