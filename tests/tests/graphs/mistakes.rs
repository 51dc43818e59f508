//! Tests the reports of common mistakes in graphs: each names the node, the wrong word and a
//! remedy.

use agentflow::prelude::*;
use agentflow::workflow::Graph;
use agentflow_testing::test_runtime;
use serde_json::{Value, json};

/// An order.
#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Ordered {
    id: String,
    cents: u32,
    lines: Vec<String>,
    paid: bool,
}

/// Finds an order.
#[tool(name = "orders_find", effects = "read")]
async fn find(id: String) -> Ordered {
    Ordered { id, cents: 3, lines: Vec::new(), paid: false }
}

/// Sends a text.
#[tool(name = "orders_mail", effects = "write")]
async fn mail(to: String, text: String) -> bool {
    !to.is_empty() && !text.is_empty()
}

/// Refunds.
#[tool(name = "orders_refund", approve)]
async fn refund(id: String, cents: u32) -> u32 {
    let _ = id;
    cents
}

/// Judge {text}.
#[agent(name = "orders_judge")]
async fn judge(text: String) -> Result<bool>;

#[workflow(name = "orders_ship")]
async fn ship(id: String, fast: bool) -> Result<String> {
    let found = find(id).await;
    let text = format!("{} {fast}", found.id);
    Ok(text)
}

fn call(kind: &str, name: &str, with: Value) -> Value {
    json!({"call": {"kind": kind, "name": name, "with": with}})
}

/// Returns a graph without mistakes.
fn right() -> Value {
    let find = call("tool", "orders_find", json!({"object": {"id": {"from": "id"}}}));
    let judge =
        call("agent", "orders_judge", json!({"object": {"text": {"from": "found", "at": "/id"}}}));
    let mail = json!({"kind": "tool", "name": "orders_mail",
        "with": {"object": {"to": {"item": ""}, "text": {"from": "found", "at": "/id"}}}});
    json!({"version": 1, "name": "orders", "output": "out", "concurrency": 4, "nodes": [
        {"name": "id", "kind": "input", "schema": {"type": "string"}},
        {"name": "found", "does": find},
        {"name": "fine", "does": judge},
        {"name": "way", "does": {"route": {"arms": [
            {"arm": "ship", "when": {"is": {"from": "fine"}}},
            {"arm": "refund"}]}}},
        {"name": "shipped", "edges": [{"from": "way", "arm": "ship"}],
         "does": call("workflow", "orders_ship", json!({"object": {"id": {"from": "id"}, "fast": {"value": true}}}))},
        {"name": "refunded", "edges": [{"from": "way", "arm": "refund"}],
         "does": call("tool", "orders_refund", json!({"object": {"id": {"from": "id"}, "cents": {"from": "found", "at": "/cents"}}}))},
        {"name": "mailed", "does": {"map": {"items": "lines", "call": mail}}},
        {"name": "lines", "does": {"value": {"from": "found", "at": "/lines"}}},
        {"name": "out", "does": {"value": {"object": {
            "shipped": {"from": "shipped", "or": null}, "refunded": {"from": "refunded", "or": null},
            "mailed": {"from": "mailed"}}}}},
    ]})
}

fn node<'g>(graph: &'g mut Value, name: &str) -> &'g mut Value {
    graph["nodes"].as_array_mut().unwrap().iter_mut().find(|node| node["name"] == name).unwrap()
}

/// Returns the problems of a graph, found when its JSON is read or when its names are looked up.
fn said(graph: Value) -> String {
    match serde_json::from_value::<Graph>(graph) {
        Err(error) => format!("read: {error}"),
        Ok(graph) => match test_runtime().graph(graph).build().catalogue().workflow_graph("orders")
        {
            Err(error) => error.to_string().replace("the workflow `orders` cannot be built: ", ""),
            Ok(_) => String::new(),
        },
    }
}

type Change = fn(&mut Value);

const ALL: &[(&str, Change, &str)] = &[
    (
        "kind of a call is misspelled",
        |g| node(g, "found")["does"]["call"]["kind"] = json!("tools"),
        "unknown variant `tools`, expected one of `tool`, `agent`, `workflow`",
    ),
    (
        "a function of Rust is named",
        |g| node(g, "found")["does"]["call"]["name"] = json!("find"),
        "the node `found`: this program has no tool `find`",
    ),
    (
        "the tool is called as an agent",
        |g| node(g, "found")["does"]["call"]["kind"] = json!("agent"),
        "this program has no agent `orders_find`, but the tool `orders_find`; write `\"kind\": \"tool\"`",
    ),
    (
        "the agent is called as a tool",
        |g| node(g, "fine")["does"]["call"]["kind"] = json!("tool"),
        "this program has no tool `orders_judge`, but the agent `orders_judge`; write `\"kind\": \"agent\"`",
    ),
    (
        "the workflow is called as a tool",
        |g| node(g, "shipped")["does"]["call"]["kind"] = json!("tool"),
        "this program has no tool `orders_ship`, but the workflow `orders_ship`; write `\"kind\": \"workflow\"`",
    ),
    (
        "with is left out",
        |g| drop(node(g, "found")["does"]["call"].as_object_mut().unwrap().remove("with")),
        "missing field `with`",
    ),
    (
        "with has the arguments themselves",
        |g| node(g, "found")["does"]["call"]["with"] = json!({"id": {"from": "id"}}),
        "a mapping has no `id`; the fields of an object stand within `object`",
    ),
    (
        "an argument is a bare text",
        |g| node(g, "found")["does"]["call"]["with"]["object"]["id"] = json!("7"),
        "invalid type: string \"7\", expected a mapping, such as {\"from\": \"page\"} or {\"value\": 5}",
    ),
    (
        "a JSON path is given",
        |g| node(g, "lines")["does"]["value"]["at"] = json!("$.lines"),
        "`$.lines` is not a JSON Pointer; it begins with `/`, as in `/lines`",
    ),
    (
        "a dotted path is given",
        |g| node(g, "lines")["does"]["value"] = json!({"from": "found.lines"}),
        "there is no such node; a part of an output is read as `{\"from\": \"found\", \"at\": \"/lines\"}`",
    ),
    (
        "at has a slash at its end",
        |g| node(g, "lines")["does"]["value"]["at"] = json!("/lines/"),
        "the node `lines`: the output of `found` has nothing at `/lines/`: it is a list, whose items are at numbers from `0`, and not at ``",
    ),
    (
        "a field is misspelled",
        |g| node(g, "lines")["does"]["value"]["at"] = json!("/line"),
        "the node `lines`: the output of `found` has nothing at `/line`: it has no `line`; did you mean `lines`?",
    ),
    (
        "an item is read outside of a map",
        |g| node(g, "lines")["does"]["value"] = json!({"item": ""}),
        "the node `lines` uses `item`, and there is one only in `map` and `repeat`; use `from`",
    ),
    (
        "items is a mapping",
        |g| node(g, "mailed")["does"]["map"]["items"] = json!({"from": "lines"}),
        "invalid type: an object, expected a string",
    ),
    (
        "items is not a list",
        |g| node(g, "mailed")["does"]["map"]["items"] = json!("found"),
        "the node `mailed`: the list of items, `found`, does not fit: list is expected, and object is given",
    ),
    (
        "a field of a text item",
        |g| {
            node(g, "mailed")["does"]["map"]["call"]["with"]["object"]["to"] =
                json!({"item": "/name"});
        },
        "the node `mailed`: the item has nothing at `/name`: `name` is looked for in a value that has no parts: string",
    ),
    (
        "an argument is of another type",
        |g| node(g, "refunded")["does"]["call"]["with"]["object"]["cents"] = json!({"from": "id"}),
        "the node `refunded`: an argument of the tool `orders_refund`, `cents`: integer from 0 is expected, and string is given",
    ),
    (
        "an argument is null",
        |g| node(g, "refunded")["does"]["call"]["with"]["object"]["cents"] = json!({"value": null}),
        "the node `refunded`: an argument of the tool `orders_refund`, `cents`: integer from 0 is expected, and null is given",
    ),
    (
        "an argument is negative",
        |g| node(g, "refunded")["does"]["call"]["with"]["object"]["cents"] = json!({"value": -1}),
        "the node `refunded`: an argument of the tool `orders_refund`, `cents`: integer from 0 is expected, and -1 is given",
    ),
    (
        "an argument is missing",
        |g| node(g, "refunded")["does"]["call"]["with"] = json!({"object": {"id": {"from": "id"}}}),
        "the node `refunded`: the tool `orders_refund` needs `cents`, which is not given",
    ),
    (
        "an input of a workflow is missing",
        |g| node(g, "shipped")["does"]["call"]["with"] = json!({"object": {"id": {"from": "id"}}}),
        "the node `shipped`: the workflow `orders_ship` needs `fast`, which is not given",
    ),
    (
        "the workflow's own name",
        |g| {
            node(g, "shipped")["does"]["call"] = json!({"kind": "workflow", "name": "orders", "with": {"object": {"id": {"from": "id"}}}});
        },
        "the node `shipped`: it calls itself: `orders` calls `orders`",
    ),
    (
        "an edge names a node that there is not",
        |g| node(g, "shipped")["edges"] = json!([{"from": "wy", "arm": "ship"}]),
        "the node `shipped` reads or follows `wy`, and there is no such node; did you mean `way`?",
    ),
    (
        "an edge names an arm that there is not",
        |g| node(g, "shipped")["edges"] = json!([{"from": "way", "arm": "shp"}]),
        "the router `way` has no arm `shp`, which leads to `shipped`; did you mean `ship`?",
    ),
    (
        "an edge has to and not from",
        |g| node(g, "way")["edges"] = json!([{"to": "shipped"}]),
        "unknown field `to`, expected one of `from`, `arm`, `failed`, `when`",
    ),
    (
        "edges are names",
        |g| node(g, "shipped")["edges"] = json!(["way"]),
        "`nodes[4].edges[0]`: invalid type: string \"way\", expected an edge, such as {\"from\": \"page\"}",
    ),
    (
        "an edge has a label",
        |g| node(g, "shipped")["edges"] = json!([{"from": "way", "arm": "ship", "label": "yes"}]),
        "unknown field `label`, expected one of `from`, `arm`, `failed`, `when`",
    ),
    (
        "an edge has arm and failed",
        |g| node(g, "shipped")["edges"] = json!([{"from": "way", "arm": "ship", "failed": true}]),
        "the edge from `way` to `shipped` has more than one of `arm`, `failed` and `when`; keep one",
    ),
    (
        "arms are a map",
        |g| node(g, "way")["does"]["route"]["arms"] = json!({"ship": {"is": {"from": "fine"}}}),
        "invalid type: an object, expected a list",
    ),
    (
        "a condition is a text",
        |g| node(g, "way")["does"]["route"]["arms"][0]["when"] = json!("fine == true"),
        "unknown variant `fine == true`, expected one of `cel`, `is`, `equals`, `exists`, `not`, `all`, `any`",
    ),
    (
        "a condition is a bare read",
        |g| node(g, "way")["does"]["route"]["arms"][0]["when"] = json!({"from": "fine"}),
        "unknown variant `from`, expected one of `cel`, `is`, `equals`, `exists`, `not`, `all`, `any`",
    ),
    (
        "a condition has an unknown word",
        |g| {
            node(g, "way")["does"]["route"]["arms"][0]["when"] =
                json!({"gt": [{"from": "fine"}, {"value": 3}]});
        },
        "unknown variant `gt`, expected one of `cel`, `is`, `equals`, `exists`, `not`, `all`, `any`",
    ),
    (
        "equals has one side",
        |g| {
            node(g, "way")["does"]["route"]["arms"][0]["when"] =
                json!({"equals": {"from": "fine"}});
        },
        "invalid type: an object, expected a list of two mappings",
    ),
    (
        "is over an object",
        |g| node(g, "way")["does"]["route"]["arms"][0]["when"] = json!({"is": {"from": "found"}}),
        "the node `way`: the value of `is` in a condition is `true` or `false`, and object is given; compare it with `equals`, or ask with `exists` whether it is there",
    ),
    (
        "the join waits for both arms",
        |g| node(g, "out")["edges"] = json!([{"from": "shipped"}, {"from": "refunded"}]),
        "the node `out` can never begin: no arm of `way` leads to all that it needs, which are `shipped` and `refunded`; read what may be missing with `or`, and let a node with several edges begin with `\"begins\": \"any\"`",
    ),
    (
        "the output reads one arm",
        |g| node(g, "out")["does"]["value"]["object"]["shipped"] = json!({"from": "shipped"}),
        "when `way` takes `refund`, the workflow has no output: `out` reads `shipped`, which is skipped then; read it with `or`, or mark the node that gives the output then with `\"ends\": true`",
    ),
    (
        "the output is a node of one arm",
        |g| g["output"] = json!("shipped"),
        "`shipped` is skipped then; let the output be a node that every arm leads to",
    ),
    (
        "the output is an object",
        |g| g["output"] = json!({"from": "out"}),
        "invalid type: an object, expected a string",
    ),
    (
        "nodes are a map",
        |g| g["nodes"] = json!({"out": {"does": {"value": {"value": 1}}}}),
        "invalid type: an object, expected a list",
    ),
    (
        "an input has no kind",
        |g| drop(node(g, "id").as_object_mut().unwrap().remove("kind")),
        "agent or a workflow by its name, or `\"kind\": \"input\"`",
    ),
    (
        "an input is not read",
        |g| node(g, "found")["does"]["call"]["with"]["object"]["id"] = json!({"from": "ids"}),
        "the node `found` reads or follows `ids`, and there is no such node; did you mean `id`?",
    ),
    (
        "the schema is a text",
        |g| node(g, "id")["schema"] = json!("string"),
        "the schema of `id`: this is not a JSON Schema: \"string\" is not of types \"boolean\", \"object\"",
    ),
    (
        "two nodes wait for each other",
        |g| node(g, "found")["after"] = json!(["fine"]),
        "these nodes wait for each other: `found`, `fine`; a workflow cannot have a cycle",
    ),
    (
        "a name has a slash",
        |g| node(g, "lines")["name"] = json!("found/lines"),
        "the node `mailed` reads or follows `lines`, and there is no such node",
    ),
    (
        "begins is a number",
        |g| node(g, "out")["begins"] = json!(1),
        "invalid type: integer `1`, expected a text, or an object with one key",
    ),
    (
        "begins at more edges than there are",
        |g| node(g, "shipped")["begins"] = json!({"join": 2}),
        "the node `shipped` begins when 2 of its edges are taken, and 1 lead to it",
    ),
    (
        "retry is a number",
        |g| node(g, "found")["policy"] = json!({"retry": 3}),
        "invalid type: integer `3`, expected a policy of retries, such as {\"max_attempts\": 3}",
    ),
    (
        "timeout is a text",
        |g| node(g, "found")["policy"] = json!({"timeout": "5s"}),
        "unknown field `timeout`, expected one of `retry`, `timeout_ms`, `on_error`, `approve`, `approve_timeout_ms`, `on_timeout`, `concurrency`, `repeatable`",
    ),
    (
        "does has two words",
        |g| node(g, "lines")["does"]["route"] = json!({"arms": []}),
        "invalid value: an object, expected an object with one key",
    ),
    (
        "repeat has no limit",
        |g| {
            node(g, "lines")["does"] = json!({"repeat": {"first": "id", "call": {"kind": "tool", "name": "orders_find", "with": {"item": ""}}}});
        },
        "missing field `max`",
    ),
    (
        "a repeated tool takes another thing than it gives",
        |g| node(g, "lines")["does"] = json!({"repeat": {"first": "id", "max": 2, "call": {"kind": "tool", "name": "orders_find", "with": {"object": {"id": {"item": ""}}}}}}),
        "the node `mailed`: the list of items, `lines`, does not fit: list is expected, and object is given",
    ),
    (
        "concurrency is nothing",
        |g| g["concurrency"] = json!(0),
        "`concurrency` is how many nodes run at once; it is 1 or more",
    ),
];

#[test]
fn a_graph_without_a_mistake_is_read() {
    assert_eq!(said(right()), "");
}

#[test]
fn each_mistake_is_named_where_it_stands() {
    for (name, change, says) in ALL {
        let mut graph = right();
        change(&mut graph);
        let said = said(graph);
        assert!(said.contains(says), "{name}: {said}\n{says}");
        // Errors of the JSON reader start with the path of the value.
        assert!(!said.starts_with("read: ") || said.starts_with("read: `"), "{name}: {said}");
    }
}
