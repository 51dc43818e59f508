//! The adapters that are linked into the program, and the models, providers and messages that
//! follow from them. The module does not depend on wire formats: a crate with adapters submits each
//! adapter to the linker, as `agentflow-models` does.

use std::fmt;
use std::sync::Arc;

use agentflow_schema::diagnostic::{Diagnostic, Suggestion};
use agentflow_schema::text::nearest;

use super::http_settings::HttpSettings;
use super::model_codes;
use super::providers::{self, Provider};
use super::{
    EnvSecrets, Model, ModelError, ModelProvider, ModelRef, ModelRefError, Secret, SecretProvider,
};

/// The outcome of opening a model.
#[doc(hidden)]
pub type OpenedModel = Result<Arc<dyn Model>, ModelError>;

/// An adapter for a wire format. The linker collects the adapters of the program.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct LinkedAdapter {
    /// The name of the wire format, as in [`Provider::format`].
    pub format: &'static str,
    /// Opens a model of a server by name. Sends no request.
    pub open: fn(Arc<str>, ServerSettings) -> OpenedModel,
    /// Checks the settings of a server. Returns its address without the parts that may be keys.
    pub check: fn(ServerSettings) -> Result<String, ModelError>,
}

inventory::collect!(LinkedAdapter);

/// Settings of a server. `Debug` does not show the key.
#[doc(hidden)]
pub struct ServerSettings {
    /// Provider whose wire format the server uses.
    pub provider: &'static Provider,
    /// Base URL. Default: the value of the provider's environment variable, otherwise the
    /// provider's own server.
    pub base_url: Option<String>,
    /// API key. Default: looked up by name before each call.
    pub key: Option<Secret>,
    /// The only name under which the key is looked up. Default: the provider's names.
    pub key_name: Option<String>,
    /// Source of the key. Default: the environment.
    pub secrets: Arc<dyn SecretProvider>,
    /// Headers of each call.
    pub headers: Vec<(String, String)>,
    /// Time-outs, retries and limits.
    pub http: HttpSettings,
}

impl ServerSettings {
    /// Creates the settings of a provider's default server.
    pub fn new(provider: &'static Provider) -> Self {
        Self {
            provider,
            base_url: None,
            key: None,
            key_name: None,
            secrets: Arc::new(EnvSecrets),
            headers: Vec::new(),
            http: HttpSettings::default(),
        }
    }
}

impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSettings")
            .field("provider", &self.provider.name)
            .field("http", &self.http)
            .finish_non_exhaustive()
    }
}

/// Returns the adapter for the wire format of a provider, if the program has it.
pub fn adapter_of(provider: &Provider) -> Option<&'static LinkedAdapter> {
    inventory::iter::<LinkedAdapter>.into_iter().find(|adapter| adapter.format == provider.format)
}

/// Opens a model of a built-in provider at its default server. `others` are the names of the
/// providers that the host registered, for the error message.
pub(crate) fn built_in<'a>(
    model: &ModelRef,
    secrets: &Arc<dyn SecretProvider>,
    others: impl Iterator<Item = &'a str>,
) -> Result<Arc<dyn Model>, ModelRefError> {
    let Some(provider) = providers::named(model.provider()) else {
        return Err(ModelRefError::unusable(model, unknown(model.provider(), others)));
    };
    let Some(adapter) = adapter_of(provider) else {
        return Err(ModelRefError::unusable(model, not_in_build(provider)));
    };
    let mut server = ServerSettings::new(provider);
    server.secrets = Arc::clone(secrets);
    (adapter.open)(model.model().into(), server)
        .map_err(|error| ModelRefError::unusable(model, error.message()))
}

pub(super) fn not_in_build(Provider { name, format, .. }: &Provider) -> Diagnostic {
    let found = Diagnostic::new(model_codes::NOT_IN_BUILD).name("provider", name);
    found.absent("feature", format)
}

/// Returns a problem if a provider is neither in this build nor among `others`, the host's
/// providers.
pub(crate) fn problem_of_provider<'a>(
    provider: &str,
    others: impl Iterator<Item = &'a str>,
) -> Option<Diagnostic> {
    let others: Vec<&str> = others.collect();
    if others.contains(&provider) || in_build().any(|known| known.name == provider) {
        return None;
    }
    Some(match providers::named(provider) {
        Some(known) => not_in_build(known),
        None => unknown(provider, others.into_iter()),
    })
}

pub(super) fn unknown<'a>(provider: &str, others: impl Iterator<Item = &'a str>) -> Diagnostic {
    let found = Diagnostic::new(model_codes::UNKNOWN_PROVIDER).name("provider", provider);
    let mut known: Vec<_> = in_build().map(|provider| provider.name).chain(others).collect();
    known.sort_unstable();
    known.dedup();
    let aliases = in_build().flat_map(|provider| provider.aliases).copied();
    if let Some(near) = nearest(provider, known.iter().copied().chain(aliases)) {
        return found.suggest(Suggestion::similar(Some(near)));
    }
    let there = match known.as_slice() {
        [] => "is not in this build (see the cargo features)".to_owned(),
        [one] => format!("is `{one}`"),
        all => format!("are `{}`", all.join("`, `")),
    };
    found.suggest(Suggestion::advice(format!(
        "there {there}; a server with the format of one of them is used by that name and its base URL, as in \
         `openai-chat/..` with `OPENAI_BASE_URL`; a host adds its own with `Runtime::builder().model_provider(..)`"
    )))
}

/// The providers whose adapters are in this build, sorted by name.
fn in_build() -> impl Iterator<Item = &'static Provider> {
    providers::PROVIDERS.into_iter().filter(|provider| adapter_of(provider).is_some())
}

/// Describes the providers of this build's adapters, sorted by name, and looks up their keys.
pub(crate) async fn built_in_providers(secrets: &Arc<dyn SecretProvider>) -> Vec<ModelProvider> {
    let mut providers = Vec::new();
    for provider in providers::PROVIDERS {
        let Some(adapter) = adapter_of(provider) else { continue };
        let (base_url, problem) = match (adapter.check)(ServerSettings::new(provider)) {
            Ok(url) => (Some(url), None),
            Err(error) => (None, Some(error.message().to_owned())),
        };
        let mut key_from = None;
        for key in provider.key_names {
            if key_from.is_none() && secrets.secret(key).await.is_some() {
                key_from = Some(Arc::from(*key));
            }
        }
        providers.push(ModelProvider {
            name: provider.name.into(),
            host: false,
            base_url,
            base_url_variable: Some(provider.base_url_variable.into()),
            key_names: provider.key_names.iter().map(|key| Arc::from(*key)).collect(),
            key_from,
            problem,
        });
    }
    providers
}
