//! [`ModelProvider`]: the description of a provider, with its address and the name of its key. It
//! never contains a key.

use std::sync::Arc;

use serde::Serialize;

/// A model provider, as in `openai-chat/gpt-5-mini`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ModelProvider {
    /// Name before the `/` of a model's name.
    pub name: Arc<str>,
    /// `true` if the host registered the provider with
    /// [`RuntimeBuilder::model_provider`](crate::runtime::RuntimeBuilder::model_provider). The
    /// other fields are then empty.
    pub host: bool,
    /// Base URL without user, password and query, which may be keys. `None` for a provider of the
    /// host, and if there is a [`problem`](Self::problem).
    pub base_url: Option<String>,
    /// Environment variable that overrides the base URL.
    pub base_url_variable: Option<Arc<str>>,
    /// Names under which the key is looked up. The first existing one is used.
    pub key_names: Vec<Arc<str>>,
    /// Name under which the key was found; `None` if no key was found.
    pub key_from: Option<Arc<str>>,
    /// Reason why the provider cannot be called.
    pub problem: Option<String>,
}

impl ModelProvider {
    pub(crate) fn of_host(name: &str) -> Self {
        Self {
            name: name.into(),
            host: true,
            base_url: None,
            base_url_variable: None,
            key_names: Vec::new(),
            key_from: None,
            problem: None,
        }
    }
}
