//! `ModelProvider`: the description of a provider, with its address and whether it has a key. It never holds a key.

use std::sync::Arc;

use serde::Serialize;

/// A provider that models can be named by, as in `openai-chat/gpt-5-mini`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ModelProvider {
    /// The name before the `/` of a model's name.
    pub name: Arc<str>,
    /// Whether the host registered it, with
    /// [`RuntimeBuilder::model_provider`](crate::runtime::RuntimeBuilder::model_provider). The other fields are then
    /// empty.
    pub host: bool,
    /// Where it is called, without user, password and query, which may be keys. `None` for a host's own, and when
    /// there is a [`problem`](Self::problem).
    pub base_url: Option<String>,
    /// The environment variable for another address.
    pub base_url_variable: Option<Arc<str>>,
    /// The names by which its key is asked for; the first one that there is counts.
    pub key_names: Vec<Arc<str>>,
    /// The name by which its key is found now; `None` when none of these names has one.
    pub key_from: Option<Arc<str>>,
    /// Why it cannot be called.
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
