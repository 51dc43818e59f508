//! Parses tasks that other programs send, and turns each into the request of a run.
//!
//! This module starts nothing and looks nothing up. The code that starts the run checks that the
//! agent and the session exist and that the caller may use them.

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
    /// Id of the user, as stated by the task. See [`TaskStart::user`](super::TaskStart::user).
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
    /// `false` for a run [without spans](agentflow_core::agent::RunRequest::without_spans). Default: `true`.
    pub enable_tracing: bool,
    /// `false` for a run [without metrics](agentflow_core::agent::RunRequest::without_metrics). Default: `true`.
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
}
