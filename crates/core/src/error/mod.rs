//! `Error`: the one error type of the public API, with its source kept. [`Failure`] is the form of it that is stored.

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
use self::sentences::{ACCEPT_ALL, listed, names, no_workflow, repeats, run_again};
use crate::definition::Difference;
use crate::event::{NotUndone, RunId};
pub use crate::failure::{Failure, FailureClass, FailureKind};
use crate::message::ToolStatus;
use crate::model::{ModelError, ModelRefError};
use crate::path::StepPath;
use crate::store::StoreError;

/// `std::result::Result` with [`Error`] as its default error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a run has no result, or why it could not begin.
///
/// Every variant is one sentence with a remedy. To decide in a program, match on a variant or on [`kind`](Self::kind), the
/// class as it is stored in journals; [`is_retryable`](Self::is_retryable) is true if the same run may succeed when it is
/// repeated. `{:?}` shows the same sentence with its causes, as `fn main() -> agentflow::Result<()>` does.
///
/// An error is also a value: encoded it is its [`Failure`], and decoded it has the same kind and the same sentence. A variant
/// that consists of data, such as [`Timeout`](Self::Timeout) or [`Model`](Self::Model), is the same variant again; any other,
/// such as [`Store`](Self::Store) or [`Build`](Self::Build), is [`Recorded`](Self::Recorded). So a step of a workflow can
/// give a `Result<T, Error>` to other steps, and a `match` on it takes the same arm after a restart.
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
    /// An agent or a workflow cannot be built as it is described; nothing was started.
    #[error("the {what} `{name}` cannot be built: {problem}")]
    Build {
        /// `agent`, `workflow` or `tool`.
        what: &'static str,
        /// Its name.
        name: Arc<str>,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The model's name is not understood.
    #[error(transparent)]
    ModelRef(#[from] ModelRefError),
    /// The tools that are linked into the program contradict each other, or one is not there.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The tools of a toolset could not be fetched.
    #[error("the tools of `{toolset}` could not be fetched: {problem}")]
    Toolset {
        /// The toolset.
        toolset: Arc<str>,
        /// What it said.
        problem: String,
    },
    /// A model call failed for good.
    #[error(transparent)]
    Model(Arc<ModelError>),
    /// The model answered with neither text nor a tool call, or stopped for a reason that is not an answer.
    #[error("the model gave no answer: it stopped with `{stop_reason}`")]
    NoAnswer {
        /// Why it stopped, such as `length` or `content_filter`.
        stop_reason: String,
    },
    /// The model declined to answer with the agent's output type, or its provider withheld the answer.
    #[error("the model gave no answer: it stopped with `{stop_reason}` and said: {refusal}")]
    #[non_exhaustive]
    Refused {
        /// The text in place of the answer.
        refusal: String,
        /// Why it stopped: `refusal` or `content_filter`.
        stop_reason: String,
    },
    /// The model's answers did not fit the schema of the agent's output.
    #[error(
        "the model gave {attempts} answers that do not fit the agent's output type, the last one because {problem}"
    )]
    InvalidOutput {
        /// How many.
        attempts: u32,
        /// What was wrong with the last one.
        problem: String,
    },
    /// The agent took more turns than it may.
    #[error("the agent took {steps} steps without an answer, which is its limit; raise it with `max_steps`")]
    #[doc(alias = "Max steps reached")]
    MaxStepsReached {
        /// The limit.
        steps: u32,
    },
    /// The run made more model calls than it may.
    #[error("the run made {calls} model calls, which is its limit; raise it with `max_llm_calls`")]
    LlmCallLimit {
        /// The limit.
        calls: u32,
    },
    /// The agents of a team transferred the conversation more often than they may.
    #[error(
        "the agents of the team transferred the conversation {handoffs} times, which is the limit; see whether they \
         transfer in a circle, or raise the limit with `max_handoffs`"
    )]
    #[non_exhaustive]
    HandoffLimit {
        /// The limit.
        handoffs: u32,
    },
    /// Agents and workflows are nested deeper than they may be; the one that would have been too deep did not begin. An
    /// agent in whose tool that happens ends with this too, unless the tool answers all the same.
    #[error(
        "agents and workflows are nested {depth} deep, which is the limit; see whether one calls itself without an end, \
         or raise the limit with `Runtime::builder().max_nesting(..)`"
    )]
    #[non_exhaustive]
    NestingLimit {
        /// The limit.
        depth: u32,
    },
    /// A budget that middleware keeps is used up; the call that would have exceeded it was not made.
    #[error("{message}")]
    BudgetExceeded {
        /// The middleware's name.
        budget: Arc<str>,
        /// Which budget, in a sentence.
        message: String,
    },
    /// Middleware stopped the run.
    #[error("the middleware `{name}` stopped the run: {problem}")]
    Middleware {
        /// The middleware's name.
        name: Arc<str>,
        /// Why.
        problem: String,
    },
    /// Too many tool calls failed in a row.
    #[error("{failures} tool calls failed in a row, the last one of `{tool}` ({status}): {message}")]
    ToolFailures {
        /// How many.
        failures: u32,
        /// The last tool's name.
        tool: String,
        /// How the last call ended.
        status: ToolStatus,
        /// What the model was told about the last call.
        message: String,
    },
    /// The run took longer than it may.
    #[error("the run took longer than its time limit of {limit:?}; raise it with `timeout`")]
    Timeout {
        /// The limit.
        limit: Duration,
    },
    /// The run was stopped from outside.
    #[error("the run was cancelled: {reason}")]
    Cancelled {
        /// Who or what stopped it.
        reason: Arc<str>,
    },
    /// A step of a workflow failed for good.
    #[error("the step `{node}` failed: {}", failure.whole())]
    Node {
        /// The step.
        node: StepPath,
        /// Why.
        failure: Arc<Failure>,
    },
    /// A run failed or was cancelled and undid what it had done, but not all of it.
    #[error("{error}; {}", NotUndone::list(left))]
    #[non_exhaustive]
    Compensation {
        /// Why the run failed, or that it was cancelled.
        error: Arc<Error>,
        /// The calls that may have had an effect which is not undone.
        left: Vec<NotUndone>,
    },
    /// A run failed or was cancelled and has to undo what it had done, which cannot be done here. Its status is
    /// `compensating` until it is done: a process that resumes it does nothing else.
    #[error(
        "the run `{run}` still has to undo {}, which this program cannot do: {problem}; resume the run in a program that can",
        names(&calls.iter().map(ToString::to_string).collect::<Vec<_>>())
    )]
    #[non_exhaustive]
    CompensationOwed {
        /// The run.
        run: RunId,
        /// The calls that are to be undone, in that order.
        calls: Vec<StepPath>,
        /// Why it cannot be done here.
        problem: String,
    },
    /// No workflow of this name was given to the runtime or is linked into the program.
    #[error("{}", no_workflow(name, near.as_ref(), known, *other))]
    UnknownWorkflow {
        /// The name that was asked for.
        name: Arc<str>,
        /// The nearest name that there is.
        near: Option<String>,
        /// The names of all workflows that are known.
        known: Vec<String>,
        /// What else has this name: `tool` or `agent`.
        other: Option<&'static str>,
    },
    /// A workflow that is a step began with another definition, in an earlier process.
    #[error(
        "the workflow `{workflow}` at `{path}` has changed since it began; resume the run with the program that it began \
         in, or retry the step that it runs in, so that it runs anew{}",
        repeats(wrote)
    )]
    #[non_exhaustive]
    NestedChanged {
        /// The workflow.
        workflow: Arc<str>,
        /// Where it is.
        path: StepPath,
        /// What in it may have changed something outside of the run, and would be repeated.
        wrote: Vec<String>,
    },
    /// An agent in a step has changed since the step began it, and the runtime does not accept that
    /// ([`Changes`](crate::runtime::Changes)).
    #[error(
        "the agent `{agent}` at `{path}` has changed since this step began it: {}; retry the step to let it continue all the \
         same, resume the run with the former version, or cancel the run",
        listed(differences)
    )]
    #[non_exhaustive]
    NestedAgentChanged {
        /// The agent.
        agent: Arc<str>,
        /// Where it is.
        path: StepPath,
        /// What is not accepted.
        differences: Vec<Difference>,
    },
    /// A step that runs again, after a restart, calls another agent or workflow than it had begun, or the same with another
    /// input. What it had begun is not taken for the other call.
    #[error(
        "at `{path}` this run began {began}, and now the step calls {called} in its place; retry the step, so that it runs \
         anew, or cancel the run. Let times, random numbers and ids in an input come from a step of their own, which is \
         recorded"
    )]
    #[non_exhaustive]
    NestedOther {
        /// Where the recorded one is.
        path: StepPath,
        /// What the run began there, with its input.
        began: String,
        /// What the step calls now.
        called: String,
    },
    /// A run of an agent was left unfinished, and neither the runtime nor the program has an agent of that name.
    #[error(
        "the run `{run}` is one of the agent `{agent}`, which is not known here; give it to the runtime with \
         `Runtime::builder().agent(..)`, or resume the run with `Agent::resume`{}",
        agentflow_schema::text::did_you_mean(near.as_deref())
    )]
    UnknownAgent {
        /// The run.
        run: RunId,
        /// The agent's name.
        agent: Arc<str>,
        /// The nearest name of one that is known.
        near: Option<String>,
    },
    /// The output of a run was asked for as another type.
    #[error("the output of the run `{run}` is not what was asked for: {problem}")]
    Output {
        /// The run.
        run: RunId,
        /// The type that was asked for, and what does not fit.
        problem: String,
    },
    /// The input of a workflow that is started by its name is not what it takes.
    #[error("the input does not fit the workflow `{workflow}`: {problem}")]
    Input {
        /// The workflow.
        workflow: Arc<str>,
        /// What is wrong.
        problem: String,
    },
    /// A run began with another definition of its workflow.
    #[error("the workflow `{workflow}` has changed since the run began: {}; {}", run_again(nodes), ACCEPT_ALL)]
    DefinitionChanged {
        /// The workflow.
        workflow: Arc<str>,
        /// The nodes that are not the same, or depend on one that is not.
        nodes: Vec<String>,
    },
    /// A run began with another version of its agent, or of what its workflow calls, and the runtime does not accept that
    /// ([`Changes`](crate::runtime::Changes)).
    #[error("the {what} `{name}` has changed since the run began: {}; {}", listed(differences), ACCEPT_ALL)]
    #[non_exhaustive]
    PartsChanged {
        /// `agent` or `workflow`.
        what: &'static str,
        /// Its name.
        name: Arc<str>,
        /// What is not accepted.
        differences: Vec<Difference>,
    },
    /// A run began with another definition of its workflow, in which a step that is now another one, or gone, may have
    /// changed something outside of the run.
    #[error(
        "the workflow `{workflow}` has changed since the run began: {} may have had an effect already, which would be \
         repeated or left out; keep what has begun as it was and under its name, or cancel the run",
        names(nodes)
    )]
    WriteForgotten {
        /// The workflow.
        workflow: Arc<str>,
        /// The steps that began.
        nodes: Vec<String>,
    },
    /// A value does not survive its way through JSON where it crosses a boundary.
    #[error("a value of `{workflow}` does not survive its way through JSON: {problem}")]
    Value {
        /// The workflow.
        workflow: Arc<str>,
        /// What serde said.
        problem: String,
    },
    /// A value of the state cannot be read or written.
    #[error("the state `{key}`: {problem}")]
    #[non_exhaustive]
    State {
        /// The key.
        key: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A text is not a [`Template`](crate::template::Template), or cannot be filled.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A message of a mailbox cannot be sent or read.
    #[error("the mailbox `{mailbox}`: {problem}")]
    #[non_exhaustive]
    Mailbox {
        /// The mailbox.
        mailbox: &'static str,
        /// What is wrong and what to do.
        problem: String,
    },
    /// An artifact cannot be saved or read.
    #[error("the artifact {name:?}: {problem}")]
    #[non_exhaustive]
    Artifact {
        /// Its name.
        name: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// Something cannot be remembered, or nobody's memory can be asked.
    #[error("the memory cannot be used: {problem}")]
    #[non_exhaustive]
    Memory {
        /// What is wrong and what to do.
        problem: String,
    },
    /// A step asked for a resource that nobody gave.
    #[error("there is no resource of type {resource}; give the runtime one with `Runtime::builder().resource(value)`")]
    #[non_exhaustive]
    MissingResource {
        /// The type, and what there is of nearly the same.
        resource: String,
    },
    /// A run lacks a resource, so nothing of it was begun, or it was not resumed.
    #[error("the run of `{name}` lacks what it needs: {problem}")]
    #[non_exhaustive]
    RunResource {
        /// The agent or workflow.
        name: Arc<str>,
        /// Which resources, and what to do.
        problem: String,
    },
    /// The runtime is being drained, so no run begins and none is resumed there.
    #[error("the runtime is being drained, so nothing was started; start the run in another process")]
    Draining,
    /// A run cannot do what an operator asked.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The store failed; the run has stopped in this process and can be resumed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What a run, or a step of one, failed with in an earlier process; its sentence and class are what was recorded.
    #[error(transparent)]
    Recorded(Arc<Failure>),
    /// Something else went wrong while the run's task was executed.
    #[error("the run's task ended without a result: {reason}")]
    Lost {
        /// What the task's runtime said.
        reason: String,
    },
}

impl Error {
    /// Creates an error from a program's own message. Its kind is [`FailureKind::Error`], which a
    /// [`RetryPolicy`](crate::workflow::RetryPolicy) repeats as it repeats every other error of a step.
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

    /// What kind of failure it is, as stored in [`Failure::kind`].
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
            Self::UnknownWorkflow { .. } => FailureKind::UnknownWorkflow,
            Self::UnknownAgent { .. } => FailureKind::UnknownAgent,
            Self::Input { .. } => FailureKind::Input,
            Self::DefinitionChanged { .. } | Self::PartsChanged { .. } | Self::WriteForgotten { .. } => {
                FailureKind::DefinitionChanged
            }
            Self::NestedChanged { .. } | Self::NestedAgentChanged { .. } | Self::NestedOther { .. } => {
                FailureKind::Interrupted
            }
            Self::Value { .. }
            | Self::State { .. }
            | Self::Template(_)
            | Self::Mailbox { .. }
            | Self::Artifact { .. }
            | Self::Memory { .. } => FailureKind::Value,
            Self::MissingResource { .. } | Self::RunResource { .. } => FailureKind::MissingResource,
            Self::Draining => FailureKind::Draining,
            Self::Control(error) => error.kind().as_str().into(),
            Self::Store(error) => error.kind().as_str().into(),
            Self::Recorded(failure) | Self::Node { failure, .. } => failure.kind.clone(),
            Self::Compensation { error, .. } => error.kind(),
            Self::CompensationOwed { .. } => FailureKind::CompensationOwed,
            Self::Lost { .. } => FailureKind::Lost,
        }
    }

    /// Whether the same run may succeed when it is started again.
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
    /// The same of a run that undid what it had done, with the calls that are not undone.
    pub(crate) fn with_not_undone(self, left: Vec<NotUndone>) -> Self {
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

/// An error as a `main` prints that returns it: its sentence, and those of its causes which that does not say.
pub(crate) fn with_causes(error: &dyn std::error::Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// What was behind an error, from the nearest cause on.
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
            Error::Node { failure, .. } => Self { message: error.to_string(), cause: None, ..Self::clone(failure) },
            Error::Compensation { error: inner, .. } => {
                Self { message: error.to_string(), retryable: false, ..Self::from(&**inner) }
            }
            other => Self { retryable: other.is_retryable(), ..Self::new(other.kind(), other.to_string()) },
        }
    }
}
