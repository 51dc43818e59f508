//! [`ModelServer`]: a model server that is described as data, in a supported wire format. It opens
//! models but calls none.

use std::sync::Arc;

use agentflow_schema::diagnostic::Diagnostic;

use super::linked_adapter::{LinkedAdapter, ServerSettings, adapter_of, not_in_build, unknown};
use super::providers::{self, Provider};
use super::{EnvSecrets, Model, ModelError, ModelErrorKind, Secret, SecretProvider};

/// A server with the wire format of a provider. `Debug` does not show the key.
#[derive(Clone)]
#[doc(hidden)]
#[allow(missing_debug_implementations, reason = "it holds a key")]
pub struct ModelServer {
    provider: &'static Provider,
    /// Address of the server. Default: the address of the provider.
    pub base_url: Option<String>,
    /// The key that is sent.
    pub key: Option<Secret>,
    /// The only name under which the key is looked up. `None`: the provider's names.
    pub key_name: Option<String>,
    /// Headers of each request.
    pub headers: Vec<(String, String)>,
}

impl ModelServer {
    /// Creates a server with the format of the provider with this name or short name.
    ///
    /// # Errors
    /// If no such provider exists.
    pub fn new(format: &str) -> Result<Self, ModelError> {
        let provider = providers::named(providers::full_name(format));
        let provider = provider.ok_or_else(|| unusable(unknown(format, std::iter::empty())))?;
        Ok(Self { provider, base_url: None, key: None, key_name: None, headers: Vec::new() })
    }

    /// Returns the usual wire format of a provider: its own if the provider is built in, otherwise
    /// `openai-chat`.
    pub fn usual_format(provider: &str) -> &str {
        match providers::named(providers::full_name(provider)) {
            Some(_) => provider,
            None => "openai-chat",
        }
    }

    /// Opens a model of the server.
    ///
    /// # Errors
    /// If the address or a header cannot be used, or this build has no adapter for the format.
    pub fn open(
        &self,
        model: &str,
        secrets: &Arc<dyn SecretProvider>,
    ) -> Result<Arc<dyn Model>, ModelError> {
        (self.adapter()?.open)(model.into(), self.settings(Arc::clone(secrets)))
    }

    /// Checks the requirements of [`open`](Self::open).
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn check(&self) -> Result<(), ModelError> {
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

fn unusable(problem: Diagnostic) -> ModelError {
    ModelError::new(ModelErrorKind::BadRequest, problem.message())
}
