//! The list of offered tools, computed from the runtime's current catalogue.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use agentflow_schema::schema::Definitions;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::mcp_server_error::McpServerError;
use super::server_settings::{Settings, Shared};
use agentflow_core::runtime::{Catalogue, CatalogueEntry, EntryKind};
use agentflow_core::tool::Effects;

/// Key of an answer that is not an object.
pub(super) const RESULT: &str = "result";

/// A tool of the server.
pub(super) struct Offer {
    pub(super) kind: EntryKind,
    /// Name in the catalogue.
    pub(super) name: Arc<str>,
    pub(super) tool: Tool,
    /// `true` if the answer is wrapped in an object with the key [`RESULT`]. An answer without a
    /// schema is not wrapped.
    pub(super) is_wrapped: bool,
}

impl Shared {
    /// Returns all offered tools, ordered by name, and stores them for
    /// [`last_offer`](Self::last_offer).
    pub(super) async fn offered(&self) -> Arc<[Arc<Offer>]> {
        let catalogue = self.runtime.catalogue().snapshot_unchecked().await;
        let mut offers: Vec<Offer> = catalogue
            .entries()
            .iter()
            .filter(|entry| self.offers(entry))
            .filter_map(|entry| offer(entry).ok())
            .collect();
        // If a name occurs twice, the first kind is offered. `check` reports this mistake.
        offers
            .sort_by(|one, other| (&one.tool.name, one.kind).cmp(&(&other.tool.name, other.kind)));
        offers.dedup_by(|second, first| second.tool.name == first.tool.name);
        let offers: Arc<[Arc<Offer>]> = offers.into_iter().map(Arc::new).collect();
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&offers);
        offers
    }

    /// Returns the tool of this name from the last list. Lists again if it is missing there.
    pub(super) async fn offer(&self, name: &str) -> Option<Arc<Offer>> {
        match self.last_offer(name) {
            Some(offer) => Some(offer),
            None => named(&self.offered().await, name),
        }
    }

    /// Returns the tool of this name from the last list.
    pub(super) fn last_offer(&self, name: &str) -> Option<Arc<Offer>> {
        let last = Arc::clone(&*self.last.lock().unwrap_or_else(PoisonError::into_inner));
        named(&last, name)
    }

    /// Checks the configuration of the server; see [`McpServer::check`](super::McpServer::check).
    pub(super) async fn check(&self) -> Result<(), McpServerError> {
        let settings = &self.settings;
        let catalogue = self.runtime.catalogue().snapshot().await;
        for name in settings.tools.iter().flatten() {
            self.entry(&catalogue, EntryKind::Tool, name)?;
        }
        let named = settings.agents.iter().map(|name| (EntryKind::Agent, name));
        let named: Vec<_> = named
            .chain(settings.workflows.iter().map(|name| (EntryKind::Workflow, name)))
            .collect();
        for (kind, name) in &named {
            let entry = self.entry(&catalogue, *kind, name)?;
            let unusable = |problem: String| McpServerError::Unusable {
                kind: kind.as_str(),
                name: name.to_string(),
                problem,
            };
            if !is_name(name) {
                return Err(unusable(
                    "a client takes names of 1 to 128 letters, digits, `_`, `-` and `.`".to_owned(),
                ));
            }
            offer(entry).map_err(unusable)?;
            // The wire name of a tool may be equal to the name of an agent or a workflow.
            let tool = catalogue
                .of_kind(EntryKind::Tool)
                .find(|tool| self.offers(tool) && wire_name(tool) == &***name);
            let is_agent = *kind == EntryKind::Workflow && settings.agents.contains(*name);
            if let Some(other) =
                tool.map(|_| EntryKind::Tool).or(is_agent.then_some(EntryKind::Agent))
            {
                let other = other.as_str();
                return Err(McpServerError::Twice {
                    kind: kind.as_str(),
                    name: name.to_string(),
                    other,
                });
            }
        }
        self.check_reads()
    }

    /// Checks that the resources and prompts are valid and have unique names.
    fn check_reads(&self) -> Result<(), McpServerError> {
        let Settings { resources, prompts, .. } = &self.settings;
        let resources =
            resources.iter().map(|of| ("resource", of.uri.as_str(), of.template().err()));
        let prompts =
            prompts.iter().map(|of| ("prompt", of.name.as_str(), of.problem().map(str::to_owned)));
        let mut seen = BTreeSet::new();
        for (kind, name, problem) in resources.chain(prompts) {
            if let Some(problem) = problem {
                return Err(McpServerError::Unusable { kind, name: name.to_owned(), problem });
            }
            if !seen.insert((kind, name)) {
                return Err(McpServerError::Twice { kind, name: name.to_owned(), other: kind });
            }
        }
        Ok(())
    }

    fn entry<'c>(
        &self,
        catalogue: &'c Catalogue,
        kind: EntryKind,
        name: &str,
    ) -> Result<&'c CatalogueEntry, McpServerError> {
        catalogue.get(kind, name).map_err(|error| {
            let others = [
                (EntryKind::Tool, "a tool; name it with `tools`"),
                (EntryKind::Agent, "an agent; name it with `agents`"),
                (EntryKind::Workflow, "a workflow; name it with `workflows`"),
            ];
            // A name of a different kind gets a hint with the right method.
            match others
                .into_iter()
                .find(|(other, _)| *other != kind && catalogue.get(*other, name).is_ok())
            {
                Some((_, what)) => McpServerError::Unusable {
                    kind: kind.as_str(),
                    name: name.to_owned(),
                    problem: format!("it is {what}"),
                },
                None => McpServerError::Offer(error.into()),
            }
        })
    }

    fn offers(&self, entry: &CatalogueEntry) -> bool {
        let settings = &self.settings;
        match entry.kind {
            EntryKind::Tool => settings.tools.as_ref().is_none_or(|tools| {
                tools.contains(&entry.name) || tools.contains(wire_name(entry))
            }),
            EntryKind::Agent => settings.agents.contains(&entry.name),
            EntryKind::Workflow => settings.workflows.contains(&entry.name),
            // Toolsets, models and schemas.
            _ => false,
        }
    }
}

fn named(offers: &[Arc<Offer>], name: &str) -> Option<Arc<Offer>> {
    offers.iter().find(|offer| offer.tool.name == name).cloned()
}

/// Returns the tool name that clients use.
fn wire_name(entry: &CatalogueEntry) -> &str {
    entry.wire_name.as_deref().unwrap_or(&entry.name)
}

fn is_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// Converts a catalogue entry into a tool, or returns the reason why it cannot be offered.
fn offer(entry: &CatalogueEntry) -> Result<Offer, String> {
    let input = match (&entry.input, entry.kind) {
        // The protocol requires an object as arguments, also for an agent that takes text.
        (Some(input), EntryKind::Agent) if input["type"] == "string" => message_schema(),
        (Some(Value::Object(input)), _) => input.clone(),
        _ => {
            return Err(
                "its arguments have no schema, and a client must know them; offer another one"
                    .to_owned(),
            );
        }
    };
    let is_wrapped = entry.output.as_ref().is_some_and(|output| output["type"] != "object");
    let output = entry
        .output
        .as_ref()
        .map(|output| if is_wrapped { wrapped(output) } else { output.clone() });
    let name = wire_name(entry).to_owned();
    let mut tool =
        Tool::new_with_raw(name, Some(entry.description.to_string().into()), Arc::new(input));
    tool = tool.with_title(title(&entry.name)).with_annotations(annotations(entry));
    if let Some(Value::Object(output)) = output {
        tool = tool.with_raw_output_schema(Arc::new(output));
    }
    Ok(Offer { kind: entry.kind, name: Arc::clone(&entry.name), tool, is_wrapped })
}

/// Returns the argument schema of an agent whose input is text.
fn message_schema() -> JsonObject {
    let schema = json!({
        "type": "object",
        "properties": {"message": {"type": "string", "description": "What the agent is asked."}},
        "required": ["message"],
        "additionalProperties": false,
    });
    let Value::Object(schema) = schema else { return JsonObject::new() };
    schema
}

/// Returns the schema of an object with an answer under [`RESULT`]. Earlier protocol revisions
/// require objects as structured answers.
fn wrapped(output: &Value) -> Value {
    let mut definitions = Definitions::default();
    let output = definitions.embed(output);
    let mut whole = json!({"type": "object", "properties": {RESULT: output}, "required": [RESULT]});
    definitions.add_to(&mut whole);
    whole
}

/// Converts a name to a title for people: `files.read_all` becomes `Files read all`.
fn title(name: &str) -> String {
    let words = name.replace(['.', '_', '-'], " ");
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns the hints about a tool, derived from its policy. Agents and workflows have no policy, so
/// they count as writing.
fn annotations(entry: &CatalogueEntry) -> ToolAnnotations {
    let none = ToolAnnotations::new();
    match &entry.policy {
        Some(policy) => {
            let is_read_only = policy.effects != Effects::Write;
            let said = none.read_only(is_read_only).idempotent(policy.is_repeatable());
            // In the protocol, `destructive` is true by default.
            if is_read_only { said.destructive(false) } else { said }
        }
        None => none.read_only(false),
    }
}
