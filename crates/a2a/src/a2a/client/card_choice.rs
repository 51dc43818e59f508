//! Parses an agent card and selects the interface that the client uses.

use std::sync::Arc;

use reqwest::Url;
use serde_json::Value;

use super::super::{A2A_VERSION, A2aCard};
use super::a2a_error::A2aError;
use super::operation::Binding;

/// A card with the selected interface.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) card: Arc<A2aCard>,
    pub(super) binding: Binding,
    pub(super) url: Url,
    pub(super) tenant: Option<String>,
}

/// Parses a card and selects its first interface with a supported binding and version. `allowed`
/// decides if requests may be sent to a URL. `known` lists the supported extensions.
pub(super) fn chosen(
    agent: &Arc<str>,
    json: &[u8],
    allowed: impl Fn(&Url) -> bool,
    known: &[String],
) -> Result<Chosen, A2aError> {
    let unusable = |problem: String| A2aError::Card { agent: Arc::clone(agent), problem };
    let value: Value = serde_json::from_slice(json)
        .map_err(|error| unusable(format!("it is not JSON: {error}")))?;
    // Cards of earlier versions have no list of interfaces but a single URL.
    let has_interfaces = value.get("supportedInterfaces").is_some_and(|list| !list.is_null());
    if !has_interfaces && (value.get("url").is_some() || value.get("protocolVersion").is_some()) {
        let spoken = value["protocolVersion"].as_str().unwrap_or("0.3").chars().take(20).collect();
        return Err(A2aError::Version { agent: Arc::clone(agent), spoken });
    }
    let card: A2aCard =
        serde_path_to_error::deserialize(value).map_err(|error| unusable(error.to_string()))?;
    let required = |extension: &&super::super::A2aExtension| {
        extension.required && !known.contains(&extension.uri)
    };
    if let Some(extension) = card.capabilities.extensions.iter().find(required) {
        return Err(unusable(format!(
            "it requires the extension `{}`; say with `extension` that this program knows it",
            extension.uri
        )));
    }
    let spoken = card.supported_interfaces.iter().filter_map(|interface| {
        let binding = Binding::named(&interface.protocol_binding)?;
        Some((interface, binding))
    });
    let spoken: Vec<_> = spoken.collect();
    let is_ours = |version: &str| version == A2A_VERSION || version.starts_with("1.0.");
    let Some((interface, binding)) = spoken.iter().find(|(of, _)| is_ours(&of.protocol_version))
    else {
        let named = |names: Vec<&str>| names.join(", ");
        return Err(match spoken.is_empty() {
            false => {
                let spoken =
                    named(spoken.iter().map(|(of, _)| of.protocol_version.as_str()).collect());
                A2aError::Version { agent: Arc::clone(agent), spoken }
            }
            true => unusable(format!(
                "it is spoken with over `JSONRPC` or `HTTP+JSON` here, and it offers {}",
                match named(
                    card.supported_interfaces
                        .iter()
                        .map(|of| of.protocol_binding.as_str())
                        .collect()
                ) {
                    names if names.is_empty() => "nothing".to_owned(),
                    names => format!("`{names}`"),
                }
            )),
        });
    };
    let url: Url = interface.url.parse().map_err(|error| {
        unusable(format!("its interface `{}` has no address: {error}", interface.url))
    })?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(unusable(format!("its interface `{url}` is not one of HTTP")));
    }
    // Keys are sent to this address, so a card must not choose another origin.
    if !allowed(&url) {
        let origin = url.origin().ascii_serialization();
        return Err(unusable(format!(
            "its interface is at `{origin}`, where the card is not; allow that with `allow_origin(\"{origin}\")`"
        )));
    }
    let (binding, tenant) = (*binding, interface.tenant.clone());
    Ok(Chosen { card: Arc::new(card), binding, url, tenant })
}
