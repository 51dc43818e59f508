//! [`Hooks`] collects the middleware of an agent, and callbacks as closures.
//!
//! Each callback is a middleware with a single synchronous hook. An asynchronous hook needs an
//! implementation of [`Middleware`].

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::event::AgentCompleted;
use crate::message::{Message, ToolResult};
use crate::middleware::{AgentStep, Flow, Middleware, ModelStep, Recovery, ToolStep};
use crate::model::{ModelError, ModelResponse};

/// Middleware and callbacks of an agent, set by [`Agent::with`](super::Agent::with), or of a single
/// run, set by [`RunRequest::with`](super::RunRequest::with). They are called inside all middleware
/// of the runtime, the first one outermost. Each callback can be added more than once.
///
/// ```
/// use agentflow::middleware::Flow;
/// use agentflow::prelude::*;
/// use agentflow_testing::{ScriptedModel, Turn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let hooks = Hooks::new()
///     .before_model(|step| {
///         step.request.settings = agentflow::model::ModelSettings::default().temperature(0.0).into();
///         Ok(Flow::Continue)
///     })
///     .after_agent(|_, completed| {
///         completed.message = Message::assistant(completed.message.text().to_uppercase()).into();
///         Ok(())
///     });
/// let agent = Agent::new(ScriptedModel::new([Turn::text("hello")])).with(hooks);
/// assert_eq!(agent.run("Hi").await?.output(), "HELLO");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use = "hooks do nothing until an agent has them"]
#[doc(alias = "Callbacks")]
pub struct Hooks {
    pub(super) middleware: Vec<Arc<dyn Middleware>>,
}

impl Hooks {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds middleware inside the middleware that was added before.
    pub fn with(mut self, middleware: impl Middleware + 'static) -> Self {
        self.middleware.push(Arc::new(middleware));
        self
    }
}

impl<M: Middleware + 'static> From<M> for Hooks {
    fn from(middleware: M) -> Self {
        Self::new().with(middleware)
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.middleware.iter().map(|one| one.name())).finish()
    }
}

macro_rules! callbacks {
    ($($(#[$docs:meta])* $hook:ident($step:ty $(, $name:ident: $second:ty)?) -> $answer:ty, $struct:ident;)*) => {
        impl Hooks {
            $($(#[$docs])*
            pub fn $hook<F>(self, callback: F) -> Self
            where
                F: Fn($step $(, $second)?) -> Result<$answer> + Send + Sync + 'static,
            {
                self.with($struct(callback))
            })*
        }

        $(struct $struct<F>(F);

        #[async_trait]
        impl<F> Middleware for $struct<F>
        where
            F: Fn($step $(, $second)?) -> Result<$answer> + Send + Sync + 'static,
        {
            fn name(&self) -> &str {
                stringify!($hook)
            }

            async fn $hook(&self, step: $step $(, $name: $second)?) -> Result<$answer> {
                (self.0)(step $(, $name)?)
            }
        })*
    };
}

callbacks! {
    /// Adds a callback before the agent starts. It may change the conversation. [`Flow::Return`]
    /// provides the agent's answer.
    before_agent(&mut AgentStep) -> Flow<Message>, BeforeAgent;
    /// Adds a callback after the agent's answer. It may change the answer.
    after_agent(&AgentStep, completed: &mut AgentCompleted) -> (), AfterAgent;
    /// Adds a callback for an agent that ends without an answer. [`Flow::Return`] provides a
    /// fallback answer.
    on_agent_error(&AgentStep, error: &Error) -> Flow<Message>, OnAgentError;
    /// Adds a callback before each model call. It may change the request and the model.
    before_model(&mut ModelStep) -> Flow<ModelResponse>, BeforeModel;
    /// Adds a callback after each answer of the model. It may change the answer.
    after_model(&mut ModelStep, response: &mut ModelResponse) -> (), AfterModel;
    /// Adds a callback for a failed model call. It may retry the call or provide an answer.
    on_model_error(&mut ModelStep, error: &ModelError) -> Flow<Recovery>, OnModelError;
    /// Adds a callback before each tool call. It may change the arguments.
    before_tool(&mut ToolStep) -> Flow<ToolResult>, BeforeTool;
    /// Adds a callback after each tool result. It may change the result that the model receives.
    after_tool(&ToolStep, result: &mut ToolResult) -> (), AfterTool;
    /// Adds a callback for a tool call that failed without a result of the tool. It may provide a
    /// result.
    on_tool_error(&ToolStep, result: &ToolResult) -> Flow<ToolResult>, OnToolError;
}
