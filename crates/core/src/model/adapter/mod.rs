//! The adapters: each provider's wire format behind the [`Model`] trait, one directory and one cargo feature each.
//!
//! `providers` says which there are; `http` is what all of them share: the front, the client, the server, time-outs,
//! retries, server-sent events. An adapter never does its own HTTP, and nothing outside of this directory knows a
//! provider.

#[cfg(feature = "anthropic")]
pub mod anthropic;
#[cfg(feature = "http")]
#[cfg_attr(not(feature = "openai-chat"), allow(dead_code, unused_imports, reason = "no adapter uses all of it"))]
mod assembly;
#[cfg(feature = "gemini")]
pub mod gemini;
#[cfg(feature = "http")]
#[cfg_attr(not(feature = "openai-chat"), allow(dead_code, unused_imports, reason = "no adapter uses all of it"))]
pub(super) mod http;
#[cfg(feature = "http")]
#[cfg_attr(not(feature = "openai-chat"), allow(dead_code, unused_imports, reason = "no adapter uses all of it"))]
mod loose;
#[cfg(any(feature = "openai-chat", feature = "openai-responses"))]
#[cfg_attr(not(feature = "openai-chat"), allow(dead_code, reason = "the Chat adapter uses all of it"))]
pub(super) mod openai;
pub(super) mod providers;
#[cfg(feature = "http")]
#[cfg_attr(not(feature = "openai-chat"), allow(dead_code, unused_imports, reason = "no adapter uses all of it"))]
mod sent_call;

mod model_server;

use std::sync::Arc;

use agentflow_schema::text::nearest;

pub(crate) use self::model_server::ModelServer;
use self::providers::Provider;
use super::{Model, ModelProvider, ModelRef, SecretProvider};

/// The model of a provider that agentflow knows, at its default server. `others` are the providers that the host knows.
pub(crate) fn built_in<'a>(
    model: &ModelRef,
    secrets: &Arc<dyn SecretProvider>,
    others: impl Iterator<Item = &'a str>,
) -> Result<Arc<dyn Model>, String> {
    let Some(provider) = providers::named(model.provider()) else { return Err(unknown(model.provider(), others)) };
    match open(provider, model, secrets) {
        Some(opened) => opened,
        None => Err(not_in_build(provider)),
    }
}

fn not_in_build(Provider { name, feature, .. }: &Provider) -> String {
    format!("the adapter of `{name}` is not in this build; switch on the cargo feature `{feature}`")
}

/// A model of a provider at its default server; `None` when the adapter is not in this build.
#[cfg(feature = "http")]
fn open(
    provider: &'static Provider,
    model: &ModelRef,
    secrets: &Arc<dyn SecretProvider>,
) -> Option<Result<Arc<dyn Model>, String>> {
    let mut server = http::ServerBuilder::new(provider);
    server.secrets = Arc::clone(secrets);
    Some((provider.adapter?.open)(model.model().into(), server).map_err(|error| error.message().to_owned()))
}

#[cfg(not(feature = "http"))]
fn open(_: &Provider, _: &ModelRef, _: &Arc<dyn SecretProvider>) -> Option<Result<Arc<dyn Model>, String>> {
    None
}

/// Returns an error message if a provider is neither in this build nor among `others`, the providers of the host.
pub(crate) fn problem_of_provider<'a>(provider: &str, others: impl Iterator<Item = &'a str>) -> Option<String> {
    let others: Vec<&str> = others.collect();
    if others.contains(&provider) || in_build().any(|known| known.name == provider) {
        return None;
    }
    Some(match providers::named(provider) {
        Some(known) => not_in_build(known),
        None => unknown(provider, others.into_iter()),
    })
}

fn unknown<'a>(provider: &str, others: impl Iterator<Item = &'a str>) -> String {
    let mut known: Vec<_> = in_build().map(|provider| provider.name).chain(others).collect();
    known.sort_unstable();
    known.dedup();
    let aliases = in_build().flat_map(|provider| provider.aliases).copied();
    if let Some(near) = nearest(provider, known.iter().copied().chain(aliases)) {
        return format!("no adapter is called `{provider}`; did you mean `{near}`?");
    }
    let there = match known.as_slice() {
        [] => "is not in this build (see the cargo features)".to_owned(),
        [one] => format!("is `{one}`"),
        all => format!("are `{}`", all.join("`, `")),
    };
    format!(
        "no adapter is called `{provider}`; there {there}; a server with the format of one of them is used by that name \
         and its base URL, as in `openai-chat/..` with `OPENAI_BASE_URL`; a host adds its own with \
         `Runtime::builder().model_provider(..)`"
    )
}

/// The providers whose adapters are in this build, by name.
fn in_build() -> impl Iterator<Item = &'static Provider> {
    #[cfg(feature = "http")]
    return providers::PROVIDERS.into_iter().filter(|provider| provider.adapter.is_some());
    #[cfg(not(feature = "http"))]
    std::iter::empty()
}

/// The providers of this build's adapters, by name, and which of their keys there are.
#[cfg(not(feature = "http"))]
pub(crate) async fn built_in_providers(_: &Arc<dyn SecretProvider>) -> Vec<ModelProvider> {
    Vec::new()
}

/// The providers of this build's adapters, by name, and which of their keys there are.
#[cfg(feature = "http")]
pub(crate) async fn built_in_providers(secrets: &Arc<dyn SecretProvider>) -> Vec<ModelProvider> {
    let mut providers = Vec::new();
    for provider in in_build() {
        let (base_url, problem) = match provider.shown_url() {
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

/// Reads a body of server-sent events with the decoder of a provider, without a server; the result is whether it is a
/// whole answer. For tests that feed a decoder whatever bytes they make up.
///
/// # Errors
/// Why the body is not a whole answer, or that the provider's adapter is not in this build.
#[cfg(feature = "http")]
#[allow(dead_code, reason = "called by tests only")]
pub(crate) fn decode_stream(provider: &str, body: &[u8]) -> Result<(), String> {
    let adapter = providers::named(provider)
        .and_then(|provider| provider.adapter)
        .ok_or_else(|| unknown(provider, std::iter::empty()))?;
    (adapter.decode)(body).map(drop).map_err(|error| error.to_string())
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use proptest::prelude::*;

    use super::{decode_stream, in_build};

    /// Pieces that the decoders look for, put together in any order and broken anywhere.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let known = prop::sample::select(vec![
            "data: ",
            "\n",
            "\n\n",
            "event: message_start\n",
            "event: response.completed\n",
            "[DONE]",
            r#"{"type":"message_start","message":{"id":"1","content":[],"usage":{"input_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{"}}"#,
            r#"{"type":"message_stop"}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"x","tool_calls":[{"index":7,"function":{"name":"f"}}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":-1}}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"x"},{"functionCall":{"name":"f"}}]}}]}"#,
            r#"{"candidates":[{"finishReason":"STOP"}]}"#,
            r#"{"type":"response.output_item.added","output_index":3,"item":{"type":"function_call"}}"#,
            r#"{"type":"response.completed","response":{"output":[{"type":"message","content":[{}]}]}}"#,
            r#"{"error":{"message":"no"}}"#,
        ]);
        prop_oneof![
            8 => known.prop_map(|piece| piece.as_bytes().to_vec()),
            1 => prop::collection::vec(any::<u8>(), 0..12),
        ]
    }

    proptest! {
        #[test]
        fn no_body_makes_a_decoder_panic(pieces in prop::collection::vec(piece(), 0..24)) {
            for provider in in_build() {
                let _ = decode_stream(provider.name, &pieces.concat());
            }
        }
    }

    #[test]
    fn a_whole_answer_is_distinguished_from_a_part_of_one() {
        let whole =
            concat!(r#"data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#, "\n\ndata: [DONE]\n\n");
        if cfg!(feature = "openai-chat") {
            assert_eq!(decode_stream("openai-chat", whole.as_bytes()), Ok(()));
            assert!(decode_stream("openai-chat", &whole.as_bytes()[..30]).is_err());
        }
        assert!(decode_stream("nobody", b"").is_err());
    }
}
