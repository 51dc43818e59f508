//! Model providers in a configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::entry_problem::{EntryProblem, fill};
use agentflow_core::__private::extension::ModelServer;
use agentflow_core::model::{Secret, SecretProvider};

/// A model server. Its key in [`RuntimeConfig::providers`](crate::RuntimeConfig::providers) is the
/// name of the provider: with the provider `local`, `local/llama-3` is the name of a model. An
/// entry with the name of a built-in provider replaces that provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ProviderSettings {
    /// Wire format, given as the name of a built-in provider such as `anthropic`. Default: the
    /// format and the address of the built-in provider with the name of this entry, such as
    /// `deepseek`, and `openai-chat` for other names.
    pub format: Option<String>,
    /// Base URL, such as `http://127.0.0.1:8080/v1`. Default: the base URL of the provider that
    /// `format` names.
    pub base_url: Option<String>,
    /// API key, as in `${LOCAL_KEY}`. Default: with a `base_url`, the variable `NAME_API_KEY` if it
    /// is set, such as `LOCAL_API_KEY`; otherwise the variables of the provider that `format`
    /// names.
    pub key: Option<String>,
    /// Headers of each request.
    pub headers: BTreeMap<String, String>,
}

impl ProviderSettings {
    /// Creates the server.
    pub(super) async fn server(
        self,
        name: &str,
        secrets: &Arc<dyn SecretProvider>,
    ) -> Result<ModelServer, EntryProblem> {
        let Self { format, mut base_url, mut key, mut headers } = self;
        fill(base_url.iter_mut().chain(&mut key).chain(headers.values_mut()).collect(), secrets)
            .await?;
        let format = format.as_deref().unwrap_or_else(|| ModelServer::usual_format(name));
        let mut server = ModelServer::new(format).map_err(|error| error.message().to_owned())?;
        // The key of another provider must not be sent to this server, which a third party may
        // operate.
        server.key_name = base_url
            .is_some()
            .then(|| format!("{}_API_KEY", name.to_uppercase().replace(['-', '.'], "_")));
        server.key = key.map(Secret::new);
        server.base_url = base_url;
        server.headers = headers.into_iter().collect();
        server.check().map_err(|error| error.message().to_owned())?;
        Ok(server)
    }
}
