//! Tool calls that ask people questions while they run.
//!
//! The state needed to continue is recorded with the questions. The call therefore waits across
//! restarts and continues where it stopped, without repeating work. This module calls nothing: the
//! tool continues with the answers. After a later failure, the call starts again if its policy
//! allows that.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{CallQuestion, QuestionAnswer, ToolError, UserQuestion, pending_questions};
use crate::context::Context;
use crate::event::{EventKind, ToolWaiting};
use crate::path::StepPath;
use crate::run::RunShared;
use crate::value::Encoded;

/// A call that waits for answers, since now or since an earlier process.
#[allow(missing_debug_implementations, reason = "a context has no form to show")]
pub struct WaitingCall {
    cx: Context,
    waiting: Arc<ToolWaiting>,
}

impl WaitingCall {
    /// Returns `true` if the call to this tool at the current path can wait: it is recorded there,
    /// in a run with a durable journal.
    pub fn can_begin(cx: &Context, tool: &str) -> bool {
        cx.run().log.is_durable() && matches!(tool_of(cx), Some((of, _)) if *of == *tool)
    }

    /// Returns `true` if the call can wait and is a node. No model reads the answer of such a call.
    pub fn can_begin_in_node(cx: &Context, tool: &str) -> bool {
        cx.run().log.is_durable() && Self::is_node(cx, tool)
    }

    /// Returns `true` if the call to this tool at the current path is a node, in a durable run or
    /// not.
    pub fn is_node(cx: &Context, tool: &str) -> bool {
        matches!(tool_of(cx), Some((of, true)) if *of == *tool)
    }

    /// Returns the questions that the call at the current path waited for when its process ended.
    pub fn of_earlier(cx: &Context) -> Option<Self> {
        let waiting = cx.is_step().then(|| pending_questions(cx.run(), cx.path())).flatten()?;
        Some(Self { cx: cx.clone(), waiting })
    }

    /// Records that the call waits, with the state from which it continues. The record is stored
    /// before a person sees a question.
    ///
    /// # Errors
    /// A question is not valid JSON, or the store fails.
    pub async fn begin(
        cx: &Context,
        state: Encoded,
        questions: Vec<UserQuestion>,
    ) -> Result<Self, ToolError> {
        let questions: Result<Vec<_>, _> =
            questions.into_iter().map(UserQuestion::into_request).collect();
        let questions = questions.map_err(|error| ToolError::new(error.to_string()))?;
        let asked = number_of_questions(cx);
        let waiting = Arc::new(ToolWaiting::new(state, questions, asked));
        cx.run().record(cx.path().clone(), EventKind::ToolWaiting(Arc::clone(&waiting)));
        cx.run().log.commit().await.map_err(|error| ToolError::new(error.to_string()))?;
        Ok(Self { cx: cx.clone(), waiting })
    }

    /// Returns the state from which the tool continues.
    pub fn state(&self) -> &Encoded {
        &self.waiting.state
    }

    /// Sends the questions that were not sent yet, waits for all answers, and records that the call
    /// continues. `repeatable` is `true` if the rest of the call may be repeated.
    ///
    /// # Errors
    /// The store fails.
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

/// Sends a question to a person while the call keeps running. A call that is repeated after a crash
/// and sends the same question gets the earlier answer.
///
/// # Errors
/// The question is not valid JSON, or the store fails.
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
