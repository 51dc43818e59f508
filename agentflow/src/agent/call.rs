//! One call of an `#[agent]`: its arguments become instruction and message, its answer becomes the return value.
//!
//! The JSON of an argument decides how it is shown, and the return type itself decides whether the answer is text; no
//! type is recognised by its spelling.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Agent;
use super::definition::AgentDefinition;
use super::erased::ErasedAgent;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::future::BoxFuture;
use crate::tool::{StepPlace, ToolRef};

/// The user's message of an agent that is shown no data: a provider takes no conversation that nobody has begun.
const BEGIN: &str = "Begin.";

/// The user's message when all data in it is blank: a provider takes no empty one.
const BLANK: &str = "\"\"";

/// The options of `#[agent(..)]`.
pub struct AgentOptions {
    pub model: Option<&'static str>,
    pub tools: fn() -> Vec<ToolRef>,
    pub temperature: Option<f64>,
    pub max_tokens: Option<u32>,
    pub max_steps: Option<u32>,
    pub output_retries: Option<u32>,
    pub answering: fn(Agent) -> ErasedAgent,
}

impl AgentOptions {
    pub const DEFAULT: Self = Self {
        model: None,
        tools: Vec::new,
        temperature: None,
        max_tokens: None,
        max_steps: None,
        output_retries: None,
        answering: ErasedAgent::new::<String>,
    };
}

/// A call that is being put together: first the instruction, then the user's message.
pub struct AgentCall {
    definition: &'static AgentDefinition,
    cx: Context,
    instruction: String,
    /// The paragraphs that show arguments, once the instruction is whole.
    message: Option<String>,
    /// The arguments that no placeholder shows, as the fields of a JSON object.
    arguments: String,
    problem: Option<String>,
}

impl AgentCall {
    pub fn new(definition: &'static AgentDefinition, cx: Option<&Context>) -> Self {
        let cx = cx.cloned().or_else(StepPlace::context).unwrap_or_else(Context::detached);
        Self { definition, cx, instruction: String::new(), message: None, arguments: String::new(), problem: None }
    }

    /// What follows is the user's message.
    #[must_use]
    pub fn message(mut self) -> Self {
        self.message = Some(String::new());
        self
    }

    /// Text.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.part().push_str(text);
        self
    }

    /// A value: a string as it is, everything else as JSON.
    #[must_use]
    pub fn value(mut self, path: &str, json: &Json) -> Self {
        if let Some(json) = self.json(path, json) {
            push_shown(self.part(), json);
        }
        self
    }

    /// A value of the application.
    #[must_use]
    pub fn app(mut self, key: &str, optional: bool) -> Self {
        let value = self.cx.host().app.get(key).map(ToString::to_string);
        match value {
            Some(value) => push_shown(self.part(), &value),
            None if optional => {}
            None => {
                self.problem.get_or_insert_with(|| {
                    format!(
                        "it shows `{{app:{key}}}`, and its runtime has no such value; give it one with \
                         `Runtime::builder().app(\"{key}\", ..)`, or write `{{app:{key}?}}` to show nothing then"
                    )
                });
            }
        }
        self
    }

    /// The text that is being written.
    fn part(&mut self) -> &mut String {
        self.message.as_mut().unwrap_or(&mut self.instruction)
    }

    /// An argument that no placeholder shows.
    #[must_use]
    pub fn argument(mut self, name: &str, json: &Json) -> Self {
        if let Some(json) = self.json(name, json) {
            self.arguments.push_str(if self.arguments.is_empty() { "{" } else { "," });
            self.arguments.push_str(&format!("{name:?}:{json}"));
        }
        self
    }

    fn json<'j>(&mut self, path: &str, json: &'j Json) -> Option<&'j str> {
        match &json.0 {
            Ok(json) => Some(json),
            Err(problem) => {
                self.problem.get_or_insert_with(|| format!("its argument `{path}` has no JSON form: {problem}"));
                None
            }
        }
    }

    async fn run<T: AgentAnswer>(self) -> Result<T> {
        let Self { definition, cx, instruction, message, mut arguments, problem } = self;
        if let Some(problem) = problem {
            return Err(definition.error(problem));
        }
        let agent = definition.agent(&cx, instruction)?.output::<T>();
        if !arguments.is_empty() {
            arguments.push('}');
        }
        let message = match message {
            None if arguments.is_empty() => BEGIN.to_owned(),
            None => arguments,
            Some(message) if !arguments.is_empty() => format!("{message}\n\n{arguments}"),
            Some(message) if message.trim().is_empty() => BLANK.to_owned(),
            Some(message) => message,
        };
        Ok(agent.run_in(&cx, message).await?.into_output())
    }
}

fn push_shown(text: &mut String, json: &str) {
    match json.starts_with('"').then(|| serde_json::from_str::<String>(json)) {
        Some(Ok(string)) => text.push_str(&string),
        _ => text.push_str(json),
    }
}

/// The JSON of an argument, or why it has none.
pub struct Json(std::result::Result<String, String>);

/// What a parameter of an `#[agent]` function can be.
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

/// The first parameter of an `#[agent]` function when it is a reference.
#[diagnostic::on_unimplemented(
    message = "the first parameter of an agent may be a reference to the context only",
    label = "take an owned value, such as `String` for `&str`",
    note = "the context is `agentflow::Context`, as in `cx: &Context`"
)]
pub trait AgentContext {
    fn of(cx: &Self) -> &Context;
}

impl AgentContext for Context {
    fn of(cx: &Self) -> &Context {
        cx
    }
}

/// What an `#[agent]` function can return.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be what an agent returns",
    label = "a model can fail, so this must be a `Result`",
    note = "return `agentflow::Result<T>`, or a `Result` whose error has `From<agentflow::Error>`"
)]
pub trait AgentReturn: Sized {
    // A type with a name: what fails to be one is then told once.
    fn run(call: AgentCall) -> BoxFuture<'static, Self>;

    /// The agent with the answer's type as its output type.
    fn answering(agent: Agent) -> ErasedAgent;
}

impl<T: AgentAnswer, E: AgentError> AgentReturn for std::result::Result<T, E> {
    fn run(call: AgentCall) -> BoxFuture<'static, Self> {
        Box::pin(async { call.run::<T>().await.map_err(E::from) })
    }

    fn answering(agent: Agent) -> ErasedAgent {
        ErasedAgent::new(agent.output::<T>())
    }
}

/// Asks of what an `#[agent]` function returns how its answer is read: `Answers::<R>::answering`. Method resolution takes
/// the inherent function where there is one, so what is wrong with a return type is reported once and not here.
pub struct Answers<R>(PhantomData<R>);

impl<R: AgentReturn> Answers<R> {
    pub fn answering(agent: Agent) -> ErasedAgent {
        R::answering(agent)
    }
}

pub trait AnswersText {
    fn answering(agent: Agent) -> ErasedAgent {
        ErasedAgent::new(agent)
    }
}

impl<R> AnswersText for Answers<R> {}

/// What an `#[agent]` function can answer.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the answer of an agent",
    label = "the model's answer cannot be read as this",
    note = "derive `serde::Deserialize` and `schemars::JsonSchema` for it; it must own its data",
    note = "for text, answer with a `String`"
)]
pub trait AgentAnswer: DeserializeOwned + JsonSchema + 'static {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema + 'static> AgentAnswer for T {}

/// What an `#[agent]` function can fail with.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of an agent",
    label = "an `agentflow::Error` cannot become this",
    note = "return `agentflow::Result<T>`, or implement `From<agentflow::Error>` for it"
)]
pub trait AgentError: From<Error> + 'static {}

#[diagnostic::do_not_recommend]
impl<E: From<Error> + 'static> AgentError for E {}
