//! `agentwf models`: lists the model providers. Never shows a key.

use agentflow_schema::text::OneLine;
use serde_json::json;

use super::print::{BAD, BOLD, DIM, Stop, line, print_json, short};
use agentflow_core::model::ModelProvider;
use agentflow_core::runtime::{EntryKind, Runtime};

pub(super) async fn list(runtime: &Runtime, json: bool) -> Result<(), Stop> {
    let providers = runtime.catalogue().model_providers().await;
    if json {
        let catalogue = runtime.catalogue().snapshot().await;
        let with_origin = |provider: &ModelProvider| {
            let mut json = json!(provider);
            json["origin"] = json!(
                catalogue.get(EntryKind::Model, &provider.name).ok().map(|entry| &entry.origin)
            );
            json
        };
        return print_json(&providers.iter().map(with_origin).collect::<Vec<_>>());
    }
    for provider in &providers {
        line(format_args!("{BOLD}{}{BOLD:#}  {}", short(&provider.name), place(provider)))?;
        if let Some(key) = key(provider) {
            line(format_args!("    {key}"))?;
        }
    }
    Ok(())
}

fn place(provider: &ModelProvider) -> String {
    match (&provider.base_url, &provider.problem, &provider.base_url_variable) {
        (_, Some(problem), Some(variable)) => {
            format!("{BAD}{variable}: {}{BAD:#}", OneLine(problem))
        }
        (_, Some(problem), None) => format!("{BAD}{}{BAD:#}", OneLine(problem)),
        (Some(url), None, _) => OneLine(url).to_string(),
        (None, None, _) => format!("{DIM}of this program{DIM:#}"),
    }
}

fn key(provider: &ModelProvider) -> Option<String> {
    match &provider.key_from {
        Some(name) => Some(format!("key from {name}")),
        None if provider.key_names.is_empty() => None,
        None => Some(format!("{DIM}key: {} not set{DIM:#}", provider.key_names.join(" or "))),
    }
}
