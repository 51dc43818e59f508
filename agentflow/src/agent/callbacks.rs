//! `Callbacks`: an agent's own hooks as closures.
//!
//! Each is a middleware with one hook; a hook that must wait is written as a [`Middleware`] instead.

use async_trait::async_trait;

use super::Agent;
use crate::error::Result;
use crate::event::AgentCompleted;
use crate::message::{Message, ToolResult};
use crate::middleware::{AgentStep, Flow, Middleware, ModelStep, Recovery, ToolStep};
use crate::model::{ModelError, ModelResponse};

macro_rules! callbacks {
    ($($(#[$docs:meta])* $hook:ident($step:ty $(, $name:ident: $second:ty)?) -> $answer:ty, $struct:ident;)*) => {
        /// An agent's own callbacks, inside of all middleware of its runtime. Each may be given more than once.
        ///
        /// ```
        /// use agentflow::middleware::Flow;
        /// use agentflow::prelude::*;
        /// use agentflow_testing::{ScriptedModel, Turn};
        ///
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<()> {
        /// let agent = Agent::new(ScriptedModel::new([Turn::text("hello")]))
        ///     .before_model(|step| {
        ///         step.request.settings = agentflow::model::ModelSettings::default().temperature(0.0).into();
        ///         Ok(Flow::Continue)
        ///     })
        ///     .after_agent(|_, completed| {
        ///         completed.message = Message::assistant(completed.message.text().to_uppercase()).into();
        ///         Ok(())
        ///     });
        /// assert_eq!(agent.run("Hi").await?.output(), "HELLO");
        /// # Ok(())
        /// # }
        /// ```
        pub trait Callbacks: Sized {
            /// Puts middleware around this agent, inside of the runtime's and of what was added before.
            #[doc(alias = "use")]
            #[must_use]
            fn with(self, middleware: impl Middleware + 'static) -> Self;

            $($(#[$docs])*
            #[must_use]
            fn $hook<F>(self, callback: F) -> Self
            where
                F: Fn($step $(, $second)?) -> Result<$answer> + Send + Sync + 'static;)*
        }

        impl<O: 'static> Callbacks for Agent<O> {
            fn with(self, middleware: impl Middleware + 'static) -> Self {
                self.with_middleware(middleware)
            }

            $(fn $hook<F>(self, callback: F) -> Self
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
    /// Before each model call: request and model may be changed.
    before_model(&mut ModelStep) -> Flow<ModelResponse>, BeforeModel;
    /// When the model has answered; the answer may be changed.
    after_model(&mut ModelStep, response: &mut ModelResponse) -> (), AfterModel;
    /// When a model call has failed.
    on_model_error(&mut ModelStep, error: &ModelError) -> Flow<Recovery>, OnModelError;
    /// Before each tool call: the arguments may be changed.
    before_tool(&mut ToolStep) -> Flow<ToolResult>, BeforeTool;
    /// When a tool has answered; what the model sees may be changed.
    after_tool(&ToolStep, result: &mut ToolResult) -> (), AfterTool;
    /// When a tool call ended without the tool's answer; a result may take its place.
    on_tool_error(&ToolStep, result: &ToolResult) -> Flow<ToolResult>, OnToolError;
}
