//! The tool `transform`, which selects parts of JSON by a JSONPath query. It uses only its
//! arguments.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::json_path::BoundedPath;
use agentflow_core::tool::{Effects, FnTool, ToolError, ToolPolicy};

#[derive(Deserialize, JsonSchema)]
struct TransformArguments {
    /// The JSON that is looked into.
    data: Value,
    /// A JSONPath query (RFC 9535), such as `$.rows[?@.price < 10].name`.
    path: String,
}

/// Creates the tool `transform`, which returns the parts of JSON that a JSONPath query (RFC 9535)
/// matches.
///
/// The arguments are `{"data": .., "path": "$.rows[*].name"}`. One match is returned as it is,
/// several as a list in the order of the query, and no match as `null`. A query that can match only
/// one place, such as `$.a[0]`, never returns a list of matches. The tool has no effects.
///
/// A query has at most 4 KiB, and at most three uses of `..` and `?` together. A call fails with
/// [`ToolStatus::OutputTooLarge`](agentflow_core::message::ToolStatus::OutputTooLarge) if the query may take
/// more than 2,000,000 steps on its data, or if its matches need more than 4 MiB of memory and more
/// than the data itself.
///
/// ```
/// use agentflow::message::ToolCall;
/// use agentflow::{Runtime, tools};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentflow::Result<()> {
/// let runtime = Runtime::builder().tools(tools::transform()).build();
/// let data = json!({"rows": [{"name": "tea", "price": 3}, {"name": "rice", "price": 12}]});
/// let arguments = json!({"data": data, "path": "$.rows[?@.price < 10].name"});
/// let result = runtime.invoke(&ToolCall::new("1", "transform", arguments.to_string()), &[]).await?;
/// assert_eq!(result.text(), "tea");
/// # Ok(())
/// # }
/// ```
#[doc(alias = "TransformTool")]
pub fn transform() -> FnTool {
    let about = "Takes parts out of JSON by a JSONPath query (RFC 9535): one match is the answer, several are a list, none \
                 is null.";
    let tool = FnTool::new("transform", about, |_cx, asked: TransformArguments| {
        std::future::ready(found(&asked))
    });
    tool.policy(ToolPolicy::default().effects(Effects::None))
}

fn found(TransformArguments { data, path }: &TransformArguments) -> Result<Value, ToolError> {
    BoundedPath::parse(path).map_err(ToolError::new)?.find(data)
}
