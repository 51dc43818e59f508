//! `Failure` and `FailureKind`: a recorded failure with its kind, its sentence, and whether another attempt may
//! succeed. It holds no source, and does not decide on another attempt.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::value::Encoded;

/// An error as it is recorded: what can be stored and shown, without sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// The sentence.
    pub message: String,
    /// Whether the same may succeed when it is tried again.
    pub retryable: bool,
    /// The HTTP status, when a provider answered with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What was behind it, where the error says so: the causes of an `anyhow::Error`, joined by `: `.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cause: Option<Box<Cause>>,
    /// The own error of the workflow that failed, as JSON, for the function that called it; its text where the error type
    /// has no JSON form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub(crate) value: Option<Encoded>,
    /// The data of the original [`Error`](crate::Error) as JSON, from which the error is rebuilt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub(crate) error: Option<Encoded>,
}

impl Failure {
    /// A failure of a kind, with a sentence. Whether it is retryable follows from its kind.
    pub fn new(kind: impl Into<FailureKind>, message: impl Into<String>) -> Self {
        let kind = kind.into();
        Self {
            retryable: kind.is_retryable(),
            kind,
            message: message.into(),
            status: None,
            cause: None,
            value: None,
            error: None,
        }
    }

    /// What was behind it, where the error says so.
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_ref().map(|cause| &*cause.0)
    }

    /// The same with what was behind it.
    pub(crate) fn because(self, cause: Option<&str>) -> Self {
        Self { cause: cause.map(|cause| Box::new(Cause(cause.to_owned()))), ..self }
    }

    /// The sentence with what was behind it.
    pub(crate) fn whole(&self) -> Cow<'_, str> {
        match self.cause() {
            Some(cause) => format!("{}: {cause}", self.message).into(),
            None => self.message.as_str().into(),
        }
    }

    /// Whether another attempt may end otherwise. False for a kind that is [final](FailureKind::is_final), and where a
    /// provider said that an error which usually passes will not, such as a quota that is used up.
    pub fn may_pass(&self) -> bool {
        !self.kind.is_final() && (self.retryable || !self.kind.is_retryable())
    }
}

/// What was behind a failure, as the source of the error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(transparent)]
#[error("{0}")]
pub(crate) struct Cause(String);

impl Cause {
    /// What an error shows in its alternate form beside its sentence, as an `anyhow::Error` does.
    pub(crate) fn of(sentence: &str, error: &impl fmt::Display) -> Option<Box<Self>> {
        let whole = format!("{error:#}");
        let cause = whole.strip_prefix(sentence)?.strip_prefix(": ")?;
        (!cause.is_empty()).then(|| Box::new(Self(cause.to_owned())))
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

/// Whether a step that ends with such a failure was stopped, by the end of its process or by another step, and has not
/// failed of itself.
pub(crate) fn was_stopped(kind: &FailureKind) -> bool {
    matches!(kind, FailureKind::Interrupted | FailureKind::Cancelled)
}

/// Beginning of the reason that is recorded for open steps of a cancelled run. The operator's reason follows.
pub(crate) const RUN_CANCELLED: &str = "the run was cancelled";
/// Reason that is recorded for open steps of a run that reaches its time limit.
pub(crate) const RUN_OVER_TIME: &str = "the run reached its time limit";

/// Returns true if a step has failed only because its run ended. The texts are stored, so they never change.
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

/// Which failures a [`RetryPolicy`](crate::workflow::RetryPolicy) repeats: a class holds many kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureClass {
    /// It took too long.
    Timeout,
    /// A service asked to slow down.
    RateLimit,
    /// A service could not be reached or is overloaded.
    Unavailable,
    /// The step itself failed.
    ToolError,
    /// A model call failed for another reason.
    ModelError,
    /// The input or an answer does not fit.
    Validation,
    /// It is not allowed, or was denied.
    Permission,
    /// It was cancelled.
    Cancelled,
    /// All of them.
    Any,
}

/// What a further attempt at the same may bring.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    /// The cause usually passes.
    Passes,
    /// It may end otherwise.
    May,
    /// It ends the same way, or must not be repeated by itself.
    Never,
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident $word:literal $class:ident $again:ident,)+) => {
        /// What kind of failure a [`Failure`] is. Stored and shown as a word, such as `rate_limited`.
        ///
        /// A kind can be compared with a word: `failure.kind == "rate_limited"`.
        #[derive(Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum FailureKind {
            $($(#[doc = $doc])+ $kind,)+
            /// A word that this release does not know: of a newer one, or of the program. Made with
            /// [`FailureKind::from`], which knows the words of all other kinds.
            Other(Arc<str>),
        }

        impl FailureKind {
            #[cfg(test)]
            const ALL: &[Self] = &[$(Self::$kind),+];

            /// The word, such as `rate_limited`.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$kind => $word,)+
                    Self::Other(word) => word,
                }
            }

            /// The class, which decides whether a [`RetryPolicy`](crate::workflow::RetryPolicy) repeats it.
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

// The one table of kinds: the word that is stored, the class, and what a further attempt may bring.
kinds! {
    // Of a model call.
    /// The provider asked to slow down.
    RateLimited "rate_limited" RateLimit Passes,
    /// The provider is overloaded.
    Overloaded "overloaded" Unavailable Passes,
    /// The provider failed.
    Server "server" Unavailable Passes,
    /// Something took longer than it may.
    Timeout "timeout" Timeout Passes,
    /// The answer stopped before its end.
    Truncated "truncated" Unavailable Passes,
    /// The connection failed.
    Transport "transport" Unavailable Passes,
    /// The key is missing or wrong.
    Auth "auth" Permission May,
    /// The key may not do this.
    Permission "permission" Permission May,
    /// There is no model, tool or run of that name.
    NotFound "not_found" ToolError Never,
    /// The provider refused the request as malformed.
    BadRequest "bad_request" Validation May,
    /// The conversation is longer than the model takes.
    ContextOverflow "context_overflow" ModelError Never,
    /// The provider's filter stopped the answer.
    ContentFilter "content_filter" ModelError May,
    /// The provider's answer could not be read.
    InvalidResponse "invalid_response" ModelError May,
    /// The model's answer is larger than it may be.
    AnswerTooLarge "answer_too_large" ModelError May,
    // Of a workflow.
    /// A router that is data takes no arm.
    RouteUnmatched "route_unmatched" Validation May,
    // Of an agent.
    /// The model gave neither text nor a tool call.
    NoAnswer "no_answer" ModelError May,
    /// The model declined to give an answer of the output type.
    Refused "refused" ModelError May,
    /// The model's answers did not fit the output type.
    InvalidOutput "invalid_output" ModelError May,
    /// The agent took all of its turns.
    MaxStepsReached "max_steps_reached" ToolError May,
    /// The run made all of its model calls.
    LlmCallLimit "llm_call_limit" ToolError Never,
    /// The agents of a team made all of their handoffs.
    HandoffLimit "handoff_limit" ToolError May,
    /// Agents and workflows are nested too deep.
    NestingLimit "nesting_limit" ToolError Never,
    /// A budget is used up.
    BudgetExceeded "budget_exceeded" ToolError Never,
    /// Middleware stopped the run.
    Middleware "middleware" ToolError May,
    /// Too many tool calls failed in a row.
    ToolFailures "tool_failures" ToolError May,
    // Of a tool call.
    /// The step's or the tool's own error.
    Error "error" ToolError May,
    /// The arguments do not fit the tool.
    InvalidArguments "invalid_arguments" Validation Never,
    /// The run was not granted what the tool asks for.
    Unauthorized "unauthorized" Permission Never,
    /// The model asked for more calls in a turn than it may.
    TooManyCalls "too_many_calls" ToolError May,
    /// It panicked.
    Panicked "panicked" ToolError May,
    /// The tool's answer is larger than it may be.
    OutputTooLarge "output_too_large" Validation Never,
    // Of a run or a step.
    /// It was stopped.
    Cancelled "cancelled" Cancelled Never,
    /// Its process ended in the middle of it, and nobody knows whether it had its effect.
    Interrupted "interrupted" ToolError Never,
    /// The run has to undo what it had done, which cannot be done here.
    CompensationOwed "compensation_owed" ToolError May,
    /// A person denied it.
    Denied "denied" Permission Never,
    /// The workflow has no output, since the node that gives it was skipped.
    NoOutput "no_output" ToolError May,
    /// A value is larger than it may be.
    TooLarge "too_large" Validation Never,
    /// A value does not survive its way through JSON.
    Value "value" Validation Never,
    /// The input does not fit the workflow.
    Input "input" Validation Never,
    /// The run's task, or what executed a step elsewhere, ended without a result.
    Lost "lost" ToolError Passes,
    /// What executed a step elsewhere gave back what cannot be read.
    UnreadableOutcome "unreadable_outcome" ToolError May,
    /// What executed a step elsewhere gave back the outcome of another step, attempt or run.
    ForeignOutcome "foreign_outcome" ToolError May,
    // Of a program.
    /// An agent or a workflow cannot be built.
    Build "build" Validation Never,
    /// The model's name is not understood.
    ModelRef "model_ref" Validation Never,
    /// The linked tools contradict each other, or one is missing.
    Registry "registry" ToolError Never,
    /// The tools of a toolset could not be fetched.
    Toolset "toolset" Unavailable Passes,
    /// The program has no workflow of that name.
    UnknownWorkflow "unknown_workflow" ToolError Never,
    /// The program has no agent of that name.
    UnknownAgent "unknown_agent" ToolError Never,
    /// The workflow has changed since it began.
    DefinitionChanged "definition_changed" ToolError Never,
    /// Nobody gave the resource that a step asks for.
    MissingResource "missing_resource" ToolError Never,
    /// The runtime is being drained and begins nothing.
    Draining "draining" Unavailable Never,
    // Of a control request.
    /// The run is not in a state in which this can be done.
    WrongState "wrong_state" ToolError May,
    /// The workflow has no node of that name.
    UnknownNode "unknown_node" ToolError Never,
    /// The answer is not of the type that was asked for.
    WrongAnswer "wrong_answer" Validation Never,
    /// The process that executes the run did not respond.
    NoResponse "no_response" ToolError May,
    // Of a store.
    /// There is a run of that name already.
    Exists "exists" ToolError Never,
    /// The run has ended.
    Ended "ended" ToolError Never,
    /// The run has not ended.
    Unfinished "unfinished" ToolError May,
    /// Another process writes the run.
    Busy "busy" ToolError May,
    /// Another process has taken over the run.
    Fenced "fenced" ToolError Never,
    /// What is stored cannot be read.
    Damaged "damaged" ToolError Never,
    /// A newer release wrote it.
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
    /// Whether the cause usually passes, such as a time-out.
    pub fn is_retryable(&self) -> bool {
        self.again() == Again::Passes
    }

    /// Whether a further attempt ends the same way, or must not be made by itself: a budget that is used up stays used
    /// up, and who was denied once is not asked again.
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
        for kind in FailureKind::ALL.iter().cloned().chain([FailureKind::from("of_another_release")]) {
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
