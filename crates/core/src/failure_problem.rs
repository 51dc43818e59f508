//! [`FailureProblem`]: the reason of a [`Failure`](crate::failure::Failure) as data, for failures
//! that have a code.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use agentflow_schema::diagnostic::{ArgumentValue, Diagnostic, ExcerptKind};
use agentflow_schema::text::head;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum number of bytes of an argument or an expression in a recorded failure.
const LONGEST: usize = 1 << 10;

/// The reason of a failure as data: why a value or a condition of a graph could not be computed.
///
/// ```
/// # use agentflow::prelude::*;
/// # use agentflow::workflow::Graph;
/// # use agentflow::serde_json::json;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph: Graph = serde_json::from_value(json!({
///     "version": 1, "name": "size", "output": "big", "concurrency": 1,
///     "nodes": [{"name": "order", "kind": "input"}, {"name": "big", "does": {"value": {"cel": "order.total > 5"}}}],
/// }))?;
/// let runtime = Runtime::builder().graph(graph).build();
/// let order = agentflow::value::Encoded::new(&json!({"order": {"sum": 7}}))?;
/// let error = runtime.start_named("size", order).await?.result().await.unwrap_err();
/// let failure = agentflow::error::Failure::from(&error);
/// let problem = failure.problem().unwrap();
/// assert_eq!(&*problem.code, "expression.no-field");
/// assert_eq!(problem.arguments["field"], "total");
/// assert_eq!(problem.expression.as_deref(), Some("order.total > 5"));
/// assert_eq!(problem.bytes, Some(6..11));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct FailureProblem {
    /// Code, such as `value.no-output`.
    pub code: Arc<str>,
    /// Arguments of the message by name, such as the missing `node` or `field`. Long texts are
    /// truncated to 1 KiB.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Value>,
    /// Expression, question or text that could not be evaluated, as its author wrote it, truncated
    /// to 1 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<Arc<str>>,
    /// Byte range of the problem in the expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Range<usize>>,
}

impl FailureProblem {
    pub(crate) fn from_diagnostic(diagnostic: &Diagnostic) -> Self {
        let mut arguments = BTreeMap::new();
        for argument in diagnostic.arguments() {
            let value = match argument.value() {
                ArgumentValue::Text(text) => head(text, LONGEST).into(),
                ArgumentValue::Number(number) => (*number).into(),
                ArgumentValue::List(texts) => texts.clone().into(),
                _ => Value::Null,
            };
            arguments.insert(argument.name().to_owned(), value);
        }
        let excerpts = &diagnostic.location().excerpts;
        let excerpt = excerpts.iter().find(|excerpt| excerpt.kind != ExcerptKind::Placeholder);
        let excerpt = excerpt.or(excerpts.first());
        Self {
            code: diagnostic.code().name().into(),
            arguments,
            expression: excerpt.map(|excerpt| head(&excerpt.text, LONGEST).into()),
            bytes: excerpt.map(|excerpt| excerpt.bytes.clone()),
        }
    }
}
