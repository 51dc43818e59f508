//! Encodes an [`Error`] as its [`Failure`], with the data of its variant if it consists of data
//! (`error_data.rs`). Sources are lost.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Error, Failure};

impl Serialize for Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Recorded(failure) => failure.serialize(serializer),
            other => Failure::from_error_with_data(other).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Error {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Failure::deserialize(deserializer).map(|failure| Self::of_recorded(Arc::new(failure)))
    }
}

impl JsonSchema for Error {
    fn schema_name() -> Cow<'static, str> {
        Failure::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        Failure::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Failure::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{ModelError, ModelErrorKind};
    use crate::path::StepPath;
    use crate::store::{StoreError, StoreErrorKind};
    use crate::value::NodeValue;

    #[test]
    fn an_error_is_the_same_after_it_was_recorded() {
        let busy = ModelError::new(ModelErrorKind::RateLimited, "slow down").with_status(429);
        let node: StepPath = "charge".parse().unwrap();
        let errors = [
            Error::Model(Arc::new(busy)),
            Error::from(
                ModelError::new(ModelErrorKind::RateLimited, "no quota is left").permanent(),
            ),
            Error::MaxStepsReached { steps: 3 },
            Error::Timeout { limit: Duration::from_secs(1) },
            Error::Node {
                node,
                failure: Arc::new(Failure::new("card_declined", "the card was declined")),
            },
            Error::from(StoreError::new(StoreErrorKind::Busy, "another process writes the run")),
            Error::Recorded(Arc::new(Failure::new("denied", "not today"))),
        ];
        for error in errors {
            let tried: Result<u8, Error> = Err(error.clone());
            let encoded = tried.encode().unwrap();
            let decoded = Result::<u8, Error>::decode(&encoded).unwrap().unwrap_err();
            let same = std::mem::discriminant(&decoded) == std::mem::discriminant(&error);
            assert_eq!(same, !matches!(error, Error::Store(_)), "{decoded}");
            assert_eq!(
                (decoded.kind(), decoded.to_string(), decoded.is_retryable()),
                (error.kind(), error.to_string(), error.is_retryable())
            );
            assert_eq!(Failure::from(&decoded), Failure::from(&error));
            assert_eq!(Err::<u8, _>(decoded).encode().unwrap(), encoded);
        }
    }

    #[test]
    fn its_schema_fits_its_json() {
        let schema = Error::schema();
        assert_eq!(schema["required"], serde_json::json!(["kind", "message", "retryable"]));
        assert_eq!(schema, Failure::schema());
    }
}
