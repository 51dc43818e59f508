//! [`ToolHooks`]: calls the hooks of middleware before and after a tool call. Every caller of tools
//! uses it: an agent, a step of a workflow, a [`Registry`](crate::Registry).
//!
//! The module neither calls the tool nor records events.

use std::sync::Arc;

use super::{Flow, Middleware, RuntimeMiddleware, ToolStep};
use crate::error::Result;
use crate::message::{ToolCall, ToolResult};
use crate::run::Host;

/// The middleware with tool hooks, outermost first; never empty.
#[derive(Clone)]
pub(crate) struct ToolHooks(Arc<[Arc<dyn Middleware>]>);

/// A tool call whose `before_tool` hooks have run.
pub(crate) struct HookedCall {
    /// The call as the hooks see it. Its arguments are those that the hooks may have changed.
    pub(crate) step: ToolStep,
    /// The result, if a hook returned one instead of calling the tool.
    pub(crate) answer: Option<HookedResult>,
    hooks: ToolHooks,
    /// Number of layers, counted from the outermost, whose hooks run after the call.
    depth: usize,
}

/// The result of a call, as passed to the `after_tool` and `on_tool_error` hooks.
pub(crate) struct HookedResult {
    pub(crate) result: Arc<ToolResult>,
    /// Name of the middleware that provided the result instead of the tool.
    pub(crate) answered_by: Option<Arc<str>>,
}

impl ToolHooks {
    /// Selects the middleware with tool hooks. Returns `None` if no middleware has them.
    pub(crate) fn among(all: &[Arc<dyn Middleware>]) -> Option<Self> {
        // Most runs have none, so the list is not collected for them.
        let mut hooks = all.iter().filter(|hook| hook.sees_tools()).peekable();
        hooks.peek()?;
        Some(Self(hooks.cloned().collect()))
    }

    /// Returns the tool hooks of a host, or `None` if it has none. The check is cheap.
    pub(crate) fn of_host(host: &Host) -> Option<Self> {
        host.part::<RuntimeMiddleware>()?.around_tools.clone()
    }

    /// Returns `true` if the host has tool hooks.
    pub(crate) fn exist_on(host: &Host) -> bool {
        host.part::<RuntimeMiddleware>().is_some_and(|of| of.around_tools.is_some())
    }

    /// Calls the `before_tool` hooks, up to the first hook that returns a result.
    ///
    /// # Errors
    /// The error of a hook.
    pub(crate) async fn before(self, mut step: ToolStep) -> Result<HookedCall> {
        for (depth, hook) in self.0.iter().enumerate() {
            if let Flow::Return(result) = hook.before_tool(&mut step).await? {
                let result = Arc::new(of_call(result, &step.call));
                let answer = HookedResult { result, answered_by: Some(hook.name().into()) };
                return Ok(HookedCall { step, answer: Some(answer), hooks: self, depth });
            }
        }
        let depth = self.0.len();
        Ok(HookedCall { step, answer: None, hooks: self, depth })
    }
}

impl HookedResult {
    /// Creates the answer for a result of the tool itself.
    pub(crate) fn of_tool(result: ToolResult) -> Self {
        Self { result: Arc::new(result), answered_by: None }
    }
}

impl HookedCall {
    /// Returns the call with the arguments that the hooks may have changed.
    pub(crate) fn call(&self) -> Arc<ToolCall> {
        match self.is_changed() {
            true => Arc::new(ToolCall {
                arguments: self.step.arguments.clone(),
                ..ToolCall::clone(&self.step.call)
            }),
            false => Arc::clone(&self.step.call),
        }
    }

    /// Returns `true` if a hook has changed the arguments.
    pub(crate) fn is_changed(&self) -> bool {
        self.step.arguments != self.step.call.arguments
    }

    /// Returns the original arguments of the caller, if hooks have changed them.
    pub(crate) fn given(&self) -> Option<Arc<str>> {
        self.is_changed().then(|| self.step.call.arguments.as_str().into())
    }

    /// Calls the `after_tool` or `on_tool_error` hooks.
    ///
    /// # Errors
    /// The error of a hook. `answer.answered_by` then contains the name of the hook.
    pub(crate) async fn after(&self, answer: &mut HookedResult) -> Result<()> {
        let Self { step, hooks, depth, .. } = self;
        // If a hook returned a result, the layers inside of it have not seen the call.
        for hook in hooks.0[..*depth].iter().rev() {
            if answer.result.status.is_success() {
                let result = Arc::make_mut(&mut answer.result);
                let seen = hook.after_tool(step, result).await;
                // A hook cannot assign the result to a different call.
                (result.call_id, result.name) = (step.call.id.clone(), step.call.name.clone());
                if seen.is_err() || !result.status.is_success() {
                    answer.answered_by = Some(hook.name().into());
                }
                seen?;
            } else {
                match hook.on_tool_error(step, &answer.result).await {
                    Ok(Flow::Continue) => continue,
                    Ok(Flow::Return(result)) => {
                        answer.result = Arc::new(of_call(result, &step.call));
                    }
                    Err(error) => {
                        answer.answered_by = Some(hook.name().into());
                        return Err(error);
                    }
                }
                answer.answered_by = Some(hook.name().into());
            }
        }
        Ok(())
    }
}

/// Sets the id and the name of the call in a result that a hook returned.
fn of_call(result: ToolResult, call: &ToolCall) -> ToolResult {
    ToolResult { call_id: call.id.clone(), name: call.name.clone(), ..result }
}
