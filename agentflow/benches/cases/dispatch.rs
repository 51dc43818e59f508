//! Benchmark case: one tool call, from JSON text to a typed call and back to JSON text.

use std::collections::BTreeMap;
use std::hint::black_box;

use agentflow::serde::{Deserialize, Serialize, de::DeserializeOwned};
use agentflow::tool::ToolRef;
use agentflow::{Context, serde_json, tool, tools};
use futures_util::FutureExt;
use schemars::JsonSchema;

use super::Case;

const TARGET: f64 = 1.6;

/// Add two integers.
#[tool]
pub(crate) fn add(a: i64, b: i64) -> i64 {
    a + b
}

#[derive(Deserialize)]
struct AddArgs {
    a: i64,
    b: i64,
}

/// Search the documents.
#[tool]
fn search(
    query: String,
    limit: u32,
    exact: bool,
    threshold: Option<f64>,
    tags: Vec<String>,
) -> Vec<String> {
    find(query, limit, exact, threshold, tags)
}

fn find(
    query: String,
    limit: u32,
    exact: bool,
    threshold: Option<f64>,
    mut tags: Vec<String>,
) -> Vec<String> {
    tags.push(query);
    if exact && threshold.unwrap_or(1.0) < 0.9 {
        tags.truncate(limit as usize);
    }
    tags
}

#[derive(Deserialize)]
struct SearchArgs {
    query: String,
    limit: u32,
    exact: bool,
    threshold: Option<f64>,
    tags: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Document {
    title: String,
    body: String,
    meta: Meta,
}

#[derive(Deserialize, JsonSchema)]
struct Meta {
    author: String,
    labels: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Stored {
    title: String,
    author: String,
    labels: usize,
    bytes: usize,
}

/// Keep a document.
#[tool]
fn store(document: Document) -> Stored {
    keep(document)
}

fn keep(document: Document) -> Stored {
    let Document { title, body, meta: Meta { author, labels } } = document;
    Stored { title, author, labels: labels.len(), bytes: body.len() }
}

#[derive(Deserialize)]
struct StoreArgs {
    document: Document,
}

pub(crate) fn cases() -> Vec<Case> {
    let document = serde_json::json!({"document": {
        "title": "Ten thousand bytes",
        "body": "A line of text that is as long as lines of text are.\\n".repeat(186),
        "meta": {"author": "somebody", "labels": {"kind": "note", "state": "draft"}},
    }});
    vec![
        case("two integers", tools![add], r#"{"a": 2, "b": 3}"#.to_owned(), |AddArgs { a, b }| a + b),
        case(
            "five mixed parameters",
            tools![search],
            r#"{"query": "late orders", "limit": 20, "exact": false, "threshold": 0.75, "tags": ["order", "late"]}"#
                .to_owned(),
            |SearchArgs { query, limit, exact, threshold, tags }| find(query, limit, exact, threshold, tags),
        ),
        case("nested struct with 10 kB of text", tools![store], document.to_string(), |StoreArgs { document }| {
            keep(document)
        }),
    ]
}

fn case<A: DeserializeOwned, O: Serialize>(
    name: &str,
    tools: Vec<ToolRef>,
    arguments: String,
    by_hand: impl Fn(A) -> O + 'static,
) -> Case {
    let cx = Context::detached();
    let same = arguments.clone();
    Case {
        name: format!("dispatch, {name}"),
        units: 1,
        target: TARGET,
        floor: Box::new(move || {
            let output = by_hand(serde_json::from_str(&arguments).expect("the arguments fit"));
            // The text is hidden from the optimizer, which would otherwise omit it, because only
            // its length is used.
            black_box(serde_json::to_string(&output).expect("the output has a JSON form")).len()
        }),
        ours: Box::new(move || {
            let answer =
                tools[0].call(&cx, &same).now_or_never().expect("a plain function does not wait");
            answer.expect("the arguments fit").as_json().len()
        }),
    }
}
