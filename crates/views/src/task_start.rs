//! The run that a task requests: checks the fields of a [`TaskRequest`] and turns them into a
//! [`RunRequest`].

use std::time::Duration;

use agentflow_core::agent::{Agent, RunRequest};
use agentflow_core::event::RunId;
use agentflow_core::message::Message;
use agentflow_core::middleware::retry;
use agentflow_core::model::{ModelRef, ModelSettings};
use agentflow_core::session::Session;
use serde_json::Value;

use super::task_request::{
    TaskAgentConfig, TaskExecution, TaskRequest, TaskRequestError, TaskRequestMessage, TaskRole,
    TaskText,
};

/// Tags of the run that are set from other fields of the task.
const OWN_TAGS: [&str; 5] = ["agent_name", "agent_type", "log_level", "task_type", "user_name"];

/// Accepted values of `log_level`.
const LEVELS: [&str; 5] = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];

/// Maximum value of `max_retries`.
const MOST_RETRIES: u64 = 100;

/// Maximum length of an id in bytes.
const LONGEST: usize = Session::MAX_ID;

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

impl TaskRequest {
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

fn wrong(field: &'static str, problem: &str) -> TaskRequestError {
    TaskRequestError { field: Some(field), problem: format!("`{field}`: {problem}") }
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
