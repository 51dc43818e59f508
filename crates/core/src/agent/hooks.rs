//! `Hooks`: the middleware of one agent, and its callbacks as closures.
//!
//! Each callback is a middleware with one hook; a hook that must wait is written as a [`Middleware`] instead.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::event::AgentCompleted;
use crate::message::{Message, ToolResult};
use crate::middleware::{AgentStep, Flow, Middleware, ModelStep, Recovery, ToolStep};
use crate::model::{ModelError, ModelResponse};

/// Middleware and callbacks of an agent, given by [`Agent::with`](super::Agent::with), or of one run of it, given by
/// [`RunRequest::with`](super::RunRequest::with). They are inside of all middleware of the runtime, the first one outermost. Each callback may be given more than once.
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

    /// Adds middleware, inside of earlier middleware.
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
    /// Before the agent begins: the conversation may be changed. [`Flow::Return`] gives the agent's answer.
    before_agent(&mut AgentStep) -> Flow<Message>, BeforeAgent;
    /// When the agent has its answer, which may be changed.
    after_agent(&AgentStep, completed: &mut AgentCompleted) -> (), AfterAgent;
    /// When the agent ends without an answer: [`Flow::Return`] gives a fallback answer.
    on_agent_error(&AgentStep, error: &Error) -> Flow<Message>, OnAgentError;
    /// Before each model call: request and model may be changed.
    before_model(&mut ModelStep) -> Flow<ModelResponse>, BeforeModel;
    /// When the model has answered; the answer may be changed.
    after_model(&mut ModelStep, response: &mut ModelResponse) -> (), AfterModel;
    /// When a model call has failed.
    on_model_error(&mut ModelStep, error: &ModelError) -> Flow<Recovery>, OnModelError;
    /// Before each tool call: the arguments may be changed.
    before_tool(&mut ToolStep) -> Flow<ToolResult>, BeforeTool;
    /// When a tool has answered; the result that the model sees may be changed.
    after_tool(&ToolStep, result: &mut ToolResult) -> (), AfterTool;
    /// When a tool call ended without the tool's answer; a result may take its place.
    on_tool_error(&ToolStep, result: &ToolResult) -> Flow<ToolResult>, OnToolError;
}
