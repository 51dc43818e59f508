//! A call of an `#[agent]` function: its arguments become the agent's prompt (`prompt.rs`), its
//! answer becomes the return value.
//!
//! The JSON form of an argument determines how it is rendered. The return type is inspected as a
//! type, not by its spelling, to decide if the answer is text.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Agent;
use super::arguments::{AgentArguments, AgentParameter};
use super::definition::AgentDefinition;
use super::erased::ErasedAgent;
use super::output_key::OutputKey;
use super::prompt::Prompt;
use crate::context::Context;
use crate::error::Error;
use crate::future::BoxFuture;
use crate::model::PromptCache;
use crate::state::StateKey;
use crate::tool::{CurrentStep, ToolRef};

/// The options of `#[agent(..)]`.
pub struct AgentOptions {
    pub model: Option<&'static str>,
    pub description: Option<&'static str>,
    pub tools: fn() -> Vec<ToolRef>,
    pub temperature: Option<f64>,
    pub max_tokens: Option<u32>,
    pub prompt_cache: Option<PromptCache>,
    pub max_steps: Option<u32>,
    pub output_retries: Option<u32>,
    pub output_key: Option<fn() -> OutputKey>,
    pub answering: fn(Agent) -> ErasedAgent,
    pub parameters: fn() -> Vec<AgentParameter>,
    /// Returns the agent of a call with decoded arguments, or `None` if an argument is missing.
    pub asking: fn(&mut AgentArguments) -> Option<ErasedAgent>,
}

impl AgentOptions {
    pub const DEFAULT: Self = Self {
        model: None,
        description: None,
        tools: Vec::new,
        temperature: None,
        max_tokens: None,
        prompt_cache: None,
        max_steps: None,
        output_retries: None,
        output_key: None,
        answering: ErasedAgent::new::<String>,
        parameters: Vec::new,
        asking: |_| None,
    };
}

/// Builder for the prompt of a call: the instruction first, then the user's message.
pub struct AgentCall {
    definition: &'static AgentDefinition,
    prompt: Prompt,
}

impl AgentCall {
    pub fn new(definition: &'static AgentDefinition) -> Self {
        Self { definition, prompt: Prompt::default() }
    }

    fn with(mut self, add: impl FnOnce(&mut Prompt)) -> Self {
        add(&mut self.prompt);
        self
    }

    /// Starts the user's message. Further parts are added to it.
    #[must_use]
    pub fn message(self) -> Self {
        self.with(Prompt::begin_message)
    }

    /// Adds text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.with(|prompt| prompt.text(text))
    }

    /// Adds a value: a string as it is, any other value as JSON.
    #[must_use]
    pub fn value(self, path: &str, json: &Json) -> Self {
        self.with(|prompt| prompt.value(path, &json.0))
    }

    /// Adds a value of the application (`app:` key).
    #[must_use]
    pub fn app(self, key: &'static str, optional: bool) -> Self {
        self.with(|prompt| prompt.app(key, optional))
    }

    /// Adds an argument that no placeholder shows.
    #[must_use]
    pub fn argument(self, name: &str, json: &Json) -> Self {
        self.with(|prompt| prompt.argument(name, &json.0))
    }
}

/// The JSON of an argument, or the error of its serialization.
pub struct Json(Result<String, String>);

/// A parameter type of `#[agent]` functions.
#[diagnostic::on_unimplemented(
    message = "the model cannot be shown a `{Self}`",
    label = "this has no JSON form",
    note = "derive `serde::Serialize` for it, or show its fields, as in `{{param.field}}`",
    note = "the context is taken by reference and first, as `cx: &Context`"
)]
pub trait AgentParam {
    fn json(&self) -> Json;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize> AgentParam for T {
    fn json(&self) -> Json {
        Json(serde_json::to_string(self).map_err(|error| error.to_string()))
    }
}

/// The first parameter of an `#[agent]` function, if it is a reference.
#[diagnostic::on_unimplemented(
    message = "the first parameter of an agent may be a reference to the context only",
    label = "take an owned value, such as `String` for `&str`",
    note = "the context is `agentflow::Context`, as in `cx: &Context`"
)]
pub trait AgentContext {
    fn context(cx: &Self) -> &Context;
}

impl AgentContext for Context {
    fn context(cx: &Self) -> &Context {
        cx
    }
}

/// Return types of `#[agent]` functions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be what an agent returns",
    label = "a model can fail, so this must be a `Result`",
    note = "return `agentflow::Result<T>`, or a `Result` whose error has `From<agentflow::Error>`"
)]
pub trait AgentReturn: Sized {
    /// The agent with the answer type as its output type. Used only through this trait, so that an
    /// invalid return type is reported once and at the return type.
    type Agent;

    /// The type of the answer.
    type Answer;

    /// Creates the agent for a call.
    fn agent(call: AgentCall) -> Self::Agent;

    /// Runs the agent of a call: as a step if there is an enclosing run, otherwise as a run of its
    /// own.
    fn run(agent: Self::Agent, cx: Option<&Context>) -> BoxFuture<'static, Self>;

    /// Sets the output type of an agent to the answer type.
    fn answering(agent: Agent) -> ErasedAgent;

    /// Erases the output type of an agent.
    fn erased(agent: Self::Agent) -> ErasedAgent;
}

impl<T: AgentAnswer, E: AgentError> AgentReturn for Result<T, E> {
    type Agent = Agent<T>;
    type Answer = T;

    fn agent(call: AgentCall) -> Agent<T> {
        call.definition.agent().asking(call.prompt).output()
    }

    fn run(agent: Agent<T>, cx: Option<&Context>) -> BoxFuture<'static, Self> {
        let cx = cx.cloned().or_else(CurrentStep::context).unwrap_or_else(Context::detached);
        Box::pin(async move { Ok(agent.run_in(&cx, ()).await?.into_output()) })
    }

    fn answering(agent: Agent) -> ErasedAgent {
        ErasedAgent::new(agent.output::<T>())
    }

    fn erased(agent: Agent<T>) -> ErasedAgent {
        ErasedAgent::new(agent)
    }
}

/// Probe for the answer type of a return type: `Answers::<R>::answering`. Method resolution prefers
/// the inherent function. The fallback trait [`TextAnswerFallback`] accepts any type, so an invalid return
/// type causes only one compile error.
pub struct Answers<R>(PhantomData<R>);

impl<R: AgentReturn> Answers<R> {
    pub fn answering(agent: Agent) -> ErasedAgent {
        R::answering(agent)
    }

    pub fn erased(agent: R::Agent) -> Option<ErasedAgent> {
        Some(R::erased(agent))
    }

    pub fn output_key(key: &StateKey<R::Answer>) -> OutputKey {
        OutputKey::new(key)
    }
}

pub trait TextAnswerFallback {
    fn answering(agent: Agent) -> ErasedAgent {
        ErasedAgent::new(agent)
    }

    fn erased<A>(_: A) -> Option<ErasedAgent> {
        None
    }

    fn output_key<T>(key: &StateKey<T>) -> OutputKey {
        OutputKey::new(key)
    }
}

impl<R> TextAnswerFallback for Answers<R> {}

/// Answer types of `#[agent]` functions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the answer of an agent",
    label = "the model's answer cannot be read as this",
    note = "derive `serde::Deserialize` and `schemars::JsonSchema` for it; it must own its data",
    note = "for text, answer with a `String`"
)]
pub trait AgentAnswer: DeserializeOwned + JsonSchema + 'static {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema + 'static> AgentAnswer for T {}

/// Error types of `#[agent]` functions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of an agent",
    label = "an `agentflow::Error` cannot become this",
    note = "return `agentflow::Result<T>`, or implement `From<agentflow::Error>` for it"
)]
pub trait AgentError: From<Error> + 'static {}

#[diagnostic::do_not_recommend]
impl<E: From<Error> + 'static> AgentError for E {}
