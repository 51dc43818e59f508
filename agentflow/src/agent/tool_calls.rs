//! The tool calls of a turn: begun within the limit of calls at once, each recorded before it begins and when it ends.
//!
//! What a tool's policy says is kept by `tool/invoke.rs`, not here.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tracing::Instrument;

use super::driver::Run;
use super::machine::{PendingTool, Refused, closed};
use super::plan::Plan;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::message::{ToolCall, ToolResult, ToolStatus};
use crate::path::StepPath;
use crate::run::Around;
use crate::telemetry;
use crate::text::panic_text;
use crate::tool::{Effects, invoke, not_found};

impl Run {
    /// The tool calls of a turn, at most so many at once as the limit says.
    pub(super) async fn call_tools(&mut self, tools: Vec<PendingTool>) -> Result<()> {
        let at_once = self.plan.limits.max_parallel_tools.max(1);
        let mut waiting = tools.into_iter();
        if waiting.len() == 1 {
            for tool in waiting {
                if let Some(call) = self.start_tool(tool) {
                    // Boxed, so that a run that waits for its model does not hold the room of a tool call.
                    let ended = Box::pin(call.run()).await?;
                    self.end_tool(ended)?;
                }
            }
            return Ok(());
        }
        let mut running = FuturesUnordered::new();
        let mut pace = Pace::default();
        loop {
            while running.len() < at_once
                && let Some(tool) = waiting.next()
            {
                pace.next().await;
                if let Some(call) = self.start_tool(tool) {
                    running.push(call.run());
                }
            }
            match running.next().await {
                Some(ended) => self.end_tool(ended?)?,
                None if waiting.len() == 0 => return Ok(()),
                None => {}
            }
        }
    }

    /// Records that a call begins. `None` when it must not run: then its result is recorded already.
    pub(super) fn start_tool(&mut self, tool: PendingTool) -> Option<ToolRun> {
        if let Some(result) = tool.refusal() {
            if tool.refused != Some(Refused::Interrupted) {
                let call = Arc::clone(&tool.call);
                let started = EventKind::ToolStarted { call, effects: Effects::None, idempotent: true };
                self.record(tool.path.clone(), started);
            }
            let result = Arc::new(result);
            self.shared.close_below(&tool.path, "the tool was interrupted");
            self.record(tool.path, EventKind::ToolFailed { result, duration_ms: 0, answered_by: None });
            return None;
        }
        let PendingTool { path, call, refused: _ } = tool;
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
            cx: Context::new(self.shared(), path, self.plan.resources.clone()),
            call,
        })
    }

    /// Records a tool's answer.
    ///
    /// # Errors
    /// [`Error::NestingLimit`] when it failed for that: a model that sees it would call the tool again, at every level.
    pub(super) fn end_tool(&mut self, ended: ToolEnded) -> Result<()> {
        let ToolEnded { path, result, duration_ms, answered_by, too_deep } = ended;
        self.shared.close_below(&path, "the tool has ended");
        let too_deep = too_deep && !result.status.is_success();
        let kind = match result.status {
            ToolStatus::Success => EventKind::ToolCompleted { result, duration_ms, answered_by },
            _ => EventKind::ToolFailed { result, duration_ms, answered_by },
        };
        self.record(path, kind);
        if too_deep { Err(Error::NestingLimit { depth: self.shared.host.max_nesting }) } else { Ok(()) }
    }
}

/// Lets the scheduler have its turn now and then, and with it the run's time limit and cancellation: the calls of a
/// turn may be many and never wait.
#[derive(Default)]
pub(super) struct Pace(u8);

impl Pace {
    pub(super) async fn next(&mut self) {
        self.0 = (self.0 + 1) % 16;
        if self.0 == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// A tool call that has begun.
pub(super) struct ToolRun {
    plan: Arc<Plan>,
    scopes: Arc<[Arc<str>]>,
    cx: Context,
    call: Arc<ToolCall>,
}

pub(super) struct ToolEnded {
    path: StepPath,
    pub(super) result: Arc<ToolResult>,
    duration_ms: u64,
    pub(super) answered_by: Option<Arc<str>>,
    /// Something in it was refused because it was nested too deep.
    too_deep: bool,
}

impl ToolEnded {
    /// A call that its tool has nothing to do with.
    pub(super) fn answered(path: StepPath, result: ToolResult, by: Arc<str>) -> Self {
        Self { path, result: Arc::new(result), duration_ms: 0, answered_by: Some(by), too_deep: false }
    }
}

impl ToolRun {
    pub(super) async fn run(self) -> Result<ToolEnded> {
        let Self { plan, scopes, cx, call } = self;
        cx.run().log.commit().await?;
        let began = cx.now();
        let tool = plan.tools.get(&*call.name);
        let content = plan.host.trace_content && cx.host().redactor.is_none();
        let span = telemetry::tool_span(&call, tool.map(|tool| &**tool.definition()), content);
        let (result, too_deep) = match tool {
            Some(tool) => {
                // One that took too long can panic as it is dropped.
                let invoked = AssertUnwindSafe(invoke(&**tool, &cx, &call, &scopes)).catch_unwind();
                let called = || {
                    let called = invoked.map(|invoked| {
                        invoked.unwrap_or_else(|panic| {
                            let problem = format!("the tool panicked as it was dropped: {}", panic_text(&*panic));
                            closed(&call, ToolStatus::Panicked, &problem)
                        })
                    });
                    Box::pin(called.instrument(span.clone()))
                };
                Around::tool_call(cx.depth(), called()).await
            }
            None => (not_found(&call, plan.tool_names()), false),
        };
        telemetry::record_tool(&span, &result, content);
        let duration_ms = u64::try_from(cx.now().since(began).as_millis()).unwrap_or(u64::MAX);
        Ok(ToolEnded { path: cx.path().clone(), result: Arc::new(result), duration_ms, answered_by: None, too_deep })
    }
}
