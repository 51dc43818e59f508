//! The JSON Schema of what a `#[tool]` function returns, where its type has one. A type that derives no `JsonSchema` costs
//! its author nothing: the tool then has no schema of its answer.
//!
//! It is found by method resolution, as in `probe.rs`: the first of the traits below that the type fits.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde_json::Value;

/// Asks of a return type: `(&&&AnswerType::<T>::NEW).agentflow_schema()`.
pub struct AnswerType<T>(PhantomData<fn() -> T>);

impl<T> AnswerType<T> {
    pub const NEW: Self = Self(PhantomData);
}

/// The value of a `Result`.
pub trait ResultSchema {
    fn agentflow_schema(&self) -> Option<Value>;
}

impl<T: JsonSchema, E> ResultSchema for &&AnswerType<Result<T, E>> {
    fn agentflow_schema(&self) -> Option<Value> {
        Some(schema_of::<T>())
    }
}

/// Any other value.
pub trait ValueSchema {
    fn agentflow_schema(&self) -> Option<Value>;
}

impl<T: JsonSchema> ValueSchema for &AnswerType<T> {
    fn agentflow_schema(&self) -> Option<Value> {
        Some(schema_of::<T>())
    }
}

/// A type without a schema.
pub trait NoSchema {
    fn agentflow_schema(&self) -> Option<Value> {
        None
    }
}

impl<T> NoSchema for AnswerType<T> {}

/// The schema of what serde writes of a value.
fn schema_of<T: JsonSchema>() -> Value {
    schemars::generate::SchemaSettings::draft2020_12()
        .for_serialize()
        .with(|settings| settings.meta_schema = None)
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}
