//! `ModelServer`: a server of models that is described as data, in a wire format that this library knows. It calls none.

use std::sync::Arc;

use super::linked_adapter::{LinkedAdapter, ServerSettings, adapter_of, not_in_build, unknown};
use super::providers::{self, Provider};
use super::{EnvSecrets, Model, ModelError, ModelErrorKind, Secret, SecretProvider};

/// A server in the wire format of a provider. It shows no key.
#[derive(Clone)]
pub(crate) struct ModelServer {
    provider: &'static Provider,
    pub(crate) base_url: Option<String>,
    pub(crate) key: Option<Secret>,
    /// The only name under which the key is looked up, in place of the provider's names.
    pub(crate) key_name: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
}

impl ModelServer {
    /// A server with the format of the provider that has this name or short name.
    ///
    /// # Errors
    /// If there is no such provider.
    pub(crate) fn new(format: &str) -> Result<Self, ModelError> {
        let provider = providers::named(providers::full_name(format));
        let provider = provider.ok_or_else(|| unusable(unknown(format, std::iter::empty())))?;
        Ok(Self { provider, base_url: None, key: None, key_name: None, headers: Vec::new() })
    }

    /// The wire format of a provider of this name: its own if the library knows it, and `openai-chat` otherwise.
    pub(crate) fn usual_format(provider: &str) -> &str {
        match providers::named(providers::full_name(provider)) {
            Some(_) => provider,
            None => "openai-chat",
        }
    }

    /// Opens a model of it.
    ///
    /// # Errors
    /// If the address or a header cannot be used, or this build has no adapter for the format.
    pub(crate) fn open(&self, model: &str, secrets: &Arc<dyn SecretProvider>) -> Result<Arc<dyn Model>, ModelError> {
        (self.adapter()?.open)(model.into(), self.settings(Arc::clone(secrets)))
    }

    /// Checks what [`open`](Self::open) needs.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn check(&self) -> Result<(), ModelError> {
        (self.adapter()?.check)(self.settings(Arc::new(EnvSecrets))).map(drop)
    }

    fn adapter(&self) -> Result<&'static LinkedAdapter, ModelError> {
        adapter_of(self.provider).ok_or_else(|| unusable(not_in_build(self.provider)))
    }

    fn settings(&self, secrets: Arc<dyn SecretProvider>) -> ServerSettings {
        ServerSettings {
            base_url: self.base_url.clone(),
            key: self.key.clone(),
            key_name: self.key_name.clone(),
            secrets,
            headers: self.headers.clone(),
            ..ServerSettings::new(self.provider)
        }
    }
}

fn unusable(problem: String) -> ModelError {
    ModelError::new(ModelErrorKind::BadRequest, problem)
}
