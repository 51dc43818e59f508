//! `agentwf tools list`: lists the linked tools. It calls no tool.

use super::print::{BOLD, DIM, Stop, json_line, line, note};
use crate::text::OneLine;
use crate::tool::{Effects, Registry, ToolDefinition};

pub(super) fn list(json: bool) -> Result<(), Stop> {
    let registry = Registry::linked()?;
    if json {
        return json_line(&registry.manifest().definitions());
    }
    if registry.tools().next().is_none() {
        note(
            "no tools are linked into this program; make a binary of your own whose main calls `agentflow::cli::run()`, and name the crates of your tools in it",
        );
    }
    for tool in registry.tools() {
        let definition = tool.definition();
        line(format_args!(
            "{BOLD}{}{BOLD:#}({}){DIM}{}{DIM:#}",
            OneLine(&definition.name),
            OneLine(params(definition)),
            OneLine(marks(definition))
        ))?;
        if let Some(first) = definition.description.lines().next() {
            line(format_args!("    {}", OneLine(first)))?;
        }
    }
    Ok(())
}

/// The parameters' names; one that may be left out has a question mark.
fn params(definition: &ToolDefinition) -> String {
    let schema = &definition.parameters;
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(|name| name.as_str()).collect();
    let Some(properties) = schema["properties"].as_object() else { return String::new() };
    let shown = |name: &String| if required.contains(&name.as_str()) { name.clone() } else { format!("{name}?") };
    properties.keys().map(shown).collect::<Vec<_>>().join(", ")
}

/// What of the policy a person wants to know before letting an agent have the tool.
fn marks(definition: &ToolDefinition) -> String {
    let policy = &definition.policy;
    let mut marks = match policy.effects {
        Effects::None => "  no effects".to_owned(),
        Effects::Read => "  reads".to_owned(),
        Effects::Write => "  has effects".to_owned(),
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
