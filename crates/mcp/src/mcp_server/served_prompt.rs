//! `ServedPrompt`: a prompt with arguments that a client's person can select, and the function that
//! creates its messages.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use agentflow_schema::template::Template;
use agentflow_schema::text::{did_you_mean, nearest};
use serde_json::{Map, Value};

use agentflow_core::__private::extension::BoxFuture;
use agentflow_core::message::Message;

/// Function that creates the messages. The client receives the error.
type MakeMessages =
    dyn Fn(PromptArguments) -> BoxFuture<'static, Result<Vec<Message>, String>> + Send + Sync;

/// A prompt of an [`McpServer`](super::McpServer), added with
/// [`McpServer::prompt`](super::McpServer::prompt). A client's person selects it by name and fills
/// in its arguments.
///
/// ```
/// use agentflow::Message;
/// use agentflow::mcp_server::{McpServer, ServedPrompt};
/// use agentflow::prelude::*;
///
/// # let runtime = Runtime::builder().build();
/// let server = McpServer::from_runtime(&runtime)
///     .prompt(ServedPrompt::text("review", "Review this {language?} code:\n\n{code}").argument("code", "What to review."))
///     .prompt(ServedPrompt::messages("greet", |given| async move {
///         let name = given.get("name").unwrap_or("you").to_owned();
///         Ok::<_, String>(vec![Message::user(format!("Greet {name}.")), Message::assistant("Gladly.")])
///     }).optional_argument("name", "Whom to greet."));
/// # drop(server);
/// ```
#[derive(Clone)]
#[must_use = "a prompt is offered when it is given to a server"]
pub struct ServedPrompt {
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) arguments: Vec<PromptArgument>,
    pub(super) scopes: Vec<Arc<str>>,
    makes: PromptSource,
}

#[derive(Clone)]
enum PromptSource {
    Filled(Arc<Template>),
    Made(Arc<MakeMessages>),
    /// The text is not a valid template.
    Wrong(String),
}

#[derive(Clone, Debug)]
pub(super) struct PromptArgument {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) is_required: bool,
    /// Asks the client's person for the argument when it is omitted.
    pub(super) is_asked: bool,
}

/// Arguments that a client has sent, passed to the function of a prompt.
#[derive(Clone, Debug, Default)]
pub struct PromptArguments(BTreeMap<String, String>);

impl PromptArguments {
    /// Adds an argument that the person has filled in later.
    pub(super) fn insert(&mut self, name: String, value: String) {
        self.0.insert(name, value);
    }

    /// Returns the size of all names and values in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// Returns the value of an argument. A required argument always has a value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl ServedPrompt {
    fn new(name: String, makes: PromptSource) -> Self {
        Self {
            name,
            title: None,
            description: None,
            arguments: Vec::new(),
            scopes: Vec::new(),
            makes,
        }
    }

    /// Creates a prompt with one user message from a [template](agentflow_core::template). The placeholders
    /// of the template are the arguments: `{code}` is required, and `{language?}` is optional.
    pub fn text(name: impl Into<String>, template: impl AsRef<str>) -> Self {
        match template.as_ref().parse::<Template>() {
            Ok(template) => {
                let mut arguments: Vec<PromptArgument> = Vec::new();
                for placeholder in template.placeholders() {
                    let (name, is_required) = (placeholder.path(), !placeholder.is_optional());
                    // A placeholder may occur several times. One required occurrence makes the
                    // argument required.
                    match arguments.iter_mut().find(|argument| argument.name == name) {
                        Some(argument) => argument.is_required |= is_required,
                        None => {
                            arguments.push(PromptArgument {
                                name,
                                description: None,
                                is_required,
                                is_asked: false,
                            });
                        }
                    }
                }
                // Arguments are strings, so a placeholder with a path, such as `{a.b}`, cannot have
                // a value.
                let path =
                    template.placeholders().find(|placeholder| placeholder.parts().len() > 1);
                let makes = match path.map(|placeholder| placeholder.path()) {
                    Some(path) => PromptSource::Wrong(format!(
                        "`{{{path}}}` is a part of a value, and arguments are texts"
                    )),
                    None => PromptSource::Filled(Arc::new(template)),
                };
                Self { arguments, ..Self::new(name.into(), makes) }
            }
            Err(error) => Self::new(name.into(), PromptSource::Wrong(error.to_string())),
        }
    }

    /// Creates a prompt whose messages a function creates from the arguments. The messages may
    /// contain text, images and files. Only messages of the user and of the assistant can be sent.
    /// The client receives the text of an error, and a general error after a panic. The future is
    /// dropped when the client no longer waits.
    pub fn messages<F, M, E>(name: impl Into<String>, make: F) -> Self
    where
        F: Fn(PromptArguments) -> M + Send + Sync + 'static,
        M: Future<Output = Result<Vec<Message>, E>> + Send + 'static,
        E: fmt::Display,
    {
        let make = move |given| -> BoxFuture<'static, _> {
            let made = make(given);
            Box::pin(async move { made.await.map_err(|error| error.to_string()) })
        };
        Self::new(name.into(), PromptSource::Made(Arc::new(make)))
    }

    /// Describes an argument. If the prompt does not have it yet, it is added as a required
    /// argument.
    pub fn argument(self, name: impl Into<String>, description: impl Into<String>) -> Self {
        self.with(name.into(), description.into(), true)
    }

    /// Describes an argument. If the prompt does not have it yet, it is added as an optional
    /// argument.
    pub fn optional_argument(
        self,
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> Self {
        self.with(name.into(), description.into(), false)
    }

    /// Describes an argument that the prompt requires and the client may omit. A client of revision
    /// 2026-07-28 that supports it asks its person for the value. Other clients must send the
    /// argument.
    ///
    /// ```
    /// use agentflow::mcp_server::ServedPrompt;
    ///
    /// let plan = ServedPrompt::text("plan", "Plan a day in {place}.").asked_argument("place", "Where are you?");
    /// ```
    pub fn asked_argument(self, name: impl Into<String>, description: impl Into<String>) -> Self {
        let name = name.into();
        let mut prompt = self.with(name.clone(), description.into(), true);
        for argument in prompt.arguments.iter_mut().filter(|argument| argument.name == name) {
            (argument.is_asked, argument.is_required) = (true, true);
        }
        prompt
    }

    fn with(mut self, name: String, description: String, is_required: bool) -> Self {
        match self.arguments.iter_mut().find(|argument| argument.name == name) {
            // A template defines itself which arguments are optional.
            Some(argument) => argument.description = Some(description),
            None => {
                // A prompt without this placeholder would ignore the argument, so this is a mistake
                // of the program.
                if let PromptSource::Filled(_) = self.makes {
                    let near = did_you_mean(nearest(
                        &name,
                        self.arguments.iter().map(|argument| argument.name.as_str()),
                    ));
                    self.makes = PromptSource::Wrong(format!("its text has no `{{{name}}}`{near}"));
                }
                let description = Some(description);
                self.arguments.push(PromptArgument {
                    name,
                    description,
                    is_required,
                    is_asked: false,
                });
            }
        }
        self
    }

    /// Sets the display name for people. Default: none.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the description. Default: none.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the scopes that a client needs to use the prompt. They are granted by
    /// [`McpServer::grant`](super::McpServer::grant) or to the caller. The prompt is listed for all
    /// clients. Default: none.
    pub fn scopes<S: Into<Arc<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Returns the problem of an invalid prompt.
    pub(super) fn problem(&self) -> Option<&str> {
        match &self.makes {
            PromptSource::Wrong(problem) => Some(problem),
            PromptSource::Filled(_) | PromptSource::Made(_) if self.name.is_empty() => {
                Some("it has no name")
            }
            PromptSource::Filled(_) | PromptSource::Made(_) => None,
        }
    }

    /// Converts the arguments that a client has sent.
    ///
    /// # Errors
    /// Fails if an argument is unknown or not a string.
    pub(super) fn given(&self, arguments: Map<String, Value>) -> Result<PromptArguments, String> {
        let mut given = BTreeMap::new();
        for (name, value) in arguments {
            let Value::String(value) = value else {
                return Err(format!("the argument `{name}` must be a text"));
            };
            if !self.arguments.iter().any(|argument| argument.name == name) {
                let near =
                    nearest(&name, self.arguments.iter().map(|argument| argument.name.as_str()));
                return Err(format!(
                    "the prompt `{}` has no argument `{name}`{}",
                    self.name,
                    did_you_mean(near)
                ));
            }
            given.insert(name, value);
        }
        Ok(PromptArguments(given))
    }

    /// Returns the required arguments that were not sent.
    pub(super) fn missing<'p>(&'p self, given: &PromptArguments) -> Vec<&'p PromptArgument> {
        let is_missing = |argument: &&PromptArgument| {
            argument.is_required && given.get(&argument.name).is_none()
        };
        self.arguments.iter().filter(is_missing).collect()
    }

    /// Creates the messages. Dropping the future stops the function.
    pub(super) fn made(
        &self,
        given: PromptArguments,
    ) -> BoxFuture<'static, Result<Vec<Message>, String>> {
        match &self.makes {
            PromptSource::Made(make) => make(given),
            PromptSource::Filled(template) => {
                let values =
                    given.0.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
                let filled =
                    template.fill(&Value::Object(values)).map_err(|error| error.to_string());
                // A template that is only one optional placeholder yields `null` without a value.
                let text = filled.map(|text| text.as_str().unwrap_or_default().to_owned());
                Box::pin(std::future::ready(text.map(|text| vec![Message::user(text)])))
            }
            PromptSource::Wrong(problem) => Box::pin(std::future::ready(Err(problem.clone()))),
        }
    }
}

impl fmt::Debug for ServedPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedPrompt").field("name", &self.name).finish_non_exhaustive()
    }
}
