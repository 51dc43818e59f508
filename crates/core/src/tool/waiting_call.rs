//! Tool calls that ask people questions while they run.
//!
//! The state needed to continue is recorded with the questions. The call therefore waits across
//! restarts and continues where it stopped, without repeating work. This module calls nothing: the
//! tool continues with the answers. After a later failure, the call starts again if its policy
//! allows that.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{CallQuestion, QuestionAnswer, ToolError, UserQuestion, pending_questions, wire_name};
use crate::context::Context;
use crate::event::{EventKind, ToolWaiting};
use crate::path::StepPath;
use crate::run::RunShared;
use crate::value::Encoded;

/// A tool call that asks people questions and waits for the answers, also across restarts.
///
/// The body of a tool uses it in three steps:
///
/// 1. [`resumed`](Self::resumed) returns the questions of an earlier process, with the recorded
///    state. Then the work before the questions is not repeated.
/// 2. Otherwise the tool does its work, and [`begin`](Self::begin) records the questions with the
///    state that the tool needs to continue.
/// 3. [`answers`](Self::answers) sends the questions and waits. The tool continues with the answers.
///
/// A call can wait only if it is recorded in a run with a durable journal:
/// [`can_begin`](Self::can_begin) tells. The MCP client uses it for elicitation, and the A2A client
/// for tasks that require input.
///
/// If the run is cancelled, or another process takes over, the future of the call is dropped.
/// [`Context::is_draining`] distinguishes the two in a destructor.
///
/// ```
/// use agentflow::prelude::*;
/// use agentflow::runtime::OpenQuestion;
/// use agentflow::serde_json::json;
/// use agentflow::store::{MemoryStore, RunFilter};
/// use agentflow::tool::{FnTool, ToolError, UserQuestion, WaitingCall};
/// use agentflow_testing::{ScriptedModel, Turn};
///
/// async fn reserve(cx: Context, (): ()) -> Result<String, ToolError> {
///     let waiting = match WaitingCall::resumed(&cx) {
///         Some(waiting) => waiting,
///         None if WaitingCall::can_begin(&cx, "reserve") => {
///             // The room is held before the question. A restart does not hold a second one.
///             let held = json!({"room": 12});
///             let question = UserQuestion::choice("Which bed?", ["one", "two"]).kind("hotel.bed");
///             WaitingCall::begin(&cx, &held, vec![question]).await?
///         }
///         None => return Err(ToolError::new("a person must choose; start the run in a store")),
///     };
///     let held: serde_json::Value = waiting.decode_state()?;
///     let bed: String = waiting.answers(true).await?.remove(0).decode()?;
///     Ok(format!("room {} with {bed} bed", held["room"]))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new([Turn::call("reserve", json!({})), Turn::text("It is done.")]);
/// let runtime = Runtime::builder().store(MemoryStore::new()).build();
/// let agent = Agent::new(model).tools(FnTool::new("reserve", "Reserve a room.", reserve));
/// let run = agent.runtime(&runtime).start("A room, please.")?;
/// let question: OpenQuestion = loop {
///     match runtime.runs().questions(RunFilter::new()).await?.pop() {
///         Some(question) => break question,
///         None => tokio::task::yield_now().await,
///     }
/// };
/// assert_eq!((&*question.message, &*question.kind), ("Which bed?", "hotel.bed"));
/// runtime.run(&question.run).answer(&question.id, &"two", "ada").await?;
/// assert_eq!(run.result().await?.output(), "It is done.");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct WaitingCall {
    cx: Context,
    waiting: Arc<ToolWaiting>,
}

impl WaitingCall {
    /// Returns `true` if the call to this tool at the current path can wait: it is recorded there,
    /// in a run with a durable journal.
    ///
    /// `tool` is the tool's name in the catalogue, such as `hotel.reserve` for the tool `reserve`
    /// of the toolset `hotel`, or its wire name. A tool that runs inside the call of another tool
    /// cannot wait, because the journal contains only the outer call.
    pub fn can_begin(cx: &Context, tool: &str) -> bool {
        cx.run().log.is_durable() && recorded_as(cx, tool).is_some()
    }

    /// Returns `true` if the call can wait and is a node. No model reads the answer of such a call.
    pub fn can_begin_in_node(cx: &Context, tool: &str) -> bool {
        cx.run().log.is_durable() && Self::is_node(cx, tool)
    }

    /// Returns `true` if the call to this tool at the current path is a node, in a durable run or
    /// not.
    pub fn is_node(cx: &Context, tool: &str) -> bool {
        recorded_as(cx, tool) == Some(true)
    }

    /// Returns the questions that the call at the current path waited for when its process ended,
    /// or `None` if the call starts from the beginning.
    pub fn resumed(cx: &Context) -> Option<Self> {
        let waiting = cx.is_step().then(|| pending_questions(cx.run(), cx.path())).flatten()?;
        Some(Self { cx: cx.clone(), waiting })
    }

    /// Records that the call waits, with the state from which it continues. The record is stored
    /// before a person sees a question. A redactor does not change the state.
    ///
    /// # Errors
    /// The call cannot wait (see [`can_begin`](Self::can_begin)), the state or a question is not
    /// valid JSON, or the store fails.
    ///
    /// # Cancel safety
    /// If the future is dropped, the call may be recorded as waiting, and
    /// [`resumed`](Self::resumed) returns it in the next process.
    pub async fn begin<S: Serialize + ?Sized>(
        cx: &Context,
        state: &S,
        questions: Vec<UserQuestion>,
    ) -> Result<Self, ToolError> {
        if !cx.run().log.is_durable() || tool_of(cx).is_none() {
            return Err(ToolError::new(
                "this call cannot wait for a person; start its run with a store, and call the tool as a step of the run",
            ));
        }
        let state = Encoded::new(state).map_err(|error| ToolError::new(error.to_string()))?;
        let mut requests = Vec::with_capacity(questions.len());
        for question in questions {
            let request = question.into_request();
            requests.push(request.map_err(|error| ToolError::new(error.to_string()))?);
        }
        let asked = number_of_questions(cx);
        let waiting = Arc::new(ToolWaiting::new(state, requests, asked));
        cx.run().record(cx.path().clone(), EventKind::ToolWaiting(Arc::clone(&waiting)));
        cx.run().log.commit().await.map_err(|error| ToolError::new(error.to_string()))?;
        Ok(Self { cx: cx.clone(), waiting })
    }

    /// Returns the state from which the tool continues, as recorded.
    pub fn state(&self) -> &Encoded {
        &self.waiting.state
    }

    /// Decodes the state from which the tool continues.
    ///
    /// # Errors
    /// The state has another form, because another release of the program recorded it.
    pub fn decode_state<S: DeserializeOwned>(&self) -> Result<S, ToolError> {
        self.waiting.state.decode().map_err(|error| {
            ToolError::new(format!(
                "the recorded state of the waiting call cannot be read: {error}"
            ))
        })
    }

    /// Sends the questions that were not sent yet, waits for all answers, and records that the call
    /// continues. Returns an answer for each question, in order.
    ///
    /// `repeatable` is `true` if the rest of the call may be repeated. If the process ends after the
    /// answers with `false`, an operator or the model decides about the interrupted call, as for
    /// any tool with side effects.
    ///
    /// # Errors
    /// The store fails.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the open questions, unless the run is
    /// [draining](Context::is_draining).
    pub async fn answers(self, repeatable: bool) -> Result<Vec<QuestionAnswer>, ToolError> {
        let run = self.cx.run();
        let paths = (1..).map(|number| self.cx.path().question(self.waiting.asked + number));
        let open: Vec<CallQuestion> = paths
            .zip(&self.waiting.questions)
            .map(|(path, question)| CallQuestion::of_call(Arc::clone(run), path, question.clone()))
            .collect();
        let stored = |error: crate::store::StoreError| ToolError::new(error.to_string());
        let answered = async {
            let mut answers = Vec::with_capacity(open.len());
            for question in open {
                answers.push(question.answer().await?);
            }
            Ok(answers)
        };
        let answers = tokio::select! {
            biased;
            answers = answered => answers.map_err(stored)?,
            // This process is shutting down. The call keeps waiting in the process that resumes the
            // run.
            () = async { run.until_drained().await; run.park(self.cx.path()).await } => return std::future::pending().await,
        };
        run.record(self.cx.path().clone(), EventKind::ToolContinued { repeatable });
        run.log.commit().await.map_err(stored)?;
        Ok(answers)
    }
}

impl fmt::Debug for WaitingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingCall")
            .field("path", self.cx.path())
            .field("waiting", &self.waiting)
            .finish()
    }
}

/// Sends a question to a person while the call keeps running, for example over a connection that
/// stays open. `asked_here` is the number of questions that this execution of the call has sent
/// before.
///
/// The call does not survive the end of its process; use [`WaitingCall`] if its work must not be
/// repeated. A call that is repeated after a crash and sends the same question gets the earlier
/// answer.
///
/// # Errors
/// The question is not valid JSON, or the store fails.
///
/// # Cancel safety
/// Dropping the future withdraws the question. [`Context::store_events`] stores that at once.
pub async fn ask_within_call(
    cx: &Context,
    asked_here: u32,
    question: UserQuestion,
) -> Result<QuestionAnswer, ToolError> {
    let request = question.into_request().map_err(|error| ToolError::new(error.to_string()))?;
    let run = cx.run();
    // Uses the first number without a recorded question, or with a question of the same text and
    // answer.
    let path = (asked_here + 1..)
        .map(|number| cx.path().question(number))
        .find(|path| {
            let recorded = run.log.records_below(path);
            let before = recorded.iter().rev().find_map(|(_, of, kind)| match kind {
                EventKind::ApprovalRequested(before) if of == path => Some(before),
                _ => None,
            });
            before.is_none_or(|before| {
                before.message == request.message && before.answer == request.answer
            })
        })
        .unwrap_or_else(|| cx.path().clone());
    let question = CallQuestion::of_call(Arc::clone(run), path, request);
    question.answer().await.map_err(|error| ToolError::new(error.to_string()))
}

/// Returns `Some` if the call at the current path is recorded as a call to this tool, with `true` if
/// the call is a node. A model's call is recorded under the wire name, a node's under the name in
/// the catalogue.
fn recorded_as(cx: &Context, tool: &str) -> Option<bool> {
    let (recorded, is_node) = tool_of(cx)?;
    (*recorded == *tool || *recorded == *wire_name(tool)).then_some(is_node)
}

/// Returns the tool whose call is at the current path, and `true` if the call is a node.
fn tool_of(cx: &Context) -> Option<(Arc<str>, bool)> {
    let run = cx.run();
    if !cx.is_step() {
        return None;
    }
    let recorded = run.log.records_below(cx.path());
    let mut own = recorded.into_iter().rev().filter(|(_, path, _)| path == cx.path());
    own.find_map(|(_, _, kind)| match kind {
        EventKind::ToolStarted { call, .. } => {
            Some(Some((call.name.as_str().into(), is_made_by_node(run, cx.path()))))
        }
        EventKind::NodeStarted { tool, .. } => Some(tool.map(|tool| (tool, true))),
        _ => None,
    })?
}

/// Returns `true` if a node makes the call and records it at this path. A model that calls
/// the tool has an agent that was started after the node.
fn is_made_by_node(run: &RunShared, call: &StepPath) -> bool {
    let Some(caller) = call.parent() else { return false };
    let recorded = run.log.records_below(&caller);
    let mut own = recorded.into_iter().rev().filter(|(_, path, _)| *path == caller);
    own.find_map(|(_, _, kind)| match kind {
        EventKind::AgentStarted(_) => Some(false),
        EventKind::NodeStarted { .. } => Some(true),
        _ => None,
    })
    .unwrap_or_default()
}

/// Returns the number of questions that the call at the current path has sent.
fn number_of_questions(cx: &Context) -> u32 {
    let recorded = cx.run().log.records_below(cx.path());
    let asked = recorded.iter().filter(|(_, path, kind)| {
        matches!(kind, EventKind::ApprovalRequested(_))
            && path.is_question()
            && path.parent().as_ref() == Some(cx.path())
    });
    // A question that was sent again under the same path counts once.
    let asked: BTreeSet<_> = asked.map(|(_, path, _)| path).collect();
    u32::try_from(asked.len()).unwrap_or(u32::MAX)
}
