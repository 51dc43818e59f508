//! `NodeSchema` and `ValueCheck`: the JSON Schema of a node's output, from a Rust type or as data, and
//! the check of a value.

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "dynamic")]
use agentflow_schema::schema_check::SchemaCheck;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::value::{Encoded, NodeValue};

/// JSON Schema of a node's output. The schema of a Rust type is generated when it is used.
#[derive(Clone)]
pub struct NodeSchema(Schema);

/// Checks that a value has a type.
type FitsType = fn(&Encoded) -> Result<(), serde_json::Error>;

#[derive(Clone)]
enum Schema {
    Made(fn() -> Value, FitsType),
    Known(Arc<Value>),
}

impl NodeSchema {
    /// Returns the schema of a type.
    pub(crate) fn for_type<T: NodeValue>() -> Self {
        Self(Schema::Made(T::schema, |value| T::decode(value).map(drop)))
    }

    /// Checks that a value has the Rust type, if there is one. A schema that is data accepts any
    /// value here; [`ValueCheck`] checks it.
    ///
    /// # Errors
    /// The value does not fit the type.
    pub(crate) fn check_type(&self, value: &Encoded) -> Result<(), serde_json::Error> {
        match &self.0 {
            Schema::Made(_, fits) => fits(value),
            Schema::Known(_) => Ok(()),
        }
    }

    /// Returns the schema.
    pub fn to_value(&self) -> Value {
        match &self.0 {
            Schema::Made(make, _) => make(),
            Schema::Known(schema) => Value::clone(schema),
        }
    }

    /// Returns a key that is equal for all nodes with the same Rust type.
    pub(super) fn key(&self) -> Option<usize> {
        match &self.0 {
            Schema::Made(make, _) => Some(*make as usize),
            Schema::Known(_) => None,
        }
    }
}

impl From<Value> for NodeSchema {
    fn from(schema: Value) -> Self {
        Self(Schema::Known(Arc::new(schema)))
    }
}

impl Default for NodeSchema {
    /// Accepts any value.
    fn default() -> Self {
        Value::Bool(true).into()
    }
}

impl PartialEq for NodeSchema {
    fn eq(&self, other: &Self) -> bool {
        self.to_value() == other.to_value()
    }
}

impl fmt::Debug for NodeSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}

impl Serialize for NodeSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for NodeSchema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Value::deserialize(deserializer)?.into())
    }
}

/// A check that a value has a type, or fits a schema.
pub(crate) enum ValueCheck {
    Type(FitsType),
    #[cfg(feature = "dynamic")]
    Schema(SchemaCheck),
}

impl ValueCheck {
    /// Checks a value.
    ///
    /// # Errors
    /// The parts that do not fit.
    pub(crate) fn check(&self, value: &Encoded) -> Result<(), ValueMisfit> {
        match self {
            Self::Type(fits) => Ok(fits(value)?),
            #[cfg(feature = "dynamic")]
            Self::Schema(schema) => Ok(schema.check(&value.decode()?)?),
        }
    }
}

/// The reason that a value does not have a type, or does not fit a schema.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ValueMisfit {
    #[error(transparent)]
    Type(#[from] serde_json::Error),
    #[cfg(feature = "dynamic")]
    #[error(transparent)]
    Schema(#[from] agentflow_schema::schema_check::ValueMismatches),
}
