//! What the expansions of our macros may name. Nothing here is stable or for people; macro and library are released as
//! one pair.

pub use std::boxed::Box;
pub use std::future::Future;
pub use std::option::Option::{None, Some};
pub use std::primitive::{str, u32, usize};
pub use std::result::Result::{self, Err, Ok};
pub use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

pub use inventory;

pub use crate::context::Context;
pub use crate::registry::Linked;
use crate::resource::ResourceKey;
pub use crate::tool::{
    DefaultValue, Effects, Param, Tool, ToolDefinition, ToolError, ToolFuture, ToolOutput, ToolParam, ToolParams,
    ToolRef,
};
use crate::tool::{SourceLocation, ToolPolicy, parameters_schema};

/// A `#[tool]` as a constant; its definition is made when it is first asked for.
pub struct LinkedTool {
    pub name: &'static str,
    pub description: &'static str,
    pub file: &'static str,
    pub line: u32,
    pub params: &'static [Param],
    pub options: Options,
    pub cell: OnceLock<Arc<ToolDefinition>>,
}

/// The options of `#[tool(..)]`.
pub struct Options {
    pub timeout_ms: Option<u64>,
    pub retry: u32,
    pub idempotent: bool,
    pub effects: Effects,
    pub approve: bool,
    pub scopes: &'static [&'static str],
    pub blocking: bool,
    pub max_output: usize,
}

impl Options {
    pub const DEFAULT: Self = Self {
        timeout_ms: None,
        retry: 0,
        idempotent: false,
        effects: Effects::Write,
        approve: false,
        scopes: &[],
        blocking: false,
        max_output: ToolPolicy::MAX_OUTPUT,
    };
}

impl LinkedTool {
    pub const fn new(
        name: &'static str,
        description: &'static str,
        (file, line): (&'static str, u32),
        params: &'static [Param],
        options: Options,
    ) -> Self {
        Self { name, description, file, line, params, options, cell: OnceLock::new() }
    }

    pub fn definition(&self) -> &Arc<ToolDefinition> {
        self.cell.get_or_init(|| {
            let mut policy = ToolPolicy::default();
            policy.timeout = self.options.timeout_ms.map(Duration::from_millis);
            policy.retry = self.options.retry;
            policy.idempotent = self.options.idempotent;
            policy.effects = self.options.effects;
            policy.approve = self.options.approve;
            policy.scopes = self.options.scopes.iter().map(|scope| Arc::from(*scope)).collect();
            policy.blocking = self.options.blocking;
            policy.max_output = self.options.max_output;
            let mut definition = ToolDefinition::new(self.name, self.description, parameters_schema(self.params));
            definition.policy = policy;
            definition.source = Some(SourceLocation { file: self.file.into(), line: self.line });
            Arc::new(definition)
        })
    }

    pub fn resources(&self) -> Vec<ResourceKey> {
        self.params.iter().filter_map(Param::resource).collect()
    }

    /// The arguments of a call as the function's parameters.
    pub fn read<T: ToolParams>(&self, cx: &Context, arguments: &str) -> Result<T, ToolError> {
        crate::tool::read(self.params, cx, arguments)
    }
}

/// The tool behind a path in `tools![..]`.
pub fn linked<T: PathTool>() -> ToolRef {
    ToolRef::linked(T::TOOL)
}

/// What the struct of a `#[tool]` function's name implements.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "not a tool",
    note = "put `#[tool]` on the function of this name"
)]
pub trait PathTool: Tool + Sized + 'static {
    const TOOL: &'static dyn Tool;
}

/// The first parameter of a tool when it is a reference.
#[diagnostic::on_unimplemented(
    message = "a tool cannot borrow a parameter from the model's arguments",
    label = "take an owned value, such as `String` for `&str`",
    note = "only the first parameter may be a reference, and only to `agentflow::Context`"
)]
pub trait ContextParam {
    fn of(cx: &Context) -> &Self;
}

impl ContextParam for Context {
    fn of(cx: &Context) -> &Self {
        cx
    }
}

/// Turns what a function returned into what a tool answers: `(&value).agentflow_kind().finish(value)` picks
/// [`ResultKind`] for a `Result` and [`ValueKind`] for everything else, by method resolution and not by a type's name.
pub struct FromValue;
pub struct FromResult;

pub trait ValueKind {
    fn agentflow_kind(&self) -> FromValue {
        FromValue
    }
}

impl<T> ValueKind for &T {}

pub trait ResultKind {
    fn agentflow_kind(&self) -> FromResult {
        FromResult
    }
}

impl<T, E> ResultKind for Result<T, E> {}

impl FromValue {
    pub fn finish<T: ToolReturn>(self, value: T) -> Result<ToolOutput, ToolError> {
        ToolOutput::json(&value)
    }
}

impl FromResult {
    pub fn finish<T: ToolReturn, E: ToolFailure>(self, result: Result<T, E>) -> Result<ToolOutput, ToolError> {
        match result {
            Ok(value) => ToolOutput::json(&value),
            Err(error) => Err(ToolError::new(error.to_string())),
        }
    }
}

/// What a tool can return.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the answer of a tool",
    label = "this has no JSON form",
    note = "derive `serde::Serialize` for it"
)]
pub trait ToolReturn: serde::Serialize {}

#[diagnostic::do_not_recommend]
impl<T: serde::Serialize> ToolReturn for T {}

/// What a tool can fail with.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a tool",
    label = "the model cannot be told what went wrong",
    note = "implement `std::fmt::Display` for it; the text goes to the model"
)]
pub trait ToolFailure: std::fmt::Display {}

#[diagnostic::do_not_recommend]
impl<T: std::fmt::Display> ToolFailure for T {}
