//! Middleware: hooks around runs, agents, model calls and tool calls.
//!
//! The trait [`Middleware`] has a hook before and after each of these steps, and a hook for errors.
//! The submodules implement budgets, costs, caches, retries, limits and redaction.
//!
//! Middleware of a runtime ([`RuntimeBuilder::with`](crate::runtime::RuntimeBuilder::with)) wraps
//! all agents, in the order in which it was added. An agent's own middleware
//! ([`Hooks`](crate::agent::Hooks)) is inside of it. Hooks *before* a step are called from the
//! outermost to the innermost layer, hooks *after* it in reverse order. A hook that returns
//! [`Flow::Return`] answers instead of all inner layers: the remaining middleware, the agent's own
//! callbacks, and the model or tool. Outer layers see its answer as if it came from the model.
//!
//! Hooks of tools are called for every caller of the tool: see [`Middleware::before_tool`].
//!
//! The journal records every change and every answer of a hook with the name of the middleware, so
//! a run that is resumed after a crash continues from the same state. Middleware never decides the
//! next step of a run. It costs nothing for an agent without middleware.
//!
//! | middleware | effect |
//! | --- | --- |
//! | [`token_budget`] | stops before the call that would exceed a number of tokens |
//! | [`cost_tracker`] | sums up the cost of calls, by agent and in total; stops before a call that would cost too much |
//! | [`cache`] | answers a repeated request |
//! | [`retry`] | retries a failed model call |
//! | [`fallback_models`] | calls other models if a model fails |
//! | [`rate_limit`] | delays calls to respect a limit on the requests and tokens of a model, or on the calls of a tool |
//! | [`circuit_breaker`] | stops calling a model or a tool for a while if it fails repeatedly |
//! | [`redact`] | removes secrets and personal data from events and logs |
//!
//! Add budgets inside of retries and fallbacks (after them in the order of `with`), so that every
//! attempt is checked.
//!
//! ```
//! use agentflow::middleware::{retry, token_budget};
//! use agentflow::prelude::*;
//! use agentflow_testing::{ScriptedModel, Turn};
//! use agentflow::model::ModelErrorKind;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<()> {
//! let runtime = Runtime::builder().with(retry(2)).with(token_budget(50_000).failing()).build();
//! let model = ScriptedModel::new([Turn::fails(ModelErrorKind::Overloaded), Turn::text("Hello.")]);
//! assert_eq!(Agent::new(model).runtime(&runtime).run("Hi").await?.output(), "Hello.");
//! # Ok(())
//! # }
//! ```

mod around;
mod breaker;
mod budget;
mod cache;
mod cost;
mod fallback;
mod rate;
mod redact;
mod reserve;
mod retry;
mod step;
mod tool_hooks;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub(crate) use self::around::RunHooks;
pub use self::breaker::{CircuitBreaker, circuit_breaker};
pub use self::budget::{Scope, TokenBudget, token_budget};
pub use self::cache::{Cache, CacheStore, MemoryCache, cache};
pub use self::cost::{Cost, CostSink, CostTracker, Price, Prices, cost_tracker};
pub use self::fallback::{FallbackModels, fallback_models};
pub use self::rate::{RateLimit, rate_limit};
pub use self::redact::{Redact, Redactor, redact};
pub(crate) use self::reserve::Place;
pub use self::retry::{Retry, retry};
pub use self::step::{AgentStep, Attempt, ModelStep, RunInfo, ToolStep};
pub(crate) use self::tool_hooks::{HookedCall, HookedResult, ToolHooks};
use crate::error::{Error, Result};
use crate::event::AgentCompleted;
use crate::message::{Message, ToolResult};
use crate::model::{ModelError, ModelResponse};
use crate::run::Host;

/// Decision of a hook: continue, or answer instead of the inner layers.
#[derive(Clone, Debug, PartialEq)]
pub enum Flow<T> {
    /// Continue with the next layer, and finally with the agent, model or tool.
    Continue,
    /// Use this value instead of calling the inner layers.
    Return(T),
}

/// Reaction to a failed model call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Recovery {
    /// Use this response as the answer.
    Answer(Box<ModelResponse>),
    /// Make the call again, with all hooks around it.
    Again {
        /// Time to wait before the call.
        after: Duration,
    },
}

impl From<ModelResponse> for Recovery {
    fn from(response: ModelResponse) -> Self {
        Self::Answer(Box::new(response))
    }
}

/// Hooks around runs, agents, model calls and tool calls. The default implementation of each hook
/// does nothing.
///
/// An error of a hook ends the run. From a hook of a model call, [`Error::Model`] counts as a
/// failed call: outer layers receive it in [`on_model_error`](Self::on_model_error). If the run is
/// cancelled, a hook is dropped at its next await.
///
/// ```
/// use agentflow::middleware::{Flow, Middleware, ModelStep};
/// use agentflow::async_trait;
/// use agentflow::model::ModelResponse;
/// use agentflow::prelude::*;
/// use agentflow_testing::ScriptedModel;
///
/// /// Answers without a model while the office is closed.
/// struct Closed;
///
/// #[async_trait]
/// impl Middleware for Closed {
///     fn name(&self) -> &str {
///         "closed"
///     }
///
///     async fn before_model(&self, _: &mut ModelStep) -> Result<Flow<ModelResponse>> {
///         Ok(Flow::Return(ModelResponse::new(Message::assistant("We are closed."))))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let agent = Agent::new(ScriptedModel::new([])).with(Closed);
/// assert_eq!(agent.run("Hello?").await?.output(), "We are closed.");
/// # Ok(())
/// # }
/// ```
#[async_trait]
#[allow(unused_variables, reason = "a hook that does nothing reads nothing")]
#[doc(alias = "MiddlewarePlugin")]
#[doc(alias = "AgentHooks")]
pub trait Middleware: Send + Sync {
    /// Name of the middleware in events and errors.
    fn name(&self) -> &str;

    /// Called when a run is started or resumed in this process. Only for middleware of a runtime.
    async fn before_run(&self, run: &RunInfo) -> Result<()> {
        Ok(())
    }

    /// Called when a run has ended in this process and the end is recorded. Not called for a run
    /// whose future was dropped.
    async fn after_run(&self, run: &RunInfo, ended: Result<(), &Error>) {}

    /// Called before an agent starts, as a run or as a step of a run. The hook may change the
    /// conversation. [`Flow::Return`] answers instead of the agent.
    ///
    /// An agent that the hook starts with the step's context is part of the same run. Exception:
    /// before an agent that is itself a run, the hook is called before the run's first event, and
    /// an agent that it starts is a separate run.
    async fn before_agent(&self, step: &mut AgentStep) -> Result<Flow<Message>> {
        Ok(Flow::Continue)
    }

    /// Called when an agent has answered. The hook may change the answer.
    async fn after_agent(&self, step: &AgentStep, completed: &mut AgentCompleted) -> Result<()> {
        Ok(())
    }

    /// Called when an agent ends without an answer: a model call failed permanently, a limit was
    /// reached, or another hook failed.
    ///
    /// [`Flow::Return`] is a fallback answer. The agent completes with it as if it were its own,
    /// and no step is compensated. Inner layers are called first; layers outside of the answering
    /// hook receive its answer in [`after_agent`](Self::after_agent). A typed agent needs an answer
    /// of its output type.
    ///
    /// Not called for a cancelled run, for a failure of the store, and for an agent whose run was
    /// stopped by draining.
    async fn on_agent_error(&self, step: &AgentStep, error: &Error) -> Result<Flow<Message>> {
        Ok(Flow::Continue)
    }

    /// Called before a model call. The hook may change the request and the model.
    async fn before_model(&self, step: &mut ModelStep) -> Result<Flow<ModelResponse>> {
        Ok(Flow::Continue)
    }

    /// Called when a model has answered. The hook may change the response.
    async fn after_model(&self, step: &mut ModelStep, response: &mut ModelResponse) -> Result<()> {
        Ok(())
    }

    /// Called when a model call has failed.
    async fn on_model_error(
        &self,
        step: &mut ModelStep,
        error: &ModelError,
    ) -> Result<Flow<Recovery>> {
        Ok(Flow::Continue)
    }

    /// Called before a tool call. The hook may change the arguments. The journal records the
    /// arguments of the caller and those that the tool received.
    ///
    /// The tool hooks of a runtime's middleware are called for every caller: an agent, a step of a
    /// workflow, a node that is a tool call, [`Registry::invoke`](crate::Registry::invoke). They
    /// are not called if the call is not allowed because a scope or an approval is missing; a
    /// person who approves a call therefore sees the arguments of the caller. The retries of a call
    /// in a step happen inside of its hooks, and a recorded outcome of a call is reused without
    /// hooks when its step runs again. The call to a tool by another tool has hooks in a step of a
    /// workflow. In a tool that an agent has called, it is a plain function call without hooks.
    ///
    /// A call in a step has typed arguments and a typed result. Hooks receive them as JSON, and
    /// their replacements are decoded as these types. If a replacement cannot be decoded or is a
    /// failure, the step ends. The hooks of a tool that is not `async` must not wait there.
    async fn before_tool(&self, step: &mut ToolStep) -> Result<Flow<ToolResult>> {
        Ok(Flow::Continue)
    }

    /// Called when a tool has answered. The hook may change the result that the model receives.
    async fn after_tool(&self, step: &ToolStep, result: &mut ToolResult) -> Result<()> {
        Ok(())
    }

    /// Called when a tool call ended without a successful result. The hook may return a
    /// replacement.
    async fn on_tool_error(
        &self,
        step: &ToolStep,
        result: &ToolResult,
    ) -> Result<Flow<ToolResult>> {
        Ok(Flow::Continue)
    }

    /// Returns `true` if this middleware has tool hooks. Default: `true`. If no middleware has
    /// them, the tool calls in a workflow step need not be encoded as JSON.
    fn sees_tools(&self) -> bool {
        true
    }

    /// Returns `true` if this middleware decides how often a failed model call is retried. Default:
    /// `false`. If one does, a durable run does not retry; see [`Retry`].
    fn retries_model_calls(&self) -> bool {
        false
    }

    /// Returns the rules for removing secrets from events and logs, if any. Only for middleware of
    /// a runtime.
    fn redactor(&self) -> Option<Redactor> {
        None
    }
}

/// The middleware of a runtime, outermost first.
pub(crate) struct RuntimeMiddleware {
    all: Arc<[Arc<dyn Middleware>]>,
    /// The middleware with tool hooks.
    around_tools: Option<ToolHooks>,
}

impl RuntimeMiddleware {
    pub(crate) fn new(all: Vec<Arc<dyn Middleware>>) -> Self {
        Self { around_tools: ToolHooks::among(&all), all: all.into() }
    }
}

/// Returns the middleware of a host's runtime, outermost first.
pub(crate) fn of_host(host: &Host) -> Arc<[Arc<dyn Middleware>]> {
    host.part::<RuntimeMiddleware>().map(|of| Arc::clone(&of.all)).unwrap_or_default()
}
