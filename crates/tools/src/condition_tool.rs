//! The tool `condition`, which evaluates a condition for given values. It uses only its arguments.

use agentflow_schema::expression::Expression;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use agentflow_core::tool::{Effects, FnTool, ToolError, ToolPolicy};

#[derive(Deserialize, JsonSchema)]
struct ConditionArguments {
    /// One line of CEL that is true or false, such as `total > 100 && kind in ['a', 'b']`.
    expression: String,
    /// The variables of the expression by their names.
    variables: Map<String, Value>,
}

/// Creates the tool `condition`, which evaluates a line of [CEL](agentflow_core::expression) to `true` or
/// `false`.
///
/// The arguments are `{"expression": "total > 100", "variables": {"total": 120}}`. The tool has no
/// effects, and its work is bounded by the limits of an [`Expression`]. If the expression is
/// invalid, has no value, or has a value other than `true` or `false`, the model gets an error with
/// the position and a suggestion.
///
/// ```
/// use agentflow::message::ToolCall;
/// use agentflow::{Runtime, tools};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentflow::Result<()> {
/// let runtime = Runtime::builder().tools(tools::condition()).build();
/// let arguments = json!({"expression": "total > 100", "variables": {"total": 120}});
/// let result = runtime.invoke(&ToolCall::new("1", "condition", arguments.to_string()), &[]).await?;
/// assert_eq!(result.text(), "true");
/// # Ok(())
/// # }
/// ```
#[doc(alias = "ConditionTool")]
pub fn condition() -> FnTool {
    let about = "Says whether a condition holds: a line of CEL over the variables that you give.";
    let tool = FnTool::new("condition", about, |_cx, asked: ConditionArguments| {
        std::future::ready(holds(asked))
    });
    tool.policy(ToolPolicy::default().effects(Effects::None))
}

fn holds(
    ConditionArguments { expression, variables }: ConditionArguments,
) -> Result<bool, ToolError> {
    let expression: Expression =
        expression.parse().map_err(|error| ToolError::from_error(&error))?;
    match expression
        .evaluate(&Value::Object(variables))
        .map_err(|error| ToolError::from_error(&error))?
    {
        Value::Bool(holds) => Ok(holds),
        other => Err(ToolError::new(format!(
            "the value of `{expression}` is `{other}`, neither `true` nor `false`; compare it"
        ))),
    }
}
