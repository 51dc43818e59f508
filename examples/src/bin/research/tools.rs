//! What the agent can do with the documents: list them, search them, read them. Every answer is bounded.

use std::sync::Arc;

use agentflow::serde_json::{Value, json};
use agentflow::{Effects, FnTool, ToolDefinition, ToolPolicy, ToolRef};

use crate::library::Library;

/// The most documents that one listing names.
const LISTED: usize = 200;
/// The most places that one search gives.
const FOUND: usize = 12;
/// The most lines that one reading gives.
const READ: usize = 100;
/// The longest line that is shown whole, in characters.
const LINE: usize = 500;

/// The documents there are, or those whose path starts with a text.
fn list_documents(library: &Library, starts_with: &str) -> Value {
    let all: Vec<_> = library.documents().filter(|(name, _)| name.starts_with(starts_with)).collect();
    let shown: Vec<_> = all.iter().take(LISTED).map(|(name, lines)| format!("{name} ({lines} lines)")).collect();
    json!({"total": all.len(), "skipped_files": library.skipped(), "documents": shown})
}

/// The places that have most of the words, rare words counting most.
fn search(library: &Library, query: &str) -> Value {
    let found = library.search(query, FOUND);
    let hits: Vec<_> = found
        .hits
        .into_iter()
        .map(|hit| json!({"path": hit.path, "line": hit.line, "about": hit.about, "text": hit.text}))
        .collect();
    json!({"words": found.words, "hits": hits})
}

/// Some lines of a document, each with its number before it.
fn read_lines(library: &Library, path: &str, from: usize, to: usize) -> Result<Value, String> {
    let lines = library
        .lines(path)
        .ok_or_else(|| format!("there is no document `{path}`; take a path from `list_documents` or `search`"))?;
    let (from, to) = (from.max(1), to.min(lines.len()));
    if from > to {
        return Err(format!("`{path}` has {} lines; ask for lines from 1 to {}", lines.len(), lines.len()));
    }
    let to = to.min(from + READ - 1);
    let text: Vec<String> = (from..=to)
        .map(|number| {
            let line = &lines[number - 1];
            match line.char_indices().nth(LINE) {
                Some((end, _)) => format!("{number}: {} (cut off)", &line[..end]),
                None => format!("{number}: {line}"),
            }
        })
        .collect();
    Ok(json!({"path": path, "total_lines": lines.len(), "text": text.join("\n")}))
}

/// The tools over one library.
pub(crate) fn tools(library: &Arc<Library>) -> Vec<ToolRef> {
    let object = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    let policy = || ToolPolicy::default().effects(Effects::Read);
    let (listed, searched, read) = (Arc::clone(library), Arc::clone(library), Arc::clone(library));
    vec![
        FnTool::dynamic(
            ToolDefinition::new(
                "list_documents",
                "The documents there are, or those whose path starts with a text.",
                object(json!({"starts_with": {"type": "string"}}), json!([])),
            )
            .policy(policy()),
            move |_, arguments: Value| {
                let listing = list_documents(&listed, arguments["starts_with"].as_str().unwrap_or_default());
                async move { Ok::<_, String>(listing) }
            },
        )
        .into(),
        FnTool::dynamic(
            ToolDefinition::new(
                "search",
                "The places that have most of the words of the query, rare words counting most.",
                object(json!({"query": {"type": "string"}}), json!(["query"])),
            )
            .policy(policy()),
            move |_, arguments: Value| {
                let found = search(&searched, arguments["query"].as_str().unwrap_or_default());
                async move { Ok::<_, String>(found) }
            },
        )
        .into(),
        FnTool::dynamic(
            ToolDefinition::new(
                "read_lines",
                "Some lines of a document, at most 100, each with its number before it.",
                object(
                    json!({
                        "path": {"type": "string", "description": "As `search` and `list_documents` write it."},
                        "from": {"type": "integer", "description": "The first line, from 1."},
                        "to": {"type": "integer", "description": "The last line."},
                    }),
                    json!(["path", "from", "to"]),
                ),
            )
            .policy(policy()),
            move |_, arguments: Value| {
                let number = |name: &str| {
                    arguments[name].as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or(usize::MAX)
                };
                let lines =
                    read_lines(&read, arguments["path"].as_str().unwrap_or_default(), number("from"), number("to"));
                async move { lines }
            },
        )
        .into(),
    ]
}
