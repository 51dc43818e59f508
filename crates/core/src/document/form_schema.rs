//! The JSON Schema of each form, for completion and checks in editors. The readers of the forms do
//! the actual checks.

use serde_json::{Map, Value, json};

use super::{DocumentForm, edges_schema, plan_schema};

/// JSON Schema dialect with the best support in editors.
const DIALECT: &str = "http://json-schema.org/draft-07/schema#";

impl DocumentForm {
    /// All forms.
    pub const ALL: [Self; 6] =
        [Self::Agents, Self::Tools, Self::Edges, Self::Steps, Self::Tree, Self::Graph];

    /// Returns the JSON Schema (draft 7) of the form. Every valid document of the form matches it.
    /// A matching document can still have mistakes that a schema cannot express, such as the name
    /// of a missing node.
    pub fn schema(self) -> Value {
        let mut schema = match self {
            Self::Agents => agents(),
            Self::Tools => tools(),
            Self::Edges => edges_schema::edges(),
            Self::Steps => edges_schema::steps(),
            Self::Tree => tree(),
            Self::Graph => plan_schema::graph(),
        };
        schema["$schema"] = DIALECT.into();
        schema["title"] = format!("agentflow workflow: {self}").into();
        schema
    }

    /// Returns the JSON Schema of all documents: a document matches if it has one of the forms.
    pub fn schema_of_all() -> Value {
        let mut any = Self::ALL.map(Self::schema);
        let mut definitions = Map::new();
        for schema in any.iter_mut().filter_map(Value::as_object_mut) {
            schema.remove("$schema");
            // References start at the root of the whole schema, so definitions are moved there.
            if let Some(Value::Object(own)) = schema.remove("definitions") {
                definitions.extend(own);
            }
        }
        json!({"$schema": DIALECT, "title": "agentflow workflow", "definitions": definitions, "anyOf": any})
    }
}

/// Returns the schema of an optional text. A field without a value counts as missing.
pub(super) fn text(about: &str) -> Value {
    json!({"type": ["string", "null"], "description": about})
}

/// Returns the schema of a non-empty text.
pub(super) fn name(about: &str) -> Value {
    json!({"type": "string", "pattern": "\\S", "description": about})
}

pub(super) fn texts(about: &str) -> Value {
    json!({"type": ["array", "null"], "items": {"type": "string"}, "description": about})
}

pub(super) fn object(about: &str, required: &[&str], properties: Value) -> Value {
    json!({
        "type": "object", "description": about, "required": required, "additionalProperties": false, "properties": properties
    })
}

/// Returns the schema of a decider.
pub(super) fn decider() -> Value {
    let kinds = json!({"enum": ["agent", "tool", "workflow"], "description": "what it is"});
    let named =
        object("any of them", &["kind", "name"], json!({"kind": kinds, "name": name("its name")}));
    json!({
        "description": "who is asked before each node whether it runs, is skipped, or is given other arguments",
        "anyOf": [name("the name of an agent"), named, {"type": "null"}]
    })
}

/// Returns the schema of the limits of a run.
pub(super) fn limits() -> Value {
    let count =
        |about: &str| json!({"type": ["integer", "null"], "minimum": 0, "description": about});
    let fields = json!({
        "max_llm_calls": count("the most model calls of a run with everything that it starts"),
        "timeout_ms": count("the longest that a run may be executed, in milliseconds")
    });
    let mut limits = object("what bounds each run", &[], fields);
    limits["type"] = json!(["object", "null"]);
    limits
}

fn tools() -> Value {
    let node = object(
        "a call of a tool",
        &["id", "tool"],
        json!({
            "id": name("the name of the node"),
            "tool": name("a tool of the program, by its name"),
            "args_template": {
                "type": ["object", "null"],
                "description": "the arguments; in a text, {name} is the output of a node or an input of the workflow"
            },
            "depends_on": texts("nodes that must have their output before"),
            "retry_limit": {
                "type": ["integer", "null"], "minimum": 0, "maximum": u32::MAX, "default": 2,
                "description": "how often a failed call is tried again"
            },
        }),
    );
    object(
        "calls of tools, with what each depends on",
        &["id", "nodes"],
        json!({
            "id": name("the name of the workflow"),
            "description": text("what it is for"),
            "decider": decider(),
            "limits": limits(),
            "nodes": {"type": "array", "minItems": 1, "items": node},
        }),
    )
}

fn agents() -> Value {
    let count = |about: &str| json!({"type": ["integer", "null"], "minimum": 0, "maximum": u32::MAX, "description": about});
    let mut agent = object(
        "an agent",
        &["name", "model"],
        json!({
            "name": name("the name of the agent and of its node"),
            "type": {"enum": ["llm", null], "description": "the kind of agent"},
            "model": name("such as openai/gpt-5-mini"),
            "description": text("what it is for, for those who call it"),
            "instruction": text("what it shall do; {key} shows what an agent before it answered"),
            "tools": texts("tools of the program, by their names"),
            "output_key": text("the key of the state under which its answer is saved"),
            "description": text("what it is for"),
            "temperature": {"type": ["number", "null"], "description": "the sampling temperature"},
            "top_p": {"type": ["number", "null"], "description": "nucleus sampling"},
            "seed": {"type": ["integer", "null"], "description": "the seed, for providers that have one"},
            "max_output_tokens": count("the most tokens of an answer"),
            "max_tokens": count("the most tokens of an answer"),
            "stop": texts("texts at which an answer ends"),
            "output_schema": {"type": ["object", "null"], "description": "the JSON Schema that the answer is asked to fit"},
            "config": {"type": ["object", "null"], "description": "further fields of the request to the model's provider"},
        }),
    );
    // Documents of other programs have further fields, which are ignored.
    agent["additionalProperties"] = json!(true);
    let orchestration = object(
        "how the agents work together",
        &["type"],
        json!({
            "type": {"enum": ["sequential", "parallel", "loop"], "description": "one after another, at the same time, in rounds"},
            "agents": texts("their names, in order"),
            "max_iterations": {
                "type": ["integer", "null"], "minimum": 1, "maximum": u32::MAX, "description": "the most rounds of a loop"
            },
        }),
    );
    let skill = object(
        "a skill",
        &["id"],
        json!({
            "id": name("its id"), "name": text("its name"), "description": text("what it is for"), "tags": texts("words for it"),
        }),
    );
    let mut card = object(
        "what others are shown of the workflow",
        &[],
        json!({
            "version": text("its version"), "skills": {"type": ["array", "null"], "items": skill},
        }),
    );
    card["type"] = json!(["object", "null"]);
    object(
        "agents, and how they work together",
        &["name", "agents", "orchestration"],
        json!({
            "name": name("the name of the workflow"),
            "description": text("what it is for"),
            "decider": decider(),
            "limits": limits(),
            "agents": {"type": "array", "minItems": 1, "items": agent},
            "orchestration": orchestration,
            "a2a": card,
        }),
    )
}

fn tree() -> Value {
    let part = || json!({"$ref": "#/definitions/part"});
    let parts = |about: &str| json!({"type": "array", "minItems": 1, "items": part(), "description": about});
    let count = |least: u32, about: &str| json!({"type": ["integer", "null"], "minimum": least, "maximum": u32::MAX, "description": about});
    let arm = object(
        "an arm",
        &["when", "then"],
        json!({"when": name("a line of CEL over `input` and `state`"), "then": part()}),
    );
    let operators = json!({
        "tool": name("a call of a tool"),
        "agent": name("a run of an agent"),
        "workflow": name("a run of a workflow"),
        "value": {"description": "a value, with templates over `input`"},
        "sequence": parts("one after another"),
        "parallel": parts("at the same time; the output is an object by the parts' names"),
        "fallback": parts("in order, until one succeeds"),
        "race": parts("at the same time; the first success is the output"),
        "loop": part(),
        "map_over": part(),
        "route": {"type": "array", "minItems": 1, "items": arm},
        "gate": name("a question that a person must agree to, with placeholders for `input`"),
        "timeout": part(),
        "transform": plan_schema::transform(),
        "tap": part(),
    });
    let mut fields = json!({
        "as": text("the part's name"),
        "with": {"description": "what a call is given, with templates over `input`"},
        "save": text("the key of the state under which the output is saved"),
        "retry": count(0, "how often it is tried again"),
        "policy": {"anyOf": [plan_schema::policy(), {"type": "null"}]},
        "input": {"type": ["object", "boolean", "null"], "description": "the JSON Schema of what it is given"},
        "output": {"type": ["object", "boolean", "null"], "description": "the JSON Schema of its output"},
        "max": count(1, "of a loop: the most rounds"),
        "until": text("of a loop: a line of CEL over `item`, the last output"),
        "otherwise": {"anyOf": [part(), {"type": "null"}]},
        "when": text("of a gate: a line of CEL; the question is asked when it holds"),
        "seconds": {"type": ["number", "null"], "minimum": 0, "description": "of a timeout"},
    });
    let one: Vec<Value> = operators
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| json!({"required": [name]}))
        .collect();
    for (name, schema) in operators.as_object().into_iter().flatten() {
        fields[name] = schema.clone();
    }
    let mut of_part = object("a part", &[], fields);
    of_part["oneOf"] = one.into();
    of_part["dependencies"] = json!({"timeout": ["seconds"]});
    let mut schema = object(
        "parts within parts",
        &["name"],
        json!({
            "name": name("the name of the workflow"),
            "description": text("what it is for"),
            "decider": decider(),
            "limits": limits(),
            "topology": part(),
            "root": part(),
        }),
    );
    schema["oneOf"] = json!([{"required": ["topology"]}, {"required": ["root"]}]);
    schema["definitions"] = json!({"part": of_part});
    schema
}

#[cfg(test)]
mod tests {
    use super::super::Document;
    use super::*;
    use agentflow_schema::text_tree::Tree;

    const COUNT: &str = include_str!("../../tests/documents/count.yaml");

    const RESEARCH: &str = include_str!("../../tests/documents/research.yaml");

    const TRACKER: &str = include_str!("../../tests/documents/tracker.yaml");

    const REVIEW: &str = include_str!("../../tests/documents/review.yaml");

    const WF_001: &str = include_str!("../../tests/documents/wf-001.yaml");

    /// A dependency of [`REVIEW`], and the same dependency with candidates.
    const FIXED: &str =
        "resolution_mode: fixed\n        fixed_ref: {server_id: code, tool_name: read}";

    const POOL: &str = "resolution_mode: pool\n        pool_refs: [{server_id: code, tool_name: read}, {server_id: c, tool_name: r}]";

    const LETTERS: &str = include_str!("../../tests/documents/letters.yaml");

    /// The schema accepts and rejects the same fields as the reader of the form.
    #[test]
    fn the_schema_of_a_form_agrees_with_its_reader() {
        let fits = |form: DocumentForm, text: &str| {
            let value: Value = Tree::read(text).unwrap().to_json();
            jsonschema::validator_for(&form.schema()).unwrap().is_valid(&value)
        };
        let loops = TRACKER.replace("type: sequential", "type: loop\n  max_iterations: 2");
        for (form, text) in [
            (DocumentForm::Graph, COUNT),
            (DocumentForm::Tools, RESEARCH),
            (DocumentForm::Agents, TRACKER),
            (DocumentForm::Agents, &loops),
            (DocumentForm::Edges, REVIEW),
            (
                DocumentForm::Edges,
                &REVIEW.replace("from_node_id", "fromNodeId").replace("workflow_id", "workflowId"),
            ),
            (DocumentForm::Edges, &REVIEW.replacen(FIXED, POOL, 1)),
            (
                DocumentForm::Edges,
                &REVIEW.replacen(FIXED, &POOL.replace("pool_refs", "poolRefs"), 1),
            ),
            (
                DocumentForm::Edges,
                &REVIEW.replacen("mcp_tool", "mcp_resource", 1).replacen(
                    "path: path",
                    "uri: path",
                    1,
                ),
            ),
            (DocumentForm::Steps, WF_001),
            (DocumentForm::Tree, LETTERS),
            (DocumentForm::Tree, &LETTERS.replace("topology", "root")),
        ] {
            assert_eq!(Document::read("it.yaml", text).unwrap().form(), form);
            assert!(fits(form, text), "{form}");
            for other in DocumentForm::ALL.into_iter().filter(|other| *other != form) {
                assert!(!fits(other, text), "{other} takes {form}");
            }
        }
        for (form, text, from, to) in [
            (DocumentForm::Tools, RESEARCH, "retry_limit: 0", "retry_limt: 0"),
            (DocumentForm::Tools, RESEARCH, "retry_limit: 0", "retry_limit: -1"),
            (DocumentForm::Tools, RESEARCH, "tool: doc_count", "tool: 7"),
            (DocumentForm::Tools, RESEARCH, "depends_on: [discover]", "depends_on: discover"),
            (DocumentForm::Agents, TRACKER, "type: sequential", "type: sequental"),
            (DocumentForm::Agents, TRACKER, "tags: [money]", "tag: money"),
            (
                DocumentForm::Agents,
                TRACKER,
                "model: openai-chat/gpt-5-mini\n    instruction: F",
                "instruction: F",
            ),
            (DocumentForm::Graph, COUNT, "output: count", "outputs: count"),
            (DocumentForm::Graph, COUNT, "name: topic", "nam: topic"),
            (DocumentForm::Edges, REVIEW, "kind: router", "kind: routre"),
            (DocumentForm::Edges, REVIEW, "node_id: read", "node: read"),
            (DocumentForm::Edges, REVIEW, "edge_type: sequential", "edge_type: serial"),
            (DocumentForm::Edges, REVIEW, "timeout_ms: 5000", "timeout_ms: soon"),
            (DocumentForm::Edges, REVIEW, "to_node_id: end", "to_node_id: end, toNodeId: end"),
            (DocumentForm::Edges, REVIEW, "resolution_mode: fixed", "resolution_mode: pool"),
            (DocumentForm::Edges, REVIEW, FIXED, &POOL.replace("pool_refs", "pool_ref")),
            (
                DocumentForm::Edges,
                REVIEW,
                FIXED,
                &POOL.replace(
                    "[{",
                    "[{server_id: a}, {server_id: b}, {server_id: c}, {server_id: d}, {",
                ),
            ),
            (DocumentForm::Steps, WF_001, "kind: mcp", "kind: router"),
            (DocumentForm::Steps, WF_001, "capability: code", "capabilty: code"),
            (DocumentForm::Tree, LETTERS, "tool: doc_twice", "tol: doc_twice"),
            (DocumentForm::Tree, LETTERS, "tool: doc_twice", "tool: doc_twice, agent: x"),
            (DocumentForm::Tree, LETTERS, "max: 5", "max: many"),
            (DocumentForm::Tree, LETTERS, "max: 5", "max: 0"),
            (DocumentForm::Tree, LETTERS, "as: words", "is: words"),
            (DocumentForm::Tree, LETTERS, "as: words,", "as: words, policy: {timeuot_ms: 5},"),
            (
                DocumentForm::Tree,
                LETTERS,
                "as: words,",
                "as: words, policy: {retry: {attempts: 5}},",
            ),
            (DocumentForm::Tree, LETTERS, "as: words,", "as: words, policy: {on_error: skp},"),
            (DocumentForm::Tree, LETTERS, "sequence:", "sequence:\n    - transform: [{dorp: [k]}]"),
            (DocumentForm::Graph, COUNT, "kind: input", "knid: input"),
            (
                DocumentForm::Graph,
                COUNT,
                "- name: found",
                "- name: found\n    policy: {on_timeout: {answr: 1}}",
            ),
            (DocumentForm::Graph, COUNT, "call: {kind: tool,", "cal: {kind: tool,"),
            (DocumentForm::Graph, COUNT, "call: {kind: tool,", "call: {kind: tol,"),
            (DocumentForm::Graph, COUNT, "call: {kind: tool,", "call: {knd: tool,"),
            (DocumentForm::Tools, RESEARCH, "nodes:", "decider: 7\nnodes:"),
            (
                DocumentForm::Agents,
                TRACKER,
                "agents:",
                "decider: {kind: agnt, name: guide}\nagents:",
            ),
            (DocumentForm::Steps, WF_001, "steps:", "decidr: guide\nsteps:"),
            (DocumentForm::Edges, REVIEW, "nodes:", "decider: {kind: agent}\nnodes:"),
        ] {
            let text = text.replacen(from, to, 1);
            assert!(Document::read("it.yaml", text.as_str()).is_err(), "{from}");
            assert!(!fits(form, &text), "{to}");
        }
    }
}
