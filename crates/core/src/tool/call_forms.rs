//! Capabilities of the types of a `#[tool]` function that is called in a step: arguments that can
//! be recorded or cloned, and results that can be recorded and decoded.
//!
//! The capabilities are found by method resolution (autoref specialization): if two traits have the
//! same method, the compiler selects the trait whose implementation needs fewer references. Macro
//! expansions call these methods.

use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;

use agentflow_schema::strict;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::ToolError;
use super::parameters::unknown_argument;
use crate::error::{Error, Failure};
use crate::failure::Cause;
use crate::message::ToolCall;
use crate::resource::Inject;
use crate::value::Encoded;

/// An argument of a call.
pub struct GivenArgument<'v, T>(pub &'v T);

/// The recorded form of an argument.
#[non_exhaustive]
pub enum ArgumentForm {
    /// Its JSON.
    Json(String),
    /// An injected value. The program provides it, so it is not part of the call.
    Injected,
    /// A value without a JSON form.
    Unknown,
}

impl<T: ?Sized> GivenArgument<'_, Inject<T>> {
    pub fn agentflow_form(&self) -> ArgumentForm {
        ArgumentForm::Injected
    }
}

/// Arguments that can be recorded.
pub trait RecordableArgument {
    fn agentflow_form(&self) -> ArgumentForm;
}

impl<T: Serialize> RecordableArgument for GivenArgument<'_, T> {
    fn agentflow_form(&self) -> ArgumentForm {
        serde_json::to_string(self.0).map_or(ArgumentForm::Unknown, ArgumentForm::Json)
    }
}

/// Fallback for arguments that cannot be recorded.
pub trait OpaqueArgument {
    fn agentflow_form(&self) -> ArgumentForm;
}

impl<T> OpaqueArgument for &GivenArgument<'_, T> {
    fn agentflow_form(&self) -> ArgumentForm {
        ArgumentForm::Unknown
    }
}

/// Arguments that can be cloned for a retry.
pub trait CloneArgument<T> {
    fn agentflow_again(&self) -> Option<T>;
}

impl<T: Clone> CloneArgument<T> for GivenArgument<'_, T> {
    fn agentflow_again(&self) -> Option<T> {
        Some(self.0.clone())
    }
}

/// Fallback for arguments that cannot be cloned.
pub trait OnceArgument<T> {
    fn agentflow_again(&self) -> Option<T>;
}

impl<T> OnceArgument<T> for &GivenArgument<'_, T> {
    fn agentflow_again(&self) -> Option<T> {
        None
    }
}

/// Functions that clone the arguments of a call and that apply changes by middleware.
pub struct ArgumentCopies<A> {
    pub(super) again: fn(&A) -> Option<A>,
    pub(super) changed: fn(A, &mut ChangedArguments) -> A,
}

impl<A> ArgumentCopies<A> {
    pub fn new(again: fn(&A) -> Option<A>, changed: fn(A, &mut ChangedArguments) -> A) -> Self {
        Self { again, changed }
    }
}

/// The arguments of a call after middleware, or the person who approved it, changed them.
pub struct ChangedArguments {
    given: Map<String, Value>,
    now: Map<String, Value>,
    problems: Vec<String>,
}

impl ChangedArguments {
    /// Returns the typed arguments, with the changed ones replaced.
    pub(super) fn read<A>(
        given: &Value,
        call: &ToolCall,
        arguments: A,
        changed: fn(A, &mut Self) -> A,
    ) -> Result<A, ToolError> {
        let given = given.as_object().cloned().unwrap_or_default();
        // Strict: duplicate keys are rejected instead of silently taking the last one.
        let now = strict::check(&call.arguments).map_err(|error| error.to_string());
        let now = now.and_then(|()| {
            serde_json::from_str(&call.arguments).map_err(|error| error.to_string())
        });
        let (now, problems) =
            now.map_or_else(|problem| (given.clone(), vec![problem]), |now| (now, Vec::new()));
        let mut all = Self { given, now, problems };
        // A name that the function does not have is a mistake of the middleware or the person.
        for name in all.now.keys().filter(|name| !all.given.contains_key(*name)) {
            all.problems.push(unknown_argument(name, all.given.keys().map(String::as_str)));
        }
        let arguments = changed(arguments, &mut all);
        if all.problems.is_empty() {
            return Ok(arguments);
        }
        let problems = all.problems.join("\n");
        let message = format!(
            "the arguments of `{}` were changed to others than it takes: {problems}",
            call.name
        );
        Err(ToolError::invalid_arguments(message))
    }

    /// Takes all arguments as JSON.
    #[cfg(feature = "dynamic")]
    pub(super) fn whole(&mut self) -> String {
        Value::Object(std::mem::take(&mut self.now)).to_string()
    }

    /// Takes the new value of an argument, if it was changed.
    fn take(&mut self, name: &str) -> Option<Value> {
        let now = self.now.remove(name);
        // An unchanged argument keeps its typed value, which may hold more than its JSON.
        (now.as_ref() != self.given.get(name)).then(|| now.unwrap_or_default())
    }
}

impl<T: ?Sized> GivenArgument<'_, Inject<T>> {
    /// Keeps the injected value.
    pub fn agentflow_changed(&self, _: &mut ChangedArguments, _: &str) -> Option<Inject<T>> {
        None
    }
}

/// Arguments that can be deserialized.
pub trait ReadableArgument<T> {
    fn agentflow_changed(&self, changed: &mut ChangedArguments, name: &str) -> Option<T>;
}

impl<T: DeserializeOwned> ReadableArgument<T> for GivenArgument<'_, T> {
    fn agentflow_changed(&self, changed: &mut ChangedArguments, name: &str) -> Option<T> {
        match serde_path_to_error::deserialize(changed.take(name)?) {
            Ok(value) => Some(value),
            Err(error) => {
                changed.problems.push(format!("`{name}`: {error}"));
                None
            }
        }
    }
}

/// Fallback for arguments that cannot be deserialized.
pub trait UnreadableArgument<T> {
    fn agentflow_changed(&self, changed: &mut ChangedArguments, name: &str) -> Option<T>;
}

impl<T> UnreadableArgument<T> for &GivenArgument<'_, T> {
    fn agentflow_changed(&self, changed: &mut ChangedArguments, name: &str) -> Option<T> {
        if changed.take(name).is_some() {
            changed.problems.push(format!("`{name}`: it cannot be read from JSON"));
        }
        None
    }
}

/// The return type of a tool's function.
pub struct ReturnForm<O>(PhantomData<fn() -> O>);

impl<O> ReturnForm<O> {
    /// Creates the form for an `async` body.
    pub const fn of_async<A, F, T>(_: &F) -> Self
    where
        F: Fn(crate::context::Context, A) -> T,
        T: Future<Output = (O, super::ToolAnswer)>,
    {
        Self(PhantomData)
    }

    /// Creates the form for a type that is named.
    pub const fn of_type() -> Self {
        Self(PhantomData)
    }

    /// Creates the form for a body that returns at once.
    pub const fn of_sync<A, F: Fn(crate::context::Context, A) -> (O, super::ToolAnswer)>(
        _: &F,
    ) -> Self {
        Self(PhantomData)
    }
}

/// Decodes a recorded answer.
pub type ReadAnswer<O> = fn(&str) -> Option<O>;

/// `Result` types whose value can be decoded.
pub trait ResultAnswer<O> {
    fn agentflow_answer(&self) -> Option<ReadAnswer<O>>;
}

impl<T: DeserializeOwned, E> ResultAnswer<Result<T, E>> for &&ReturnForm<Result<T, E>> {
    fn agentflow_answer(&self) -> Option<ReadAnswer<Result<T, E>>> {
        // Only success values are decoded here; errors are handled by `ErrorForm`.
        Some(|json| serde_json::from_str(json).ok().map(Ok))
    }
}

/// Other types that can be decoded.
pub trait ValueAnswer<O> {
    fn agentflow_answer(&self) -> Option<ReadAnswer<O>>;
}

impl<O: DeserializeOwned> ValueAnswer<O> for &ReturnForm<O> {
    fn agentflow_answer(&self) -> Option<ReadAnswer<O>> {
        Some(|json| serde_json::from_str(json).ok())
    }
}

/// Fallback for types that cannot be decoded.
pub trait OpaqueAnswer<O> {
    fn agentflow_answer(&self) -> Option<ReadAnswer<O>>;
}

impl<O> OpaqueAnswer<O> for ReturnForm<O> {
    fn agentflow_answer(&self) -> Option<ReadAnswer<O>> {
        None
    }
}

/// Functions that record an error and decode it.
pub struct ErrorForm<O> {
    pub(crate) record: fn(&O) -> Option<Encoded>,
    /// Returns the source of the error, if an SDK error can carry it.
    pub(crate) cause: fn(&O) -> Option<String>,
    pub(crate) read: fn(Option<&Encoded>, Failure) -> Option<O>,
}

/// `Result` types whose error has a JSON form.
pub trait RecordableError<O> {
    fn agentflow_error(&self) -> ErrorForm<O>;
}

impl<T, E: Serialize + DeserializeOwned> RecordableError<Result<T, E>>
    for &&ReturnForm<Result<T, E>>
{
    fn agentflow_error(&self) -> ErrorForm<Result<T, E>> {
        ErrorForm {
            record: |value| Encoded::new(value.as_ref().err()?).ok(),
            cause: |_| None,
            read: |error, _| error?.decode().ok().map(Err),
        }
    }
}

/// `Result` types whose error can be created from an SDK error.
pub trait FailureError<O> {
    fn agentflow_error(&self) -> ErrorForm<O>;
}

impl<T, E: From<Error> + Display> FailureError<Result<T, E>> for &ReturnForm<Result<T, E>> {
    fn agentflow_error(&self) -> ErrorForm<Result<T, E>> {
        ErrorForm {
            record: |_| None,
            // The error type has no JSON form. It is rebuilt from the recorded failure, so only its
            // source must be recorded.
            cause: |value| {
                let error = value.as_ref().err()?;
                Cause::from_alternate_form(&error.to_string(), error).map(|cause| cause.into_text())
            },
            read: |_, failure| Some(Err(Error::Recorded(Arc::new(failure)).into())),
        }
    }
}

/// Fallback for return types whose error cannot be rebuilt.
pub trait OpaqueError<O> {
    fn agentflow_error(&self) -> ErrorForm<O>;
}

impl<O> OpaqueError<O> for ReturnForm<O> {
    fn agentflow_error(&self) -> ErrorForm<O> {
        ErrorForm { record: |_| None, cause: |_| None, read: |_, _| None }
    }
}

/// Creates the value of a function for a call that was denied. Used if panics abort, so that the
/// step of a function that is not `async` cannot be ended in another way.
pub type DenialForm<O> = fn(Failure) -> Option<O>;

/// Return types that can represent a denied call: a `Result` whose error can be created from an SDK
/// error, or is a `String`.
#[diagnostic::on_unimplemented(
    message = "a denied call of this tool cannot end its step in a program with `panic = \"abort\"`",
    label = "this cannot represent a denied call",
    note = "make the function `async`, return a `Result` whose error is a `String` or implements \
            `From<agentflow::Error>`, or compile the program with `panic = \"unwind\"`"
)]
pub trait CarriesDenial {}

#[diagnostic::do_not_recommend]
impl<T, E: From<Error>> CarriesDenial for Result<T, E> {}
#[diagnostic::do_not_recommend]
impl<T> CarriesDenial for Result<T, String> {}

/// `Result` types whose error can be created from an SDK error.
pub trait ErrorDenial<O> {
    fn agentflow_denial(&self) -> DenialForm<O>;
}

impl<T, E: From<Error>> ErrorDenial<Result<T, E>> for &&ReturnForm<Result<T, E>> {
    fn agentflow_denial(&self) -> DenialForm<Result<T, E>> {
        |failure| Some(Err(Error::Recorded(Arc::new(failure)).into()))
    }
}

/// `Result` types whose error is a text.
pub trait TextDenial<O> {
    fn agentflow_denial(&self) -> DenialForm<O>;
}

impl<T> TextDenial<Result<T, String>> for &ReturnForm<Result<T, String>> {
    fn agentflow_denial(&self) -> DenialForm<Result<T, String>> {
        |failure| Some(Err(failure.message))
    }
}

/// Fallback for return types that cannot represent a denied call.
pub trait OpaqueDenial<O> {
    fn agentflow_denial(&self) -> DenialForm<O>;
}

impl<O> OpaqueDenial<O> for ReturnForm<O> {
    fn agentflow_denial(&self) -> DenialForm<O> {
        |_| None
    }
}
