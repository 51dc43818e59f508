//! Which providers models can be named by, where each is, and whether its key is there. It never shows a key.

use std::sync::Arc;

use serde::Serialize;

use super::SecretProvider;

/// A provider that models can be named by, as in `openai-chat/gpt-5-mini`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ModelProvider {
    /// The name before the `/` of a model's name.
    pub name: Arc<str>,
    /// Whether the host registered it, with
    /// [`RuntimeBuilder::model_provider`](crate::RuntimeBuilder::model_provider). Nothing more is known of such a one.
    pub host: bool,
    /// Where it is called, without user, password and query, which may be keys. `None` for a host's own, and when
    /// there is a [`problem`](Self::problem).
    pub base_url: Option<String>,
    /// The environment variable for another address.
    pub base_url_variable: Option<Arc<str>>,
    /// The names by which its key is asked for; the first one that there is counts.
    pub key_names: Vec<Arc<str>>,
    /// The name by which its key is found now; `None` when there is none of these names.
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

/// The providers of this build's adapters, by name.
#[cfg(not(feature = "http"))]
pub(crate) async fn built_in_providers(_: &Arc<dyn SecretProvider>) -> Vec<ModelProvider> {
    Vec::new()
}

/// The providers of this build's adapters, by name.
#[cfg(feature = "http")]
pub(crate) async fn built_in_providers(secrets: &Arc<dyn SecretProvider>) -> Vec<ModelProvider> {
    let servers: &[(&str, &super::adapter::http::Provider)] = &[
        #[cfg(feature = "anthropic")]
        (super::anthropic::PROVIDER, &super::anthropic::SERVER),
        #[cfg(feature = "gemini")]
        (super::gemini::PROVIDER, &super::gemini::SERVER),
        #[cfg(feature = "openai-chat")]
        (super::openai_chat::PROVIDER, &super::adapter::openai::server::OPENAI),
        #[cfg(feature = "openai-responses")]
        (super::openai_responses::PROVIDER, &super::adapter::openai::server::OPENAI),
    ];
    let mut providers = Vec::new();
    for (name, server) in servers {
        let (base_url, problem) = match server.shown_url() {
            Ok(url) => (Some(url), None),
            Err(error) => (None, Some(error.message().to_owned())),
        };
        let mut key_from = None;
        for key in server.key_names {
            if key_from.is_none() && secrets.secret(key).await.is_some() {
                key_from = Some(Arc::from(*key));
            }
        }
        providers.push(ModelProvider {
            name: (*name).into(),
            host: false,
            base_url,
            base_url_variable: Some(server.base_url_variable.into()),
            key_names: server.key_names.iter().map(|key| Arc::from(*key)).collect(),
            key_from,
            problem,
        });
    }
    providers
}
