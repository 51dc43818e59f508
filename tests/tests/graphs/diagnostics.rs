//! The page of diagnostics, which is generated from the tables of codes, and the data of diagnostics.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use agentflow::diagnostic::{Code, Diagnostic, all_codes};
use agentflow::document::Document;
use serde_json::json;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/diagnostics.md");

const AREAS: [(&str, &str); 14] = [
    ("text", "YAML and JSON"),
    ("document", "Documents"),
    ("export", "Export to a form of document"),
    ("pipeline", "Pipelines"),
    ("graph", "Graphs, and workflows that are built in code"),
    ("expression", "Expressions"),
    ("template", "Texts with placeholders"),
    ("mapping", "Mappings of a graph"),
    ("value", "Values that a run computes"),
    ("decision", "Decisions that a decider must correct"),
    ("schema", "JSON Schemas, and parts that they exclude"),
    ("state", "Keys and transforms of state"),
    ("model", "Names of models"),
    ("reference", "Names that a program cannot resolve"),
];

/// Values of the examples for arguments that sentences show as they are.
const TEXTS: [(&str, &str); 43] = [
    ("also", "`workflow_id` and `steps`"),
    ("anchor", "base"),
    ("arms", "`yes`"),
    ("at", "12"),
    ("bound", "an agent"),
    ("by", "`agents` and `orchestration`"),
    ("calls", "2"),
    ("concurrency", "1"),
    ("count", "2"),
    ("digits", "4"),
    ("document", "billing.yaml"),
    ("edges", "1"),
    ("expected", "4"),
    ("file", "billing.yaml"),
    ("forms", "agents, edges, graph, steps, tools, tree"),
    ("found", "the number 3"),
    ("holder", "it"),
    ("item", "a node"),
    ("kinds", "`a` is a text, `b` is a number"),
    ("letter", "d"),
    ("mismatches", "`page` is missing"),
    ("most", "16"),
    ("needed", "2"),
    ("needs", ", which are `search`"),
    ("number", "`1e999`"),
    ("names", "search, read"),
    ("path", "title"),
    ("place", "the question of"),
    ("problem", "it cannot be read"),
    ("reference", "the edge leads to"),
    ("rule", "be empty"),
    ("size", "5000000"),
    ("spaces", "3"),
    ("supported", "1"),
    ("takes", "two numbers"),
    ("target", "a server"),
    ("value", "the list of items"),
    ("version", "2"),
    ("way", "`a` calls `a`"),
    ("word", "topic"),
    ("workflow", "review"),
    ("one", "agents"),
    ("other", "steps"),
];

fn example(code: Code) -> Diagnostic {
    let mut found = Diagnostic::new(code);
    for name in code.argument_names() {
        if found.argument(name).is_some() {
            continue;
        }
        let text = TEXTS.iter().find(|(of, _)| *of == name).map(|(_, text)| *text);
        found = match (name, text) {
            ("nodes" | "operators" | "keys", _) => found.names(name, ["first", "second"]),
            ("kind", _) if !code.name().starts_with("document.") => found.text(name, "tool"),
            (_, Some(text)) => found.text(name, text),
            // The sentence has the backticks.
            (_, None) if is_in_backticks(code, name) => found.text(name, name),
            (_, None) => found.name(name, name),
        };
    }
    found
}

/// Returns `true` if the sentence has an argument between backticks.
fn is_in_backticks(code: Code, name: &str) -> bool {
    let argument = format!("{{{name}}}");
    [code.problem(), code.remedy()].iter().any(|text| {
        text.match_indices(&argument).any(|(at, _)| text[..at].matches('`').count() % 2 == 1)
    })
}

fn page() -> String {
    let mut page = String::from(
        "# Diagnostics\n\n\
         Problems of documents, graphs and pipelines are data. Each has a stable code, a severity, a\n\
         location (document, graph, node, JSON Pointer, position in the text), arguments and a\n\
         suggestion. A sentence of this page shows an argument as `{name}`. The part after `;` is the\n\
         remedy. A diagnostic can replace it by a suggestion that depends on the problem, such as\n\
         `did you mean ..?`. Sentences can change between releases, codes do not.\n\n\
         `error.problems()` returns the diagnostics of a document, and `agentwf validate --json` prints\n\
         them. This page is generated: `UPDATE_PAGES=1 cargo test --test graphs diagnostics` writes it.\n",
    );
    for (area, title) in AREAS {
        let _ = write!(
            page,
            "\n## {title}: `{area}.*`\n\n| code | sentence | example |\n| --- | --- | --- |\n"
        );
        let mut codes = all_codes();
        codes.retain(|code| code.name().split('.').next() == Some(area));
        codes.sort_by_key(|code| code.name());
        for code in codes {
            let remedy = match code.remedy() {
                "" => String::new(),
                remedy => format!("; {remedy}"),
            };
            let sentence = format!("{}{remedy}", code.problem());
            let (sentence, example) = (cell(&sentence), cell(&example(code).message()));
            let _ = writeln!(page, "| `{}` | {sentence} | {example} |", code.name());
        }
    }
    page
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[test]
fn the_page_lists_the_codes() {
    let page = page();
    if std::env::var_os("UPDATE_PAGES").is_some() {
        fs::write(PAGE, &page).unwrap();
    }
    let written = fs::read_to_string(Path::new(PAGE)).unwrap();
    assert_eq!(written, page, "run this test with UPDATE_PAGES=1");
}

#[test]
fn codes_are_unique_and_belong_to_an_area() {
    let mut seen = HashSet::new();
    for code in all_codes() {
        let name = code.name();
        assert!(seen.insert(name), "{name} is there twice");
        let sentence = code.problem();
        let is_one_argument = sentence.starts_with('{')
            && sentence.ends_with('}')
            && sentence.matches('{').count() == 1;
        assert!(!is_one_argument, "the whole sentence of {name} is an argument");
        let (area, problem) = name.split_once('.').unwrap();
        assert!(AREAS.iter().any(|(known, _)| *known == area), "{name}");
        assert!(
            problem
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
            "{name}"
        );
    }
}

#[test]
fn a_tool_reads_the_data_of_a_problem() {
    let text = "id: a\nnodes:\n  - {id: b, tool: c, args: {}}\n";
    let error = Document::read("a.yaml", text).unwrap_err();
    assert_eq!(
        serde_json::to_value(error.problems()).unwrap(),
        json!([{
            "code": "document.unknown-field",
            "severity": "error",
            "message": "a node has no `args`; did you mean `args_template`?",
            "subject": null,
            "location": {
                "document": "a.yaml",
                "span": {
                    "bytes": {"start": 34, "end": 38},
                    "start": {"line": 3, "column": 22},
                },
            },
            "arguments": {"item": "a node", "field": "args"},
            "suggestion": {"replace": "args_template"},
        }])
    );
}
