//! The table of built-in providers: the name of each, the prefixes of its models' names, its server
//! and its keys. Every build contains the whole table, so that a missing adapter is reported as
//! such, and so that `#[agent]` can check the names of models at compile time.
//!
//! A new wire format needs a static that is listed in [`PROVIDERS`], a folder in `crates/models`
//! and a cargo feature. A provider with an existing format only needs the static. This module does
//! not call servers.

use agentflow_schema::text::nearest;

/// All built-in providers, sorted by name.
pub(crate) static PROVIDERS: [&Provider; 7] =
    [&ANTHROPIC, &DEEPSEEK, &GEMINI, &OLLAMA, &OPENAI_CHAT, &OPENAI_RESPONSES, &OPENROUTER];

/// A provider of models: its wire format and its server.
#[doc(hidden)]
#[derive(Debug)]
pub struct Provider {
    /// Name in a [`ModelRef`](crate::model::ModelRef) and in
    /// [`ModelInfo`](crate::model::ModelInfo).
    pub name: &'static str,
    /// Wire format: the name of the adapter and of its cargo feature.
    pub format: &'static str,
    /// `true` if this provider defines the wire format. Other providers use variants of it.
    pub own_format: bool,
    /// `true` if the provider's own server refuses calls without a key.
    pub needs_key: bool,
    /// `true` if the server can restrict answers to a JSON Schema. Otherwise a typed answer is always a tool call.
    pub takes_schema: bool,
    /// Short names of the provider.
    pub aliases: &'static [&'static str],
    /// Prefixes of its models' names, to find the provider of a name without a provider.
    pub prefixes: &'static [&'static str],
    /// Name in OpenTelemetry's conventions.
    pub telemetry_name: &'static str,
    /// Base URL of the provider's own server, as its own clients use it.
    pub base_url: &'static str,
    /// Environment variable that overrides the base URL.
    pub base_url_variable: &'static str,
    /// Names under which a key is looked up. The first existing one is used.
    pub key_names: &'static [&'static str],
    /// Header that contains the key; `None` for `Authorization: Bearer`.
    pub key_header: Option<&'static str>,
    /// Names under which a token is looked up if no key exists. It is sent as `Authorization:
    /// Bearer`.
    pub token_names: &'static [&'static str],
    /// Headers of every call, in lower case.
    pub headers: &'static [(&'static str, &'static str)],
}

/// The Anthropic API.
pub static ANTHROPIC: Provider = Provider {
    name: "anthropic",
    format: "anthropic",
    own_format: true,
    needs_key: true,
    takes_schema: true,
    aliases: &[],
    prefixes: &["claude-"],
    telemetry_name: "anthropic",
    base_url: "https://api.anthropic.com",
    base_url_variable: "ANTHROPIC_BASE_URL",
    key_names: &["ANTHROPIC_API_KEY"],
    key_header: Some("x-api-key"),
    token_names: &["ANTHROPIC_AUTH_TOKEN"],
    headers: &[("anthropic-version", "2023-06-01")],
};

/// The Gemini API.
pub static GEMINI: Provider = Provider {
    name: "gemini",
    format: "gemini",
    own_format: true,
    needs_key: true,
    takes_schema: true,
    aliases: &["google"],
    prefixes: &["gemini-"],
    telemetry_name: "gcp.gemini",
    base_url: "https://generativelanguage.googleapis.com",
    base_url_variable: "GOOGLE_GEMINI_BASE_URL",
    // In the order in which Google's own clients look them up.
    key_names: &["GOOGLE_API_KEY", "GEMINI_API_KEY"],
    key_header: Some("x-goog-api-key"),
    token_names: &[],
    headers: &[],
};

/// OpenAI by the Chat Completions format.
pub static OPENAI_CHAT: Provider = Provider {
    name: "openai-chat",
    format: "openai-chat",
    own_format: true,
    needs_key: true,
    takes_schema: true,
    aliases: &["openai"],
    prefixes: &["gpt-", "o1", "o3", "o4", "chatgpt-"],
    telemetry_name: "openai",
    base_url: "https://api.openai.com/v1",
    base_url_variable: "OPENAI_BASE_URL",
    key_names: &["OPENAI_API_KEY"],
    key_header: None,
    token_names: &[],
    headers: &[],
};

/// OpenAI by the Responses format.
pub static OPENAI_RESPONSES: Provider = Provider {
    name: "openai-responses",
    format: "openai-responses",
    aliases: &[],
    prefixes: &[],
    ..OPENAI_CHAT
};

static DEEPSEEK: Provider = Provider {
    name: "deepseek",
    own_format: false,
    takes_schema: false,
    aliases: &[],
    prefixes: &["deepseek-"],
    telemetry_name: "deepseek",
    base_url: "https://api.deepseek.com/v1",
    base_url_variable: "DEEPSEEK_BASE_URL",
    key_names: &["DEEPSEEK_API_KEY"],
    ..OPENAI_CHAT
};

static OLLAMA: Provider = Provider {
    name: "ollama",
    own_format: false,
    // Ollama runs on the user's own machine.
    needs_key: false,
    aliases: &[],
    prefixes: &[],
    telemetry_name: "ollama",
    base_url: "http://127.0.0.1:11434/v1",
    base_url_variable: "OLLAMA_BASE_URL",
    key_names: &["OLLAMA_API_KEY"],
    ..OPENAI_CHAT
};

static OPENROUTER: Provider = Provider {
    name: "openrouter",
    own_format: false,
    aliases: &[],
    prefixes: &[],
    telemetry_name: "openrouter",
    base_url: "https://openrouter.ai/api/v1",
    base_url_variable: "OPENROUTER_BASE_URL",
    key_names: &["OPENROUTER_API_KEY"],
    ..OPENAI_CHAT
};

/// Returns the provider with this name.
pub fn named(name: &str) -> Option<&'static Provider> {
    PROVIDERS.into_iter().find(|provider| provider.name == name)
}

/// Returns the full name for a short name of a provider. Other names are returned unchanged.
pub fn full_name(name: &str) -> &str {
    PROVIDERS
        .iter()
        .find(|provider| provider.aliases.contains(&name))
        .map_or(name, |provider| provider.name)
}

/// Returns the provider whose models have names with this prefix.
pub(crate) fn of_model(model: &str) -> Option<&'static Provider> {
    PROVIDERS
        .into_iter()
        .find(|provider| provider.prefixes.iter().any(|prefix| model.starts_with(prefix)))
}

/// Returns a similar known prefix for a misspelled model name, such as `deepseek-`.
pub(crate) fn near_prefix(model: &str) -> Option<&'static str> {
    // Only the word before the first dash is compared, as in `deepsek-chat`.
    let word = model.split_once('-')?.0;
    let prefixes = || {
        PROVIDERS
            .into_iter()
            .flat_map(|provider| provider.prefixes)
            .filter_map(|p| p.strip_suffix('-'))
    };
    let near = nearest(word, prefixes())?;
    PROVIDERS
        .into_iter()
        .flat_map(|provider| provider.prefixes)
        .copied()
        .find(|p| p.strip_suffix('-') == Some(near))
}

/// Returns `true` if [`of_model`] finds a provider. A `const fn` for checks at compile time.
pub(crate) const fn has_known_prefix(model: &str) -> bool {
    let mut provider = 0;
    while provider < PROVIDERS.len() {
        let prefixes = PROVIDERS[provider].prefixes;
        let mut at = 0;
        while at < prefixes.len() {
            if begins(model.as_bytes(), prefixes[at].as_bytes()) {
                return true;
            }
            at += 1;
        }
        provider += 1;
    }
    false
}

const fn begins(text: &[u8], prefix: &[u8]) -> bool {
    let mut at = 0;
    while at < prefix.len() {
        if at == text.len() || text[at] != prefix[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Returns the name of a provider in OpenTelemetry's conventions, or the name itself if the
/// provider is unknown.
pub(crate) fn telemetry_name(provider: &str) -> &str {
    named(provider).map_or(provider, |provider| provider.telemetry_name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{PROVIDERS, has_known_prefix, of_model};

    #[test]
    fn no_name_means_two_providers() {
        let names = || {
            PROVIDERS.iter().flat_map(|provider| provider.aliases.iter().chain([&provider.name]))
        };
        assert_eq!(names().collect::<BTreeSet<_>>().len(), names().count());
        assert!(PROVIDERS.is_sorted_by_key(|provider| provider.name));
    }

    #[test]
    fn a_constant_knows_the_same_names() {
        for name in [
            "gpt-5-mini",
            "o3",
            "claude-x",
            "gemini-2.5-flash",
            "chatgpt-4o",
            "llama",
            "gpt",
            "",
            "xgpt-5",
            "deepseek-chat",
        ] {
            assert_eq!(has_known_prefix(name), of_model(name).is_some(), "{name}");
        }
    }
}
