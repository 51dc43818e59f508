//! The JSON Schemas of the forms `edges` and `steps`, for editors. The readers of the forms do the
//! actual checks.

use serde_json::{Map, Value, json};

use super::form_schema::{decider, limits, name, object, text, texts};
use super::object_fields::camel;

/// Returns the schema of an object whose fields can be written in snake case or camel case.
fn either(about: &str, required: &[&str], properties: Value) -> Value {
    let mut all = Map::new();
    for (name, schema) in properties.as_object().into_iter().flatten() {
        all.insert(camel(name), schema.clone());
        all.insert(name.clone(), schema.clone());
    }
    let mut schema = object(about, &[], Value::Object(all));
    let needs = required.iter().map(|name| match camel(name) {
        camel if camel == *name => json!({"required": [name]}),
        camel => json!({"oneOf": [{"required": [name]}, {"required": [camel]}]}),
    });
    // `allOf` must not be empty in JSON Schema.
    if !required.is_empty() {
        schema["allOf"] = needs.collect();
    }
    schema
}

fn whole(about: &str, least: u64) -> Value {
    json!({"type": ["integer", "null"], "minimum": least, "description": about})
}

fn flag(about: &str) -> Value {
    json!({"type": ["boolean", "null"], "description": about})
}

fn word(about: &str, words: &[&str]) -> Value {
    json!({"enum": words, "description": about})
}

/// Returns the schema of an optional word.
fn word_or_none(about: &str, words: &[&str]) -> Value {
    let words: Vec<Option<&str>> = words.iter().copied().map(Some).chain([None]).collect();
    json!({"enum": words, "description": about})
}

fn map_of_texts(about: &str) -> Value {
    json!({"type": ["object", "null"], "additionalProperties": {"type": "string"}, "description": about})
}

fn node() -> Value {
    let reference = either(
        "what it is bound to",
        &[],
        json!({
            "server_id": text("a server of MCP, by the name that the program gave it"),
            "tool_name": text("a tool of it, which is called at once; without it a model chooses"),
            "resource_uri": text("of `mcp_resource`: the address of the resource; without it `input_mapping` gives `uri`"),
            "prompt_name": text("of `mcp_prompt`: the name of the prompt; `input_mapping` gives its arguments"),
            "agent_id": text("an agent of another program, by the name that the program gave it"),
            "endpoint": text("the address of an agent, which is asked there unless `agent_id` names it"),
        }),
    );
    let mut dependency = either(
        "a dependency",
        &["dependency_id", "dependency_type"],
        json!({
            "dependency_id": name("its id"),
            "dependency_type": word("what it is", &["mcp_tool", "mcp_resource", "mcp_prompt", "a2a_agent"]),
            "resolution_mode": word_or_none("one that is named, or one of a pool, which a model picks in the run", &["fixed", "pool"]),
            "required": flag("whether the node needs it"),
            "fixed_ref": reference,
            "pool_refs": {"type": ["array", "null"], "maxItems": 5, "items": reference, "description": "the candidates of a pool"},
        }),
    );
    let given = |name: &str| json!({"oneOf": [{"required": [name]}, {"required": [camel(name)]}]});
    let mode = |words: &[Option<&str>]| {
        let is = json!({ "enum": words });
        json!({"properties": {"resolution_mode": is, "resolutionMode": is}})
    };
    dependency["anyOf"] = json!([
        {"allOf": [given("fixed_ref"), mode(&[Some("fixed"), None])]},
        {"allOf": [given("pool_refs"), given("resolution_mode"), mode(&[Some("pool")]), {"not": given("fixed_ref")}]},
    ]);
    let retry = either(
        "how often and when a failed call is tried again",
        &[],
        json!({
            "max_attempts": whole("the most attempts, the first one included", 0),
            "backoff_ms": whole("the pause before the second attempt", 0),
            "backoff_multiplier": {"type": ["number", "null"], "description": "what each further pause is multiplied by"},
            "retry_on": {"type": ["array", "null"], "items": {"enum": [
                "timeout", "rate_limit", "unavailable", "tool_error", "model_error", "validation", "permission", "cancelled", "any"
            ]}},
        }),
    );
    let permissions = either(
        "who may",
        &[],
        json!({
            "require_approval": flag("whether a person must agree before it begins"),
            "acl_server_ids": texts("the servers that it may be bound to; empty for all"),
            "allowed_roles": texts("roles; the caller needs one of them, unless it is one of the users"),
            "allowed_users": texts("names of callers; with no roles and no users, every caller is allowed"),
        }),
    );
    either(
        "a node",
        &["node_id", "kind"],
        json!({
            "node_id": name("its name"),
            "kind": word("what it is", &["mcp", "a2a", "router", "join", "terminal"]),
            "label": text("what people are shown"),
            "capability": text("of `mcp`: what a model is to do with the tools of the server"),
            "task": text("of `a2a`: what the agent is asked to do"),
            "condition_expr": text("of `router`: a line of CEL over the state"),
            "join_group": text("of `join`: the group of edges that it waits for"),
            "dependencies": {"type": ["array", "null"], "items": dependency},
            "retry_policy": retry,
            "timeout_ms": whole("the longest that an attempt may take", 0),
            "on_error": word_or_none("what follows when it has failed", &["fail_workflow", "skip_node", "route_to_node"]),
            "on_error_node_id": text("the node that follows a failure"),
            "permissions": permissions,
            "input_mapping": map_of_texts("what it is given: keys of the state; empty for all of the state"),
            "output_mapping": map_of_texts("what is saved of its output, by keys of the state; empty for all fields"),
        }),
    )
}

pub(super) fn edges() -> Value {
    let edge = either(
        "an edge",
        &["from_node_id", "to_node_id"],
        json!({
            "edge_id": text("its id"),
            "from_node_id": name("where it comes from"),
            "to_node_id": name("where it leads to"),
            "edge_type": word_or_none("when it is taken", &["sequential", "conditional", "parallel"]),
            "condition_key": text("the value of the router, a key of the state, or `error`"),
            "join_group": text("the group of the join that it leads to"),
        }),
    );
    let permissions = either(
        "who may",
        &[],
        json!({
            "require_approval": flag("whether a person must agree before the run begins"),
            "acl_scope": texts("the servers that nodes may be bound to; empty for all"),
            "allowed_roles": texts("roles; the caller needs one of them, unless it is one of the users"),
            "allowed_users": texts("names of callers; with no roles and no users, every caller is allowed"),
        }),
    );
    either(
        "calls of servers and agents, with edges between them",
        &["workflow_id", "nodes", "edges"],
        json!({
            "workflow_id": name("the name of the workflow"),
            "name": text("what people are shown"),
            "version": whole("its version", 0),
            "description": text("what it is for"),
            "model": text("the model that chooses among the tools of a server, such as openai/gpt-5-mini"),
            "decider": decider(),
            "limits": limits(),
            "nodes": {"type": "array", "minItems": 1, "items": node()},
            "edges": {"type": ["array", "null"], "items": edge},
            "concurrency_limit": whole("the most nodes at once", 1),
            "permissions": permissions,
            "created_at": text("when it was made"),
            "updated_at": text("when it was changed"),
        }),
    )
}

pub(super) fn steps() -> Value {
    let mut step = either(
        "a step",
        &["node_id", "kind"],
        json!({
            "node_id": name("its name, and the key of the state under which its output is saved"),
            "kind": word("what it is", &["mcp", "a2a"]),
            "capability": text("of `mcp`: what is to be done with the tools of the server; the server's name where it says nothing else"),
            "task": text("of `a2a`: what the agent is asked to do; the agent's name where it says nothing else"),
            "server_id": text("of `mcp`: the server, by the name that the program gave it"),
            "tool_name": text("of `mcp`: a tool of it, which is called at once"),
            "agent_id": text("of `a2a`: the agent, by the name that the program gave it"),
            "endpoint": text("of `a2a`: the address of the agent, which is asked there unless `agent_id` names it"),
        }),
    );
    // A call to a server requires a capability, and a call to an agent requires a task.
    let needs = |kind: &str, field: &str| json!({"if": {"required": ["kind"], "properties": {"kind": {"const": kind}}}, "then": {"required": [field]}});
    if let Some(all) = step["allOf"].as_array_mut() {
        all.extend([needs("mcp", "capability"), needs("a2a", "task")]);
    }
    either(
        "calls of servers and agents, one after another",
        &["workflow_id", "steps"],
        json!({
            "workflow_id": name("the name of the workflow"),
            "description": text("what it is for"),
            "model": text("the model that chooses among the tools of a server"),
            "decider": decider(),
            "limits": limits(),
            "steps": {"type": "array", "minItems": 1, "items": step},
        }),
    )
}
