//! Middleware: hooks around agents, model calls and tools. Budgets, costs, caches, retries, limits, redaction, or your
//! own.
//!
//! Middleware of a runtime ([`RuntimeBuilder::with`](crate::runtime::RuntimeBuilder::with)) stands around all agents,
//! in the order in which it was added; an agent's own ([`Hooks`](crate::agent::Hooks)) stands inside of it.
//! Like the layers of an onion, the hooks *before* something run from the outside in, those *after* it from the inside
//! out. A hook that returns [`Flow::Return`] answers instead of everything inside of it: the remaining middleware, the
//! agent's own callbacks, the model or tool itself. Layers outside of it see its answer as if it were the model's.
//!
//! Hooks around tools are called whoever calls the tool: see [`Middleware::before_tool`].
//!
//! The journal records every change and every answer of a hook with the middleware's name, so a run that is resumed
//! after a crash continues from the same state. Middleware never decides the next step of a run, and an agent without
//! middleware pays nothing for it.
//!
//! | middleware | does |
//! | --- | --- |
//! | [`token_budget`] | stops before the call that would exceed a number of tokens |
//! | [`cost_tracker`] | adds up what calls cost, by agent and in total; stops before a call that would cost too much |
//! | [`cache`] | answers a request that was made before |
//! | [`retry`] | retries a failed model call |
//! | [`fallback_models`] | asks other models when one fails |
//! | [`rate_limit`] | waits so that a model gets no more than so many requests and tokens, or a tool no more than so many calls |
//! | [`circuit_breaker`] | leaves a model or a tool that keeps failing alone for a while |
//! | [`redact`] | takes secrets and personal data out of events and logs |
//!
//! Put budgets inside of retries and fallbacks (after them in the order of `with`), so that every attempt is checked.
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

pub(crate) use self::around::AroundRun;
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
pub(crate) use self::tool_hooks::{HookedAnswer, HookedCall, ToolHooks};
use crate::error::{Error, Result};
use crate::event::AgentCompleted;
use crate::message::{Message, ToolResult};
use crate::model::{ModelError, ModelResponse};
use crate::run::Host;

/// Whether things take their course.
#[derive(Clone, Debug, PartialEq)]
pub enum Flow<T> {
    /// On to the next, and in the end to the agent, model or tool itself.
    Continue,
    /// This, in the place of all that would have come.
    Return(T),
}

/// What becomes of a model call that failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Recovery {
    /// This is the answer.
    Answer(Box<ModelResponse>),
    /// The call is retried, with all hooks around it.
    Again {
        /// How long to wait before.
        after: Duration,
    },
}

impl From<ModelResponse> for Recovery {
    fn from(response: ModelResponse) -> Self {
        Self::Answer(Box::new(response))
    }
}

/// Hooks around runs, agents, model calls and tools; each does nothing unless it is written.
///
/// An error of a hook ends the run with it. From the hooks of a model call, [`Error::Model`] counts as a failed call:
/// the layers outside of the hook see it in [`on_model_error`](Self::on_model_error). A hook is dropped at its next
/// await when the run is cancelled.
///
/// ```
/// use agentflow::middleware::{Flow, Middleware, ModelStep};
/// use agentflow::async_trait;
/// use agentflow::model::ModelResponse;
/// use agentflow::prelude::*;
/// use agentflow_testing::ScriptedModel;
///
/// /// Answers without a model when the office is closed.
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
    /// The name in events and errors.
    fn name(&self) -> &str;

    /// A run begins here, or is resumed here. Only a runtime's middleware is asked.
    async fn before_run(&self, run: &RunInfo) -> Result<()> {
        Ok(())
    }

    /// A run has ended here; its end is recorded. Not called for a run whose future was dropped.
    async fn after_run(&self, run: &RunInfo, ended: Result<(), &Error>) {}

    /// An agent is about to begin, as a run or a step of one: its conversation may be changed. [`Flow::Return`] gives its
    /// answer. An agent that is begun here with the step's context is a step of the same run, but before the agent of a
    /// run of its own, whose first event comes after this, it is another run.
    async fn before_agent(&self, step: &mut AgentStep) -> Result<Flow<Message>> {
        Ok(Flow::Continue)
    }

    /// An agent has its answer, which may be changed.
    async fn after_agent(&self, step: &AgentStep, completed: &mut AgentCompleted) -> Result<()> {
        Ok(())
    }

    /// An agent ends without an answer: a model call failed for good, a limit was reached, another hook failed.
    /// [`Flow::Return`] gives a fallback answer, with which the agent completes as if it were its own, and nothing is
    /// compensated. The hooks of inner layers are asked first; the layers outside of the answering hook see its
    /// answer in [`after_agent`](Self::after_agent). A typed agent needs an answer of its form.
    ///
    /// Not called for a cancelled run, for a failure of the store, and of an agent whose run was stopped by a drain.
    async fn on_agent_error(&self, step: &AgentStep, error: &Error) -> Result<Flow<Message>> {
        Ok(Flow::Continue)
    }

    /// A model is about to be called: request and model may be changed.
    async fn before_model(&self, step: &mut ModelStep) -> Result<Flow<ModelResponse>> {
        Ok(Flow::Continue)
    }

    /// A model has answered; the answer may be changed.
    async fn after_model(&self, step: &mut ModelStep, response: &mut ModelResponse) -> Result<()> {
        Ok(())
    }

    /// A model call has failed.
    async fn on_model_error(&self, step: &mut ModelStep, error: &ModelError) -> Result<Flow<Recovery>> {
        Ok(Flow::Continue)
    }

    /// A tool is about to be called: the arguments may be changed. The journal has what the caller gave and what the
    /// tool was called with.
    ///
    /// The hooks around tools of a runtime's middleware are called whoever calls: an agent, a step of a workflow, a node
    /// that is the call of a tool, [`Registry::invoke`](crate::Registry::invoke). No hook sees a call that must not be
    /// made, since a scope or a person's consent is missing; so a person is asked about what the caller gave. The
    /// retries of a call in a step are inside of its hooks, and what is recorded of the call is used without them when
    /// its step runs again. A tool's call of another tool is seen in a step, and not in a tool that an agent has called:
    /// there it is a plain call.
    ///
    /// A call in a step has typed arguments and a typed result. Hooks see them as JSON, and what they give in their
    /// place is read as those types. A hook ends the step when what it gives cannot be read, or is a failure. The hooks
    /// of a tool that is not `async` must not wait there.
    async fn before_tool(&self, step: &mut ToolStep) -> Result<Flow<ToolResult>> {
        Ok(Flow::Continue)
    }

    /// A tool has answered; what the model sees may be changed.
    async fn after_tool(&self, step: &ToolStep, result: &mut ToolResult) -> Result<()> {
        Ok(())
    }

    /// A tool call ended without the tool's answer; a result may take its place.
    async fn on_tool_error(&self, step: &ToolStep, result: &ToolResult) -> Result<Flow<ToolResult>> {
        Ok(Flow::Continue)
    }

    /// Whether this has hooks around tools. Default: yes. Where no middleware has, a call of a tool in a step of a
    /// workflow need not be encoded for them.
    fn sees_tools(&self) -> bool {
        true
    }

    /// Whether this decides by itself how often a failed model call is retried. Default: no. Where one does, a durable
    /// run makes no retries of its own; see [`Retry`].
    fn retries_model_calls(&self) -> bool {
        false
    }

    /// What this takes out of events and logs, if anything. Only a runtime's middleware can.
    fn redactor(&self) -> Option<Redactor> {
        None
    }
}

/// The middleware of a runtime, the outermost first.
pub(crate) struct OfRuntime {
    all: Arc<[Arc<dyn Middleware>]>,
    /// Those among them that stand around tool calls.
    around_tools: Option<ToolHooks>,
}

impl OfRuntime {
    pub(crate) fn new(all: Vec<Arc<dyn Middleware>>) -> Self {
        Self { around_tools: ToolHooks::among(&all), all: all.into() }
    }
}

/// What stands around all agents of a host, the outermost first.
pub(crate) fn of_host(host: &Host) -> Arc<[Arc<dyn Middleware>]> {
    host.part::<OfRuntime>().map(|of| Arc::clone(&of.all)).unwrap_or_default()
}
