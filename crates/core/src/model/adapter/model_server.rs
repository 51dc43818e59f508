//! `ModelServer`: a server of models that is described as data, in a wire format that this library knows. It calls none.

use std::sync::Arc;

use super::providers::{self, Provider};
use super::unknown;
use crate::model::{Model, ModelError, ModelErrorKind, Secret, SecretProvider};

/// A server in the wire format of a provider. It shows no key.
#[derive(Clone)]
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only adapters call servers"))]
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
    #[cfg(feature = "http")]
    pub(crate) fn open(&self, model: &str, secrets: &Arc<dyn SecretProvider>) -> Result<Arc<dyn Model>, ModelError> {
        let Some(adapter) = self.provider.adapter else { return Err(self.not_in_build()) };
        (adapter.open)(model.into(), self.builder(secrets))
    }

    /// Checks what [`open`](Self::open) needs.
    ///
    /// # Errors
    /// The same.
    #[cfg(feature = "http")]
    pub(crate) fn check(&self) -> Result<(), ModelError> {
        let secrets: Arc<dyn SecretProvider> = Arc::new(crate::model::EnvSecrets);
        self.builder(&secrets).build()?;
        if self.provider.adapter.is_some() { Ok(()) } else { Err(self.not_in_build()) }
    }

    #[cfg(feature = "http")]
    fn builder(&self, secrets: &Arc<dyn SecretProvider>) -> super::http::ServerBuilder {
        let mut server = super::http::ServerBuilder::new(self.provider);
        server.base_url.clone_from(&self.base_url);
        server.key.clone_from(&self.key);
        server.key_name.clone_from(&self.key_name);
        server.headers.clone_from(&self.headers);
        server.secrets = Arc::clone(secrets);
        server
    }

    #[cfg(not(feature = "http"))]
    pub(crate) fn open(&self, _: &str, _: &Arc<dyn SecretProvider>) -> Result<Arc<dyn Model>, ModelError> {
        Err(self.not_in_build())
    }

    #[cfg(not(feature = "http"))]
    pub(crate) fn check(&self) -> Result<(), ModelError> {
        Err(self.not_in_build())
    }

    fn not_in_build(&self) -> ModelError {
        unusable(super::not_in_build(self.provider))
    }
}

fn unusable(problem: String) -> ModelError {
    ModelError::new(ModelErrorKind::BadRequest, problem)
}
