//! Tools: functions that a model, a program or a workflow step can call.
//!
//! - [`Tool`] is the trait of a tool. `#[tool]` implements it for a function; [`FnTool`] wraps a
//!   closure; other types can implement it too.
//! - [`ToolDefinition`] holds a tool's name, description, parameter schema and [`ToolPolicy`].
//! - [`ToolRef`] is a cheap reference to a tool. A [`Toolset`] provides tools that are known only
//!   at run time.
//! - [`ToolOutput`] and [`ToolError`] are the two outcomes of a call.
//! - A [`WaitingCall`] asks people [`UserQuestion`]s during a call, and waits across restarts.
//!
//! A tool does not depend on the agent that calls it.

// `execution/` makes every call: hooks, records, scopes, arguments, attempts, limits. `invoke.rs`
// uses it for calls by name. `call_in_step.rs` and `matched_tool_call.rs` use it for a `#[tool]`
// function that a workflow step calls, after they have read the journal's records of the call.
// `compensation.rs` and `compensated_run.rs` undo completed calls.

#[allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]
pub(crate) mod answer_schema;
pub(crate) mod ask_user;
mod built_in;
mod call_answer;
mod call_approval;
#[cfg(feature = "dynamic")]
mod call_by_name;
mod call_checks;
mod call_decision;
#[allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]
pub(crate) mod call_forms;
#[allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]
pub(crate) mod call_in_step;
mod call_record;
mod compensated_run;
mod compensation;
mod dynamic;
mod earlier_attempts;
mod execution;
mod held_back;
mod history;
mod into_tools;
mod invoke;
mod linked_tools;
mod mailbox_tools;
mod matched_tool_call;
mod memory_tools;
mod node_question;
#[allow(
    missing_docs,
    missing_debug_implementations,
    reason = "named by expansions only, but for the name `ToolParam`"
)]
mod parameters;
#[allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]
pub(crate) mod probe;
mod registry;
mod replacement;
mod schema;
mod step_place;
mod told_call;
mod tool_body_place;
mod tool_output;
mod toolset;
mod undecided;
mod undo_check;
mod user_question;
mod waiting_call;
mod wire_name;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};

pub use self::ask_user::AskUser;
#[cfg(feature = "documents")]
pub(crate) use self::built_in::{BUILT_IN, built_in};
pub(crate) use self::built_in::{EXIT_LOOP, exit_loop};
pub use self::call_answer::QuestionAnswer;
pub(crate) use self::call_approval::{CallQuestion, can_be_answered, unanswerable};
#[cfg(feature = "dynamic")]
pub(crate) use self::call_by_name::call_with_approval;
pub(crate) use self::call_checks::{fitting, is_granted, scope_refusal, warn_unanswerable};
#[cfg(feature = "dynamic")]
pub(crate) use self::call_in_step::missing_scope;
pub(crate) use self::call_in_step::{ToolAnswer, call_has_events};
pub(crate) use self::call_record::{began, effects_of_begun, ended, millis_since};
pub(crate) use self::compensated_run::{
    Compensation, StartedCompensation, compensated, compensated_cancelled, continue_compensating,
};
pub(crate) use self::compensation::{FindTool, can_compensate, check_compensations};
pub use self::dynamic::FnTool;
pub(crate) use self::dynamic::read_whole as read_arguments;
pub(crate) use self::earlier_attempts::{EarlierAttempts, lived};
pub(crate) use self::execution::{
    CallSite, Executed, JsonBody, RefusedCall, TimeLimit, ToolExecution, panic_message, size_error,
    slot, timeout_message,
};
pub(crate) use self::held_back::HeldBack;
pub(crate) use self::history::RecordedOutcome;
pub use self::into_tools::{IntoTools, ToolList};
#[cfg(feature = "dynamic")]
pub(crate) use self::invoke::invoke_in_node;
pub(crate) use self::invoke::invoke_with_hooks;
pub(crate) use self::invoke::not_found;
pub(crate) use self::linked_tools::linked_tools;
pub use self::memory_tools::MemoryTool;
pub(crate) use self::memory_tools::{MemoryToolKind, needed as memory_resources};
pub(crate) use self::node_question::NodeQuestion;
pub use self::parameters::ParamType;
pub use self::parameters::{Param, ToolParam};
pub(crate) use self::parameters::{Parameters, ToolParams, read, read_each};
#[cfg(feature = "dynamic")]
pub(crate) use self::registry::PARAMETERS;
pub use self::registry::Registry;
pub(crate) use self::registry::problem_of;
pub(crate) use self::replacement::{
    NeededResource, Replacements, StandIn, answer_with_replacement, replaces_answers,
    unused_resources,
};
pub use self::replacement::{ReplacedCall, ReplacedError, ReplacedKind, Replacement};
pub(crate) use self::schema::{parameters_of, parameters_schema};
pub(crate) use self::step_place::{
    CurrentStep, NodeGuarantees, StepEndPanic, ValueScope, WrittenOrder,
};
pub(crate) use self::told_call::report_unknown_tool;
pub use self::tool_output::{ToolError, ToolOutput, ToolReturn};
pub use self::toolset::{Toolset, ToolsetRef};
pub(crate) use self::undecided::{
    describe_writes, pending_questions, repeated_writes, undecided_failure, undecided_writes,
    unknown_writes,
};
pub(crate) use self::undo_check::compensation_mismatch;
pub use self::user_question::UserQuestion;
pub use self::waiting_call::{WaitingCall, ask_within_call};
use self::wire_name::Renamed;
#[doc(hidden)]
pub use self::wire_name::{is_dotted, wire_name};
use crate::context::Context;
use crate::error::Result;
pub(crate) use crate::executor::{HiddenCalls, HiddenEffect};
use crate::future::{BoxFuture, Exclusive};
use crate::resource::{ResourceKey, Resources};
use crate::run::{Around, Host};
pub use crate::tool_definition::{
    Effects, SourceLocation, ToolDefinition, ToolManifest, ToolPolicy,
};

/// A tool that a model can call: a definition and a body.
///
/// `#[tool]` implements this trait for a struct with the function's name. Implement it yourself for
/// tools that are created at run time and do not fit [`FnTool`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "not a tool",
    note = "put `#[tool]` on the function and name its path, as in `tools![my_function]`"
)]
pub trait Tool: Send + Sync {
    /// Returns the name, description, schema and policy. The definition is the same for every call.
    fn definition(&self) -> &Arc<ToolDefinition>;

    /// Runs the tool.
    ///
    /// `arguments` is JSON text as the caller wrote it. Empty text counts as `{}`. Unless
    /// [`checks_arguments`](Self::checks_arguments) returns `true`, the arguments were already
    /// checked against the schema.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the tool.
    fn call<'a>(&'a self, cx: &'a Context, arguments: &'a str) -> ToolFuture<'a>;

    /// Returns the JSON Schema of the tool's answer, if it is known. Default: `None`.
    fn output_schema(&self) -> Option<serde_json::Value> {
        None
    }

    /// Returns the resources that the body uses. A missing one is then reported when the agent is
    /// built or the run starts.
    fn resources(&self) -> Vec<ResourceKey> {
        Vec::new()
    }

    /// Returns `true` if [`call`](Self::call) itself rejects arguments that do not fit the schema,
    /// as tools do that deserialize them into Rust types. Default: `false`.
    ///
    /// With the feature `dynamic`, the arguments of any other tool are checked against the schema
    /// before the call. The same applies to every tool whose schema limits values beyond their
    /// types, as `maxLength` does.
    fn checks_arguments(&self) -> bool {
        false
    }

    /// Returns `true` if a person answers the calls to this tool. Default: `false`.
    ///
    /// In an agent's run with a store, the run sends the tool's [`question`](Self::question) to a
    /// person instead of calling [`call`](Self::call). It waits for the answer, also across
    /// restarts, unless the question has a time limit. The answer becomes the result of the call.
    /// In all other places, and if a test replaces the tool, `call` is used.
    fn asks(&self) -> bool {
        false
    }

    /// Returns the question for a person about a call with these arguments. Used only if
    /// [`asks`](Self::asks) returns `true`.
    ///
    /// # Errors
    /// The reason why the question cannot be sent. The caller receives it as the result of the
    /// call.
    fn question(&self, arguments: &str) -> Result<UserQuestion, ToolError> {
        let _ = arguments;
        Err(ToolError::new("this tool asks nobody"))
    }

    /// Returns the tool adapted to the host of an agent, or `None` if the tool is the same on every
    /// host.
    #[doc(hidden)]
    fn within(&self, _: ToolHost<'_>) -> Option<Result<ToolRef>> {
        None
    }

    /// Returns the tool's name, source file and line without building its definition.
    #[doc(hidden)]
    fn written(&self) -> Option<(&'static str, &'static str, u32)> {
        None
    }

    /// Returns the description of the agent or workflow that this tool wraps.
    #[doc(hidden)]
    fn inside(&self) -> Option<Box<dyn std::any::Any>> {
        None
    }

    /// Returns the definition of the `#[tool]` function that is the body. Such a function finds the
    /// current step without help.
    #[doc(hidden)]
    fn function_definition(&self) -> Option<&Arc<ToolDefinition>> {
        None
    }

    /// Returns `true` if a call of that function needs a scope or an approval.
    #[doc(hidden)]
    fn is_guarded(&self) -> bool {
        false
    }

    /// Returns `true` if that function is not `async`. A call of it inside an expression cannot
    /// wait until its record is stored.
    #[doc(hidden)]
    fn returns_at_once(&self) -> bool {
        false
    }
}

/// The host and resources at the place of a call. An agent that is used as a tool falls back to
/// them.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct ToolHost<'a> {
    pub(crate) host: &'a Arc<Host>,
    pub(crate) resources: &'a Resources,
}

/// The return type of [`Tool::call`]: a finished answer, a future, or a blocking task.
pub struct ToolFuture<'a>(Inner<'a>);

enum Inner<'a> {
    Ready(Option<Result<ToolOutput, ToolError>>),
    Boxed(Exclusive<BoxFuture<'a, Result<ToolOutput, ToolError>>>),
    Blocking(tokio::task::JoinHandle<Result<ToolOutput, ToolError>>),
}

impl<'a> ToolFuture<'a> {
    /// Creates a future that is finished already.
    pub fn ready(result: Result<ToolOutput, ToolError>) -> Self {
        Self(Inner::Ready(Some(result)))
    }

    /// Creates a future whose answer is awaited.
    pub fn pending(
        future: impl Future<Output = Result<ToolOutput, ToolError>> + Send + 'a,
    ) -> Self {
        Self(Inner::Boxed(Exclusive::new(Box::pin(future))))
    }

    /// Runs `body` on tokio's threads for blocking work.
    ///
    /// A running body cannot be stopped: after a time-out or a cancellation it runs to its end, and
    /// its answer is dropped.
    pub fn blocking(body: impl FnOnce() -> Result<ToolOutput, ToolError> + Send + 'static) -> Self {
        // The blocking thread does not inherit task-locals, so the scope of the caller is passed to
        // it.
        let around = Around::current();
        Self(Inner::Blocking(tokio::task::spawn_blocking(move || around.sync_scope(body))))
    }
}

impl Future for ToolFuture<'_> {
    type Output = Result<ToolOutput, ToolError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Inner::Ready(result) => Poll::Ready(result.take().unwrap_or_else(|| {
                Err(ToolError::new("the tool's future was polled again after it had finished"))
            })),
            Inner::Boxed(future) => future.get_mut().as_mut().poll(cx),
            Inner::Blocking(handle) => Poll::Ready(match ready!(Pin::new(handle).poll(cx)) {
                Ok(result) => result,
                // A panic of the body continues here, so that it is caught like a panic of an async
                // body.
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(error) => Err(ToolError::new(format!("the tool was stopped: {error}"))),
                },
            }),
        }
    }
}

impl fmt::Debug for ToolFuture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToolFuture")
    }
}

/// A reference to a tool that is linked into the program or shared. Cloning is cheap.
#[derive(Clone)]
pub struct ToolRef(Kind);

#[derive(Clone)]
enum Kind {
    Linked(&'static dyn Tool),
    Shared(Arc<dyn Tool>),
    Renamed(Arc<Renamed>),
}

impl ToolRef {
    /// Creates a reference to a tool that lives as long as the program.
    pub const fn linked(tool: &'static dyn Tool) -> Self {
        Self(Kind::Linked(tool))
    }

    /// Returns the name under which the program knows the tool, such as `mcp.files.read`.
    ///
    /// A model uses the name in the tool's [`definition`](Tool::definition), which is
    /// `mcp__files__read` in this case. For most tools both names are the same.
    pub fn catalogue_name(&self) -> &Arc<str> {
        match &self.0 {
            Kind::Renamed(tool) => tool.name(),
            Kind::Linked(_) | Kind::Shared(_) => &self.definition().name,
        }
    }

    /// Returns the name that a model uses. For a linked tool this does not build its schema.
    #[doc(hidden)]
    pub fn name(&self) -> &str {
        self.written().map_or_else(|| &*self.definition().name, |(name, ..)| name)
    }

    /// Returns the place in the source where the tool is defined.
    pub(crate) fn source(&self) -> Option<SourceLocation> {
        match self.written() {
            Some((_, file, line)) => Some(SourceLocation::new(file, line)),
            None => self.definition().source.clone(),
        }
    }

    /// Returns the same tool under a different name. Models call it by the wire name of the new
    /// name.
    pub(crate) fn renamed(&self, name: impl Into<Arc<str>>) -> Self {
        let inner = match &self.0 {
            // Renaming a renamed tool replaces its name, instead of wrapping it twice.
            Kind::Renamed(tool) => tool.inner().clone(),
            Kind::Linked(_) | Kind::Shared(_) => self.clone(),
        };
        Self(Kind::Renamed(Arc::new(Renamed::new(inner, name.into()))))
    }

    /// Returns the tool as a model can call it: a tool with dots in its name gets a wire name.
    #[doc(hidden)]
    pub fn with_wire_name(self) -> Self {
        match &self.0 {
            Kind::Linked(_) | Kind::Shared(_) if is_dotted(self.name()) => {
                self.renamed(Arc::clone(&self.definition().name))
            }
            _ => self,
        }
    }

    /// Returns the tool under its original name.
    #[cfg(feature = "dynamic")]
    pub(crate) fn original(&self) -> &Self {
        match &self.0 {
            Kind::Renamed(tool) => tool.inner(),
            Kind::Linked(_) | Kind::Shared(_) => self,
        }
    }

    /// Returns `true` if both references have the same name and the same definition. A renamed copy
    /// is a different tool.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.name() == other.name() && Arc::ptr_eq(self.definition(), other.definition())
    }
}

impl std::ops::Deref for ToolRef {
    type Target = dyn Tool;

    fn deref(&self) -> &Self::Target {
        match &self.0 {
            Kind::Linked(tool) => *tool,
            Kind::Shared(tool) => &**tool,
            Kind::Renamed(tool) => &**tool,
        }
    }
}

impl fmt::Debug for ToolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ToolRef").field(&self.definition().name).finish()
    }
}

impl<T: Tool + 'static> From<T> for ToolRef {
    fn from(tool: T) -> Self {
        Self(Kind::Shared(Arc::new(tool)))
    }
}

impl From<Arc<dyn Tool>> for ToolRef {
    fn from(tool: Arc<dyn Tool>) -> Self {
        Self(Kind::Shared(tool))
    }
}

/// Creates the list of tools for [`Agent::tools`](crate::Agent::tools) from paths of functions.
///
/// Each path names a `#[tool]` function; other paths are compile errors at the path. Paths are
/// resolved as in a `use` item: write `self::time` for a tool that has the same name as a crate of
/// the program.
///
/// ```
/// use agentflow::prelude::*;
///
/// /// Add two integers.
/// #[tool]
/// fn add(a: i64, b: i64) -> i64 {
///     a + b
/// }
///
/// let tools = tools![add];
/// assert_eq!(&*tools[0].definition().name, "add");
/// ```
#[macro_export]
macro_rules! tools {
    ($($path:tt)*) => {
        <[$crate::tool::ToolRef]>::into_vec($crate::__private::Box::new(
            $crate::__private::tool_refs!(($crate) $($path)*)
        ))
    };
}
