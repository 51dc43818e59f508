//! `ToolHooks`: calls the hooks of middleware around one tool call. Every caller of tools goes through it: an agent, a
//! step of a workflow, a [`Registry`](crate::Registry).
//!
//! It calls no tool and records nothing.

use std::sync::Arc;

use super::{Flow, Middleware, OfRuntime, ToolStep};
use crate::error::Result;
use crate::message::{ToolCall, ToolResult};
use crate::run::Host;

/// The middleware that stands around tool calls, the outermost first; never empty.
#[derive(Clone)]
pub(crate) struct ToolHooks(Arc<[Arc<dyn Middleware>]>);

/// A call that the hooks before it have seen.
pub(crate) struct HookedCall {
    /// What the tool is called with, and what hooks see of the call.
    pub(crate) step: ToolStep,
    /// The result, when a hook gave it.
    pub(crate) answer: Option<HookedAnswer>,
    hooks: ToolHooks,
    /// How many layers see the outcome on its way out.
    depth: usize,
}

/// The result of a call on its way out.
pub(crate) struct HookedAnswer {
    pub(crate) result: Arc<ToolResult>,
    /// The middleware that gave the result in the tool's place.
    pub(crate) answered_by: Option<Arc<str>>,
}

impl ToolHooks {
    /// Those among all middleware that stand around tool calls; `None` when there are none.
    pub(crate) fn among(all: &[Arc<dyn Middleware>]) -> Option<Self> {
        // Most runs have none, so nothing is collected for them.
        let mut hooks = all.iter().filter(|hook| hook.sees_tools()).peekable();
        hooks.peek()?;
        Some(Self(hooks.cloned().collect()))
    }

    /// Those of a host; `None` when it has none, which costs a look.
    pub(crate) fn of_host(host: &Host) -> Option<Self> {
        host.part::<OfRuntime>()?.around_tools.clone()
    }

    /// Whether a host has some.
    pub(crate) fn are_around(host: &Host) -> bool {
        host.part::<OfRuntime>().is_some_and(|of| of.around_tools.is_some())
    }

    /// The hooks on the way in, up to the first that has a result.
    ///
    /// # Errors
    /// That of a hook.
    pub(crate) async fn before(self, mut step: ToolStep) -> Result<HookedCall> {
        for (depth, hook) in self.0.iter().enumerate() {
            if let Flow::Return(result) = hook.before_tool(&mut step).await? {
                let result = Arc::new(of_call(result, &step.call));
                let answer = HookedAnswer { result, answered_by: Some(hook.name().into()) };
                return Ok(HookedCall { step, answer: Some(answer), hooks: self, depth });
            }
        }
        let depth = self.0.len();
        Ok(HookedCall { step, answer: None, hooks: self, depth })
    }
}

impl HookedAnswer {
    /// What the tool itself has answered.
    pub(crate) fn of_tool(result: ToolResult) -> Self {
        Self { result: Arc::new(result), answered_by: None }
    }
}

impl HookedCall {
    /// The call with the arguments that hooks have given it.
    pub(crate) fn call(&self) -> Arc<ToolCall> {
        match self.is_changed() {
            true => Arc::new(ToolCall { arguments: self.step.arguments.clone(), ..ToolCall::clone(&self.step.call) }),
            false => Arc::clone(&self.step.call),
        }
    }

    /// Whether a hook has changed the arguments.
    pub(crate) fn is_changed(&self) -> bool {
        self.step.arguments != self.step.call.arguments
    }

    /// The arguments that the caller gave, when hooks have changed them.
    pub(crate) fn given(&self) -> Option<Arc<str>> {
        self.is_changed().then(|| self.step.call.arguments.as_str().into())
    }

    /// The hooks on the way out.
    ///
    /// # Errors
    /// That of a hook, which is named in the answer.
    pub(crate) async fn after(&self, answer: &mut HookedAnswer) -> Result<()> {
        let Self { step, hooks, depth, .. } = self;
        for hook in hooks.0[..*depth].iter().rev() {
            if answer.result.status.is_success() {
                let result = Arc::make_mut(&mut answer.result);
                let seen = hook.after_tool(step, result).await;
                (result.call_id, result.name) = (step.call.id.clone(), step.call.name.clone());
                if seen.is_err() || !result.status.is_success() {
                    answer.answered_by = Some(hook.name().into());
                }
                seen?;
            } else {
                match hook.on_tool_error(step, &answer.result).await {
                    Ok(Flow::Continue) => continue,
                    Ok(Flow::Return(result)) => answer.result = Arc::new(of_call(result, &step.call)),
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

/// A result always answers the call that it is of.
fn of_call(result: ToolResult, call: &ToolCall) -> ToolResult {
    ToolResult { call_id: call.id.clone(), name: call.name.clone(), ..result }
}
