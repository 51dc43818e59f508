//! The arguments of an `#[agent]` as JSON, for callers that have no Rust values: their schema, and
//! how they are decoded.
//!
//! The macro finds by method resolution which parameters can be decoded, as in `tool/probe.rs`. A
//! parameter of a Rust call only has to be serializable. A missing schema becomes an error only
//! when the agent is called by name.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

use serde_json::Value;

use super::AgentDefinition;
use super::erased::ErasedAgent;
use crate::error::{Error, Result};
use crate::tool::{ParamType, ToolError, ToolParam, parameters_of, read_each};

/// Probe for the decoder of a parameter type: `ParameterProbe::<T>::READ` is `None` if `T` cannot be
/// read from JSON.
pub struct ParameterProbe<T>(PhantomData<fn() -> T>);

impl<T: ToolParam> ParameterProbe<T> {
    pub const READ: Option<ParamType> = Some(ParamType::new::<T>());
}

/// Fallback for types that cannot be decoded from JSON or have no schema.
pub trait UndecodableParameter {
    const READ: Option<ParamType> = None;
}

impl<T> UndecodableParameter for ParameterProbe<T> {}

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

/// The decoded arguments of a call, in the order of the parameters.
pub struct AgentArguments(Vec<Option<Box<dyn Any + Send>>>);

impl AgentArguments {
    /// Takes the argument at a position. A second call for the same position returns `None`.
    pub fn take<T: 'static>(&mut self, at: usize) -> Option<T> {
        let value = self.0.get_mut(at)?.take()?;
        value.downcast().ok().map(|value| *value)
    }
}

impl AgentDefinition {
    /// Returns the JSON Schema of the arguments: an object with a property for each parameter of
    /// the function, by its name.
    ///
    /// # Errors
    /// [`Error::Build`] if the type of a parameter cannot be decoded from JSON or has no schema.
    /// The message names the traits to derive.
    pub fn input_schema(&self) -> Result<Value> {
        let parameters = (self.options().parameters)();
        Ok(parameters_of(&self.readable(&parameters)?))
    }

    fn readable<'p>(
        &self,
        parameters: &'p [AgentParameter],
    ) -> Result<Vec<(&'static str, &'p ParamType)>> {
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

    /// Returns the agent of a call with JSON arguments.
    ///
    /// # Errors
    /// [`ToolError::invalid_arguments`], which names each argument that does not match.
    pub(crate) fn asked(&'static self, arguments: &str) -> Result<ErasedAgent, ToolError> {
        let parameters = (self.options().parameters)();
        let readable =
            self.readable(&parameters).map_err(|error| ToolError::new(error.to_string()))?;
        let mut read = AgentArguments(read_each(&readable, arguments)?);
        (self.options().asking)(&mut read)
            .ok_or_else(|| ToolError::new("the arguments could not be read"))
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
