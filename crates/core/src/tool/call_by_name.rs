//! Calls of tools by name in a workflow step, for tools that need an approval or a scope that the
//! run lacks. The call and its question are recorded below the step, as for a tool function.
//!
//! `call_in_step.rs` makes the call. A call that needs no approval is recorded by its node.

use std::any::TypeId;
use std::sync::Arc;

use serde_json::Value;

use super::call_forms::{ArgumentCopies, ErrorForm};
use super::call_in_step::{StepCall, missing_scope};
use super::call_record::failure_of;
use super::{ToolError, ToolRef, fitting};
use crate::context::Context;
use crate::failure::{Failure, FailureKind};

/// The answer of a call as JSON, or its failure.
type Answered = Result<String, Failure>;

/// Calls a tool after a person has approved it, or refuses the call if the run lacks a scope.
/// `arguments` is a JSON object; `function` identifies the tool's Rust function.
///
/// # Errors
/// The failure of the tool. A denied or refused call ends the step.
pub(crate) async fn call_with_approval(
    cx: &Context,
    tool: &ToolRef,
    function: Option<TypeId>,
    arguments: &str,
) -> Answered {
    let given: Value = serde_json::from_str(arguments).unwrap_or_default();
    let problem = |error: ToolError| failure_of(&error);
    let is_refused = missing_scope(cx, tool.definition()).is_some();
    if !is_refused {
        fitting(tool.definition(), arguments).map_err(problem)?;
    }
    let Some(call) = StepCall::by_name(function, Arc::clone(tool.definition())) else {
        return Err(Failure::new(
            FailureKind::Unauthorized,
            format!("`{}` asks a person, and no step calls it", tool.name()),
        ));
    };
    let body = |cx: Context, arguments: String| {
        let tool = tool.clone();
        async move {
            // The person may have changed the arguments, so they are checked again.
            let answer = match fitting(tool.definition(), &arguments) {
                Ok(_) => tool.call(&cx, &arguments).await,
                Err(misfit) => Err(misfit),
            };
            let value =
                answer.as_ref().map(|output| output.as_json().to_owned()).map_err(failure_of);
            (value, answer)
        }
    };
    let ways = ArgumentCopies::new(
        |arguments: &String| Some(arguments.clone()),
        |_, changed| changed.whole(),
    );
    let forms = (
        Some((|json| Some(Ok(json.to_owned()))) as fn(&str) -> Option<Answered>),
        ErrorForm { record: |_| None, cause: |_| None, read: |_, failure| Some(Err(failure)) },
    );
    call.known(given).run(None, arguments.to_owned(), ways, body, forms).await
}
