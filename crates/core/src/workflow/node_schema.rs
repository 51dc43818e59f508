//! `NodeSchema` and `Fits`: the JSON Schema of a node's output, of a Rust type or given as data, and whether a value fits.

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "dynamic")]
use agentflow_schema::schema_check::SchemaCheck;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::value::{Encoded, NodeValue};

/// The JSON Schema of a node's output; made when it is first looked at.
#[derive(Clone)]
pub struct NodeSchema(Schema);

/// Whether a value is of a type.
type FitsType = fn(&Encoded) -> Result<(), serde_json::Error>;

#[derive(Clone)]
enum Schema {
    Made(fn() -> Value, FitsType),
    Known(Arc<Value>),
}

impl NodeSchema {
    /// That of a type.
    pub(crate) fn of<T: NodeValue>() -> Self {
        Self(Schema::Made(T::schema, |value| T::decode(value).map(drop)))
    }

    /// Whether a value is of the type, where there is one. A schema that is data is looked at by who knows it.
    ///
    /// # Errors
    /// Where the value does not fit.
    pub(crate) fn check_type(&self, value: &Encoded) -> Result<(), serde_json::Error> {
        match &self.0 {
            Schema::Made(_, fits) => fits(value),
            Schema::Known(_) => Ok(()),
        }
    }

    /// The schema.
    pub fn to_value(&self) -> Value {
        match &self.0 {
            Schema::Made(make, _) => make(),
            Schema::Known(schema) => Value::clone(schema),
        }
    }

    /// What is the same for all nodes of one Rust type.
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
    /// Any value.
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

/// Whether a value is of a type, or fits a schema.
pub(crate) enum Fits {
    Type(FitsType),
    #[cfg(feature = "dynamic")]
    Schema(SchemaCheck),
}

impl Fits {
    /// # Errors
    /// A sentence that says where the value does not fit.
    pub(crate) fn check(&self, value: &Encoded) -> Result<(), String> {
        match self {
            Self::Type(fits) => fits(value).map_err(|error| error.to_string()),
            #[cfg(feature = "dynamic")]
            Self::Schema(schema) => {
                let value: Value = value.decode().map_err(|error| error.to_string())?;
                schema.check(&value)
            }
        }
    }
}
