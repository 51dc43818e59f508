//! The arguments of an `#[agent]` as JSON, for callers that have no Rust values: their schema, and what is read of them. It
//! asks no model.
//!
//! Which parameters can be read is found by method resolution, as in `tool/probe.rs`: a parameter that the model is shown
//! only needs a JSON form, and one without a schema costs its author nothing until somebody calls the agent by its name.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

use serde_json::Value;

use super::AgentDefinition;
use super::erased::ErasedAgent;
use crate::error::{Error, Result};
use crate::tool::{ParamType, ToolError, ToolParam, parameters_of, read_each};

/// Asks of the type of a parameter how it is read: `ParameterForm::<T>::READ`.
pub struct ParameterForm<T>(PhantomData<fn() -> T>);

impl<T: ToolParam> ParameterForm<T> {
    pub const READ: Option<ParamType> = Some(ParamType::of::<T>());
}

/// A type that is not read from JSON, or has no schema.
pub trait UnreadParameter {
    const READ: Option<ParamType> = None;
}

impl<T> UnreadParameter for ParameterForm<T> {}

/// A parameter of an `#[agent]` function.
pub struct AgentParameter {
    name: &'static str,
    type_name: &'static str,
    read: Option<ParamType>,
}

impl AgentParameter {
    pub fn new<T>(name: &'static str, read: Option<ParamType>) -> Self {
        Self { name, type_name: std::any::type_name::<T>(), read }
    }
}

/// What was read of a call's arguments, in the order of the parameters.
pub struct AgentArguments(Vec<Option<Box<dyn Any + Send>>>);

impl AgentArguments {
    /// The argument at a place; it is there once.
    pub fn take<T: 'static>(&mut self, at: usize) -> Option<T> {
        let value = self.0.get_mut(at)?.take()?;
        value.downcast().ok().map(|value| *value)
    }
}

impl AgentDefinition {
    /// The JSON Schema of its arguments: an object with a property for each parameter of the function, by its name.
    ///
    /// # Errors
    /// [`Error::Build`] when a parameter is of a type that cannot be read from JSON or has no schema, with what to derive.
    pub fn input_schema(&self) -> Result<Value> {
        let parameters = (self.options().parameters)();
        Ok(parameters_of(&self.readable(&parameters)?))
    }

    fn readable<'p>(&self, parameters: &'p [AgentParameter]) -> Result<Vec<(&'static str, &'p ParamType)>> {
        let readable = |of: &'p AgentParameter| match &of.read {
            Some(read) => Ok((of.name, read)),
            None => Err(Error::Build {
                what: "agent",
                name: self.name().into(),
                problem: format!(
                    "it cannot be given arguments as JSON, since its parameter `{}` is a `{}`; derive \
                     `serde::Deserialize` and `schemars::JsonSchema` for that type",
                    of.name, of.type_name
                ),
            }),
        };
        parameters.iter().map(readable).collect()
    }

    /// The agent of a call with arguments as JSON.
    ///
    /// # Errors
    /// [`ToolError::invalid_arguments`], which names each argument that does not fit.
    pub(crate) fn asked(&'static self, arguments: &str) -> Result<ErasedAgent, ToolError> {
        let parameters = (self.options().parameters)();
        let readable = self.readable(&parameters).map_err(|error| ToolError::new(error.to_string()))?;
        let mut read = AgentArguments(read_each(&readable, arguments)?);
        (self.options().asking)(&mut read).ok_or_else(|| ToolError::new("the arguments could not be read"))
    }
}

impl fmt::Debug for AgentParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentParameter")
            .field("name", &self.name)
            .field("type", &self.type_name)
            .finish_non_exhaustive()
    }
}
