//! `TaskRequest`: what another program asks for as a task, and the request of a run that it is. It starts nothing and looks
//! nothing up: whether the agent and the session are there, and whether the caller may have them, is seen by who starts it.

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

/// A task as another program asks for it, in JSON: what is to be done, by which agent, in which session.
///
/// | the task has | the run is |
/// | --- | --- |
/// | `agent_id` and `session_id` | one of a known agent that continues this session; there must be one |
/// | `agent_id` alone | one of a known agent in a new session |
/// | `agent_config` alone | one of a new agent, which the task describes, in a new session |
/// | `agent_config` and `session_id` | one of such an agent that continues this session |
///
/// [`TaskResult`](super::TaskResult) of the run returns `agent_id` and `session_id` for the next task.
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
///     // A session's id is a name and no proof: whose it is, the program says.
///     if let Some(session) = &start.session {
///         assert_eq!(runtime.session(session).await?.caller.as_deref(), Some(user), "not your session");
///     }
///     // Nor does a task say on whose behalf it runs.
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
/// [`Runtime::process_request`](agentflow_core::Runtime::process_request) does all of this in one call:
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
/// Nothing in a task is dropped without a word. A field that agentflow does not have is an error, and so is one whose
/// meaning is not a task's to say (grants, tools, a session's content), unless it has the value that says nothing: `null`, an
/// empty list, or its default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TaskRequest {
    /// The id of the run: a task that is sent twice is started once, where the runtime has a store.
    pub task_id: String,
    /// What kind of task it is: the run's tag `task_type`.
    pub task_type: String,
    /// What the agent is asked, after `messages`. It may be empty when these end with a message of the user.
    pub description: String,
    /// The agent, by its name.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// The session to continue; without it a new one begins.
    #[serde(default)]
    pub session_id: Option<String>,
    /// A new agent, in the place of `agent_id`.
    #[serde(default)]
    pub agent_config: Option<TaskAgentConfig>,
    /// What was said before `description`: texts of `user` and `assistant`.
    #[serde(default)]
    pub messages: Vec<TaskRequestMessage>,
    /// Who asks, as the task says.
    #[serde(default)]
    pub user_context: Option<TaskUser>,
    /// A store has the session: to be left out.
    #[serde(default)]
    pub session_context: Option<Value>,
    /// The run makes its own: to be left out.
    #[serde(default)]
    pub execution_context: Option<Value>,
    /// The agent has its tools: to be left empty.
    #[serde(default)]
    pub available_tools: Vec<Value>,
    /// The agent has what it looks things up with: to be left empty.
    #[serde(default)]
    pub available_knowledge: Vec<Value>,
    /// How it is to be executed.
    #[serde(default)]
    pub execution_config: Option<TaskExecution>,
    /// Tags of the run: a text as it is, anything else as JSON.
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

/// The user of a task. What a user may do, the program grants, and no task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
#[doc(alias = "UserContext")]
pub struct TaskUser {
    /// Who it is, as the task says: [`TaskStart::user`].
    pub user_id: Option<String>,
    /// What the user is called: the run's tag `user_name`.
    pub user_name: Option<String>,
    /// To be left out: it is the program's, which has checked it.
    pub session_token: Option<Value>,
    /// To be left out.
    pub permissions: Option<Value>,
    /// To be left out; what is known of a user is in its state and its memory.
    pub preferences: Option<Value>,
}

/// How a task is executed. Each field has a default that leaves the matter to the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct TaskExecution {
    /// The time limit of the run, in seconds.
    pub timeout: Option<u64>,
    /// How often a failed model call is retried, at most 100 times: as [`retry`](agentflow_core::middleware::retry) does, by the process
    /// that begins the run. 3, the default, leaves it to the program. A tool is retried as its policy says.
    pub max_retries: u64,
    /// Whether the answer is to be read in pieces. It changes nothing of the run.
    pub streaming: bool,
    /// Asks for concurrent tools. The run is the same either way: an agent calls the tools of one turn at the same time, as far
    /// as [`Limits::max_parallel_tools`](agentflow_core::agent::Limits::max_parallel_tools) allows.
    pub parallel_execution: bool,
    /// Absent or `native`: this library.
    pub preferred_framework: Option<TaskFramework>,
    /// Limits of the run: `max_steps` and `max_llm_calls`, whole numbers. Default: the limits of the agent.
    pub framework_settings: Map<String, Value>,
    /// `false` for a run [without spans](RunRequest::without_spans). Default: `true`.
    pub enable_tracing: bool,
    /// `false` for a run [without metrics](RunRequest::without_metrics). Default: `true`.
    pub enable_metrics: bool,
    /// `DEBUG`, `INFO`, `WARNING`, `ERROR` or `CRITICAL`. Logs belong to the program: another level than `INFO`, the default, is
    /// the run's tag `log_level`, which spans have too, so that a program's subscriber can filter by it.
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

/// An agent that a task describes. Whether a task may name any model is the program's to decide, before it starts one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TaskAgentConfig {
    /// The agent's name.
    pub agent_id: String,
    /// What kind of agent it is: the run's tag `agent_type`.
    pub agent_type: String,
    /// The framework; `native` when it is left out, and the only one.
    #[serde(default)]
    pub framework_type: TaskFramework,
    /// What it is called for people: the run's tag `agent_name`.
    pub name: String,
    /// The model, such as `openai-chat/gpt-5-mini`.
    pub model: String,
    /// The model's temperature.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// The most tokens of one answer.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// The agent's instructions.
    #[serde(default)]
    pub system_instruction: Option<String>,
    /// A task brings no tools; the program gives some to the agent: to be left empty.
    #[serde(default)]
    pub tools: Vec<Value>,
    /// To be left out.
    #[serde(default)]
    pub adk_config: Option<Value>,
}

/// The framework that executes an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskFramework {
    /// This one.
    #[default]
    Native,
}

/// A message of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TaskRequestMessage {
    /// Whose it is: `user` or `assistant`.
    pub role: TaskRole,
    /// The text.
    pub content: TaskText,
    /// Who wrote it; a model does not read it.
    #[serde(default)]
    pub author: Option<String>,
    /// To be left out.
    #[serde(default)]
    pub name: Option<String>,
    /// A task brings no calls of tools: to be left out.
    #[serde(default)]
    pub tool_calls: Option<Vec<Value>>,
}

/// Whose a message of a task is. Instructions are the agent's, and results of tools the run's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskRole {
    /// The person's.
    User,
    /// The model's.
    Assistant,
}

/// The text of a message: as it is, or in parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a text, or a list of `{\"text\": ..}`")]
#[non_exhaustive]
pub enum TaskText {
    /// A text.
    Text(String),
    /// Texts in a row.
    Parts(Vec<TaskTextPart>),
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TaskTextPart {
    /// The text.
    pub text: String,
    /// To be left out, as the two below: a task brings texts alone.
    #[serde(default)]
    pub function_call: Option<Value>,
    /// To be left out.
    #[serde(default)]
    pub file_reference: Option<Value>,
    /// To be left out.
    #[serde(default)]
    pub image_reference: Option<Value>,
}

/// A task that can be started.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskStart {
    /// Who does it.
    pub agent: TaskAgent,
    /// Who asks, as the task says. It is not the run's caller before the program says so, with [`RunRequest::caller`]: a
    /// caller's memories and state are open to the run.
    pub user: Option<String>,
    /// The session that it continues, which must be there; `None` when it begins a new one. Whether the user may continue
    /// it is the program's to decide.
    pub session: Option<String>,
    /// The request, with its session, for [`Runtime::start_agent`](agentflow_core::Runtime::start_agent) or [`Agent::start`].
    pub request: RunRequest,
}

/// Who does a task.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TaskAgent {
    /// The agent of this name.
    Known(String),
    /// This one, without a runtime and without tools.
    New(Agent),
}

/// Why a task cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the task cannot be started: {problem}")]
#[non_exhaustive]
pub struct TaskRequestError {
    /// The field that is wrong, such as `available_tools`, where it is one.
    pub field: Option<&'static str>,
    /// What is wrong and what to do.
    pub problem: String,
}

fn wrong(field: &'static str, problem: &str) -> TaskRequestError {
    TaskRequestError { field: Some(field), problem: format!("`{field}`: {problem}") }
}

/// The tags that fields of a task become.
const OWN_TAGS: [&str; 5] = ["agent_name", "agent_type", "log_level", "task_type", "user_name"];

/// The levels that a task may name.
const LEVELS: [&str; 5] = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];

/// The most retries that a task may ask for.
const MOST_RETRIES: u64 = 100;

/// The longest id, in bytes.
const LONGEST: usize = Session::MAX_ID;

impl TaskRequest {
    /// Reads a task, strictly: one JSON object, no key twice, no field that a task does not have.
    ///
    /// # Errors
    /// What is wrong, with its place.
    pub fn from_json(text: &str) -> Result<Self, TaskRequestError> {
        let problem = |problem: String| TaskRequestError { field: None, problem };
        strict::check(text).map_err(|error| problem(error.to_string()))?;
        let mut json = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut json).map_err(|error| match error.path().to_string() {
            path if path == "." => problem(error.inner().to_string()),
            path => problem(format!("`{path}`: {}", error.inner())),
        })
    }

    /// The run that it asks for. Nothing is looked up and nothing begins.
    ///
    /// # Errors
    /// When it names no agent or two, no question, an id that is empty or too long, or something that is not a task's to say.
    pub fn start(&self) -> Result<TaskStart, TaskRequestError> {
        self.check()?;
        let agent = match (&self.agent_id, &self.agent_config) {
            (Some(name), None) => TaskAgent::Known(checked_id("agent_id", name)?.to_owned()),
            (None, Some(config)) => TaskAgent::New(config.agent()?),
            (Some(_), Some(_)) => {
                return Err(wrong("agent_config", "there is an `agent_id`, too; give one of them"));
            }
            (None, None) => return Err(wrong("agent_id", "it names no agent; give one, or an `agent_config`")),
        };
        let session = self.session_id.as_deref().map(|id| checked_id("session_id", id)).transpose()?;
        let tags = self.metadata.iter().map(|(key, value)| match value {
            Value::String(text) => (key.clone(), text.clone()),
            other => (key.clone(), other.to_string()),
        });
        let mut request = RunRequest::new(self.asked()?)
            .run_id(RunId::new(checked_id("task_id", &self.task_id)?))
            .session(session.map_or_else(Session::begin, Session::existing));
        request = tags.fold(request, |request, (key, value)| request.tag(key, value)).tag("task_type", &self.task_type);
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

    /// What is said before, and the question.
    fn asked(&self) -> Result<Vec<Message>, TaskRequestError> {
        let mut messages = self.messages.iter().map(TaskRequestMessage::message).collect::<Result<Vec<_>, _>>()?;
        match (self.description.trim().is_empty(), self.messages.last().map(|last| last.role)) {
            (false, _) => messages.push(Message::user(&*self.description)),
            (true, Some(TaskRole::User)) => {}
            (true, _) => {
                return Err(wrong("description", "nothing is asked; write it, or end `messages` with one of `user`"));
            }
        }
        Ok(messages)
    }

    /// Whether it says nothing that is not a task's to say.
    fn check(&self) -> Result<(), TaskRequestError> {
        left_out(
            "session_context",
            self.session_context.as_ref(),
            "the store has the session; name it by `session_id`",
        )?;
        left_out("execution_context", self.execution_context.as_ref(), "the run makes its own")?;
        empty("available_tools", &self.available_tools, "the agent has its tools, and a task brings none")?;
        empty("available_knowledge", &self.available_knowledge, "the agent has its own, and a task brings none")?;
        if OWN_TAGS.iter().any(|tag| self.metadata.contains_key(*tag)) {
            let own = OWN_TAGS.map(|tag| format!("`{tag}`")).join(", ");
            return Err(wrong("metadata", &format!("the tags {own} say what other fields do; give these another key")));
        }
        if let Some(user) = &self.user_context {
            left_out("user_context.session_token", user.session_token.as_ref(), "the program checks it")?;
            left_out("user_context.permissions", user.permissions.as_ref(), "what a run may do, the program grants")?;
            left_out("user_context.preferences", user.preferences.as_ref(), "they are in the user's state and memory")?;
        }
        Ok(())
    }
}

impl TaskExecution {
    /// The request of a run that is executed so.
    fn applied_to(&self, mut request: RunRequest) -> Result<RunRequest, TaskRequestError> {
        match self.timeout {
            Some(0) => {
                return Err(wrong("execution_config.timeout", "it is 0; give the seconds that the run may take"));
            }
            Some(seconds) => request = request.timeout(Duration::from_secs(seconds)),
            None => {}
        }
        match u32::try_from(self.max_retries) {
            Ok(retries) if self.max_retries <= MOST_RETRIES => {
                if self.max_retries != Self::default().max_retries {
                    request = request.with(retry(retries));
                }
            }
            _ => return Err(wrong("execution_config.max_retries", "more than 100 retries; give at most 100")),
        }
        for (name, value) in &self.framework_settings {
            let limit = value.as_u64().and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
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
                let problem =
                    format!("no such level; give one of {}", LEVELS.map(|level| format!("`{level}`")).join(", "));
                Err(wrong("execution_config.log_level", &problem))
            }
        }
    }
}

impl TaskAgentConfig {
    fn agent(&self) -> Result<Agent, TaskRequestError> {
        empty("agent_config.tools", &self.tools, "the program gives tools to the agent, and a task brings none")?;
        left_out("agent_config.adk_config", self.adk_config.as_ref(), "it is for another framework")?;
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
        empty("messages.tool_calls", self.tool_calls.as_deref().unwrap_or_default(), "the calls of a run are its own")?;
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
                    left_out("messages.content", other, "a task brings texts; save files where a tool finds them")?;
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
