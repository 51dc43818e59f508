//! The JSON Schemas of the document form `graph`, of a node's policy and of changes of the state,
//! for editors. The readers of [`Graph`](crate::workflow::Graph) and its parts do the actual
//! checks.

use serde_json::{Value, json};

use super::form_schema::{decider, limits, name, object};

fn whole(about: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": about})
}

fn whole_or_none(about: &str) -> Value {
    json!({"type": ["integer", "null"], "minimum": 0, "description": about})
}

fn text(about: &str) -> Value {
    json!({"type": "string", "description": about})
}

fn text_or_none(about: &str) -> Value {
    json!({"type": ["string", "null"], "description": about})
}

fn list(items: Value, about: &str) -> Value {
    json!({"type": "array", "items": items, "description": about})
}

/// Returns the schema of an object with exactly one of these fields, which determines its kind.
fn one_of(about: &str, fields: Value) -> Value {
    let mut schema = object(about, &[], fields);
    (schema["minProperties"], schema["maxProperties"]) = (1.into(), 1.into());
    schema
}

/// Returns the schema of a node's policy.
pub(super) fn policy() -> Value {
    let classes = json!({"enum": [
        "timeout", "rate_limit", "unavailable", "tool_error", "model_error", "validation", "permission", "cancelled", "any"
    ]});
    let retry = object(
        "how often and when it is tried again",
        &[],
        json!({
            "max_attempts": whole("the most attempts, the first one included"),
            "backoff_ms": whole("the pause before the second attempt, in milliseconds"),
            "backoff_multiplier": {"type": "number", "description": "what each further pause is multiplied by"},
            "max_backoff_ms": whole("the longest pause, in milliseconds"),
            "retry_on": list(classes, "which failures are worth another attempt; empty for all but wrong input, missing permission and cancellation"),
        }),
    );
    let answer = one_of("the answer is a value", json!({"answer": {"description": "the value"}}));
    object(
        "what is done when it fails, takes long, or needs a person's word",
        &[],
        json!({
            "retry": retry,
            "timeout_ms": whole_or_none("the longest that an attempt may take, in milliseconds; of a gate, how long is waited"),
            "on_error": {"enum": ["fail", "skip"], "description": "what its failure means for the run"},
            "approve": text_or_none("a question that a person must agree to before it begins"),
            "approve_timeout_ms": whole_or_none("how long the answer to it is waited for, in milliseconds"),
            "on_timeout": {
                "description": "what happens when nobody has answered in time",
                "anyOf": [{"enum": ["fail", "skip", "deny", "approve"]}, answer],
            },
            "concurrency": whole_or_none("the most items of a map, or branches of a race, at once"),
            "repeatable": {"type": ["boolean", "null"], "description": "whether it may run again when its process ended in the middle of it"},
            "tap": {"type": "boolean", "description": "whether it observes and changes nothing"},
            "allowed_roles": list(json!({"type": "string"}), "roles; the caller needs one of them, unless it is one of the users"),
            "allowed_users": list(json!({"type": "string"}), "names of callers; with no roles and no users, every caller is allowed"),
        }),
    )
}

/// Returns the schema of changes of the state.
pub(super) fn transform() -> Value {
    let keys = |about: &str| list(json!({"type": "string"}), about);
    let texts_by_key = |about: &str| json!({"type": "object", "additionalProperties": {"type": "string"}, "description": about});
    let merge = object(
        "several values become one",
        &["sources", "into"],
        json!({
            "sources": keys("the keys whose values they are, in order"),
            "into": text("the key that the result has"),
            "separator": text("what stands between two texts; a line break unless it is said"),
        }),
    );
    let change = one_of(
        "a change of the state",
        json!({
            "pick": keys("of the keys of the session, these are kept and all others removed"),
            "drop": keys("these keys are removed"),
            "merge": merge,
            "rename": texts_by_key("values move to other keys"),
            "default": {"type": "object", "description": "keys without a value get these"},
            "map": texts_by_key("each key gets the text of a template over the state as it was before"),
        }),
    );
    list(change, "changes of the state")
}

/// Returns the schema of a mapping. It is a definition, since mappings are recursive.
fn mapping() -> Value {
    let inner = || json!({"$ref": "#/definitions/mapping"});
    let fields = json!({
        "from": name("a node, whose output it is"),
        "state": name("a key of the state"),
        "template": text("a text with placeholders"),
        "error_of": name("a node, whose failure it is"),
        "item": text("a JSON Pointer in the item, or in the last output; empty for all of it"),
        "value": {"description": "a value"},
        "cel": text("a line of CEL"),
        "first": list(inner(), "the first of these that is there"),
        "object": {"type": "object", "additionalProperties": inner(), "description": "an object of mappings"},
        "list": list(inner(), "a list of mappings"),
    });
    let one: Vec<Value> = fields
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| json!({"required": [name]}))
        .collect();
    let mut schema = object("a value made of outputs, inputs and the state", &[], fields);
    schema["properties"]["at"] = text("of `from` and `state`: a JSON Pointer in it");
    schema["properties"]["or"] =
        json!({"description": "of `from` and `state`: the value where it is missing"});
    schema["properties"]["optional"] =
        json!({"type": "boolean", "description": "of `state`: whether it may be missing"});
    schema["oneOf"] = one.into();
    schema
}

/// Returns the schema of a node's body.
fn does() -> Value {
    let made = || json!({"$ref": "#/definitions/mapping"});
    let call = || {
        object(
            "a call",
            &["kind", "name", "with"],
            json!({
                "kind": {"enum": ["tool", "agent", "workflow"], "description": "what is called"},
                "name": name("its name"),
                "with": made(),
                "gives": {"anyOf": [made(), {"type": "null"}]},
            }),
        )
    };
    let map = object(
        "a call for each item of a list",
        &["items", "call"],
        json!({"items": name("the node whose output is the list"), "call": call()}),
    );
    let repeat = object(
        "a call on its own output",
        &["first", "call", "max"],
        json!({
            "first": name("the node whose output the first round is given"),
            "call": call(),
            "until": {"description": "the repetition is over when it holds"},
            "max": whole("the most rounds"),
        }),
    );
    let of_node = one_of(
        "what it does",
        json!({
            "call": call(),
            "value": made(),
            "transform": transform(),
            "route": {"description": "the arms and their conditions"},
            "ask": {"description": "a question to a person"},
            "decide": {"description": "who is asked about the node that it decides on"},
            "map": map,
            "race": list(call(), "calls at the same time; the first success is the output"),
            "fallback": list(call(), "calls in order, until one succeeds"),
            "repeat": repeat,
        }),
    );
    json!({"anyOf": [of_node, {"type": "null"}]})
}

fn dependency() -> Value {
    object(
        "a binding of the node: a tool of a server, a resource, a prompt or an agent",
        &["dependency_id"],
        json!({
            "dependency_id": name("the id of the dependency"),
            "server_id": text_or_none("the MCP server"),
            "tool_name": text_or_none("the tool of the server; without it a model chooses"),
            "resource_uri": text_or_none("the address of the resource"),
            "prompt_name": text_or_none("the name of the prompt"),
            "agent_id": text_or_none("the agent of another program"),
            "endpoint": text_or_none("the address of the agent"),
            "score": {"type": ["number", "null"], "description": "how well it fits"},
            "pool_index": {"type": ["integer", "null"], "minimum": 0, "description": "the place among the candidates of a pool"},
        }),
    )
}

fn node() -> Value {
    let edge = object(
        "an edge that leads to it",
        &["from"],
        json!({
            "from": name("the node that it comes from"),
            "arm": text_or_none("it is taken when the router takes this arm"),
            "failed": {"type": "boolean", "description": "it is taken when the node has failed"},
            "when": {"description": "it is taken when this holds"},
        }),
    );
    let names = |about: &str| list(json!({"type": "string"}), about);
    let count = |word: &str| json!({"required": [word], "properties": {word: whole("how many")}, "additionalProperties": false});
    object(
        "a node",
        &["name"],
        json!({
            "name": name("the name of the node"),
            "kind": text("`input` for an input of the workflow; of all others, `does` says it"),
            "does": does(),
            "reads": names("nodes whose outputs it needs"),
            "after": names("nodes that must have ended before"),
            "edges": list(edge, "edges that lead to it"),
            "begins": {
                "description": "how many of its edges must be taken",
                "anyOf": [{"enum": ["all", "any"]}, count("join"), count("barrier")],
            },
            "decides": text_or_none("the node that it decides on, where it does `decide`"),
            "ends": {"type": "boolean", "description": "whether the workflow ends with its output"},
            "saves": {
                "type": "object", "additionalProperties": {"type": "string"},
                "description": "what of its output is saved to the state: a JSON Pointer for each key"
            },
            "dependencies": list(dependency(), "the bindings of its dependencies, of a pool all candidates"),
            "policy": policy(),
            "schema": {"type": ["object", "boolean"], "description": "the JSON Schema of its output"},
            // Fields of graphs of `#[workflow]` functions.
            "calls": text("what it calls, as the program has it"),
            "callee": text_or_none("what that is beside a function"),
            "order": list(json!({"type": "object"}), "nodes above it that must have ended before"),
            "guard": {"type": ["object", "null"], "description": "the arm that it is in"},
            "unless": text_or_none("the join of the arms that return above it"),
            "branches": names("the arms of a router, the branches of a race or a fallback"),
            "body": {"type": ["object", "null"], "description": "what each of its items or rounds consists of"},
            "branch_bodies": {"type": "object", "description": "what its branches consist of"},
            "writes": {"type": "boolean", "description": "whether it changes something outside of the run"},
            "code": text("the fingerprint of the program's text"),
            "workflows": {"type": "object", "description": "the hashes of the workflows that it calls"},
            "type": text("the Rust type of its output"),
            "line": whole("the line of the program's text"),
        }),
    )
}

pub(super) fn graph() -> Value {
    let mut schema = object(
        "the plan itself",
        &["name", "nodes", "output"],
        json!({
            "name": name("the name of the workflow"),
            "version": {"type": ["integer", "null"], "minimum": 0, "description": "the version of the form"},
            "description": text_or_none("what it is for"),
            "output": name("the node whose output is the workflow's"),
            "concurrency": {"type": ["integer", "null"], "minimum": 1, "description": "the most steps at once"},
            "decider": decider(),
            "limits": limits(),
            "stop_policy": {"enum": ["fail_fast", "best_effort", null], "description": "what other nodes do when one has failed"},
            "nodes": {"type": "array", "items": node()},
        }),
    );
    schema["definitions"] = json!({"mapping": mapping()});
    schema
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::de::DeserializeOwned;

    use super::*;
    use crate::state::StateTransform;
    use crate::workflow::{GraphEdge, GraphNode, Mapping, NodePolicy, Reference, RetryPolicy};

    /// Returns the fields that a reader accepts, taken from its error message about an unknown
    /// field.
    fn fields_of<T: DeserializeOwned>(wrong: Value) -> BTreeSet<String> {
        let Err(error) = serde_json::from_value::<T>(wrong) else { panic!("it is read") };
        let error = error.to_string();
        let (_, listed) = error.split_once("expected one of ").unwrap_or_else(|| panic!("{error}"));
        listed.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect()
    }

    fn in_schema(schema: &Value) -> BTreeSet<String> {
        schema["properties"].as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn the_fields_of_a_schema_are_those_of_its_reader() {
        let no_such = || json!({"no_such": 1});
        let (policy, node, change) = (policy(), node(), transform()["items"].clone());
        assert_eq!(in_schema(&policy), fields_of::<NodePolicy>(no_such()));
        assert_eq!(in_schema(&policy["properties"]["retry"]), fields_of::<RetryPolicy>(no_such()));
        assert_eq!(in_schema(&node), fields_of::<GraphNode>(no_such()));
        assert_eq!(
            in_schema(&node["properties"]["edges"]["items"]),
            fields_of::<GraphEdge>(no_such())
        );
        assert_eq!(in_schema(&change), fields_of::<StateTransform>(no_such()));
        let does = does()["anyOf"][0].clone();
        assert_eq!(
            in_schema(&does),
            fields_of::<GraphNode>(json!({"name": "a", "does": no_such()}))
        );
        assert_eq!(in_schema(&does["properties"]["call"]), fields_of::<Reference>(no_such()));
        for form in [
            json!({"from": "a", "at": "/b", "or": 1}),
            json!({"state": "user:a", "optional": true}),
            json!({"object": {"a": {"list": [{"first": [{"item": ""}, {"value": null}]}, {"cel": "a > 1"}]}}}),
            json!({"template": "{a}"}),
            json!({"error_of": "a"}),
            json!({"fron": "a"}),
            json!({"from": "a", "value": 1}),
            json!({"object": {"a": 5}}),
            json!({"list": [{"fron": "a"}]}),
            json!({"at": "/a"}),
            json!(5),
        ] {
            let graph = json!({
                "version": 1, "name": "g", "output": "a", "concurrency": 1, "nodes": [{"name": "a", "does": {"value": form}}]
            });
            let is_read = serde_json::from_value::<Mapping>(form).is_ok();
            assert_eq!(jsonschema::is_valid(&super::graph(), &graph), is_read, "{graph}");
        }
        let words = fields_of::<NodePolicy>(json!({"retry": {"retry_on": ["no_such"]}}));
        let listed = policy["properties"]["retry"]["properties"]["retry_on"]["items"]["enum"]
            .as_array()
            .unwrap();
        assert_eq!(words, listed.iter().map(|word| word.as_str().unwrap().to_owned()).collect());
    }
}
