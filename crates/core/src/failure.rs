//! [`Failure`] and [`FailureKind`]: the recorded form of an error, with its kind, its message, and
//! whether another attempt may succeed. The types do not contain source errors; the retry policies
//! decide about attempts.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use agentflow_schema::diagnostic::Diagnostic;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use crate::failure_problem::FailureProblem;
use crate::value::Encoded;

/// The recorded form of an error: the data that can be stored and shown, without source errors.
///
/// ```
/// use agentflow::error::{Failure, FailureKind};
///
/// let failure = Failure::new(FailureKind::RateLimited, "too many requests");
/// assert!(failure.may_pass());
/// assert_eq!(failure.kind.as_str(), "rate_limited");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Failure {
    /// Kind of failure.
    pub kind: FailureKind,
    /// Error message.
    pub message: String,
    /// `true` if another attempt may succeed.
    pub retryable: bool,
    /// HTTP status of the provider's response, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Causes of the error, joined by `: `, as in the alternate form of an `anyhow::Error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cause: Option<Box<Cause>>,
    /// Error value of a failed workflow as JSON, for the function that called it; the text of the
    /// error if its type has no JSON form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub(crate) value: Option<Encoded>,
    /// Reason as data, if it has a code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<Box<FailureProblem>>,
    /// Data of the original [`Error`](crate::Error) as JSON, from which the error is rebuilt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub(crate) error: Option<Encoded>,
}

impl Failure {
    /// Creates a failure with a message. The kind determines whether it is retryable.
    pub fn new(kind: impl Into<FailureKind>, message: impl Into<String>) -> Self {
        let kind = kind.into();
        Self {
            retryable: kind.is_retryable(),
            kind,
            message: message.into(),
            status: None,
            cause: None,
            value: None,
            problem: None,
            error: None,
        }
    }

    /// Returns the reason as data, if a value or a condition of a graph could not be computed.
    pub fn problem(&self) -> Option<&FailureProblem> {
        self.problem.as_deref()
    }

    /// Sets the reason as data.
    pub(crate) fn about(self, problem: &Diagnostic) -> Self {
        Self { problem: Some(Box::new(FailureProblem::from_diagnostic(problem))), ..self }
    }

    /// Returns the causes of the error, joined by `: `, if the error has any.
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_ref().map(|cause| &*cause.0)
    }

    /// Sets the causes.
    pub(crate) fn because(self, cause: Option<&str>) -> Self {
        Self { cause: cause.map(|cause| Box::new(Cause(cause.to_owned()))), ..self }
    }

    /// Returns the message followed by its causes.
    pub(crate) fn whole(&self) -> Cow<'_, str> {
        match self.cause() {
            Some(cause) => format!("{}: {cause}", self.message).into(),
            None => self.message.as_str().into(),
        }
    }

    /// Returns `true` if another attempt may have another result. Returns `false` for a kind that
    /// is [final](FailureKind::is_final), and if the provider marked a usually temporary error as
    /// permanent, such as an exhausted quota.
    pub fn may_pass(&self) -> bool {
        // `retryable` is only meaningful for a temporary kind, which a provider can mark as
        // permanent. The result of the other kinds may change with another attempt.
        !self.kind.is_final() && (self.retryable || !self.kind.is_retryable())
    }

    /// Returns `true` if a retry is worth the time by default, for a tool and for a node.
    pub(crate) fn is_worth_retry(&self) -> bool {
        let never = [FailureClass::Validation, FailureClass::Permission, FailureClass::Cancelled];
        self.may_pass() && !never.contains(&self.kind.class())
    }
}

/// Causes of a failure, used as the source of the error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(transparent)]
#[error("{0}")]
pub(crate) struct Cause(String);

impl Cause {
    /// Returns the part of an error's alternate form (`{:#}`) that follows its message, such as the
    /// causes of an `anyhow::Error`.
    pub(crate) fn from_alternate_form(
        sentence: &str,
        error: &impl fmt::Display,
    ) -> Option<Box<Self>> {
        let whole = format!("{error:#}");
        let cause = whole.strip_prefix(sentence)?.strip_prefix(": ")?;
        (!cause.is_empty()).then(|| Box::new(Self(cause.to_owned())))
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

/// Returns `true` if the step was interrupted by the end of its process or cancelled by another
/// step, and did not fail.
pub(crate) fn was_stopped(kind: &FailureKind) -> bool {
    matches!(kind, FailureKind::Interrupted | FailureKind::Cancelled)
}

/// Beginning of the reason that is recorded for open steps of a cancelled run. The operator's reason follows.
pub(crate) const RUN_CANCELLED: &str = "the run was cancelled";
/// Reason that is recorded for open steps of a run that reaches its time limit.
pub(crate) const RUN_OVER_TIME: &str = "the run reached its time limit";

/// Returns true if a step has failed only because its run ended. The messages are stored, so they
/// never change.
pub(crate) fn ended_with_run(error: &Failure) -> bool {
    error.kind == FailureKind::Cancelled
        && (error.message.starts_with(RUN_CANCELLED) || error.message.starts_with(RUN_OVER_TIME))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

/// Classes of failures that a [`RetryPolicy`](crate::workflow::RetryPolicy) repeats. Each class
/// contains several kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureClass {
    /// A time limit was exceeded.
    Timeout,
    /// A service limits the rate of requests.
    RateLimit,
    /// A service cannot be reached or is overloaded.
    Unavailable,
    /// The step failed.
    ToolError,
    /// A model call failed for a different reason.
    ModelError,
    /// An input or an answer has the wrong form.
    Validation,
    /// The action is not allowed, or a person denied it.
    Permission,
    /// The step was cancelled.
    Cancelled,
    /// All classes.
    Any,
}

/// Prospects of another attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    /// The cause is usually temporary.
    Passes,
    /// The result may differ.
    May,
    /// The result is the same, or the attempt must not be made automatically.
    Never,
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident $word:literal $class:ident $again:ident,)+) => {
        /// Kinds of [`Failure`]. Stored and shown as a word, such as `rate_limited`.
        ///
        /// A kind can be compared with a word: `failure.kind == "rate_limited"`.
        #[derive(Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum FailureKind {
            $($(#[doc = $doc])+ $kind,)+
            /// A kind that this release does not know: one of a newer release or of the program.
            /// Created with [`FailureKind::from`], which returns the other variants for their
            /// words.
            Other(Arc<str>),
        }

        impl FailureKind {
            #[cfg(test)]
            const ALL: &[Self] = &[$(Self::$kind),+];

            /// Returns the word, such as `rate_limited`.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$kind => $word,)+
                    Self::Other(word) => word,
                }
            }

            /// Returns the class, which decides whether a
            /// [`RetryPolicy`](crate::workflow::RetryPolicy) repeats the failure.
            pub fn class(&self) -> FailureClass {
                match self {
                    $(Self::$kind => FailureClass::$class,)+
                    Self::Other(_) => FailureClass::ToolError,
                }
            }

            fn again(&self) -> Again {
                match self {
                    $(Self::$kind => Again::$again,)+
                    Self::Other(_) => Again::May,
                }
            }

            fn known(word: &str) -> Option<Self> {
                Some(match word {
                    $($word => Self::$kind,)+
                    _ => return None,
                })
            }
        }
    };
}

// The only table of kinds: the stored word, the class, and the prospects of another attempt.
kinds! {
    // Model calls.
    /// The provider limits the rate of requests.
    RateLimited "rate_limited" RateLimit Passes,
    /// The provider is overloaded.
    Overloaded "overloaded" Unavailable Passes,
    /// The provider failed.
    Server "server" Unavailable Passes,
    /// A time limit was exceeded.
    Timeout "timeout" Timeout Passes,
    /// The response ended early.
    Truncated "truncated" Unavailable Passes,
    /// The connection failed.
    Transport "transport" Unavailable Passes,
    /// The API key is missing or wrong.
    Auth "auth" Permission May,
    /// The API key lacks the permission.
    Permission "permission" Permission May,
    /// No model, tool or run has this name.
    NotFound "not_found" ToolError Never,
    /// The provider rejected the request as malformed.
    BadRequest "bad_request" Validation May,
    /// The conversation exceeds the context window of the model.
    ContextOverflow "context_overflow" ModelError Never,
    /// The provider's filter stopped the answer.
    ContentFilter "content_filter" ModelError May,
    /// The provider's response could not be read.
    InvalidResponse "invalid_response" ModelError May,
    /// The model's answer exceeds the size limit.
    AnswerTooLarge "answer_too_large" ModelError May,
    // Workflows.
    /// No arm of a router in a graph matches.
    RouteUnmatched "route_unmatched" Validation May,
    // Agents.
    /// The model returned neither text nor a tool call.
    NoAnswer "no_answer" ModelError May,
    /// The model declined to give an answer of the output type.
    Refused "refused" ModelError May,
    /// The model's answers did not fit the output type.
    InvalidOutput "invalid_output" ModelError May,
    /// The agent reached its limit of turns.
    MaxStepsReached "max_steps_reached" ToolError May,
    /// The run reached its limit of model calls.
    LlmCallLimit "llm_call_limit" ToolError Never,
    /// The agents of a team reached their limit of handoffs.
    HandoffLimit "handoff_limit" ToolError May,
    /// Agents and workflows are nested too deeply.
    NestingLimit "nesting_limit" ToolError Never,
    /// A budget is used up.
    BudgetExceeded "budget_exceeded" ToolError Never,
    /// Middleware stopped the run.
    Middleware "middleware" ToolError May,
    /// Too many tool calls failed in a row.
    ToolFailures "tool_failures" ToolError May,
    // Tool calls.
    /// The step or the tool returned an error.
    Error "error" ToolError May,
    /// The arguments do not fit the tool.
    InvalidArguments "invalid_arguments" Validation Never,
    /// The run was not granted a scope that the tool requires, or its caller may not run the node.
    Unauthorized "unauthorized" Permission Never,
    /// The model requested more tool calls in a turn than the limit allows.
    TooManyCalls "too_many_calls" ToolError May,
    /// The tool or the step panicked.
    Panicked "panicked" ToolError May,
    /// The tool's output exceeds the size limit.
    OutputTooLarge "output_too_large" Validation Never,
    // Runs and steps.
    /// The run or the step was cancelled.
    Cancelled "cancelled" Cancelled Never,
    /// The process ended during the call; it is unknown whether the call had its effect.
    Interrupted "interrupted" ToolError Never,
    /// The run must compensate completed steps, and this runtime cannot do it.
    CompensationOwed "compensation_owed" ToolError May,
    /// A person denied the approval.
    Denied "denied" Permission Never,
    /// The workflow has no output, since the node that returns it was skipped.
    NoOutput "no_output" ToolError May,
    /// A value exceeds the size limit.
    TooLarge "too_large" Validation Never,
    /// A value cannot be encoded as JSON and decoded again without loss.
    Value "value" Validation Never,
    /// The input does not fit the workflow.
    Input "input" Validation Never,
    /// The run's task, or the remote execution of a step, ended without a result.
    Lost "lost" ToolError Passes,
    /// The result of a remote execution cannot be read.
    UnreadableOutcome "unreadable_outcome" ToolError May,
    /// A remote execution returned the outcome of another step, attempt or run.
    ForeignOutcome "foreign_outcome" ToolError May,
    // Programs.
    /// An agent or a workflow cannot be built.
    Build "build" Validation Never,
    /// The reference to a model is invalid.
    ModelRef "model_ref" Validation Never,
    /// The linked tools conflict, or a tool is missing.
    Registry "registry" ToolError Never,
    /// Fetching the tools of a toolset failed.
    Toolset "toolset" Unavailable Passes,
    /// The program has no workflow with this name.
    UnknownWorkflow "unknown_workflow" ToolError Never,
    /// The program has no agent with this name.
    UnknownAgent "unknown_agent" ToolError Never,
    /// The workflow has changed since the run started.
    DefinitionChanged "definition_changed" ToolError Never,
    /// A resource that a step requires was not provided.
    MissingResource "missing_resource" ToolError Never,
    /// The runtime is draining and does not start runs.
    Draining "draining" Unavailable Never,
    // Control requests.
    /// The state of the run does not allow the request.
    WrongState "wrong_state" ToolError May,
    /// The workflow has no node with this name.
    UnknownNode "unknown_node" ToolError Never,
    /// The answer does not have the requested type.
    WrongAnswer "wrong_answer" Validation Never,
    /// The process that executes the run did not respond.
    NoResponse "no_response" ToolError May,
    // Stores.
    /// A run with this id exists.
    Exists "exists" ToolError Never,
    /// The run has ended.
    Ended "ended" ToolError Never,
    /// The run has not ended.
    Unfinished "unfinished" ToolError May,
    /// The run is being written by another process.
    Busy "busy" ToolError May,
    /// The run was taken over by another process.
    Fenced "fenced" ToolError Never,
    /// Stored data cannot be read.
    Damaged "damaged" ToolError Never,
    /// The data was written by a newer release.
    NewerVersion "newer_version" ToolError Never,
    /// The disk is full.
    Full "full" ToolError May,
    /// The store's file was deleted or replaced.
    Replaced "replaced" ToolError Never,
    /// The store is locked.
    Locked "locked" ToolError May,
    /// Reading or writing failed.
    Io "io" ToolError May,
}

impl FailureKind {
    /// Returns `true` if the cause is usually temporary, such as a time-out.
    pub fn is_retryable(&self) -> bool {
        self.again() == Again::Passes
    }

    /// Returns `true` if another attempt has the same result or must not be made automatically: an
    /// exhausted budget stays exhausted, and a person who denied an approval is not asked again.
    pub fn is_final(&self) -> bool {
        self.again() == Again::Never
    }
}

impl From<&str> for FailureKind {
    fn from(word: &str) -> Self {
        Self::known(word).unwrap_or_else(|| Self::Other(word.into()))
    }
}

impl From<String> for FailureKind {
    fn from(word: String) -> Self {
        Self::from(word.as_str())
    }
}

impl PartialEq<str> for FailureKind {
    fn eq(&self, word: &str) -> bool {
        self.as_str() == word
    }
}

impl PartialEq<&str> for FailureKind {
    fn eq(&self, word: &&str) -> bool {
        self.as_str() == *word
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Serialize for FailureKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for FailureKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

impl JsonSchema for FailureKind {
    fn schema_name() -> Cow<'static, str> {
        "FailureKind".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "description": "What kind of failure it is, such as `rate_limited`."})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_stored_as_its_word_and_read_back() {
        for kind in
            FailureKind::ALL.iter().cloned().chain([FailureKind::from("of_another_release")])
        {
            let json = serde_json::to_string(&kind).unwrap();
            assert_eq!(json, format!("{:?}", kind.as_str()));
            assert_eq!(serde_json::from_str::<FailureKind>(&json).unwrap(), kind);
        }
        assert!(matches!(FailureKind::from("of_another_release"), FailureKind::Other(_)));
    }

    #[test]
    fn what_a_provider_calls_final_is_not_tried_again() {
        let mut quota = Failure::new(FailureKind::RateLimited, "no quota is left");
        assert!(quota.may_pass());
        quota.retryable = false;
        assert!(!quota.may_pass());
        assert!(Failure::new("error", "it failed").may_pass());
        assert!(!Failure::new("budget_exceeded", "no tokens are left").may_pass());
    }
}
