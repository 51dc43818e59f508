//! Tools that the documents use. They work on a small table and in the current folder, without
//! network access.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use agentflow::prelude::*;

/// Made-up exchange rates of one euro.
const PER_EURO: [(&str, f64); 4] = [("EUR", 1.0), ("USD", 1.25), ("JPY", 160.0), ("GBP", 0.8)];

/// How much one unit of a currency is in others. Currencies are named by their three letters, such as EUR.
#[tool(effects = "read")]
fn exchange_rates(base: String, quotes: Vec<String>) -> Result<BTreeMap<String, f64>, String> {
    let of = |name: &str| {
        let found = PER_EURO.iter().find(|(currency, _)| currency.eq_ignore_ascii_case(name));
        found
            .map(|(_, rate)| *rate)
            .ok_or_else(|| format!("`{name}` has no rate here; EUR, USD, JPY and GBP have"))
    };
    let base = of(&base)?;
    quotes.into_iter().map(|quote| Ok((quote.to_uppercase(), of(&quote)? / base))).collect()
}

/// Find pages about something; each is a text.
#[tool(effects = "read")]
fn web_search(query: String) -> Vec<String> {
    vec![format!("{query}: what it is."), format!("{query}: what people use it for.")]
}

/// Make notes of texts: their first sentences.
#[tool(effects = "none")]
fn synthesize_notes(chunks: Vec<String>) -> String {
    let first = |chunk: &String| chunk.split_inclusive('.').next().unwrap_or_default().to_owned();
    chunks.iter().map(|chunk| format!("- {}\n", first(chunk))).collect()
}

/// Write a text to a file of this folder. Returns the number of bytes.
#[tool(idempotent)]
fn write_file(path: String, markdown: String) -> Result<usize, String> {
    let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
    let path = Path::new(&path);
    if path.components().count() != 1 || !path.components().all(is_name) {
        return Err("the path is the name of a file of this folder, such as report.md".to_owned());
    }
    std::fs::write(path, &markdown).map_err(|error| error.to_string())?;
    Ok(markdown.len())
}
