//! The tools, and the workflow that uses them. It is independent of the terminal.

use std::path::{Component, Path};

use agentflow::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::web::{Web, words};

/// A page as it was fetched.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Chunk {
    pub(crate) url: String,
    pub(crate) title: String,
    pub(crate) text: String,
}

/// Find pages about something: their addresses, the best first.
#[tool(effects = "read")]
fn web_search(web: Inject<Web>, query: String) -> Vec<String> {
    web.search(&query)
}

/// Fetch a page.
#[tool(effects = "read")]
async fn fetch_url(web: Inject<Web>, url: String) -> Result<Chunk, String> {
    web.fetch(&url).await.ok_or_else(|| format!("there is no page at {url}"))
}

/// Make notes of pages: the sentences that say most about what they have in common, each with the number of its source, and the
/// sources by their numbers.
#[tool(effects = "none")]
fn synthesize_notes(chunks: Vec<Chunk>) -> String {
    if chunks.is_empty() {
        return "Nothing was found.\n".to_owned();
    }
    let all: Vec<String> = chunks.iter().flat_map(|chunk| words(&chunk.text)).collect();
    let weight = |sentence: &str| {
        words(sentence).iter().map(|word| all.iter().filter(|one| *one == word).count()).sum()
    };
    let mut notes = String::new();
    for (number, chunk) in chunks.iter().enumerate() {
        let sentences = chunk.text.split_inclusive(". ").map(str::trim);
        let best =
            sentences.max_by_key(|sentence| -> usize { weight(sentence) }).unwrap_or_default();
        notes.push_str(&format!("- {best} [{}]\n", number + 1));
    }
    notes.push_str("\n## Sources\n\n");
    for (number, chunk) in chunks.iter().enumerate() {
        notes.push_str(&format!("{}. [{}]({})\n", number + 1, chunk.title, chunk.url));
    }
    notes
}

/// Write a text to a file of this folder. Returns the number of bytes.
#[tool(idempotent)]
fn write_file(path: String, markdown: String) -> Result<usize, String> {
    let path = Path::new(&path);
    let mut parts = path.components();
    if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
        return Err("the path is the name of a file of this folder, such as report.md".to_owned());
    }
    std::fs::write(path, &markdown).map_err(|error| error.to_string())?;
    Ok(markdown.len())
}

/// Error type for the messages of the tools.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Searches, fetches what was found side by side, and writes what the pages say with its sources.
#[workflow]
pub(crate) async fn web_research(cx: &Context, task: String) -> Result<usize, Failure> {
    let urls = web_search(cx.inject()?, task);
    let chunks = map!(urls, |url| fetch_url(cx.inject()?, url)).await?; // one node, a step for each page
    let notes = synthesize_notes(chunks);
    let written = write_file("report.md".to_owned(), format!("# {task}\n\n{notes}"))?;
    Ok(written)
}
