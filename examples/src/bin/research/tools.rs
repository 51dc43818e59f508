//! The agent's tools: list, search and read the documents. Every output is bounded.

use agentflow::prelude::*;
use agentflow::serde::Serialize;
use agentflow::tool::ToolRef;

use crate::library::{Hit, Library};

/// Maximum number of documents in a listing.
const LISTED: usize = 200;
/// Maximum number of search results.
const FOUND: usize = 12;
/// Maximum number of lines in an excerpt.
const READ: usize = 100;
/// Maximum number of characters of a line; longer lines are truncated.
const LINE: usize = 500;

#[derive(Serialize)]
#[serde(crate = "agentflow::serde")]
struct Listing {
    total: usize,
    skipped_files: usize,
    documents: Vec<String>,
}

#[derive(Serialize)]
#[serde(crate = "agentflow::serde")]
struct Places {
    /// Each word looked for, without its ending, and how much it says; 0 when it is nowhere.
    words: Vec<(String, f32)>,
    hits: Vec<Hit>,
}

#[derive(Serialize)]
#[serde(crate = "agentflow::serde")]
struct Excerpt {
    path: String,
    total_lines: usize,
    text: String,
}

/// The documents there are, or those whose path starts with a text.
#[tool(effects = "read")]
fn list_documents(library: Inject<Library>, starts_with: Option<String>) -> Listing {
    let start = starts_with.unwrap_or_default();
    let all: Vec<_> = library.documents().filter(|(name, _)| name.starts_with(&start)).collect();
    Listing {
        total: all.len(),
        skipped_files: library.skipped(),
        documents: all
            .iter()
            .take(LISTED)
            .map(|(name, lines)| format!("{name} ({lines} lines)"))
            .collect(),
    }
}

/// The places that have most of the words of the query, rare words counting most.
#[tool(effects = "read")]
fn search(library: Inject<Library>, query: String) -> Places {
    let found = library.search(&query, FOUND);
    Places { words: found.words, hits: found.hits }
}

/// Some lines of a document, at most 100, each with its number before it.
#[tool(effects = "read")]
fn read_lines(
    library: Inject<Library>,
    /// The document, as `search` and `list_documents` write it.
    path: String,
    /// The first line, from 1.
    from: usize,
    /// The last line.
    to: usize,
) -> Result<Excerpt, String> {
    let lines = library.lines(&path).ok_or_else(|| {
        format!("there is no document `{path}`; take a path from `list_documents` or `search`")
    })?;
    let (from, to) = (from.max(1), to.min(lines.len()));
    if from > to {
        return Err(format!(
            "`{path}` has {} lines; ask for lines from 1 to {}",
            lines.len(),
            lines.len()
        ));
    }
    let text: Vec<String> = (from..=to)
        .take(READ)
        .map(|number| {
            let line = &lines[number - 1];
            match line.char_indices().nth(LINE) {
                Some((end, _)) => format!("{number}: {} (cut off)", &line[..end]),
                None => format!("{number}: {line}"),
            }
        })
        .collect();
    Ok(Excerpt { path, total_lines: lines.len(), text: text.join("\n") })
}

/// Returns all tools.
pub(crate) fn all() -> Vec<ToolRef> {
    tools![list_documents, search, read_lines]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use agentflow::Inject;

    use super::{Library, list_documents, read_lines, search};

    fn library() -> Inject<Library> {
        Inject::new(
            Library::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/research")).unwrap(),
        )
    }

    #[test]
    fn a_path_that_leads_out_of_the_folder_is_no_document() {
        for path in ["../../../Cargo.toml", "/etc/passwd", "tools.rs/../main.rs", "", "C:\\x"] {
            assert!(read_lines(library(), path.to_owned(), 1, 5).is_err(), "{path}");
        }
        assert!(read_lines(library(), "./tools.rs".to_owned(), 1, 5).is_ok());
    }

    #[test]
    fn lines_are_numbered_and_bounded() {
        let excerpt = read_lines(library(), "tools.rs".to_owned(), 0, usize::MAX).unwrap();
        assert!(excerpt.text.starts_with("1: //! The agent's tools"));
        assert_eq!(excerpt.text.lines().count(), super::READ.min(excerpt.total_lines));
        assert!(read_lines(library(), "tools.rs".to_owned(), 9, 3).is_err());
        assert!(read_lines(library(), "tools.rs".to_owned(), 100_000, 100_001).is_err());
    }

    #[test]
    fn a_search_finds_the_line() {
        let places = search(library(), "What is the maximum size of a file?".to_owned());
        let best = places.hits.iter().take(3).find(|hit| hit.text == "Maximum size of a file.");
        let best = best.unwrap_or_else(|| panic!("{:?}", places.hits));
        assert_eq!(
            (&*best.path, &*best.about),
            ("library.rs", "const MAX_FILE: u64 = 1024 * 1024;")
        );
        assert_eq!(list_documents(library(), Some("lib".to_owned())).total, 1);
    }
}
