//! Checks that no library crate reads the sentences of its own errors: what happened is in codes,
//! kinds and arguments.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::workspace::{LIBRARIES, root};

/// Files that may read sentences, with the reason.
const EXCEPTIONS: [(&str, &str); 12] = [
    ("crates/schema/src/text_tree/not_yaml.rs", "the parsers of YAML and JSON have no codes"),
    ("crates/core/src/event/json.rs", "sentences of serde"),
    ("crates/core/src/workflow/graph_form.rs", "sentences of serde, in any format"),
    ("crates/tools/src/api/description_form.rs", "sentences of serde"),
    ("crates/core/src/value/round_trips.rs", "a test"),
    ("crates/models/src/gemini/error_body.rs", "sentences of a provider"),
    ("crates/models/src/gemini/decode.rs", "words of a provider"),
    ("crates/models/src/openai/chat/decode.rs", "words of a provider"),
    // Own sentences that are still read. Do not add any.
    ("crates/core/src/runtime/documents/registered.rs", "own sentence: the document of a workflow"),
    ("crates/core/src/tool/history.rs", "own sentence: the path of a question"),
    ("crates/core/src/workflow/driver/closing.rs", "own sentence: the paths of stopped steps"),
    ("crates/core/src/failure.rs", "own sentence: the cause of an error"),
];

/// Names of variables and methods that hold a sentence.
const SENTENCE: &str = r"(?:error|problem|message|sentence|complaint|said|reason|complaints)";

const READS: &str = r"(?:contains|starts_with|ends_with|split|split_once|rsplit_once|strip_prefix|strip_suffix|find|rfind)";

#[test]
fn no_code_reads_sentences() {
    let pattern = format!(
        r"\b{SENTENCE}(?:\(\))?(?:\s*\.(?:to_string|message|as_str|inner|text)\(\))*\s*\.{READS}\(\s*(?:&format!|&?[a-z_]*\bPROBLEMS|r?#?\x22|'|\[)"
    );
    let pattern = Regex::new(&pattern).unwrap();
    let mut found = String::new();
    for library in LIBRARIES {
        let mut files = Vec::new();
        add_files(&root().join(library), &mut files);
        files.sort();
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            // Tests compare sentences.
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let name = file.strip_prefix(root()).unwrap().display().to_string();
            if name.ends_with("tests.rs") || EXCEPTIONS.iter().any(|(of, _)| name == *of) {
                continue;
            }
            for place in pattern.find_iter(text) {
                let begin = text[..place.start()].rfind('\n').map_or(0, |at| at + 1);
                let line = text[..place.start()].lines().count();
                let code = text[begin..].lines().next().unwrap_or_default().trim();
                if !code.starts_with("//") && !code.contains("assert") {
                    let _ = writeln!(found, "{name}:{line}: {code}");
                }
            }
        }
    }
    assert!(found.is_empty(), "compare a code, a kind or an argument instead:\n{found}");
}

fn add_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_files(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
}
