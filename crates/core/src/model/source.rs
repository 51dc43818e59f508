//! [`ModelSource`]: a model, or the name of a model that is opened later.

use std::fmt;
use std::sync::Arc;

use super::{Model, ModelInfo, ModelRef, ModelRefError};

/// The model of an agent: a name, or the model itself.
#[derive(Clone)]
pub struct ModelSource(Source);

impl ModelSource {
    /// Returns the provider and the name of the model, without opening it.
    ///
    /// # Errors
    /// If the name is invalid.
    pub fn info(&self) -> Result<ModelInfo, ModelRefError> {
        match &self.0 {
            Source::Given(model) => Ok(model.info().clone()),
            Source::Named(name) => {
                let name: ModelRef = name.parse()?;
                Ok(ModelInfo::new(name.provider(), name.model()))
            }
        }
    }

    /// Returns the model, or its name as `Err`.
    pub(crate) fn model_or_name(&self) -> Result<&Arc<dyn Model>, &str> {
        match &self.0 {
            Source::Given(model) => Ok(model),
            Source::Named(name) => Err(name),
        }
    }
}

#[derive(Clone)]
enum Source {
    Named(String),
    Given(Arc<dyn Model>),
}

impl From<&str> for ModelSource {
    fn from(name: &str) -> Self {
        Self(Source::Named(name.to_owned()))
    }
}

impl From<String> for ModelSource {
    fn from(name: String) -> Self {
        Self(Source::Named(name))
    }
}

impl From<ModelRef> for ModelSource {
    fn from(name: ModelRef) -> Self {
        Self(Source::Named(name.to_string()))
    }
}

impl From<&ModelRef> for ModelSource {
    fn from(name: &ModelRef) -> Self {
        Self(Source::Named(name.to_string()))
    }
}

impl<M: Model + 'static> From<M> for ModelSource {
    fn from(model: M) -> Self {
        Self(Source::Given(Arc::new(model)))
    }
}

impl From<Arc<dyn Model>> for ModelSource {
    fn from(model: Arc<dyn Model>) -> Self {
        Self(Source::Given(model))
    }
}

impl fmt::Debug for ModelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Named(name) => name.fmt(f),
            Source::Given(model) => model.info().fmt(f),
        }
    }
}
