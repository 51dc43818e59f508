//! [`Error`]: the error type of the public API, which preserves its sources. [`Failure`] is its
//! recorded form.
//!
//! Errors with their own type are [`ControlError`] for refused control requests, [`RegistryError`]
//! for conflicting tools, [`ModelError`] and [`StoreError`]. `error_data` and `recorded` convert
//! between [`Error`] and [`Failure`], so that an error that was recorded in a journal is the same
//! variant after a restart.

mod control_error;
mod error_data;
mod last_error;
mod recorded;
mod registry_error;
mod sentences;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agentflow_schema::template::TemplateError;

pub use self::control_error::{ControlError, ControlErrorKind};
#[doc(hidden)]
pub use self::last_error::{last_error, watch_errors};
pub(crate) use self::last_error::{note, noted};
pub use self::registry_error::RegistryError;
use self::sentences::{
    ACCEPT_ALL, listed, names, no_workflow, repeats, run_again, unknown_version,
};
use crate::access_action::AccessAction;
use crate::definition::Difference;
use crate::event::{NotUndone, RunId};
pub use crate::failure::{Failure, FailureClass, FailureKind, FailureProblem};
use crate::message::ToolStatus;
use crate::model::{ModelError, ModelRefError};
use crate::path::StepPath;
use crate::store::StoreError;

/// `std::result::Result` with [`Error`] as its default error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a run that has no result or could not start.
///
/// The text of every variant describes the problem and the solution. To react in code, match on a
/// variant or on [`kind`](Self::kind), the kind that is stored in journals;
/// [`is_retryable`](Self::is_retryable) is true if the same run may succeed when it is repeated.
/// `{:?}` shows the text with its causes, as `fn main() -> agentflow::Result<()>` does.
///
/// An error is also a value. It is encoded as its [`Failure`], and decoded with the same kind and
/// text. A variant that consists of data, such as [`Timeout`](Self::Timeout) or
/// [`Model`](Self::Model), is decoded as the same variant. Any other, such as
/// [`Store`](Self::Store) or [`Build`](Self::Build), is decoded as [`Recorded`](Self::Recorded). A
/// step of a workflow can therefore pass a `Result<T, Error>` to other steps, and a `match` on it
/// takes the same arm after a restart.
///
/// ```
/// use agentflow::agent::Limits;
/// use agentflow::error::FailureKind;
/// use agentflow::prelude::*;
/// use agentflow_testing::{ScriptedModel, Turn};
///
/// /// Look something up.
/// #[tool]
/// fn look_up(word: String) -> String {
///     word
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let model = ScriptedModel::from_fn(|_| Turn::call("look_up", serde_json::json!({"word": "tea"})));
/// let agent = Agent::new(model).tools(tools![look_up]).settings(Limits::default().max_steps(3));
/// let error = agent.run("What is tea?").await.unwrap_err();
/// assert_eq!(error.kind(), FailureKind::MaxStepsReached);
/// assert!(!error.is_retryable());
/// # }
/// ```
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An agent or a workflow cannot be built from its description. Nothing was started.
    #[error("the {what} `{name}` cannot be built: {problem}")]
    Build {
        /// `agent`, `workflow` or `tool`.
        what: &'static str,
        /// Name of the agent, workflow or tool.
        name: Arc<str>,
        /// Problem and solution.
        problem: String,
    },
    /// The name of the model is invalid.
    #[error(transparent)]
    ModelRef(#[from] ModelRefError),
    /// The tools that are linked into the program conflict, or a tool is missing.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Fetching the tools of a toolset failed.
    #[error("the tools of `{toolset}` could not be fetched: {problem}")]
    Toolset {
        /// Name of the toolset.
        toolset: Arc<str>,
        /// Error message of the toolset.
        problem: String,
    },
    /// A model call failed permanently.
    #[error(transparent)]
    Model(Arc<ModelError>),
    /// The model returned neither text nor a tool call, or stopped for a different reason.
    #[error("the model gave no answer: it stopped with `{stop_reason}`")]
    NoAnswer {
        /// Stop reason, such as `length` or `content_filter`.
        stop_reason: String,
    },
    /// The model declined to answer with the agent's output type, or its provider withheld the
    /// answer.
    #[error("the model gave no answer: it stopped with `{stop_reason}` and said: {refusal}")]
    #[non_exhaustive]
    Refused {
        /// Text of the model instead of an answer.
        refusal: String,
        /// Stop reason: `refusal` or `content_filter`.
        stop_reason: String,
    },
    /// The model's answers do not match the schema of the agent's output.
    #[error(
        "the model gave {attempts} answers that do not fit the agent's output type, the last one because {problem}"
    )]
    InvalidOutput {
        /// Number of answers.
        attempts: u32,
        /// Problem of the last answer.
        problem: String,
    },
    /// The agent reached its limit of turns.
    #[error(
        "the agent took {steps} steps without an answer, which is its limit; raise it with `max_steps`"
    )]
    #[doc(alias = "Max steps reached")]
    MaxStepsReached {
        /// The limit.
        steps: u32,
    },
    /// The run reached its limit of model calls.
    #[error("the run made {calls} model calls, which is its limit; raise it with `max_llm_calls`")]
    LlmCallLimit {
        /// The limit.
        calls: u32,
    },
    /// The agents of a team reached their limit of handoffs.
    #[error(
        "the agents of the team transferred the conversation {handoffs} times, which is the limit; see whether they \
         transfer in a circle, or raise the limit with `max_handoffs`"
    )]
    #[non_exhaustive]
    HandoffLimit {
        /// The limit.
        handoffs: u32,
    },
    /// The limit of nested agents and workflows was reached; the innermost one was not started. The
    /// agent whose tool exceeded the limit ends with this error too, unless the tool returns a
    /// result.
    #[error(
        "agents and workflows are nested {depth} deep, which is the limit; see whether one calls itself without an end, \
         or raise the limit with `Runtime::builder().max_nesting(..)`"
    )]
    #[non_exhaustive]
    NestingLimit {
        /// The limit.
        depth: u32,
    },
    /// A budget of a middleware is exhausted. The call that would have exceeded it was not made.
    #[error("{message}")]
    BudgetExceeded {
        /// Name of the middleware.
        budget: Arc<str>,
        /// Description of the budget, as a sentence.
        message: String,
    },
    /// Middleware stopped the run.
    #[error("the middleware `{name}` stopped the run: {problem}")]
    Middleware {
        /// Name of the middleware.
        name: Arc<str>,
        /// Reason.
        problem: String,
    },
    /// Too many tool calls failed in a row.
    #[error(
        "{failures} tool calls failed in a row, the last one of `{tool}` ({status}): {message}"
    )]
    ToolFailures {
        /// Number of failed calls.
        failures: u32,
        /// Name of the last tool.
        tool: String,
        /// Status of the last call.
        status: ToolStatus,
        /// Message to the model about the last call.
        message: String,
    },
    /// The run exceeded its time limit.
    #[error("the run took longer than its time limit of {limit:?}; raise it with `timeout`")]
    Timeout {
        /// The limit.
        limit: Duration,
    },
    /// The run was cancelled.
    #[error("the run was cancelled: {reason}")]
    Cancelled {
        /// Reason of the cancellation.
        reason: Arc<str>,
    },
    /// A step of a workflow failed permanently.
    #[error("the step `{node}` failed: {}", failure.whole())]
    Node {
        /// Path of the step.
        node: StepPath,
        /// Failure of the step.
        failure: Arc<Failure>,
    },
    /// A run failed or was cancelled, and some of its steps could not be compensated.
    #[error("{error}; {}", NotUndone::list(left))]
    #[non_exhaustive]
    Compensation {
        /// Error of the run, or its cancellation.
        error: Arc<Error>,
        /// Calls that may have had an effect and are not compensated.
        left: Vec<NotUndone>,
    },
    /// A run failed or was cancelled and must compensate completed steps, which this program cannot
    /// do. The status of the run stays `compensating` until it is done: a process that resumes the
    /// run executes only the compensation.
    #[error(
        "the run `{run}` still has to undo {}, which this program cannot do: {problem}; resume the run in a program that can",
        names(&calls.iter().map(ToString::to_string).collect::<Vec<_>>())
    )]
    #[non_exhaustive]
    CompensationOwed {
        /// Id of the run.
        run: RunId,
        /// Calls to compensate, in this order.
        calls: Vec<StepPath>,
        /// Reason why this program cannot compensate them.
        problem: String,
    },
    /// No workflow with this name was given to the runtime or is linked into the program.
    #[error("{}", no_workflow(name, near.as_ref(), known, *other))]
    UnknownWorkflow {
        /// The requested name.
        name: Arc<str>,
        /// The most similar known name.
        near: Option<String>,
        /// All known names of workflows.
        known: Vec<String>,
        /// `tool` or `agent`, if one has this name.
        other: Option<&'static str>,
    },
    /// A run of a certain version was requested, and the workflow has no such version.
    #[error("{}", unknown_version(workflow, *version, *current))]
    #[non_exhaustive]
    UnknownVersion {
        /// The name of the workflow.
        workflow: Arc<str>,
        /// The requested version.
        version: u64,
        /// The current version; `None` if the workflow is not a stored document.
        current: Option<u64>,
    },
    /// A workflow that is a step started in an earlier process with another definition.
    #[error(
        "the workflow `{workflow}` at `{path}` has changed since it began; resume the run with the program that it began \
         in, or retry the step that it runs in, so that it runs anew{}",
        repeats(wrote)
    )]
    #[non_exhaustive]
    NestedChanged {
        /// Name of the workflow.
        workflow: Arc<str>,
        /// Path of the step.
        path: StepPath,
        /// Steps of the workflow that may have had an effect outside of the run, which would be
        /// repeated.
        wrote: Vec<String>,
    },
    /// An agent in a step has changed since the step started it, and the runtime does not accept
    /// the change ([`Changes`](crate::runtime::Changes)).
    #[error(
        "the agent `{agent}` at `{path}` has changed since this step began it: {}; retry the step to let it continue all the \
         same, resume the run with the former version, or cancel the run",
        listed(differences)
    )]
    #[non_exhaustive]
    NestedAgentChanged {
        /// Name of the agent.
        agent: Arc<str>,
        /// Path of the step.
        path: StepPath,
        /// Changes that are not accepted.
        differences: Vec<Difference>,
    },
    /// After a restart, a step calls a different agent or workflow than before, or the same with a
    /// different input. The recorded call cannot be used as the result of the new call.
    #[error(
        "at `{path}` this run began {began}, and now the step calls {called} in its place; retry the step, so that it runs \
         anew, or cancel the run. Let times, random numbers and ids in an input come from a step of their own, which is \
         recorded"
    )]
    #[non_exhaustive]
    NestedOther {
        /// Path of the recorded call.
        path: StepPath,
        /// Recorded call, with its input.
        began: String,
        /// Call that the step makes now.
        called: String,
    },
    /// An unfinished run belongs to an agent that neither the runtime nor the program knows.
    #[error(
        "the run `{run}` is one of the agent `{agent}`, which is not known here; give it to the runtime with \
         `Runtime::builder().agent(..)`, or resume the run with `Agent::resume`{}",
        agentflow_schema::text::did_you_mean(near.as_deref())
    )]
    UnknownAgent {
        /// Id of the run.
        run: RunId,
        /// Name of the agent.
        agent: Arc<str>,
        /// The most similar known name.
        near: Option<String>,
    },
    /// The output of a run was requested with a different type.
    #[error("the output of the run `{run}` is not what was asked for: {problem}")]
    Output {
        /// Id of the run.
        run: RunId,
        /// Requested type, and the part that does not match.
        problem: String,
    },
    /// The input does not match the workflow that was started by name.
    #[error("the input does not fit the workflow `{workflow}`: {problem}")]
    Input {
        /// Name of the workflow.
        workflow: Arc<str>,
        /// Mismatch between the input and the workflow.
        problem: String,
    },
    /// The definition of the workflow has changed since the run started.
    #[error(
        "the workflow `{workflow}` has changed since the run began: {}; {}",
        run_again(nodes),
        ACCEPT_ALL
    )]
    DefinitionChanged {
        /// Name of the workflow.
        workflow: Arc<str>,
        /// Nodes that have changed, or that depend on a changed node.
        nodes: Vec<String>,
    },
    /// The run started with a different version of its agent, or of an agent or tool that its
    /// workflow calls, and the runtime does not accept the change
    /// ([`Changes`](crate::runtime::Changes)).
    #[error(
        "the {what} `{name}` has changed since the run began: {}; {}",
        listed(differences),
        ACCEPT_ALL
    )]
    #[non_exhaustive]
    PartsChanged {
        /// `agent` or `workflow`.
        what: &'static str,
        /// Name of the agent or workflow.
        name: Arc<str>,
        /// Changes that are not accepted.
        differences: Vec<Difference>,
    },
    /// The definition of the workflow has changed since the run started, and a changed or removed
    /// step may already have had an effect outside of the run.
    #[error(
        "the workflow `{workflow}` has changed since the run began: {} may have had an effect already, which would be \
         repeated or left out; keep what has begun as it was and under its name, or cancel the run",
        names(nodes)
    )]
    WriteForgotten {
        /// Name of the workflow.
        workflow: Arc<str>,
        /// Changed or removed steps that had started.
        nodes: Vec<String>,
    },
    /// A value cannot be encoded as JSON and decoded again without loss.
    #[error("a value of `{workflow}` does not survive its way through JSON: {problem}")]
    Value {
        /// Name of the workflow.
        workflow: Arc<str>,
        /// Error message of serde.
        problem: String,
    },
    /// A value of the state cannot be read or written.
    #[error("the state `{key}`: {problem}")]
    #[non_exhaustive]
    State {
        /// Key of the value.
        key: String,
        /// Problem and solution.
        problem: String,
    },
    /// A string is not a valid [`Template`](crate::template::Template), or cannot be filled.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A message of a mailbox cannot be sent or read.
    #[error("the mailbox `{mailbox}`: {problem}")]
    #[non_exhaustive]
    Mailbox {
        /// Name of the mailbox.
        mailbox: &'static str,
        /// Problem and solution.
        problem: String,
    },
    /// An artifact cannot be saved or read.
    #[error("the artifact {name:?}: {problem}")]
    #[non_exhaustive]
    Artifact {
        /// Name of the artifact.
        name: String,
        /// Problem and solution.
        problem: String,
    },
    /// The memory is missing, or the run has no user whose memories it could use.
    #[error("the memory cannot be used: {problem}")]
    #[non_exhaustive]
    Memory {
        /// Problem and solution.
        problem: String,
    },
    /// A resource that a step requires was not provided.
    #[error(
        "there is no resource of type {resource}; give the runtime one with `Runtime::builder().resource(value)`"
    )]
    #[non_exhaustive]
    MissingResource {
        /// Type of the resource, and the most similar existing type.
        resource: String,
    },
    /// A run lacks a required resource, so it was not started or resumed.
    #[error("the run of `{name}` lacks what it needs: {problem}")]
    #[non_exhaustive]
    RunResource {
        /// Name of the agent or workflow.
        name: Arc<str>,
        /// Missing resources and solution.
        problem: String,
    },
    /// The runtime is draining, so it does not start or resume runs.
    #[error(
        "the runtime is being drained, so nothing was started; start the run in another process"
    )]
    Draining,
    /// The access control of the runtime denied the action
    /// ([`AccessControl`](crate::access::AccessControl)).
    #[error("the caller `{caller}` may not {action} `{name}`")]
    #[non_exhaustive]
    AccessDenied {
        /// Name of the caller.
        caller: Arc<str>,
        /// The denied action.
        action: AccessAction,
        /// Name of the agent, workflow or tool; id of the session; user of the memories.
        name: Arc<str>,
    },
    /// The control request for a run was refused.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The store failed; the run has stopped in this process and can be resumed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The failure of a run or a step in an earlier process, with the recorded message and kind.
    #[error(transparent)]
    Recorded(Arc<Failure>),
    /// The run's task ended without a result.
    #[error("the run's task ended without a result: {reason}")]
    Lost {
        /// Error message of the task's runtime.
        reason: String,
    },
}

impl Error {
    /// Creates an error from a program's own message. Its kind is [`FailureKind::Error`]. A
    /// [`RetryPolicy`](crate::workflow::RetryPolicy) treats it like any other error of a step.
    ///
    /// ```
    /// use agentflow::prelude::*;
    ///
    /// fn price(article: &str) -> Result<u32> {
    ///     match article {
    ///         "tea" => Ok(250),
    ///         other => Err(agentflow::Error::other(format!("no article is called `{other}`"))),
    ///     }
    /// }
    /// assert_eq!(price("tae").unwrap_err().to_string(), "no article is called `tae`");
    /// ```
    pub fn other(message: impl fmt::Display) -> Self {
        Self::Recorded(Arc::new(Failure::new(FailureKind::Error, message.to_string())))
    }

    /// The kind of the error, as stored in [`Failure::kind`].
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Build { .. } => FailureKind::Build,
            Self::ModelRef(_) => FailureKind::ModelRef,
            Self::Registry(_) => FailureKind::Registry,
            Self::Toolset { .. } => FailureKind::Toolset,
            Self::Model(error) => error.kind().as_str().into(),
            Self::NoAnswer { .. } => FailureKind::NoAnswer,
            Self::Refused { .. } => FailureKind::Refused,
            Self::InvalidOutput { .. } | Self::Output { .. } => FailureKind::InvalidOutput,
            Self::MaxStepsReached { .. } => FailureKind::MaxStepsReached,
            Self::LlmCallLimit { .. } => FailureKind::LlmCallLimit,
            Self::HandoffLimit { .. } => FailureKind::HandoffLimit,
            Self::NestingLimit { .. } => FailureKind::NestingLimit,
            Self::BudgetExceeded { .. } => FailureKind::BudgetExceeded,
            Self::Middleware { .. } => FailureKind::Middleware,
            Self::ToolFailures { .. } => FailureKind::ToolFailures,
            Self::Timeout { .. } => FailureKind::Timeout,
            Self::Cancelled { .. } => FailureKind::Cancelled,
            Self::UnknownWorkflow { .. } | Self::UnknownVersion { .. } => {
                FailureKind::UnknownWorkflow
            }
            Self::UnknownAgent { .. } => FailureKind::UnknownAgent,
            Self::Input { .. } => FailureKind::Input,
            Self::DefinitionChanged { .. }
            | Self::PartsChanged { .. }
            | Self::WriteForgotten { .. } => FailureKind::DefinitionChanged,
            Self::NestedChanged { .. }
            | Self::NestedAgentChanged { .. }
            | Self::NestedOther { .. } => FailureKind::Interrupted,
            Self::Value { .. }
            | Self::State { .. }
            | Self::Template(_)
            | Self::Mailbox { .. }
            | Self::Artifact { .. }
            | Self::Memory { .. } => FailureKind::Value,
            Self::MissingResource { .. } | Self::RunResource { .. } => FailureKind::MissingResource,
            Self::Draining => FailureKind::Draining,
            Self::AccessDenied { .. } => FailureKind::Unauthorized,
            Self::Control(error) => error.kind().as_str().into(),
            Self::Store(error) => error.kind().as_str().into(),
            Self::Recorded(failure) | Self::Node { failure, .. } => failure.kind.clone(),
            Self::Compensation { error, .. } => error.kind(),
            Self::CompensationOwed { .. } => FailureKind::CompensationOwed,
            Self::Lost { .. } => FailureKind::Lost,
        }
    }

    /// Returns `true` if the same run may succeed when it is started again.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Model(error) => error.is_retryable(),
            Self::Recorded(failure) | Self::Node { failure, .. } => failure.retryable,
            Self::Compensation { .. } => false,
            other => other.kind().is_retryable(),
        }
    }
}

impl Error {
    /// Adds the calls that could not be compensated, if any.
    pub(crate) fn with_uncompensated(self, left: Vec<NotUndone>) -> Self {
        match left.is_empty() {
            true => self,
            false => Self::Compensation { error: Arc::new(self), left },
        }
    }

    pub(crate) fn value(workflow: &Arc<str>, error: &serde_json::Error) -> Self {
        Self::Value { workflow: Arc::clone(workflow), problem: error.to_string() }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_causes(self, f)
    }
}

/// Formats an error as `main` prints it: its message and the messages of its sources that it does
/// not contain.
pub fn with_causes(error: &dyn std::error::Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let said = error.to_string();
    f.write_str(&said)?;
    let mut cause = error.source();
    while let Some(error) = cause {
        let because = error.to_string();
        if !said.contains(&because) {
            write!(f, "\n  because {because}")?;
        }
        cause = error.source();
    }
    Ok(())
}

impl From<ModelError> for Error {
    fn from(error: ModelError) -> Self {
        Self::Model(Arc::new(error))
    }
}

/// Returns the messages of all sources, nearest first, joined by `: `.
fn causes(error: &dyn std::error::Error) -> Option<String> {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    (!causes.is_empty()).then(|| causes.join(": "))
}

impl From<&ModelError> for Failure {
    fn from(error: &ModelError) -> Self {
        Self {
            retryable: error.is_retryable(),
            status: error.status(),
            ..Self::new(error.kind().as_str(), error.to_string()).because(causes(error).as_deref())
        }
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        match error {
            Error::Model(error) => Self::from(&**error),
            Error::Recorded(failure) => Self::clone(failure),
            // The message of a node's error already contains the causes.
            Error::Node { failure, .. } => {
                Self { message: error.to_string(), cause: None, ..Self::clone(failure) }
            }
            Error::Compensation { error: inner, .. } => {
                Self { message: error.to_string(), retryable: false, ..Self::from(&**inner) }
            }
            other => Self {
                retryable: other.is_retryable(),
                ..Self::new(other.kind(), other.to_string())
            },
        }
    }
}
