//! Parses tasks that other programs send, and turns each into the request of a run.
//!
//! This module starts nothing and looks nothing up. The code that starts the run checks that the
//! agent and the session exist and that the caller may use them.

use std::time::Duration;

use agentflow_core::agent::{Agent, RunRequest};
use agentflow_core::event::RunId;
use agentflow_core::message::Message;
use agentflow_core::middleware::retry;
use agentflow_core::model::{ModelRef, ModelSettings};
use agentflow_core::session::Session;
use agentflow_schema::strict;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A task that another program sends as JSON: the work, the agent and the session.
///
/// | the task has | the run |
/// | --- | --- |
/// | `agent_id` and `session_id` | has a registered agent and continues the session, which must exist |
/// | `agent_id` alone | has a registered agent and starts a new session |
/// | `agent_config` alone | has a new agent from the task and starts a new session |
/// | `agent_config` and `session_id` | has a new agent from the task and continues the session |
///
/// The [`TaskResult`](super::TaskResult) of the run contains `agent_id` and `session_id` for the
/// next task.
///
/// ```
/// use agentflow::prelude::*;
/// use agentflow::store::MemoryStore;
/// use agentflow::views::{TaskAgent, TaskRequest, TaskResult};
/// # use agentflow_testing::{ScriptedModel, Turn};
///
/// /// Help.
/// #[agent(model = "openai/gpt-5-mini")]
/// async fn front_desk(cx: &Context) -> Result<String>;
///
/// type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
///
/// async fn process(runtime: &Runtime, user: &str, body: &str) -> Outcome<TaskResult> {
///     let start = TaskRequest::from_json(body)?.start()?;
///     // A session id proves nothing: the program checks the owner.
///     if let Some(session) = &start.session {
///         assert_eq!(runtime.sessions().get(session).await?.caller.as_deref(), Some(user), "not your session");
///     }
///     // The task does not decide on whose behalf it runs either.
///     let request = start.request.caller(user);
///     let events = match start.agent {
///         TaskAgent::Known(name) => {
///             let run = runtime.start_agent(&name, request).await?;
///             let _ = run.result().await;
///             run.recorded()
///         }
///         TaskAgent::New(agent) => {
///             let run = agent.runtime(runtime).start(request)?;
///             let _ = run.result().await;
///             run.recorded()
///         }
///         other => return Err(format!("this program cannot start {other:?}").into()),
///     };
///     Ok(TaskResult::of(&events).expect("a run has events"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Outcome<()> {
/// # let model = ScriptedModel::new([Turn::text("Hello."), Turn::text("Ada.").expect_text("I am Ada.")]);
/// let runtime = Runtime::builder().store(MemoryStore::new())
/// #   .model(model)
///     .build();
/// let first = r#"{"task_id": "t1", "task_type": "chat", "description": "I am Ada.", "agent_id": "front_desk"}"#;
/// let first = process(&runtime, "ada", first).await?;
/// let next = serde_json::json!({
///     "task_id": "t2", "task_type": "chat", "description": "Who am I?",
///     "agent_id": first.agent_id, "session_id": first.session_id,
/// });
/// let next = process(&runtime, "ada", &next.to_string()).await?;
/// assert_eq!(next.messages.last().unwrap().content, "Ada.");
/// # Ok(())
/// # }
/// ```
///
/// [`Runtime::process_request`](agentflow_core::Runtime::process_request) does all of this in one
/// call:
///
/// ```
/// use agentflow::prelude::*;
/// use agentflow::store::MemoryStore;
/// use agentflow::views::{TaskRequest, TaskStatus};
/// use agentflow_testing::{ScriptedModel, Turn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let desk = Agent::new(ScriptedModel::new([Turn::text("Hello.")])).name("desk");
/// let runtime = Runtime::builder().store(MemoryStore::new()).agent(&desk).build();
/// let task = r#"{"task_id": "t1", "task_type": "chat", "description": "Hi.", "agent_id": "desk"}"#;
/// let result = runtime.process_request(&TaskRequest::from_json(task)?, "ada").await;
/// assert_eq!(result.status, TaskStatus::Success);
/// assert_eq!(result.messages.last().unwrap().content, "Hello.");
///
/// let unknown = r#"{"task_id": "t2", "task_type": "chat", "description": "Hi.", "agent_id": "disk"}"#;
/// let result = runtime.process_request(&TaskRequest::from_json(unknown)?, "ada").await;
/// assert_eq!(result.status, TaskStatus::Error);
/// assert!(result.error_message.unwrap().contains("did you mean `desk`?"));
/// # Ok(())
/// # }
/// ```
///
/// No field is ignored silently. An unknown field is an error. A field that a task may not set
/// (permissions, tools, the content of a session) is an error too, unless it is `null`, an empty
/// list or the default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TaskRequest {
    /// The id of the run. If the runtime has a store, a task that is sent twice is started once.
    pub task_id: String,
    /// The kind of the task. Becomes the run's tag `task_type`.
    pub task_type: String,
    /// The request to the agent. It follows `messages`, and may be empty if these end with a
    /// message of the user.
    pub description: String,
    /// Name of the agent.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// The session to continue. Without it, the run starts a new session.
    #[serde(default)]
    pub session_id: Option<String>,
    /// Description of a new agent, as an alternative to `agent_id`.
    #[serde(default)]
    pub agent_config: Option<TaskAgentConfig>,
    /// The conversation before `description`: text messages of `user` and `assistant`.
    #[serde(default)]
    pub messages: Vec<TaskRequestMessage>,
    /// The user, as stated by the task and not verified.
    #[serde(default)]
    pub user_context: Option<TaskUser>,
    /// Must be absent or `null`: the store has the session.
    #[serde(default)]
    pub session_context: Option<Value>,
    /// Must be absent or `null`: the run creates its own context.
    #[serde(default)]
    pub execution_context: Option<Value>,
    /// Must be empty: the agent has its own tools.
    #[serde(default)]
    pub available_tools: Vec<Value>,
    /// Must be empty: the agent has its own knowledge sources.
    #[serde(default)]
    pub available_knowledge: Vec<Value>,
    /// Settings for the execution.
    #[serde(default)]
    pub execution_config: Option<TaskExecution>,
    /// Tags of the run. A string is used without quotes, any other value as JSON.
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

/// The user of a task. Permissions are granted by the program and never by a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
#[doc(alias = "UserContext")]
pub struct TaskUser {
    /// Id of the user, as stated by the task. See [`TaskStart::user`].
    pub user_id: Option<String>,
    /// Display name of the user. Becomes the run's tag `user_name`.
    pub user_name: Option<String>,
    /// Must be absent or `null`: the program verifies the token.
    pub session_token: Option<Value>,
    /// Must be absent or `null`: the program grants permissions.
    pub permissions: Option<Value>,
    /// Must be absent or `null`: preferences are in the state and the memory of the user.
    pub preferences: Option<Value>,
}

/// Settings for the execution of a task. The default of each field leaves the decision to the
/// program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct TaskExecution {
    /// Time limit of the run in seconds. 0 is an error.
    pub timeout: Option<u64>,
    /// Number of retries of a failed model call, at most 100. The process that starts the run
    /// applies them with [`retry`](agentflow_core::middleware::retry). The default, 3, leaves the
    /// retries to the program. The retries of a tool follow the tool's policy.
    pub max_retries: u64,
    /// `true` if the client intends to read the answer in chunks. It does not change the run.
    pub streaming: bool,
    /// Requests concurrent tool calls. It does not change the run: an agent always executes the
    /// calls of a turn concurrently, up to
    /// [`Limits::max_parallel_tools`](agentflow_core::agent::Limits::max_parallel_tools).
    pub parallel_execution: bool,
    /// The framework. Absent or `native` means this library.
    pub preferred_framework: Option<TaskFramework>,
    /// Limits of the run: `max_steps` and `max_llm_calls`, whole numbers of at least 1. Default:
    /// the limits of the agent.
    pub framework_settings: Map<String, Value>,
    /// `false` for a run [without spans](RunRequest::without_spans). Default: `true`.
    pub enable_tracing: bool,
    /// `false` for a run [without metrics](RunRequest::without_metrics). Default: `true`.
    pub enable_metrics: bool,
    /// `DEBUG`, `INFO`, `WARNING`, `ERROR` or `CRITICAL`. Default: `INFO`. The program controls
    /// logging, so this sets no log level. A level other than `INFO` becomes the run's tag
    /// `log_level`. Spans have the tag too, so that the program's subscriber can filter by it.
    pub log_level: String,
}

impl Default for TaskExecution {
    fn default() -> Self {
        Self {
            timeout: None,
            max_retries: 3,
            streaming: false,
            parallel_execution: false,
            preferred_framework: None,
            framework_settings: Map::new(),
            enable_tracing: true,
            enable_metrics: true,
            log_level: "INFO".to_owned(),
        }
    }
}

/// An agent that a task describes. The task may name any model; the program decides if it starts a
/// run with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TaskAgentConfig {
    /// Name of the agent.
    pub agent_id: String,
    /// The kind of the agent. Becomes the run's tag `agent_type`.
    pub agent_type: String,
    /// The framework. Default and only value: `native`.
    #[serde(default)]
    pub framework_type: TaskFramework,
    /// Display name of the agent. Becomes the run's tag `agent_name`.
    pub name: String,
    /// The model, such as `openai-chat/gpt-5-mini`.
    pub model: String,
    /// Sampling temperature of the model.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// Maximum number of tokens of one answer.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// Instructions of the agent.
    #[serde(default)]
    pub system_instruction: Option<String>,
    /// Must be empty: the program assigns tools to the agent.
    #[serde(default)]
    pub tools: Vec<Value>,
    /// Must be absent or `null`: this setting is for another framework.
    #[serde(default)]
    pub adk_config: Option<Value>,
}

/// The framework that executes an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskFramework {
    /// This library.
    #[default]
    Native,
}

/// A message of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TaskRequestMessage {
    /// Author of the message: `user` or `assistant`.
    pub role: TaskRole,
    /// Text of the message.
    pub content: TaskText,
    /// Name of the author. It is not sent to the model.
    #[serde(default)]
    pub author: Option<String>,
    /// Must be absent or `null`: a task contains no tool results.
    #[serde(default)]
    pub name: Option<String>,
    /// Must be absent or empty: a task contains no tool calls.
    #[serde(default)]
    pub tool_calls: Option<Vec<Value>>,
}

/// The author of a message in a task. A task cannot contain instructions or tool results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskRole {
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// The text of a message: a string or a list of parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a text, or a list of `{\"text\": ..}`")]
#[non_exhaustive]
pub enum TaskText {
    /// A string.
    Text(String),
    /// Parts that are concatenated.
    Parts(Vec<TaskTextPart>),
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TaskTextPart {
    /// Text of the part.
    pub text: String,
    /// Must be absent or `null`: a task contains only text.
    #[serde(default)]
    pub function_call: Option<Value>,
    /// Must be absent or `null`: a task contains only text.
    #[serde(default)]
    pub file_reference: Option<Value>,
    /// Must be absent or `null`: a task contains only text.
    #[serde(default)]
    pub image_reference: Option<Value>,
}

/// The request of a run, made from a task.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskStart {
    /// The agent that executes the task.
    pub agent: TaskAgent,
    /// The user, as stated by the task and not verified. It is not yet the caller of the run: a run
    /// can read the memories and the state of its caller. The program sets the caller with
    /// [`RunRequest::caller`].
    pub user: Option<String>,
    /// Id of the session to continue, which must exist. `None` starts a new session. The program
    /// decides if the user may continue the session.
    pub session: Option<String>,
    /// The request, including the session, for
    /// [`Runtime::start_agent`](agentflow_core::Runtime::start_agent) or [`Agent::start`].
    pub request: RunRequest,
}

/// The agent that executes a task.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TaskAgent {
    /// A registered agent with this name.
    Known(String),
    /// A new agent without a runtime and without tools.
    New(Agent),
}

/// The error of a task that cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the task cannot be started: {problem}")]
#[non_exhaustive]
pub struct TaskRequestError {
    /// Name of the invalid field, such as `available_tools`. `None` if the error is not about one
    /// field.
    pub field: Option<&'static str>,
    /// Description of the problem and of the fix.
    pub problem: String,
}

fn wrong(field: &'static str, problem: &str) -> TaskRequestError {
    TaskRequestError { field: Some(field), problem: format!("`{field}`: {problem}") }
}

/// Tags of the run that are set from other fields of the task.
const OWN_TAGS: [&str; 5] = ["agent_name", "agent_type", "log_level", "task_type", "user_name"];

/// Accepted values of `log_level`.
const LEVELS: [&str; 5] = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];

/// Maximum value of `max_retries`.
const MOST_RETRIES: u64 = 100;

/// Maximum length of an id in bytes.
const LONGEST: usize = Session::MAX_ID;

impl TaskRequest {
    /// Parses a task strictly: one JSON object without duplicate keys and without unknown fields.
    ///
    /// # Errors
    /// Returns an error that names the problem and its place in the JSON.
    pub fn from_json(text: &str) -> Result<Self, TaskRequestError> {
        let problem = |problem: String| TaskRequestError { field: None, problem };
        // serde would accept duplicate keys and use one of the values silently.
        strict::check(text).map_err(|error| problem(error.to_string()))?;
        let mut json = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut json).map_err(|error| {
            match error.path().to_string() {
                path if path == "." => problem(error.inner().to_string()),
                path => problem(format!("`{path}`: {}", error.inner())),
            }
        })
    }

    /// Returns the run that the task requests. This function looks nothing up and starts nothing.
    ///
    /// # Errors
    /// Returns an error if the task
    ///
    /// - names no agent, or both `agent_id` and `agent_config`;
    /// - contains no request to the agent;
    /// - has an id that is empty or longer than 512 bytes;
    /// - has an invalid setting, or sets a field that a task may not set.
    pub fn start(&self) -> Result<TaskStart, TaskRequestError> {
        self.check()?;
        let agent = match (&self.agent_id, &self.agent_config) {
            (Some(name), None) => TaskAgent::Known(checked_id("agent_id", name)?.to_owned()),
            (None, Some(config)) => TaskAgent::New(config.agent()?),
            (Some(_), Some(_)) => {
                return Err(wrong("agent_config", "there is an `agent_id`, too; give one of them"));
            }
            (None, None) => {
                return Err(wrong("agent_id", "it names no agent; give one, or an `agent_config`"));
            }
        };
        let session =
            self.session_id.as_deref().map(|id| checked_id("session_id", id)).transpose()?;
        // The tags from `metadata` come first. `check` has refused the keys that are set below.
        let tags = self.metadata.iter().map(|(key, value)| match value {
            Value::String(text) => (key.clone(), text.clone()),
            other => (key.clone(), other.to_string()),
        });
        let mut request = RunRequest::new(self.asked()?)
            .run_id(RunId::new(checked_id("task_id", &self.task_id)?))
            .session(session.map_or_else(Session::begin, Session::existing));
        request = tags
            .fold(request, |request, (key, value)| request.tag(key, value))
            .tag("task_type", &self.task_type);
        if let Some(config) = &self.agent_config {
            request = request.tag("agent_type", &config.agent_type).tag("agent_name", &config.name);
        }
        let user = self.user_context.as_ref();
        if let Some(name) = user.and_then(|user| user.user_name.as_ref()) {
            request = request.tag("user_name", name);
        }
        if let Some(execution) = &self.execution_config {
            request = execution.applied_to(request)?;
        }
        let user = user.and_then(|user| user.user_id.clone());
        Ok(TaskStart { agent, user, session: session.map(ToOwned::to_owned), request })
    }

    /// Returns the messages before `description`, and `description` as the last message.
    fn asked(&self) -> Result<Vec<Message>, TaskRequestError> {
        let mut messages =
            self.messages.iter().map(TaskRequestMessage::message).collect::<Result<Vec<_>, _>>()?;
        match (self.description.trim().is_empty(), self.messages.last().map(|last| last.role)) {
            (false, _) => messages.push(Message::user(&*self.description)),
            (true, Some(TaskRole::User)) => {}
            (true, _) => {
                return Err(wrong(
                    "description",
                    "nothing is asked; write it, or end `messages` with one of `user`",
                ));
            }
        }
        Ok(messages)
    }

    /// Returns an error if the task sets a field that only the program may set.
    fn check(&self) -> Result<(), TaskRequestError> {
        left_out(
            "session_context",
            self.session_context.as_ref(),
            "the store has the session; name it by `session_id`",
        )?;
        left_out("execution_context", self.execution_context.as_ref(), "the run makes its own")?;
        empty(
            "available_tools",
            &self.available_tools,
            "the agent has its tools, and a task brings none",
        )?;
        empty(
            "available_knowledge",
            &self.available_knowledge,
            "the agent has its own, and a task brings none",
        )?;
        if OWN_TAGS.iter().any(|tag| self.metadata.contains_key(*tag)) {
            let own = OWN_TAGS.map(|tag| format!("`{tag}`")).join(", ");
            return Err(wrong(
                "metadata",
                &format!("the tags {own} say what other fields do; give these another key"),
            ));
        }
        if let Some(user) = &self.user_context {
            left_out(
                "user_context.session_token",
                user.session_token.as_ref(),
                "the program checks it",
            )?;
            left_out(
                "user_context.permissions",
                user.permissions.as_ref(),
                "what a run may do, the program grants",
            )?;
            left_out(
                "user_context.preferences",
                user.preferences.as_ref(),
                "they are in the user's state and memory",
            )?;
        }
        Ok(())
    }
}

impl TaskExecution {
    /// Applies these settings to a request.
    fn applied_to(&self, mut request: RunRequest) -> Result<RunRequest, TaskRequestError> {
        match self.timeout {
            Some(0) => {
                return Err(wrong(
                    "execution_config.timeout",
                    "it is 0; give the seconds that the run may take",
                ));
            }
            Some(seconds) => request = request.timeout(Duration::from_secs(seconds)),
            None => {}
        }
        match u32::try_from(self.max_retries) {
            Ok(retries) if self.max_retries <= MOST_RETRIES => {
                // The default must not replace the retries that the program configured.
                if self.max_retries != Self::default().max_retries {
                    request = request.with(retry(retries));
                }
            }
            _ => {
                return Err(wrong(
                    "execution_config.max_retries",
                    "more than 100 retries; give at most 100",
                ));
            }
        }
        for (name, value) in &self.framework_settings {
            let limit = value
                .as_u64()
                .and_then(|number| u32::try_from(number).ok())
                .filter(|number| *number > 0);
            request = match (name.as_str(), limit) {
                ("max_steps", Some(limit)) => request.max_steps(limit),
                ("max_llm_calls", Some(limit)) => request.max_llm_calls(limit),
                ("max_steps" | "max_llm_calls", None) => {
                    return Err(wrong(
                        "execution_config.framework_settings",
                        "a limit is a whole number of at least 1",
                    ));
                }
                _ => {
                    let problem = "it has `max_steps` and `max_llm_calls` alone; leave others out";
                    return Err(wrong("execution_config.framework_settings", problem));
                }
            };
        }
        if !self.enable_tracing {
            request = request.without_spans();
        }
        if !self.enable_metrics {
            request = request.without_metrics();
        }
        match self.log_level.as_str() {
            "INFO" => Ok(request),
            level if LEVELS.contains(&level) => Ok(request.tag("log_level", level)),
            _ => {
                let problem = format!(
                    "no such level; give one of {}",
                    LEVELS.map(|level| format!("`{level}`")).join(", ")
                );
                Err(wrong("execution_config.log_level", &problem))
            }
        }
    }
}

impl TaskAgentConfig {
    fn agent(&self) -> Result<Agent, TaskRequestError> {
        empty(
            "agent_config.tools",
            &self.tools,
            "the program gives tools to the agent, and a task brings none",
        )?;
        left_out(
            "agent_config.adk_config",
            self.adk_config.as_ref(),
            "it is for another framework",
        )?;
        let name = checked_id("agent_config.agent_id", &self.agent_id)?;
        if let Err(error) = self.model.parse::<ModelRef>() {
            return Err(wrong("agent_config.model", &error.to_string()));
        }
        let settings = ModelSettings::default();
        let settings = self.temperature.into_iter().fold(settings, ModelSettings::temperature);
        let settings = self.max_tokens.into_iter().fold(settings, ModelSettings::max_tokens);
        let agent = Agent::new(self.model.as_str()).name(name).settings(settings);
        Ok(self.system_instruction.iter().fold(agent, |agent, text| agent.instruct(text)))
    }
}

impl TaskRequestMessage {
    fn message(&self) -> Result<Message, TaskRequestError> {
        empty(
            "messages.tool_calls",
            self.tool_calls.as_deref().unwrap_or_default(),
            "the calls of a run are its own",
        )?;
        left_out(
            "messages.name",
            self.name.as_ref(),
            "it is the name of a tool, and a task brings no results of tools",
        )?;
        let text = match &self.content {
            TaskText::Text(text) => text.clone(),
            TaskText::Parts(parts) => {
                for part in parts {
                    let others = [&part.function_call, &part.file_reference, &part.image_reference];
                    let other = others.into_iter().flatten().next();
                    left_out(
                        "messages.content",
                        other,
                        "a task brings texts; save files where a tool finds them",
                    )?;
                }
                parts.iter().map(|part| part.text.as_str()).collect()
            }
        };
        Ok(match self.role {
            TaskRole::User => Message::user(text),
            TaskRole::Assistant => Message::assistant(text),
        })
    }
}

fn checked_id<'a>(field: &'static str, id: &'a str) -> Result<&'a str, TaskRequestError> {
    match id.len() {
        0 => Err(wrong(field, "it is empty; give an id, or leave the field out where it may be")),
        1..=LONGEST => Ok(id),
        _ => Err(wrong(field, "it has more than 512 bytes; give a shorter one")),
    }
}

fn left_out<T>(field: &'static str, value: Option<&T>, why: &str) -> Result<(), TaskRequestError> {
    match value {
        None => Ok(()),
        Some(_) => Err(wrong(field, &format!("{why}; leave it out"))),
    }
}

fn empty(field: &'static str, list: &[Value], why: &str) -> Result<(), TaskRequestError> {
    left_out(field, list.first(), why)
}
