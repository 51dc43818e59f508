//! One tool call: JSON text in, a typed call, JSON text out.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentflow::__private::{LinkedTool, Options, Param, ToolDefinition, ToolFuture, ValueKind as _};
use agentflow::serde::{Deserialize, Serialize, de::DeserializeOwned};
use agentflow::{Context, Tool, serde_json};
use futures_util::FutureExt;
use schemars::JsonSchema;

use super::Case;

const TARGET: f64 = 1.6;

/// What `#[tool]` writes for a plain function, by hand.
macro_rules! expanded {
    ($name:ident($($param:ident: $type:ty),*), $doc:literal) => {
        #[allow(non_camel_case_types, reason = "the tool is named as its function")]
        pub(crate) struct $name {}

        impl Tool for $name {
            fn definition(&self) -> &Arc<ToolDefinition> {
                $name::LINKED.definition()
            }

            fn call<'a>(&'a self, cx: &'a Context, arguments: &'a str) -> ToolFuture<'a> {
                ToolFuture::ready($name::LINKED.read::<($($type,)*)>(cx, arguments).and_then(|($($param,)*)| {
                    let value = $name($($param),*);
                    (&value).agentflow_kind().finish(value)
                }))
            }
        }

        impl $name {
            const LINKED: &'static LinkedTool = {
                static LINKED: LinkedTool = LinkedTool::new(
                    stringify!($name),
                    $doc,
                    (file!(), line!()),
                    &[$(Param::new::<$type>(stringify!($param), "")),*],
                    Options::DEFAULT,
                );
                &LINKED
            };
        }
    };
}

expanded!(add(a: i64, b: i64), "Add two integers.");
expanded!(
    search(query: String, limit: u32, exact: bool, threshold: Option<f64>, tags: Vec<String>),
    "Search the documents."
);
expanded!(store(document: Document), "Keep a document.");

fn add(a: i64, b: i64) -> i64 {
    a + b
}

#[derive(Deserialize)]
struct AddArgs {
    a: i64,
    b: i64,
}

fn search(query: String, limit: u32, exact: bool, threshold: Option<f64>, tags: Vec<String>) -> Vec<String> {
    find(query, limit, exact, threshold, tags)
}

fn find(query: String, limit: u32, exact: bool, threshold: Option<f64>, mut tags: Vec<String>) -> Vec<String> {
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
        case("two integers", add {}, r#"{"a": 2, "b": 3}"#.to_owned(), |AddArgs { a, b }| a + b),
        case(
            "five mixed parameters",
            search {},
            r#"{"query": "late orders", "limit": 20, "exact": false, "threshold": 0.75, "tags": ["order", "late"]}"#
                .to_owned(),
            |SearchArgs { query, limit, exact, threshold, tags }| find(query, limit, exact, threshold, tags),
        ),
        case("nested struct with 10 kB of text", store {}, document.to_string(), |StoreArgs { document }| {
            keep(document)
        }),
    ]
}

fn case<A: DeserializeOwned, O: Serialize>(
    name: &str,
    tool: impl Tool + 'static,
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
            serde_json::to_string(&output).expect("the output has a JSON form").len()
        }),
        ours: Box::new(move || {
            let answer = tool.call(&cx, &same).now_or_never().expect("a plain function does not wait");
            answer.expect("the arguments fit").as_json().len()
        }),
    }
}
