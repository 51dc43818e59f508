//! Checks for untrusted text that the library parses: schemas, queries, expressions, templates,
//! URLs, and descriptions of tools. The bounded tests in `main.rs` and the fuzz targets in `fuzz/`
//! call the same functions. A check does not require that a string is accepted. It requires that
//! parsing ends, and that a refusal has a message.

use std::cell::OnceCell;

use agentflow::expression::Expression;
use agentflow::message::{ToolCall, ToolStatus};
use agentflow::runtime::Runtime;
use agentflow::template::Template;
use agentflow::tool::{FnTool, ToolDefinition};
use agentflow::tools::{self, ApiTool, GraphqlTool, OpenApi};
use agentflow::{Context, Tool};
use serde_json::{Value, json};

/// Checks JSON with a `schema` and a `value`: the value is the argument of a tool with this schema.
///
/// # Panics
/// Reading the schema or checking the value panics.
pub(crate) fn schema(bytes: &[u8]) {
    let Ok(input) = serde_json::from_slice::<Value>(bytes) else { return };
    let schema = json!({"type": "object", "properties": {"v": input["schema"]}, "$defs": input["schema"]["$defs"]});
    let definition = ToolDefinition::new("check", "Checks it.", schema);
    let tool =
        FnTool::dynamic(definition, |_: Context, _: Value| async { Ok::<_, String>(Value::Null) });
    let arguments = json!({"v": input["value"]});
    said(&invoked(&Runtime::builder().tools(tool).build(), "check", &arguments));
}

/// Checks JSON with a `path`, a JSONPath query, and `data`.
///
/// # Panics
/// Parsing the query or evaluating it panics.
pub(crate) fn json_path(bytes: &[u8]) {
    thread_local! {
        static RUNTIME: OnceCell<Runtime> = const { OnceCell::new() };
    }
    let Ok(input) = serde_json::from_slice::<Value>(bytes) else { return };
    RUNTIME.with(|runtime| {
        let runtime = runtime.get_or_init(|| Runtime::builder().tools(tools::transform()).build());
        said(&invoked(runtime, "transform", &input));
    });
}

/// Checks an expression in the first line, with its variables as JSON in the rest.
///
/// # Panics
/// Parsing or evaluating it panics, or it is not displayed as it was written.
pub(crate) fn expression(bytes: &[u8]) {
    let Some((line, rest)) = first_line(bytes) else { return };
    match line.parse::<Expression>() {
        Ok(expression) => {
            assert_eq!(expression.as_str(), line);
            if let Err(error) = expression.evaluate(&serde_json::from_str(rest).unwrap_or_default())
            {
                assert!(!error.to_string().is_empty());
            }
        }
        Err(error) => {
            assert!(error.at() <= line.len() && !error.to_string().is_empty(), "{line}: {error}");
        }
    }
}

/// Checks a template in the first line, with its values as JSON in the rest.
///
/// # Panics
/// Parsing or filling it panics, or it is not displayed as it was written.
pub(crate) fn template(bytes: &[u8]) {
    let Some((line, rest)) = first_line(bytes) else { return };
    match line.parse::<Template>() {
        Ok(template) => {
            assert_eq!(template.as_str(), line);
            drop(template.fill(&serde_json::from_str(rest).unwrap_or_default()));
        }
        Err(error) => {
            assert!(error.at() <= line.len() && !error.to_string().is_empty(), "{line}: {error}");
        }
    }
}

/// Checks a misspelt name in the first line, with the known names in the rest.
///
/// # Panics
/// The search for the nearest name panics, or the result is not one of the known names.
pub(crate) fn nearest(bytes: &[u8]) {
    let Some((line, rest)) = first_line(bytes) else { return };
    let names: Vec<&str> = rest.split('\n').collect();
    let fields = names.iter().map(|name| ((*name).to_owned(), Value::Null)).collect();
    let expression: Expression = "all[wrong]".parse().expect("an expression");
    let variables = json!({"all": Value::Object(fields), "wrong": line});
    let Err(error) = expression.evaluate(&variables) else { return };
    let error = error.to_string();
    if let Some((_, near)) = error.rsplit_once("; did you mean `")
        && let Some(near) = near.strip_suffix("`?")
    {
        assert!(names.contains(&near) || line.contains("did you mean"), "{error}");
    }
}

/// Checks a description of an HTTP tool and of a GraphQL tool.
///
/// # Panics
/// Reading it panics, or it is refused without a message.
pub(crate) fn api_tool(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let described = ApiTool::read(text).and_then(|tool| tool.tool());
    let queried = GraphqlTool::read(text).and_then(|tool| tool.tool());
    for made in [described, queried] {
        match made {
            Ok(tool) => assert!(!tool.definition().name.is_empty()),
            Err(error) => assert!(!error.to_string().trim().is_empty()),
        }
    }
}

/// Checks an OpenAPI document and each of its operations as a tool.
///
/// # Panics
/// Reading it panics, or it is refused without a message.
pub(crate) fn open_api(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match OpenApi::read(text) {
        Ok(api) => {
            let api = api.base_url("https://api.test/v1");
            for id in api.operation_ids() {
                if let Err(error) = api.tool(id).and_then(|tool| tool.tool()) {
                    assert!(!error.to_string().trim().is_empty());
                }
            }
        }
        Err(error) => assert!(!error.to_string().trim().is_empty()),
    }
}

fn first_line(bytes: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(bytes).ok()?;
    Some(text.split_once('\n').unwrap_or((text, "")))
}

fn invoked(runtime: &Runtime, tool: &str, arguments: &Value) -> (ToolStatus, String) {
    thread_local! {
        static TOKIO: OnceCell<tokio::runtime::Runtime> = const { OnceCell::new() };
    }
    let call = ToolCall::new("1", tool, arguments.to_string());
    let result = TOKIO.with(|tokio| {
        let runner = || {
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
        };
        tokio.get_or_init(runner).block_on(runtime.invoke(&call, &[]))
    });
    match result {
        Ok(result) => (result.status, result.text().to_string()),
        Err(error) => (ToolStatus::Error, error.to_string()),
    }
}

fn said((status, text): &(ToolStatus, String)) {
    assert!(status.is_success() || !text.trim().is_empty(), "{status:?} without a sentence");
}
