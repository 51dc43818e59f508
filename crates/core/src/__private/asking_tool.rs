//! `ask_user`: the tool by which a model asks its user, as a path and as a value. It asks nobody.

use std::any::TypeId;

use super::tool::{LinkedTool, PathTool};
use crate::tool::AskUser;
use crate::tool::ask_user::{definition, question_of};

/// The tool by which a model asks its user: a text, one of some choices, or an answer of a JSON Schema that the model
/// writes.
///
/// As a path it is a tool like any other, in `tools![..]` and `#[agent(tools = [..])]`; as a function it gives the tool with
/// settings, such as [`AskUser::timeout`].
///
/// The question is kept in the run's journal and waits as long as it takes, also for another process, as that of a tool
/// with `approve` does: [`Runtime::approvals`](crate::Runtime::approvals) lists it and
/// [`Runtime::answer`](crate::Runtime::answer) answers it. An answer that does not fit is refused with a sentence, and the
/// question stays. In a run without a store, and outside of an agent's run, nobody can be asked: the call fails, and the
/// model learns why. A middleware does not see the call.
///
/// ```
/// # use agentflow::prelude::*;
/// # use agentflow::agent::RunRequest;
/// # use agentflow::store::{MemoryStore, RunFilter};
/// # use agentflow_testing::{ScriptedModel, Turn};
/// # use futures_util::StreamExt;
/// # use serde_json::json;
/// /// Book a flight.
/// #[agent(tools = [agentflow::ask_user])]
/// async fn book(cx: &Context, to: String) -> Result<String>;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// # let model = ScriptedModel::new([
/// #     Turn::call("ask_user", json!({"question": "Which seat?", "choices": ["window", "aisle"]})),
/// #     Turn::text("A window seat it is.").expect_text("window"),
/// # ]);
/// let runtime = Runtime::builder().model(model).store(MemoryStore::new()).build();
/// let run = book::agent("Oslo".into()).runtime(&runtime).start(RunRequest::default())?;
/// # run.events().any(|event| async move { event.name() == "run.paused" }).await;
/// let question = &runtime.approvals(RunFilter::new()).await?[0];
/// assert_eq!(question.message, "Which seat?");
/// let wrong = runtime.answer(&question.run, &question.path, "roof", "ada").await.unwrap_err();
/// assert!(wrong.to_string().contains("does not fit"));
/// runtime.answer(&question.run, &question.path, "window", "ada").await?;
/// assert_eq!(run.result().await?.output(), "A window seat it is.");
/// # Ok(())
/// # }
/// ```
pub fn ask_user() -> AskUser {
    AskUser::new()
}

/// The path in a list of tools.
#[doc(hidden)]
#[allow(non_camel_case_types)]
pub struct ask_user {}

static ASK_USER: LinkedTool = LinkedTool::asking("ask_user", (file!(), line!()), (definition, question_of));

impl PathTool for ask_user {
    type Parameters = ();

    const PARAMETERS: &'static [&'static str] = &["question", "choices", "schema"];

    fn tool() -> &'static LinkedTool {
        &ASK_USER
    }

    fn function() -> TypeId {
        TypeId::of::<Self>()
    }
}
