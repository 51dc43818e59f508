//! `ask_user`: the tool with which a model asks the user, as a path and as a function.

use std::any::TypeId;

use super::tool::{LinkedTool, PathTool};
use crate::tool::AskUser;
use crate::tool::ask_user::{definition, question_of};

/// A tool with which a model asks the user for text, for one of several choices, or for an answer
/// with a JSON Schema that the model writes.
///
/// As a path it is a tool like any other, in `tools![..]` and `#[agent(tools = [..])]`. As a
/// function it returns the tool with settings, such as [`AskUser::timeout`].
///
/// The question is recorded in the run's journal and waits without a limit, also for another
/// process, like the question of a tool with `approve`:
/// [`Runs::questions`](crate::runtime::Runs::questions) lists it and
/// [`RunRef::answer`](crate::runtime::RunRef::answer) answers it. An answer that does not match the
/// requested form is rejected with a message, and the question stays open. In a run without a store
/// and outside of an agent's run, the call fails and the model receives the reason. Middleware is
/// not applied to the call.
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
/// let question = &runtime.runs().questions(RunFilter::new()).await?[0];
/// assert_eq!(question.message, "Which seat?");
/// let wrong = runtime.run(&question.run).answer(&question.path, "roof", "ada").await.unwrap_err();
/// assert!(wrong.to_string().contains("does not fit"));
/// runtime.run(&question.run).answer(&question.path, "window", "ada").await?;
/// assert_eq!(run.result().await?.output(), "A window seat it is.");
/// # Ok(())
/// # }
/// ```
pub fn ask_user() -> AskUser {
    AskUser::new()
}

/// The tool as a path in a list of tools.
#[doc(hidden)]
#[allow(non_camel_case_types)]
pub struct ask_user {}

static ASK_USER: LinkedTool =
    LinkedTool::asking("ask_user", (file!(), line!()), (definition, question_of));

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
