//! Inputs that once took minutes or gigabytes. Each must be handled within its limit. The time
//! limits are for a busy machine.

use std::time::{Duration, Instant};

use agentflow::Context;
use agentflow::document::Document;
use agentflow::message::{ToolCall, ToolStatus};
use agentflow::runtime::{Runtime, RuntimeConfig};
use agentflow::tool::{FnTool, ToolDefinition};
use agentflow::tools::{self, ApiTool, GraphqlTool, OpenApi};
use serde_json::{Map, Value, json};

fn quick<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let result = run();
    assert!(begin.elapsed() < Duration::from_secs(60), "{what} took {:?}", begin.elapsed());
    result
}

/// Builds a runtime with a tool whose argument `v` has this schema.
fn with_schema(schema: &Value, definitions: &Value) -> Runtime {
    let schema = json!({"type": "object", "properties": {"v": schema}, "$defs": definitions});
    let definition = ToolDefinition::new("check", "Checks it.", schema);
    let tool =
        FnTool::dynamic(definition, |_: Context, _: Value| async { Ok::<_, String>(Value::Null) });
    Runtime::builder().tools(tool).build()
}

async fn called(
    runtime: &Runtime,
    tool: &str,
    arguments: &Value,
) -> Result<(ToolStatus, String), String> {
    let call = ToolCall::new("1", tool, arguments.to_string());
    let result = runtime.invoke(&call, &[]).await.map_err(|error| error.to_string())?;
    Ok((result.status, result.text().to_string()))
}

fn nested(levels: usize, leaf: Value) -> Value {
    (0..levels).fold(leaf, |value, _| json!([value]))
}

#[tokio::test]
async fn a_schema_that_unfolds_too_far_is_refused() {
    for keyword in ["anyOf", "allOf", "oneOf"] {
        let mut definitions = Map::new();
        for at in 0..40 {
            let next = json!({"$ref": format!("#/$defs/t{}", at + 1)});
            definitions.insert(format!("t{at}"), json!({ keyword: [next, next] }));
        }
        definitions.insert("t40".into(), json!({"type": "string"}));
        let begin = Instant::now();
        let runtime = with_schema(&json!({"$ref": "#/$defs/t0"}), &json!(definitions));
        let said = called(&runtime, "check", &json!({"v": 1})).await;
        assert!(begin.elapsed() < Duration::from_secs(20), "{keyword} took {:?}", begin.elapsed());
        let said = said.map_or_else(|error| error, |(status, text)| format!("{status:?}: {text}"));
        assert!(said.contains("unfolds to more than 50000 schemas"), "{said}");
    }
}

#[tokio::test]
async fn a_nested_value_of_a_recursive_schema_is_refused() {
    let tree = json!({"anyOf": [
        {"items": {"$ref": "#/$defs/t"}}, {"type": "string"}, {"items": {"$ref": "#/$defs/t"}, "minItems": 1}
    ]});
    let runtime = with_schema(&json!({"$ref": "#/$defs/t"}), &json!({"t": tree}));
    let begin = Instant::now();
    let (status, text) =
        called(&runtime, "check", &json!({"v": nested(60, json!(1))})).await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(20), "it took {:?}", begin.elapsed());
    assert_eq!(status, ToolStatus::InvalidArguments, "{text}");
    assert!(
        text.contains("may take more than 2000000 steps; give a smaller or a flatter value"),
        "{text}"
    );
    let (status, text) =
        called(&runtime, "check", &json!({"v": nested(3, json!("x"))})).await.unwrap();
    assert_eq!(status, ToolStatus::Success, "{text}");
}

#[tokio::test]
async fn a_query_with_very_many_matches_is_refused() {
    let runtime = Runtime::builder().tools(tools::transform()).build();
    for (levels, path) in [
        (40, "$..*..*..*"),
        (110, "$..*..*..*"),
        (110, "$[?@..*..*]"),
        (60, "$..[*, *, *, *]..[*, *, *, *]"),
        (2, "$[0][0][?search('aaaa', '((a{900}){9}){9}')]"),
    ] {
        let numbers: Vec<Value> = (0..1_000).map(Value::from).collect();
        let data = nested(levels, json!(numbers));
        let begin = Instant::now();
        let (status, text) =
            called(&runtime, "transform", &json!({"data": data, "path": path})).await.unwrap();
        assert!(begin.elapsed() < Duration::from_secs(20), "{path} took {:?}", begin.elapsed());
        assert_eq!(status, ToolStatus::OutputTooLarge, "{path}: {text}");
        assert!(
            text.contains("steps on this data; name the fields") || text.contains("are copied"),
            "{path}: {text}"
        );
    }
    let nested_calls = format!("$[?{}@.a{} > 1]", "length(".repeat(40), ")".repeat(40));
    let brackets = format!("$[?{}@.a{}]", "(".repeat(1_000), ")".repeat(1_000));
    for path in [nested_calls, brackets] {
        let (_, text) =
            called(&runtime, "transform", &json!({"data": {}, "path": path})).await.unwrap();
        assert!(text.contains("nested more than 12 levels deep"), "{text}");
    }
}

#[test]
fn aliases_that_repeat_much_text_are_refused() {
    let text =
        format!("big: &a \"{}\"\nrest: [{}]\n", "x".repeat(50_000), ["*a"; 4_000].join(", "));
    let errors = [
        Document::read("it.yaml", &*text).map(drop).unwrap_err().to_string(),
        RuntimeConfig::read("it.yaml", &text).map(drop).unwrap_err().to_string(),
        ApiTool::read(&text).map(drop).unwrap_err().to_string(),
        GraphqlTool::read(&text).map(drop).unwrap_err().to_string(),
        OpenApi::read(&text).map(drop).unwrap_err().to_string(),
    ];
    for error in errors {
        assert!(
            error.contains("the texts of the document have more than 16777216 bytes"),
            "{error}"
        );
    }
}

#[test]
fn very_many_misspelt_names_are_reported_quickly() {
    let node = |at: usize| {
        format!("  - {{id: node_{at:0>90}, tool: doc_search, depends_on: [nodes_{at:0>90}x]}}\n")
    };
    let text = format!("id: many\nnodes:\n{}", (0..2_000).map(node).collect::<String>());
    let error = quick("the document", || Document::read("it.yaml", &*text).unwrap_err());
    assert!(error.problems().len() >= 100, "{error}");
}

#[tokio::test]
async fn a_very_long_name_of_a_tool_has_no_hint() {
    let tool = |at: usize| {
        let definition =
            ToolDefinition::new(format!("tool_{at}"), "Does it.", json!({"type": "object"}));
        FnTool::dynamic(definition, |_: Context, _: Value| async { Ok::<_, String>(Value::Null) })
    };
    let runtime = (0..65).fold(Runtime::builder(), |runtime, at| runtime.tools(tool(at))).build();
    let begin = Instant::now();
    let said = called(&runtime, &"tool_".repeat(800_000), &json!({})).await;
    assert!(begin.elapsed() < Duration::from_secs(20), "it took {:?}", begin.elapsed());
    assert!(!said.map_or_else(|error| error, |(_, text)| text).contains("did you mean"));
}

#[test]
fn a_template_of_very_many_placeholders_is_read_quickly() {
    let text = "{a}".repeat(300_000);
    let template: agentflow::template::Template = quick("the template", || text.parse().unwrap());
    assert_eq!(template.placeholders().count(), 300_000);
}

#[test]
fn an_expression_copies_no_more_than_its_steps() {
    use agentflow::expression::Expression;
    let many: Vec<u32> = (0..30_000).collect();
    let text = "x".repeat(15_000);
    let expression: Expression = format!("many.map(i, '{text}')").parse().unwrap();
    let error = quick("the texts", || expression.evaluate(&json!({"many": many})).unwrap_err());
    assert!(error.to_string().contains("more than 100000 steps"), "{error}");
    // The search for a similar name must not run for each missing field.
    let fields: Map<String, Value> =
        (0..2_000).map(|at| (format!("field_number_{at}"), json!(at))).collect();
    let expression: Expression =
        "many.filter(i, has(all.field_numbr_)).size() == 0".parse().unwrap();
    let found = quick("the fields", || {
        expression.evaluate(&json!({"many": many[..10_000], "all": fields})).unwrap()
    });
    assert_eq!(found, json!(true));
}
