//! Tools: functions that a model may call. `#[tool]` implements the [`Tool`] trait; closures and hand-written types can
//! do so too.
//!
//! A tool knows nothing of the agent that calls it. Time-outs, limits and panics are handled in one place, `invoke.rs`.

#[allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]
pub(crate) mod answer_schema;
pub(crate) mod ask_user;
mod built_in;
mod call_answer;
mod call_approval;
#[cfg(feature = "dynamic")]
mod call_by_name;
mod call_decision;
#[allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]
pub(crate) mod call_forms;
#[allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]
pub(crate) mod call_in_step;
mod call_record;
mod call_retry;
mod compensated_run;
mod compensation;
mod dynamic;
mod earlier_attempts;
mod held_back;
mod history;
mod into_tools;
mod invoke;
mod made_call;
mod mailbox_tools;
mod memory_tools;
mod node_question;
#[allow(missing_docs, missing_debug_implementations, reason = "named by expansions only, but for the name `ToolParam`")]
mod parameters;
#[allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]
pub(crate) mod probe;
mod registry;
mod replacement;
mod schema;
mod step_place;
mod time_limit;
mod told_call;
mod tool_body_place;
mod tool_output;
mod toolset;
mod undecided;
mod undo_check;
mod user_question;
#[cfg(any(feature = "mcp", feature = "a2a-client"))]
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
pub(crate) use self::call_answer::CallAnswer;
pub(crate) use self::call_approval::{CallQuestion, can_be_answered, unanswerable};
#[cfg(feature = "dynamic")]
pub(crate) use self::call_by_name::call_with_approval;
#[cfg(feature = "dynamic")]
pub(crate) use self::call_in_step::missing_scope;
pub(crate) use self::call_in_step::{ToolAnswer, call_has_events};
pub(crate) use self::call_record::{began, effects_of_begun, ended, millis_since};
pub(crate) use self::compensated_run::{
    BegunCompensation, Compensation, compensated, compensated_cancelled, continue_compensating,
};
#[cfg(feature = "dynamic")]
pub(crate) use self::compensation::invoke_undoable;
pub(crate) use self::compensation::{FindTool, can_compensate, check_compensations};
pub use self::dynamic::FnTool;
pub(crate) use self::dynamic::read_whole as read_arguments;
pub(crate) use self::earlier_attempts::{EarlierAttempts, lived};
pub(crate) use self::held_back::HeldBack;
pub(crate) use self::history::RecordedOutcome;
pub use self::into_tools::{IntoTools, ToolList};
pub(crate) use self::invoke::invoke_hooked;
pub(crate) use self::invoke::{
    SeenTo, fitting, invoke_with_room, is_granted, late_text, not_found, over_size, panicked_text, scope_refusal, slot,
    warn_unanswerable,
};
pub use self::memory_tools::MemoryTool;
pub(crate) use self::memory_tools::{MemoryToolKind, needed as memory_resources};
pub(crate) use self::node_question::NodeQuestion;
pub use self::parameters::ParamType;
pub use self::parameters::{Param, ToolParam};
pub(crate) use self::parameters::{Parameters, ToolParams, read, read_each};
#[cfg(feature = "dynamic")]
pub(crate) use self::registry::PARAMETERS;
pub use self::registry::Registry;
pub(crate) use self::registry::{linked_tools, problem_of};
pub(crate) use self::replacement::{
    NeededResource, Replacements, StandIn, answered_instead, answers_instead, unused_resources,
};
pub use self::replacement::{ReplacedCall, ReplacedError, ReplacedKind, Replacement};
pub(crate) use self::schema::{parameters_of, parameters_schema};
pub(crate) use self::step_place::{Covered, EndsStep, StepPlace, ValuePlace, WrittenOrder};
pub(crate) use self::time_limit::TimeLimit;
pub(crate) use self::told_call::told_not_found;
pub use self::tool_output::{ToolError, ToolOutput, ToolReturn};
pub use self::toolset::{Toolset, ToolsetRef};
pub(crate) use self::undecided::{
    asks_at, repeated_below, undecided_below, undecided_failure, unknown_below, written_within,
};
pub(crate) use self::undo_check::undo_misfit;
pub use self::user_question::UserQuestion;
#[cfg(any(feature = "mcp", feature = "a2a-client"))]
pub(crate) use self::waiting_call::WaitingCall;
#[cfg(feature = "mcp")]
pub(crate) use self::waiting_call::ask_within_call;
use self::wire_name::Renamed;
pub(crate) use self::wire_name::{is_dotted, wire_name};
use crate::context::Context;
use crate::error::Result;
pub(crate) use crate::executor::{HiddenEffect, StepTurn};
use crate::future::{BoxFuture, Exclusive};
use crate::resource::{ResourceKey, Resources};
use crate::run::{Around, Host};
pub use crate::tool_definition::{Effects, SourceLocation, ToolDefinition, ToolManifest, ToolPolicy};

/// Something a model can call: a definition and a body.
///
/// `#[tool]` implements it for the struct of the function's name. Implement it by hand for tools that are made at run
/// time and do not fit [`FnTool`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "not a tool",
    note = "put `#[tool]` on the function and name its path, as in `tools![my_function]`"
)]
pub trait Tool: Send + Sync {
    /// Name, description, schema and policy. The same at every call.
    fn definition(&self) -> &Arc<ToolDefinition>;

    /// Runs the tool. `arguments` is JSON text as the caller wrote it, an empty one counts as `{}`; it fits the schema
    /// unless [`checks_arguments`](Self::checks_arguments) says that this checks it.
    ///
    /// Dropping the future cancels the tool.
    fn call<'a>(&'a self, cx: &'a Context, arguments: &'a str) -> ToolFuture<'a>;

    /// The JSON Schema of its answer, where that is known. Default: it is not.
    fn output_schema(&self) -> Option<serde_json::Value> {
        None
    }

    /// The resources the body asks for, so that a missing one is found when the agent is built or a run begins.
    fn resources(&self) -> Vec<ResourceKey> {
        Vec::new()
    }

    /// Whether [`call`](Self::call) itself refuses arguments that do not fit the schema, as tools do that read them into
    /// types of Rust. Of any other tool, they are checked against the schema before it is called (feature `dynamic`), and so
    /// are arguments of a tool whose schema limits values beyond their types, as `maxLength` does.
    fn checks_arguments(&self) -> bool {
        false
    }

    /// Whether a person answers its calls in an agent's run with a store, in the place of [`call`](Self::call): the run asks
    /// the tool's [`question`](Self::question), waits as long as it takes, also over restarts, and the answer is the call's
    /// result. Anywhere else, and where a test replaces the tool, it is called.
    fn asks(&self) -> bool {
        false
    }

    /// What a person is asked about a call with these arguments, of a tool that [`asks`](Self::asks).
    ///
    /// # Errors
    /// Why nobody can be asked; the caller learns it, and nobody is asked.
    fn question(&self, arguments: &str) -> Result<UserQuestion, ToolError> {
        let _ = arguments;
        Err(ToolError::new("this tool asks nobody"))
    }

    /// The tool as an agent of a host has it; `None` when it is the same everywhere.
    #[doc(hidden)]
    fn within(&self, _: ToolHost<'_>) -> Option<Result<ToolRef>> {
        None
    }

    /// What is known of it before its definition is made: the name in that, and the file and the line where it is written.
    #[doc(hidden)]
    fn written(&self) -> Option<(&'static str, &'static str, u32)> {
        None
    }

    /// The agent or the workflow that it is, described.
    #[doc(hidden)]
    fn inside(&self) -> Option<Box<dyn std::any::Any>> {
        None
    }

    /// Whether its body is a function under `#[tool]`, which finds the step that it is called in by itself.
    #[doc(hidden)]
    fn announces_itself(&self) -> bool {
        false
    }

    /// Returns true if a call of that function needs a scope or an approval.
    #[doc(hidden)]
    fn is_guarded(&self) -> bool {
        false
    }

    /// Whether that function is not `async`, so that its call within an expression cannot wait for a record.
    #[doc(hidden)]
    fn returns_at_once(&self) -> bool {
        false
    }
}

/// Where a tool is to be called: what an agent as a tool has when it was given nothing of its own.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct ToolHost<'a> {
    pub(crate) host: &'a Arc<Host>,
    pub(crate) resources: &'a Resources,
}

/// What [`Tool::call`] returns: an answer that is there already, or a future.
pub struct ToolFuture<'a>(Inner<'a>);

enum Inner<'a> {
    Ready(Option<Result<ToolOutput, ToolError>>),
    Boxed(Exclusive<BoxFuture<'a, Result<ToolOutput, ToolError>>>),
    Blocking(tokio::task::JoinHandle<Result<ToolOutput, ToolError>>),
}

impl<'a> ToolFuture<'a> {
    /// An answer that is there already.
    pub fn ready(result: Result<ToolOutput, ToolError>) -> Self {
        Self(Inner::Ready(Some(result)))
    }

    /// An answer that has to be waited for.
    pub fn pending(future: impl Future<Output = Result<ToolOutput, ToolError>> + Send + 'a) -> Self {
        Self(Inner::Boxed(Exclusive::new(Box::pin(future))))
    }

    /// Runs `body` on tokio's threads for blocking work. It cannot be stopped from outside: after a time-out or a
    /// cancellation it runs on and its answer is dropped.
    pub fn blocking(body: impl FnOnce() -> Result<ToolOutput, ToolError> + Send + 'static) -> Self {
        let around = Around::current();
        Self(Inner::Blocking(tokio::task::spawn_blocking(move || around.sync_scope(body))))
    }
}

impl Future for ToolFuture<'_> {
    type Output = Result<ToolOutput, ToolError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Inner::Ready(result) => Poll::Ready(
                result
                    .take()
                    .unwrap_or_else(|| Err(ToolError::new("the tool's future was polled again after it had finished"))),
            ),
            Inner::Boxed(future) => future.get_mut().as_mut().poll(cx),
            Inner::Blocking(handle) => Poll::Ready(match ready!(Pin::new(handle).poll(cx)) {
                Ok(result) => result,
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

/// A tool by reference: linked into the program or shared. Cloning is cheap.
#[derive(Clone)]
pub struct ToolRef(Kind);

#[derive(Clone)]
enum Kind {
    Linked(&'static dyn Tool),
    Shared(Arc<dyn Tool>),
    Renamed(Arc<Renamed>),
}

impl ToolRef {
    /// A tool that lives as long as the program.
    pub const fn linked(tool: &'static dyn Tool) -> Self {
        Self(Kind::Linked(tool))
    }

    /// The name that a program knows the tool by, such as `mcp.files.read`. A model calls it by the name in its
    /// [`definition`](Tool::definition), which is `mcp__files__read` then; mostly both are the same.
    pub fn catalogue_name(&self) -> &Arc<str> {
        match &self.0 {
            Kind::Renamed(tool) => tool.name(),
            Kind::Linked(_) | Kind::Shared(_) => &self.definition().name,
        }
    }

    /// The name that a model calls it by. It is known of a linked tool before its schema is made.
    pub(crate) fn name(&self) -> &str {
        self.written().map_or_else(|| &*self.definition().name, |(name, ..)| name)
    }

    /// Where it is written.
    pub(crate) fn source(&self) -> Option<SourceLocation> {
        match self.written() {
            Some((_, file, line)) => Some(SourceLocation::new(file, line)),
            None => self.definition().source.clone(),
        }
    }

    /// The same tool known by another name, and called by the wire name of that.
    pub(crate) fn renamed(&self, name: impl Into<Arc<str>>) -> Self {
        let inner = match &self.0 {
            Kind::Renamed(tool) => tool.inner().clone(),
            Kind::Linked(_) | Kind::Shared(_) => self.clone(),
        };
        Self(Kind::Renamed(Arc::new(Renamed::new(inner, name.into()))))
    }

    /// The tool as a model may have it: one with dots in its name gets a wire name.
    pub(crate) fn with_wire_name(self) -> Self {
        match &self.0 {
            Kind::Linked(_) | Kind::Shared(_) if is_dotted(self.name()) => {
                self.renamed(Arc::clone(&self.definition().name))
            }
            _ => self,
        }
    }

    /// The tool under the name that it has of itself.
    #[cfg(feature = "dynamic")]
    pub(crate) fn original(&self) -> &Self {
        match &self.0 {
            Kind::Renamed(tool) => tool.inner(),
            Kind::Linked(_) | Kind::Shared(_) => self,
        }
    }

    /// Whether both are one tool, however often it was named.
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

/// The tools of these paths, as [`Agent::tools`](crate::Agent::tools) takes them.
///
/// Each path names a function under `#[tool]`; anything else is a compile error at the path. A path is found as `use`
/// finds it: a tool that is called like a crate of the program is named with its module, `self::time`.
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
