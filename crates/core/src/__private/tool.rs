//! Items that the expansions of `#[tool]` and `tools![..]` use: the static of a tool, and the
//! traits of its parameters and its return type.

use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;

use crate::context::Context;
use crate::on_timeout::OnTimeout;
use crate::resource::ResourceKey;
use crate::run::Around;
pub use crate::tool::answer_schema::AnswerType;
use crate::tool::ask_user::nobody_to_ask;
pub use crate::tool::call_forms::{
    ArgumentCopies, ArgumentForm, CarriesDenial, ChangedArguments, DenialForm, ErrorForm,
    GivenArgument, OpaqueAnswer, OpaqueDenial, OpaqueError, ReadAnswer, ReturnForm,
};
pub use crate::tool::call_in_step::{GivenToolCall, StepToolCall};
use crate::tool::{
    Effects, Param, ParamType, Parameters, SourceLocation, Tool, ToolDefinition, ToolError,
    ToolFuture, ToolOutput, ToolParam, ToolParams, ToolPolicy, ToolRef, ToolReturn, UserQuestion,
    parameters_schema,
};
use crate::tuples::all_the_tuples;

/// The static of a `#[tool]`. Its definition is created on first use.
pub struct LinkedTool {
    name: &'static str,
    description: &'static str,
    file: &'static str,
    line: u32,
    parameters: Parameters,
    options: Options,
    call: CallFn,
    answer_schema: fn() -> Option<Value>,
    definition: OnceLock<Arc<ToolDefinition>>,
    asking: Option<Asking>,
    provided: Option<BuiltInTool>,
}

/// Definition and question of a tool whose answer comes from a person.
type Asking = (fn() -> ToolDefinition, fn(&str) -> Result<UserQuestion, ToolError>);

/// Definition and resources of a built-in tool, which has no function whose types describe it.
pub(super) struct BuiltInTool {
    pub(super) definition: fn() -> ToolDefinition,
    pub(super) resources: fn() -> Vec<ResourceKey>,
}

type CallFn = for<'a> fn(&LinkedTool, &'a Context, &str) -> ToolFuture<'a>;

/// The options of `#[tool(..)]`.
pub struct Options {
    pub timeout_ms: Option<u64>,
    pub retry: u32,
    pub idempotent: bool,
    pub effects: Effects,
    pub approve: bool,
    pub approve_timeout_ms: Option<u64>,
    pub on_timeout: OnTimeout,
    pub scopes: &'static [&'static str],
    pub blocking: bool,
    pub sync: bool,
    pub max_output: usize,
    pub concurrency: Option<u32>,
    pub compensate: Option<fn() -> &'static LinkedTool>,
    pub streaming: bool,
}

impl Options {
    pub const DEFAULT: Self = Self {
        timeout_ms: None,
        retry: 0,
        idempotent: false,
        effects: Effects::Write,
        approve: false,
        approve_timeout_ms: None,
        on_timeout: OnTimeout::Fail,
        scopes: &[],
        blocking: false,
        sync: false,
        max_output: ToolPolicy::MAX_OUTPUT,
        concurrency: None,
        compensate: None,
        streaming: false,
    };
}

impl LinkedTool {
    pub const fn new(
        name: &'static str,
        description: &'static str,
        (file, line): (&'static str, u32),
        params: &'static [Param],
        options: Options,
        body: Body,
    ) -> Self {
        let parameters = Parameters { params, types: body.types };
        let call = body.call;
        let answer_schema: fn() -> Option<Value> = || None;
        let definition = OnceLock::new();
        Self {
            name,
            description,
            file,
            line,
            parameters,
            options,
            call,
            answer_schema,
            definition,
            asking: None,
            provided: None,
        }
    }

    /// Creates a tool whose answer comes from a person.
    pub(super) const fn asking(
        name: &'static str,
        (file, line): (&'static str, u32),
        asking: Asking,
    ) -> Self {
        let body = Body { types: &[], call: |_, _, _| ToolFuture::ready(Err(nobody_to_ask())) };
        let mut tool = Self::new(name, "", (file, line), &[], Options::DEFAULT, body);
        tool.asking = Some(asking);
        tool
    }

    /// Creates a built-in tool that has no function.
    pub(super) const fn provided(
        name: &'static str,
        (file, line): (&'static str, u32),
        provided: BuiltInTool,
        call: CallFn,
        answer_schema: fn() -> Option<Value>,
    ) -> Self {
        let body = Body { types: &[], call };
        let mut tool =
            Self::new(name, "", (file, line), &[], Options::DEFAULT, body).answering(answer_schema);
        tool.provided = Some(provided);
        tool
    }

    /// Sets the schema of the return type, if the type has one.
    pub const fn answering(mut self, schema: fn() -> Option<Value>) -> Self {
        self.answer_schema = schema;
        self
    }

    fn make_definition(&self) -> ToolDefinition {
        if let Some((definition, _)) = self.asking {
            return definition();
        }
        if let Some(provided) = &self.provided {
            return (provided.definition)();
        }
        let policy = ToolPolicy {
            timeout: self.options.timeout_ms.map(Duration::from_millis),
            retry: self.options.retry,
            idempotent: self.options.idempotent,
            effects: self.options.effects,
            approve: self.options.approve,
            approve_timeout: self.options.approve_timeout_ms.map(Duration::from_millis),
            on_timeout: self.options.on_timeout.clone(),
            scopes: self.options.scopes.iter().map(|scope| Arc::from(*scope)).collect(),
            blocking: self.options.blocking,
            max_output: self.options.max_output,
            concurrency: self.options.concurrency,
            compensate: self.options.compensate.map(|undo| undo().name.into()),
        };
        let parameters = parameters_schema(self.parameters);
        let mut definition =
            ToolDefinition::new(self.name, self.description, parameters).policy(policy);
        definition.source = Some(SourceLocation::new(self.file, self.line));
        definition.supports_streaming = self.options.streaming;
        definition
    }
}

impl Tool for LinkedTool {
    fn definition(&self) -> &Arc<ToolDefinition> {
        self.definition.get_or_init(|| Arc::new(self.make_definition()))
    }

    fn call<'a>(&'a self, cx: &'a Context, arguments: &'a str) -> ToolFuture<'a> {
        (self.call)(self, cx, arguments)
    }

    fn output_schema(&self) -> Option<Value> {
        (self.answer_schema)()
    }

    fn resources(&self) -> Vec<ResourceKey> {
        match &self.provided {
            Some(provided) => (provided.resources)(),
            None => self.parameters.resources(),
        }
    }

    fn asks(&self) -> bool {
        self.asking.is_some()
    }

    fn question(&self, arguments: &str) -> Result<UserQuestion, ToolError> {
        self.asking.map_or_else(|| Err(nobody_to_ask()), |(_, question)| question(arguments))
    }

    fn written(&self) -> Option<(&'static str, &'static str, u32)> {
        Some((self.name, self.file, self.line))
    }

    fn function_definition(&self) -> Option<&Arc<ToolDefinition>> {
        self.provided.is_none().then(|| self.definition())
    }

    fn is_guarded(&self) -> bool {
        self.options.approve || !self.options.scopes.is_empty()
    }

    fn returns_at_once(&self) -> bool {
        self.options.sync
    }

    fn checks_arguments(&self) -> bool {
        true
    }
}

/// Returns the tool of a path in `tools![..]`.
pub fn linked<T: PathTool>() -> ToolRef {
    ToolRef::linked(T::tool())
}

/// Implemented by the struct with the name of a `#[tool]` function.
#[diagnostic::on_unimplemented(
    message = "this is not a tool",
    label = "not a tool: put `#[tool]` on the function of this name",
    note = "a tool of another module is imported, one of agentflow as in `use agentflow::ask_user;`; there are also \
            `exit_loop`, `forget`, `recall` and `remember`",
    note = "an `#[agent]` function is given to an agent by `.tools(my_agent::definition())`"
)]
pub trait PathTool: Send + Sync + Sized + 'static {
    /// Types of the parameters.
    type Parameters;

    const TAKES: PhantomData<fn(Self::Parameters)> = PhantomData;

    /// Names of the parameters, as models see them.
    const PARAMETERS: &'static [&'static str];

    fn tool() -> &'static LinkedTool;

    /// Identity of the function.
    fn function() -> TypeId;
}

/// Finds the function of a tool by its type. If a name is misspelled both as a type and as a value,
/// only the value is reported.
#[diagnostic::on_unimplemented(
    message = "this is not a tool",
    label = "not a tool: put `#[tool]` on the function of this name",
    note = "a tool of another module is imported, one of agentflow as in `use agentflow::ask_user;`; there are also \
            `exit_loop`, `forget`, `recall` and `remember`",
    note = "an `#[agent]` function is given to an agent by `.tools(my_agent::definition())`"
)]
pub trait FunctionOf<T> {
    fn tool(&self) -> &'static LinkedTool;
}

#[diagnostic::do_not_recommend]
impl<F, T: PathTool> FunctionOf<T> for F {
    fn tool(&self) -> &'static LinkedTool {
        T::tool()
    }
}

/// Returns the recorded call of a tool's function if a workflow step polls the caller. Outside of a
/// step, it only checks a task-local.
#[inline]
pub fn announced<T: PathTool>() -> Option<StepToolCall> {
    match Around::has_place() {
        true => StepToolCall::announced(T::function(), || Arc::clone(T::tool().definition())),
        false => None,
    }
}

/// Checks that a value of this type can represent a denied call.
pub const fn carries_denial<O: CarriesDenial>() {}

/// Methods that select the form of a call by its types. They are imported as `_`, so that they
/// cannot collide with names of the user.
pub mod call_forms {
    pub use crate::tool::call_forms::{
        CloneArgument as _, ErrorDenial as _, FailureError as _, OnceArgument as _,
        OpaqueAnswer as _, OpaqueArgument as _, OpaqueDenial as _, OpaqueError as _,
        ReadableArgument as _, RecordableArgument as _, RecordableError as _, ResultAnswer as _,
        TextDenial as _, UnreadableArgument as _, ValueAnswer as _,
    };
}

/// Methods that determine the schema of a return type.
pub mod answer_schema {
    pub use crate::tool::answer_schema::{NoSchema as _, ResultSchema as _, ValueSchema as _};
}

/// Placeholder type for a path that does not name a type: see the expansion of `tools![..]`.
pub mod plain {
    pub struct PlainFunction;
}

#[diagnostic::do_not_recommend]
impl<T: PathTool> Tool for T {
    fn definition(&self) -> &Arc<ToolDefinition> {
        T::tool().definition()
    }

    fn call<'a>(&'a self, cx: &'a Context, arguments: &'a str) -> ToolFuture<'a> {
        T::tool().call(cx, arguments)
    }

    fn output_schema(&self) -> Option<Value> {
        T::tool().output_schema()
    }

    fn resources(&self) -> Vec<ResourceKey> {
        T::tool().resources()
    }

    fn function_definition(&self) -> Option<&Arc<ToolDefinition>> {
        T::tool().function_definition()
    }

    fn returns_at_once(&self) -> bool {
        T::tool().returns_at_once()
    }

    fn checks_arguments(&self) -> bool {
        true
    }
}

/// Types and call function of a tool, from the trait of its function.
pub struct Body {
    types: &'static [ParamType],
    call: CallFn,
}

/// Declares a trait for each number of parameters, so that a type that cannot be a parameter is
/// reported once and at its place.
macro_rules! tool_fn {
    ($ToolFn:ident $length:literal $($T:ident $at:tt)*) => {
        pub trait $ToolFn: Sized + 'static {
            $(type $T: ToolParam;)*

            const BODY: Body = Body { types: <($(Self::$T,)*) as ToolParams>::TYPES, call: Self::from_json };

            fn call(cx: &Context, arguments: ($(Self::$T,)*)) -> ToolFuture<'_>;

            fn from_json<'a>(tool: &LinkedTool, cx: &'a Context, arguments: &str) -> ToolFuture<'a> {
                match crate::tool::read(tool.parameters, cx, arguments) {
                    Ok(arguments) => Self::call(cx, arguments),
                    Err(error) => ToolFuture::ready(Err(error)),
                }
            }
        }
    };
}

all_the_tuples!(tool_fn, [
    ToolFn0 ToolFn1 ToolFn2 ToolFn3 ToolFn4 ToolFn5 ToolFn6 ToolFn7 ToolFn8 ToolFn9 ToolFn10 ToolFn11 ToolFn12 ToolFn13
    ToolFn14 ToolFn15 ToolFn16
]);

/// Returns the function of `#[tool(default = ..)]`, which fixes its type.
pub const fn default_fn<T>(make: fn() -> T) -> fn() -> T {
    make
}

/// A first parameter that is a reference.
#[diagnostic::on_unimplemented(
    message = "a tool cannot borrow a parameter from the model's arguments",
    label = "take an owned value, such as `String` for `&str`",
    note = "only the first parameter may be a reference, and only to `agentflow::Context`"
)]
pub trait ContextParam {
    fn of(cx: &Context) -> &Self;
    fn given(&self) -> Context;
}

impl ContextParam for Context {
    fn of(cx: &Context) -> &Self {
        cx
    }

    fn given(&self) -> Context {
        self.clone()
    }
}

/// The output of a function as its compensation receives it: for a `Result`, the value. Only the
/// type is used; the method is never called.
pub trait OutputOfResult<T> {
    fn agentflow_output(self) -> T;
}

impl<T, E> OutputOfResult<T> for Result<T, E> {
    fn agentflow_output(self) -> T {
        unreachable!("the types of a compensation are checked, and nothing is called")
    }
}

pub trait OutputOfValue<T> {
    fn agentflow_output(self) -> T;
}

impl<T> OutputOfValue<T> for &T {
    fn agentflow_output(self) -> T {
        unreachable!("the types of a compensation are checked, and nothing is called")
    }
}

/// Parameters of a compensating tool. `Needed` are the parameters of the compensated tool, followed
/// by its output.
#[diagnostic::on_unimplemented(
    message = "the tool that undoes this one takes `{Self}`, and has to take `{Needed}`",
    label = "has to take `{Needed}`: what the undone tool takes, by the same names, and then `output`, which it returned"
)]
pub trait Undoes<Needed> {}

/// Parameters of a tool with another mistake. They match any tool, so that only the other mistake
/// is reported.
#[derive(Clone, Copy, Debug)]
pub struct AnyParameters;

impl<Needed> Undoes<Needed> for AnyParameters {}

macro_rules! undoes {
    (_ $length:literal $($T:ident $at:tt)*) => {
        #[diagnostic::do_not_recommend]
        impl<$($T),*> Undoes<($($T,)*)> for ($($T,)*) {}
    };
}

all_the_tuples!(undoes, 16);

/// Compares types without any effect. `Needed` comes first, so that the compiler does not infer it
/// from the other.
pub fn is_compensated_by<P: Undoes<Needed>, Needed>(_: Needed, _: PhantomData<fn(P)>) {}

/// Fails compilation if the parameters of a compensating tool do not have the names of the tool's
/// parameters and `output`. If their number differs, the mismatch of their types is reported
/// instead.
#[track_caller]
pub const fn undoes(undo: &[&str], tool: &[&str]) {
    let is_of_number = undo.len() == tool.len() + 1;
    let mut same = true;
    let mut at = 0;
    while is_of_number && same && at < undo.len() {
        let of_tool = if at < tool.len() { tool[at] } else { "output" };
        same = is_same(undo[at].as_bytes(), of_tool.as_bytes());
        at += 1;
    }
    assert!(
        same,
        "a compensation has the parameters of the tool that it undoes, by the same names, and then `output`, which the tool \
         returned"
    );
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// Converts the return value of a function to the output of a tool.
/// `(&value).agentflow_kind().finish(&value)` selects [`ResultKind`] for a `Result` and
/// [`ValueKind`] for any other type by method resolution, and not by a type's name.
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
    pub fn finish<T: ToolReturn>(self, value: &T) -> Result<ToolOutput, ToolError> {
        value.to_output()
    }
}

impl FromResult {
    pub fn finish<T: ToolReturn, E: ToolFailure>(
        self,
        result: &Result<T, E>,
    ) -> Result<ToolOutput, ToolError> {
        match result {
            Ok(value) => value.to_output(),
            Err(error) => Err(ToolError::from_error(error)),
        }
    }
}

/// Error types of tools.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a tool",
    label = "the model cannot be told what went wrong",
    note = "implement `std::fmt::Display` for it; the text goes to the model"
)]
pub trait ToolFailure: std::fmt::Display + 'static {}

#[diagnostic::do_not_recommend]
impl<T: std::fmt::Display + 'static> ToolFailure for T {}
