//! `condition`: the tool that says whether a condition holds for given values. It reads nothing but its arguments.

use agentflow_schema::expression::Expression;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::tool::{Effects, FnTool, ToolError, ToolPolicy};

#[derive(Deserialize, JsonSchema)]
struct Asked {
    /// One line of CEL that is true or false, such as `total > 100 && kind in ['a', 'b']`.
    expression: String,
    /// The variables of the expression by their names.
    variables: Map<String, Value>,
}

/// The tool `condition`: whether a line of [CEL](crate::expression) holds for values, `true` or `false`.
///
/// Its arguments are `{"expression": "total > 100", "variables": {"total": 120}}`. It has no effects, and its work is bounded
/// by the limits of an [`Expression`]. An expression that is not one, that has no value, or whose value is neither `true` nor
/// `false`, is an answer to the model that names the place and the remedy.
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
    let tool = FnTool::new("condition", about, |_cx, asked: Asked| std::future::ready(holds(asked)));
    tool.policy(ToolPolicy::default().effects(Effects::None))
}

fn holds(Asked { expression, variables }: Asked) -> Result<bool, ToolError> {
    let expression: Expression = expression.parse().map_err(|error| ToolError::of(&error))?;
    match expression.evaluate(&Value::Object(variables)).map_err(|error| ToolError::of(&error))? {
        Value::Bool(holds) => Ok(holds),
        other => Err(ToolError::new(format!(
            "the value of `{expression}` is `{other}`, neither `true` nor `false`; compare it"
        ))),
    }
}
