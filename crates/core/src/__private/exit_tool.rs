//! [`exit_loop`]: the tool with which a model ends the repetition around its agent, as a path.
//! [`Context::exit_loop`] implements it.

use std::any::TypeId;

use super::tool::{LinkedTool, Options, PathTool, ToolFn0};
use crate::context::Context;
use crate::event::EXIT_TOOL;
use crate::tool::{EXIT_LOOP, Effects, ToolFuture};

/// A tool with which a model ends the `repeat!` around its agent after the current round.
///
/// Use it for an agent whose answer is text, or for an agent in a graph. For an agent with a typed
/// answer, a field of the answer is the better signal, since `until` can read it: `until = |draft|
/// draft.good`. An agent of a [`Team`](crate::agent::Team) needs neither: the run of the team ends
/// when an agent answers without a handoff.
///
/// It is a path for `tools![..]` and `#[agent(tools = [..])]`; code calls [`Context::exit_loop`].
/// After the call, the model is not called again: the text of the same response is the output of
/// the last round. Without text, or if the text does not match the type of the answer, the output
/// is the output of the previous round, or the input of the first round. Outside of a repetition,
/// the call has no effect, and the model continues.
///
/// ```
/// # use agentflow::prelude::*;
/// # use agentflow_testing::{ScriptedModel, Turn};
/// # use serde_json::json;
/// /// Make a text better. Call `exit_loop` when nothing is left to do.
/// ///
/// /// {text}
/// #[agent(tools = [agentflow::exit_loop])]
/// async fn polish(cx: &Context, text: String) -> Result<String>;
///
/// #[workflow]
/// async fn polished(cx: &Context, text: String) -> Result<String> {
///     let text = repeat!(text, |text| polish(cx, text), max = 5).await?;
///     Ok(text)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// # let model = ScriptedModel::new([
/// #     Turn::text("tea, hot"),
/// #     Turn::text("hot tea").and_call("exit_loop", json!({})),
/// # ]);
/// let runtime = Runtime::builder().model(model).build();
/// assert_eq!(polished(&runtime.context(), "tea hot".to_owned()).await?, "hot tea"); // in the second round
/// # Ok(())
/// # }
/// ```
#[allow(non_camel_case_types)]
pub struct exit_loop {}

static EXIT: LinkedTool = LinkedTool::new(
    EXIT_TOOL,
    EXIT_LOOP,
    (file!(), line!()),
    &[],
    Options { effects: Effects::None, sync: true, ..Options::DEFAULT },
    exit_loop::BODY,
);

impl ToolFn0 for exit_loop {
    fn call(cx: &Context, (): ()) -> ToolFuture<'_> {
        ToolFuture::ready(crate::tool::exit_loop(cx))
    }
}

#[diagnostic::do_not_recommend]
impl PathTool for exit_loop {
    type Parameters = ();

    const PARAMETERS: &'static [&'static str] = &[];

    fn tool() -> &'static LinkedTool {
        &EXIT
    }

    fn function() -> TypeId {
        TypeId::of::<Self>()
    }
}
