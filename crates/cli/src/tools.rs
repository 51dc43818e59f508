//! `agentwf tools` and `agentwf agents`: lists and shows tools and agents, and calls a tool.

use std::sync::Arc;

use agentflow_schema::text::OneLine;
use serde_json::{Value, json};

use super::args::{AgentFormat, AgentsCommand, EntriesCommand, ToolsCommand};
use super::ctrl_c;
use super::print::{Answer, BAD, BOLD, DIM, Stop, line, note, print_json};
use agentflow_core::dry_run::DryRun;
use agentflow_core::event::{Event, EventSink};
use agentflow_core::message::{ToolCall, ToolResult};
use agentflow_core::runtime::{Catalogue, CatalogueEntry, EntryKind, Runtime};
use agentflow_core::tool::{Effects, ToolPolicy};

/// Messages for a program without tools or agents.
const NO_TOOLS: &str = "no tools are linked into this program; make a binary of your own whose main calls \
    `agentflow::cli::run()`, and name the crates of your tools in it";
const NO_AGENTS: &str =
    "this program has no agents; they are linked into a program that calls `agentflow::cli::run()`";

pub(super) async fn tools(host: &Runtime, command: ToolsCommand) -> Result<(), Stop> {
    match command {
        ToolsCommand::Entries(command) => entries(host, EntryKind::Tool, command).await,
        ToolsCommand::Call { name, input, grant, events: None } => {
            answered(&call(host, &name, input, &grant).await?)
        }
        ToolsCommand::Call { name, input, grant, events: Some(_) } => {
            let result = call(&host.with_sink(JsonEventSink), &name, input, &grant).await?;
            if result.status.is_success() { Ok(()) } else { answered(&result) }
        }
    }
}

/// An event sink that prints events as JSON.
struct JsonEventSink;

impl EventSink for JsonEventSink {
    fn emit(&self, event: &Event) {
        // If the reader closed the pipe, the call still continues to its end.
        let _ = print_json(event);
    }

    fn wants_deltas(&self) -> bool {
        true
    }
}

async fn call(
    host: &Runtime,
    name: &str,
    input: String,
    grant: &[String],
) -> Result<ToolResult, Stop> {
    let scopes: Vec<Arc<str>> = grant.iter().map(|scope| scope.trim().into()).collect();
    let call = ToolCall::new("call", name, input);
    ctrl_c::or_stop(async { Ok(host.invoke(&call, &scopes).await?) }).await
}

/// Prints the result of a call.
pub(super) fn answered(result: &ToolResult) -> Result<(), Stop> {
    match result.status.is_success() {
        true => {
            let mut answer = Answer::new();
            answer.push(&result.text())?;
            answer.end_line()
        }
        false => Err(Stop::failed(result.status.as_str(), result.text().into_owned())),
    }
}

pub(super) async fn entries(
    host: &Runtime,
    kind: EntryKind,
    command: EntriesCommand,
) -> Result<(), Stop> {
    let catalogue = host.catalogue().snapshot().await;
    match command {
        EntriesCommand::List { json } => list(&catalogue, kind, json),
        EntriesCommand::Show { name, json } => {
            let entry = catalogue.get(kind, &name).map_err(agentflow_core::Error::from)?;
            if json { print_json(&as_json(entry)) } else { show(entry) }
        }
    }
}

pub(super) async fn agents(host: &Runtime, command: AgentsCommand) -> Result<(), Stop> {
    match command {
        AgentsCommand::List { json } => {
            entries(host, EntryKind::Agent, EntriesCommand::List { json }).await
        }
        AgentsCommand::Show { name, json, format: None } => {
            entries(host, EntryKind::Agent, EntriesCommand::Show { name, json }).await
        }
        AgentsCommand::Show { name, format: Some(format), .. } => {
            let agent = host.catalogue().agent_outline(&name)?;
            match format {
                AgentFormat::Mermaid => line(agent.to_mermaid().trim_end()),
                AgentFormat::Dot => line(agent.to_dot().trim_end()),
                AgentFormat::DryRun => dry_run(&agent.dry_run()),
            }
        }
    }
}

/// Prints a dry run as text.
pub(super) fn dry_run(dry: &DryRun) -> Result<(), Stop> {
    dry.to_string().lines().try_for_each(|text| line(OneLine(text)))
}

fn list(catalogue: &Catalogue, kind: EntryKind, json: bool) -> Result<(), Stop> {
    report(catalogue);
    let nothing = if kind == EntryKind::Tool { NO_TOOLS } else { NO_AGENTS };
    list_of(catalogue.of_kind(kind), json, nothing)
}

/// Prints a list of entries. Prints `nothing` if it is empty.
pub(super) fn list_of<'c>(
    entries: impl Iterator<Item = &'c CatalogueEntry> + Clone,
    json: bool,
    nothing: &str,
) -> Result<(), Stop> {
    if json {
        return print_json(&entries.map(as_json).collect::<Vec<_>>());
    }
    if entries.clone().next().is_none() {
        note(nothing);
    }
    for entry in entries {
        head(entry)?;
        if let Some(first) = entry.description.lines().next() {
            line(format_args!("    {}", OneLine(first)))?;
        }
        line(format_args!("    {DIM}{}{DIM:#}", OneLine(&entry.origin)))?;
    }
    Ok(())
}

/// Prints the problems of the catalogue.
pub(super) fn report(catalogue: &Catalogue) {
    for problem in catalogue.problems() {
        note(format_args!("{BAD}{}{BAD:#}", OneLine(problem)));
    }
}

fn show(entry: &CatalogueEntry) -> Result<(), Stop> {
    head(entry)?;
    for text in entry.description.lines() {
        line(format_args!("    {}", OneLine(text)))?;
    }
    line(format_args!("    {DIM}{}{DIM:#}", OneLine(&entry.origin)))?;
    if let Some(wire_name) = entry.wire_name.as_ref().filter(|name| **name != entry.name) {
        line(format_args!("    {DIM}a model calls it{DIM:#} {}", OneLine(wire_name)))?;
    }
    for (what, schema) in [("takes", &entry.input), ("answers", &entry.output)] {
        let Some(schema) = schema else { continue };
        line(format_args!("    {DIM}{what}{DIM:#}"))?;
        for text in format!("{schema:#}").lines() {
            line(format_args!("    {}", OneLine(text)))?;
        }
    }
    Ok(())
}

/// Prints the name, the parameters and the main policy settings.
fn head(entry: &CatalogueEntry) -> Result<(), Stop> {
    let params =
        entry.input.as_ref().map(|schema| format!("({})", params(schema))).unwrap_or_default();
    line(format_args!(
        "{BOLD}{}{BOLD:#}{}{DIM}{}{DIM:#}",
        OneLine(&entry.name),
        OneLine(params),
        OneLine(entry.policy.as_ref().map(marks).unwrap_or_default())
    ))
}

/// Converts an entry to JSON. A tool gets the fields of a tool definition.
fn as_json(entry: &CatalogueEntry) -> Value {
    let mut json = json!(entry);
    let Some(fields) = json.as_object_mut().filter(|_| entry.kind == EntryKind::Tool) else {
        return json;
    };
    if let Some(schema) = fields.remove("input") {
        fields.insert("parameters_schema".to_owned(), schema);
    }
    let scopes = entry.policy.as_ref().map(|policy| &*policy.scopes).unwrap_or_default();
    fields.insert("required_permissions".to_owned(), json!(scopes));
    fields.insert("supports_streaming".to_owned(), json!(entry.supports_streaming));
    json
}

/// Formats the names of the parameters. Optional parameters have a question mark.
fn params(schema: &Value) -> String {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str())
        .collect();
    let Some(properties) = schema["properties"].as_object() else { return String::new() };
    let shown = |name: &String| {
        if required.contains(&name.as_str()) { name.clone() } else { format!("{name}?") }
    };
    properties.keys().map(shown).collect::<Vec<_>>().join(", ")
}

/// Formats the policy settings that matter before an agent gets the tool.
fn marks(policy: &ToolPolicy) -> String {
    let mut marks = match policy.effects {
        Effects::None => "  no effects".to_owned(),
        Effects::Read => "  reads".to_owned(),
        _ => "  has effects".to_owned(),
    };
    if policy.approve {
        marks.push_str(", needs approval");
    }
    if !policy.scopes.is_empty() {
        marks.push_str(", needs scope ");
        marks.push_str(&policy.scopes.join(", "));
    }
    marks
}
