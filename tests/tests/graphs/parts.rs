//! Tests that reading a missing part of an output is an error when the graph is built, if a schema
//! describes the output.

use agentflow::prelude::*;
use agentflow::tool::{FnTool, ToolDefinition};
use agentflow::workflow::Graph;
use agentflow_testing::test_runtime;
use serde_json::{Value, json};

/// A line and what is known of it.
#[derive(serde::Serialize, schemars::JsonSchema)]
struct Written {
    line: String,
    length: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    words: Vec<Word>,
    how: How,
    any: Value,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Word {
    text: String,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
#[serde(tag = "kind")]
enum How {
    Fast(Quickly),
    #[allow(dead_code, reason = "its fields are what counts")]
    Slow {
        why: String,
    },
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Quickly {
    millis: u32,
}

/// With more than what is named.
#[derive(serde::Serialize, schemars::JsonSchema)]
struct Loose {
    known: String,
    #[serde(flatten)]
    rest: serde_json::Map<String, Value>,
}

/// Writes a line.
#[tool(effects = "none")]
fn parts_written() -> Written {
    let words = vec![Word { text: "a".to_owned() }];
    let how = How::Fast(Quickly { millis: 1 });
    Written { line: "a".to_owned(), length: 1, note: None, words, how, any: Value::Null }
}

/// Gives whatever there is.
#[tool(effects = "none")]
fn parts_loose() -> Loose {
    Loose { known: "a".to_owned(), rest: serde_json::Map::new() }
}

fn read(tool: &str, does: Value) -> Result<(), String> {
    let call = json!({"call": {"kind": "tool", "name": tool, "with": {"object": {}}}});
    let nodes = json!([{"name": "first", "does": call}, {"name": "out", "does": does}]);
    let graph =
        json!({"version": 1, "name": "parts", "output": "out", "concurrency": 4, "nodes": nodes});
    let graph: Graph = serde_json::from_value(graph).unwrap();
    let open = json!({"type": "object", "properties": {"known": {"type": "string"}}, "required": ["known"]});
    let empty = json!({"type": "object", "properties": {}});
    let dynamic =
        FnTool::dynamic(ToolDefinition::new("parts_open", "Open.", empty), |_, _: Value| async {
            Ok::<_, String>(json!({}))
        });
    let runtime = test_runtime().tools(dynamic.output_schema(open)).graph(graph).build();
    runtime.catalogue().workflow_graph("parts").map(drop).map_err(|error| error.to_string())
}

fn part(at: &str) -> Result<(), String> {
    read("parts_written", json!({"value": {"from": "first", "at": at}}))
}

#[track_caller]
fn refused(read: Result<(), String>, says: &str) {
    let error = read.expect_err(says);
    assert!(error.contains(says), "{error}");
}

#[test]
fn a_field_that_is_not_there_is_refused_with_the_nearest_one() {
    refused(
        part("/lien"),
        "the node `out`: the output of `first` has nothing at `/lien`: it has no `lien`; did you mean `line`?",
    );
    refused(part("/zzzzzz"), "it has no `zzzzzz`; it has `");
    refused(part("/words/0/txet"), "it has no `txet`; did you mean `text`?");
    assert_eq!(part("/line"), Ok(()));
    assert_eq!(part("/words/0/text"), Ok(()));
    assert_eq!(part(""), Ok(()));
}

#[test]
fn a_field_that_may_be_missing_is_read_with_or() {
    refused(
        part("/note"),
        "has nothing at `/note`: `note` may be missing; say what is read then with `or`",
    );
    assert_eq!(
        read("parts_written", json!({"value": {"from": "first", "at": "/note", "or": null}})),
        Ok(())
    );
    refused(
        read("parts_written", json!({"value": {"from": "first", "at": "/nte", "or": null}})),
        "it has no `nte`; did you mean `note`?",
    );
}

#[test]
fn a_field_of_a_variant_is_read_with_or() {
    refused(
        part("/how/millis"),
        "has nothing at `/how/millis`: `how` has several forms, and not all have `millis`",
    );
    assert_eq!(
        read("parts_written", json!({"value": {"from": "first", "at": "/how/millis", "or": 0}})),
        Ok(())
    );
    refused(part("/how/millis/x"), "not all have `millis`");
}

#[test]
fn a_part_of_a_text_and_of_a_list() {
    refused(part("/line/first"), "`first` is looked for in a value that has no parts: string");
    refused(
        part("/words/first"),
        "it is a list, whose items are at numbers from `0`, and not at `first`",
    );
}

#[test]
fn what_a_schema_leaves_open_is_allowed() {
    assert_eq!(part("/any/of/this"), Ok(()));
    assert_eq!(part("/how/kind"), Ok(()));
    for tool in ["parts_loose", "parts_open"] {
        assert_eq!(
            read(tool, json!({"value": {"from": "first", "at": "/other"}})),
            Ok(()),
            "{tool}"
        );
    }
}

#[test]
fn parts_are_looked_at_wherever_they_are_read() {
    let lost = json!({"from": "first", "at": "/lien"});
    let call = |with: Value| json!({"kind": "tool", "name": "parts_written", "with": with});
    for does in [
        json!({"call": call(json!({"object": {"a": lost}}))}),
        json!({"value": {"list": [lost]}}),
        json!({"ask": {"text": "?", "about": lost}}),
        json!({"route": {"arms": [{"arm": "a", "when": {"exists": lost}}, {"arm": "b"}]}}),
        json!({"route": {"arms": [{"arm": "a", "when": {"any": [{"not": {"is": lost}}]}}, {"arm": "b"}]}}),
        json!({"race": [call(json!({"object": {"a": lost}}))]}),
    ] {
        refused(read("parts_written", does), "it has no `lien`; did you mean `line`?");
    }
}

#[test]
fn a_condition_on_a_text_is_refused() {
    let is = json!({"is": {"from": "first", "at": "/line"}});
    refused(
        read("parts_written", json!({"route": {"arms": [{"arm": "a", "when": is}, {"arm": "b"}]}})),
        "the node `out`: the value of `is` in a condition is `true` or `false`, and string is given; compare it with `equals`",
    );
}

#[test]
fn a_part_of_an_item_is_looked_at() {
    let nodes = |at: &str| {
        json!([
            {"name": "lines", "kind": "input", "schema": {"type": "array", "items": {"type": "object",
                "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": false}}},
            {"name": "out", "does": {"map": {"items": "lines",
                "call": {"kind": "tool", "name": "parts_named", "with": {"object": {"name": {"item": at}}}}}}},
        ])
    };
    let built = |at: &str| {
        let graph = json!({"version": 1, "name": "items", "output": "out", "concurrency": 4, "nodes": nodes(at)});
        let graph: Graph = serde_json::from_value(graph).unwrap();
        test_runtime()
            .graph(graph)
            .build()
            .catalogue()
            .workflow_graph("items")
            .map(drop)
            .map_err(|error| error.to_string())
    };
    assert_eq!(built("/text"), Ok(()));
    refused(built("/txt"), "the item has nothing at `/txt`: it has no `txt`; did you mean `text`?");
}

/// Takes a name.
#[tool(effects = "none")]
fn parts_named(name: String) -> usize {
    name.len()
}
