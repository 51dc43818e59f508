//! `exit_loop`: the tool by which a model ends the repetition around its agent, as a path. What it does is
//! `Context::exit_loop`.

use std::any::TypeId;

use super::tool::{LinkedTool, Options, PathTool, ToolFn0};
use crate::context::Context;
use crate::event::EXIT_TOOL;
use crate::tool::{EXIT_LOOP, Effects, ToolFuture};

/// The tool by which a model says that the `repeat!` around its agent is finished: no round follows this one.
///
/// It is for an agent whose answer is text, or one that a graph names. An answer with a type says it better, since `until`
/// reads it: `until = |draft| draft.good`. An agent of a [`Team`](crate::agent::Team) needs neither: who answers without a
/// transfer ends the team's run.
///
/// It is a path for `tools![..]` and `#[agent(tools = [..])]`; code calls [`Context::exit_loop`]. After the call
/// the model is not asked again: its text beside the call is the output of the last round. Without a text, the output is that
/// of the previous round, or the input of the first round. A text that does
/// not fit the type of the answer counts as no text. Outside of a repetition the call has no effect, and the model continues.
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
