//! What the types of a `#[tool]` function allow when it is called in a step: which arguments can be recorded and given a
//! second time, which outcomes can be recorded and read back.
//!
//! A type is asked by method resolution and not by its name: of two traits that have a method, the one whose bound holds
//! for the more borrowed type is found first. It records nothing.

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

/// What is recorded of an argument.
#[non_exhaustive]
pub enum ArgumentForm {
    /// Its JSON.
    Json(String),
    /// The program provides it, so it is not part of the call.
    Injected,
    /// It has no JSON form.
    Unknown,
}

impl<T: ?Sized> GivenArgument<'_, Inject<T>> {
    pub fn agentflow_form(&self) -> ArgumentForm {
        ArgumentForm::Injected
    }
}

/// An argument that can be recorded.
pub trait RecordableArgument {
    fn agentflow_form(&self) -> ArgumentForm;
}

impl<T: Serialize> RecordableArgument for GivenArgument<'_, T> {
    fn agentflow_form(&self) -> ArgumentForm {
        serde_json::to_string(self.0).map_or(ArgumentForm::Unknown, ArgumentForm::Json)
    }
}

/// Any other argument.
pub trait OpaqueArgument {
    fn agentflow_form(&self) -> ArgumentForm;
}

impl<T> OpaqueArgument for &GivenArgument<'_, T> {
    fn agentflow_form(&self) -> ArgumentForm {
        ArgumentForm::Unknown
    }
}

/// An argument that can be given again.
pub trait CloneArgument<T> {
    fn agentflow_again(&self) -> Option<T>;
}

impl<T: Clone> CloneArgument<T> for GivenArgument<'_, T> {
    fn agentflow_again(&self) -> Option<T> {
        Some(self.0.clone())
    }
}

/// One that cannot.
pub trait OnceArgument<T> {
    fn agentflow_again(&self) -> Option<T>;
}

impl<T> OnceArgument<T> for &GivenArgument<'_, T> {
    fn agentflow_again(&self) -> Option<T> {
        None
    }
}

/// How the arguments of a call are given once more, and how they are given as middleware has changed them.
pub struct Ways<A> {
    pub(super) again: fn(&A) -> Option<A>,
    pub(super) changed: fn(A, &mut ChangedArguments) -> A,
}

impl<A> Ways<A> {
    pub fn new(again: fn(&A) -> Option<A>, changed: fn(A, &mut ChangedArguments) -> A) -> Self {
        Self { again, changed }
    }
}

/// The arguments that middleware, or a person who was asked, gives a call.
pub struct ChangedArguments {
    given: Map<String, Value>,
    now: Map<String, Value>,
    problems: Vec<String>,
}

impl ChangedArguments {
    /// The typed arguments, with those replaced that were changed.
    pub(super) fn read<A>(
        given: &Value,
        call: &ToolCall,
        arguments: A,
        changed: fn(A, &mut Self) -> A,
    ) -> Result<A, ToolError> {
        let given = given.as_object().cloned().unwrap_or_default();
        let now = strict::check(&call.arguments).map_err(|error| error.to_string());
        let now = now.and_then(|()| serde_json::from_str(&call.arguments).map_err(|error| error.to_string()));
        let (now, problems) = now.map_or_else(|problem| (given.clone(), vec![problem]), |now| (now, Vec::new()));
        let mut all = Self { given, now, problems };
        for name in all.now.keys().filter(|name| !all.given.contains_key(*name)) {
            all.problems.push(unknown_argument(name, all.given.keys().map(String::as_str)));
        }
        let arguments = changed(arguments, &mut all);
        if all.problems.is_empty() {
            return Ok(arguments);
        }
        let problems = all.problems.join("\n");
        let message = format!("the arguments of `{}` were changed to others than it takes: {problems}", call.name);
        Err(ToolError::invalid_arguments(message))
    }

    /// All arguments, as JSON.
    #[cfg(feature = "dynamic")]
    pub(super) fn whole(&mut self) -> String {
        Value::Object(std::mem::take(&mut self.now)).to_string()
    }

    /// The new value of an argument, when it has one.
    fn take(&mut self, name: &str) -> Option<Value> {
        let now = self.now.remove(name);
        (now.as_ref() != self.given.get(name)).then(|| now.unwrap_or_default())
    }
}

impl<T: ?Sized> GivenArgument<'_, Inject<T>> {
    /// The program's own stays.
    pub fn agentflow_changed(&self, _: &mut ChangedArguments, _: &str) -> Option<Inject<T>> {
        None
    }
}

/// An argument that can be read from JSON.
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

/// One that cannot.
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
    /// That of a body whose future gives the value and a tool's answer made of it.
    pub const fn of_async<A, F, T>(_: &F) -> Self
    where
        F: Fn(crate::context::Context, A) -> T,
        T: Future<Output = (O, super::ToolAnswer)>,
    {
        Self(PhantomData)
    }

    /// A type by its name.
    pub const fn of_type() -> Self {
        Self(PhantomData)
    }

    /// That of a body that gives them at once.
    pub const fn of_sync<A, F: Fn(crate::context::Context, A) -> (O, super::ToolAnswer)>(_: &F) -> Self {
        Self(PhantomData)
    }
}

/// Reads an answer back.
pub type ReadAnswer<O> = fn(&str) -> Option<O>;

/// A `Result` whose answer can be read back.
pub trait ResultAnswer<O> {
    fn agentflow_answer(&self) -> Option<ReadAnswer<O>>;
}

impl<T: DeserializeOwned, E> ResultAnswer<Result<T, E>> for &&ReturnForm<Result<T, E>> {
    fn agentflow_answer(&self) -> Option<ReadAnswer<Result<T, E>>> {
        Some(|json| serde_json::from_str(json).ok().map(Ok))
    }
}

/// Any other answer that can be read back.
pub trait ValueAnswer<O> {
    fn agentflow_answer(&self) -> Option<ReadAnswer<O>>;
}

impl<O: DeserializeOwned> ValueAnswer<O> for &ReturnForm<O> {
    fn agentflow_answer(&self) -> Option<ReadAnswer<O>> {
        Some(|json| serde_json::from_str(json).ok())
    }
}

/// One that cannot.
pub trait OpaqueAnswer<O> {
    fn agentflow_answer(&self) -> Option<ReadAnswer<O>>;
}

impl<O> OpaqueAnswer<O> for ReturnForm<O> {
    fn agentflow_answer(&self) -> Option<ReadAnswer<O>> {
        None
    }
}

/// How an error is recorded and read back.
pub struct ErrorForm<O> {
    pub(crate) record: fn(&O) -> Option<Encoded>,
    /// What was behind it, where an error of ours carries that back.
    pub(crate) cause: fn(&O) -> Option<String>,
    pub(crate) read: fn(Option<&Encoded>, Failure) -> Option<O>,
}

/// A `Result` whose error is JSON.
pub trait RecordableError<O> {
    fn agentflow_error(&self) -> ErrorForm<O>;
}

impl<T, E: Serialize + DeserializeOwned> RecordableError<Result<T, E>> for &&ReturnForm<Result<T, E>> {
    fn agentflow_error(&self) -> ErrorForm<Result<T, E>> {
        ErrorForm {
            record: |value| Encoded::new(value.as_ref().err()?).ok(),
            cause: |_| None,
            read: |error, _| error?.decode().ok().map(Err),
        }
    }
}

/// A `Result` whose error can be made of one of ours.
pub trait FailureError<O> {
    fn agentflow_error(&self) -> ErrorForm<O>;
}

impl<T, E: From<Error> + Display> FailureError<Result<T, E>> for &ReturnForm<Result<T, E>> {
    fn agentflow_error(&self) -> ErrorForm<Result<T, E>> {
        ErrorForm {
            record: |_| None,
            cause: |value| {
                let error = value.as_ref().err()?;
                Cause::of(&error.to_string(), error).map(|cause| cause.into_text())
            },
            read: |_, failure| Some(Err(Error::Recorded(Arc::new(failure)).into())),
        }
    }
}

/// A return type whose error cannot be rebuilt.
pub trait OpaqueError<O> {
    fn agentflow_error(&self) -> ErrorForm<O>;
}

impl<O> OpaqueError<O> for ReturnForm<O> {
    fn agentflow_error(&self) -> ErrorForm<O> {
        ErrorForm { record: |_| None, cause: |_| None, read: |_, _| None }
    }
}
