//! Builds the public cards: the card of the whole server, and a card per agent and workflow.

use super::a2a_server_error::A2aServerError;
use super::served_settings::Shared;
use super::skill_offer::{ANY_FILE, JSON, SkillOffer, TEXT};
use crate::a2a::{A2aCapabilities, A2aCard, A2aInterface};

/// Path segment below which single skills have their own URL.
pub(super) const FOLDER: &str = "a2a";

/// Builds the card for the server, or for a single skill. `base` is the URL of the server without a
/// trailing slash. The extended card is only for authenticated callers.
pub(super) fn card(
    shared: &Shared,
    base: &str,
    only: Option<&SkillOffer>,
    is_extended: bool,
) -> A2aCard {
    let settings = &shared.settings;
    let url =
        only.map_or_else(|| base.to_owned(), |offer| format!("{base}/{FOLDER}/{}", offer.name));
    let capabilities = A2aCapabilities {
        streaming: true,
        push_notifications: shared.notifies(),
        extended_agent_card: !settings.extended.is_empty(),
        ..A2aCapabilities::default()
    };
    let (security_schemes, security_requirements) = settings.security.clone().unwrap_or_default();
    let skills = match only {
        Some(offer) => offer.skills.clone(),
        None => {
            let shown = shared
                .offers
                .iter()
                .filter(|offer| is_extended || !settings.extended.contains(&offer.name));
            shown.flat_map(|offer| offer.skills.clone()).collect()
        }
    };
    let modes = vec![TEXT.to_owned(), JSON.to_owned()];
    let mut output_modes = modes.clone();
    if !settings.output_files.is_empty() {
        output_modes.push(ANY_FILE.to_owned());
    }
    A2aCard {
        name: only.map_or_else(|| settings.name.clone(), |offer| offer.name.to_string()),
        description: only
            .map_or_else(|| settings.description.clone(), |offer| offer.description.to_string()),
        supported_interfaces: vec![
            A2aInterface::new(url.clone(), "JSONRPC"),
            A2aInterface::new(url, "HTTP+JSON"),
        ],
        provider: settings.provider.clone(),
        version: only
            .and_then(|offer| offer.version.clone())
            .unwrap_or_else(|| settings.version.clone()),
        documentation_url: None,
        capabilities,
        security_schemes,
        security_requirements,
        default_input_modes: modes,
        default_output_modes: output_modes,
        skills,
        signatures: Vec::new(),
        icon_url: None,
    }
}

/// Checks the public URL of a server, and removes trailing slashes.
pub(super) fn checked_url(url: &str) -> Result<String, A2aServerError> {
    let problem = |problem: &str| A2aServerError::Address {
        url: url.to_owned(),
        problem: problem.to_owned(),
    };
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let rest = rest.ok_or_else(|| problem("it begins with `https://` or `http://`"))?;
    let host = rest.split('/').next().unwrap_or_default();
    if host.is_empty() || rest.contains(['?', '#', ' ', '@']) {
        return Err(problem(
            "it has a host and a path at most, such as `https://agents.example/team`",
        ));
    }
    Ok(url.trim_end_matches('/').to_owned())
}
