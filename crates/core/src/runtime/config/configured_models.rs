//! Providers of models in a configuration. It opens no model.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::entry_problem::{EntryProblem, fill};
use crate::model::{ModelServer, Secret, SecretProvider};

/// A server of models, by the name of a provider in [`RuntimeConfig::providers`](super::RuntimeConfig::providers). The
/// provider `local` makes `local/llama-3` the name of a model. An entry with the name of a provider that the library knows
/// takes the place of that provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ProviderSettings {
    /// The wire format, by the name of a provider that the library knows, such as `anthropic`. Default: the format and the
    /// address of the provider with the name of this entry, such as `deepseek`, and `openai-chat` for other names.
    pub format: Option<String>,
    /// Its base URL, such as `http://127.0.0.1:8080/v1`. Default: the base URL of the provider that the format is from.
    pub base_url: Option<String>,
    /// Its key, as in `${LOCAL_KEY}`. Default: for another base URL the variable `NAME_API_KEY` if it is set, such as
    /// `LOCAL_API_KEY`; otherwise the variables of the provider whose format it has.
    pub key: Option<String>,
    /// Headers of each call.
    pub headers: BTreeMap<String, String>,
}

impl ProviderSettings {
    /// Returns the server.
    pub(super) async fn server(
        self,
        name: &str,
        secrets: &Arc<dyn SecretProvider>,
    ) -> Result<ModelServer, EntryProblem> {
        let Self { format, mut base_url, mut key, mut headers } = self;
        fill(base_url.iter_mut().chain(&mut key).chain(headers.values_mut()), secrets).await?;
        let format = format.as_deref().unwrap_or_else(|| ModelServer::usual_format(name));
        let mut server = ModelServer::new(format).map_err(|error| error.message().to_owned())?;
        // The key of another provider must not reach this server, which may belong to others.
        server.key_name =
            base_url.is_some().then(|| format!("{}_API_KEY", name.to_uppercase().replace(['-', '.'], "_")));
        server.key = key.map(Secret::new);
        server.base_url = base_url;
        server.headers = headers.into_iter().collect();
        server.check().map_err(|error| error.message().to_owned())?;
        Ok(server)
    }
}
