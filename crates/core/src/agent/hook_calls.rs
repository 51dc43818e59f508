//! Calls the middleware hooks of a run and its agent. `model_call.rs` and `tool_calls.rs` call the
//! hooks of their steps.
//!
//! Changes and answers of hooks are recorded as if the agent, the model or the tool had made them,
//! with the name of the middleware. The machine does not depend on hooks.

use std::pin::pin;
use std::sync::Arc;

use super::driver::Run;
use super::plan::Plan;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::AgentCompleted;
use crate::message::Role;
use crate::middleware::{self, AgentStep, Flow, Middleware, RunHooks};
use crate::model::{StopReason, Usage};
use crate::path::StepPath;
use crate::run::{RunEnd, RunShared, unless_cancelled};

/// The middleware of an agent in a run, outermost first. Usually empty.
pub(super) type HookChain = Arc<[Arc<dyn Middleware>]>;

/// Combines the middleware of the runtime, the agent and the request, in this order.
pub(super) fn hooks_of(
    plan: &Plan,
    shared: &RunShared,
    of_request: &[Arc<dyn Middleware>],
) -> HookChain {
    let (run, own) = (middleware::of_host(&shared.host), &plan.middleware);
    match (run.is_empty(), own.is_empty(), of_request.is_empty()) {
        (true, _, true) => Arc::clone(own),
        (false, true, true) => run,
        _ => run.iter().chain(own.iter()).chain(of_request).cloned().collect(),
    }
}

impl Run {
    /// Returns the hooks that wrap the run, if this is a top-level run with middleware.
    pub(super) fn around_run(&self) -> Option<RunHooks> {
        let is_run = self.segment.is_run() && !self.first_hooks().is_empty();
        is_run.then(|| RunHooks::for_run(&self.first_plan().name, &self.segment.shared)).flatten()
    }

    pub(super) fn step_context(&self, path: &StepPath) -> Context {
        Context::new(self.shared(), path.clone(), self.resources.clone()).granted(&self.scopes)
    }

    /// Calls the hooks before the run and the agent. Returns the end of the run if a hook provided
    /// the answer.
    pub(super) async fn before_agent(&mut self) -> Result<Option<RunEnd>> {
        if let Some(around) = self.around_run() {
            around.before().await?;
        }
        // `pending` is empty for a resumed agent: its start is recorded, and the hooks were called
        // before that.
        let Some(started) = &self.pending else { return Ok(None) };
        let mut step = AgentStep {
            conversation: started.request(),
            agent: Arc::clone(&self.plan.name),
            cx: self.step_context(&self.segment.base).of_hooks(),
        };
        let hooks = Arc::clone(&self.hooks);
        for (depth, hook) in hooks.iter().enumerate() {
            if let Flow::Return(message) = hook.before_agent(&mut step).await? {
                self.begin_with(step);
                Box::pin(self.begin_in_session()).await?;
                let mut completed =
                    AgentCompleted::new(Arc::new(message), StopReason::Stop, 0, Usage::default());
                completed.answered_by = Some(hook.name().into());
                let completed = self.after_agent(depth, Arc::new(completed)).await?;
                return self.completed(completed).map(Some);
            }
        }
        self.begin_with(step);
        match self.session.is_some() {
            true => Box::pin(self.begin_in_session()).await?,
            false => self.record_start(),
        }
        Ok(None)
    }

    fn begin_with(&mut self, step: AgentStep) {
        let Some(started) = &mut self.pending else { return };
        let asked = started.request();
        started.given = (asked != step.conversation).then_some(asked);
        // Hooks receive the instructions as the first message. A hook may have changed or removed
        // it.
        let messages = step.conversation.messages();
        match messages.split_first() {
            Some((first, rest))
                if started.instructions.is_some() && first.role() == Role::System =>
            {
                started.instructions = Some(Arc::clone(first));
                started.input = rest.iter().map(Arc::clone).collect();
            }
            _ => (started.instructions, started.input) = (None, step.conversation),
        }
    }

    /// Returns true if hooks may replace an error with an answer. The end must not be recorded yet,
    /// and the error must not be final.
    pub(super) fn may_fall_back(&self, error: &Error) -> bool {
        let is_final = matches!(
            error,
            Error::Store(_) | Error::Lost { .. } | Error::Draining | Error::Cancelled { .. }
        );
        self.segment.is_open() && !self.first_hooks().is_empty() && !is_final
    }

    /// Asks the hooks, innermost first, for an answer that replaces an error. Returns `None` if the
    /// run is cancelled meanwhile.
    pub(super) async fn fallback(&mut self, error: Error) -> Option<Result<RunEnd>> {
        self.close_steps("the agent failed");
        let (shared, base) = (self.shared(), self.segment.base.clone());
        let asked = pin!(self.fallback_of_hooks(error));
        unless_cancelled(&shared, &base, asked).await
    }

    async fn fallback_of_hooks(&mut self, error: Error) -> Result<RunEnd> {
        let step = AgentStep {
            conversation: self.machine.request().clone(),
            agent: Arc::clone(&self.first_plan().name),
            cx: self.step_context(&self.segment.base).of_hooks(),
        };
        let hooks = Arc::clone(self.first_hooks());
        for (depth, hook) in hooks.iter().enumerate().rev() {
            let Flow::Return(message) = hook.on_agent_error(&step, &error).await? else { continue };
            if self.pending.is_some() {
                self.record_start();
            }
            let (turn, usage) = (self.machine.turn(), self.machine.usage());
            let mut completed =
                AgentCompleted::new(Arc::new(message), StopReason::Stop, turn, usage);
            completed.answered_by = Some(hook.name().into());
            let completed = self.after_agent(depth, Arc::new(completed)).await?;
            return self.completed(completed);
        }
        Err(error)
    }

    /// Calls the hooks after the agent, for the outer `depth` layers.
    pub(super) async fn after_agent(
        &self,
        depth: usize,
        mut completed: Arc<AgentCompleted>,
    ) -> Result<Arc<AgentCompleted>> {
        let step = AgentStep {
            conversation: self.machine.request().clone(),
            agent: Arc::clone(&self.first_plan().name),
            cx: self.step_context(&self.segment.base).of_hooks(),
        };
        for hook in self.first_hooks()[..depth].iter().rev() {
            hook.after_agent(&step, Arc::make_mut(&mut completed)).await?;
        }
        Ok(completed)
    }
}
