//! A call that asks people in the middle: what it needs to continue is recorded with its questions, so that it waits over
//! restarts and then continues where it was, and nothing of it is done twice.
//!
//! It calls nothing: the tool continues with the answers. Where its policy says so, the call begins anew after a failure.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{CallAnswer, CallQuestion, ToolError, UserQuestion, asks_at};
use crate::context::Context;
use crate::event::{EventKind, ToolWaiting};
use crate::value::Encoded;

/// A call that asks, now or since an earlier life of its run.
pub(crate) struct WaitingCall {
    cx: Context,
    waiting: Arc<ToolWaiting>,
}

impl WaitingCall {
    /// Whether the call of a tool of this name, which is here, can wait: it is recorded as such, in a run whose questions
    /// somebody finds.
    pub(crate) fn can_begin(cx: &Context, tool: &str) -> bool {
        cx.run().log.is_durable() && matches!(tool_of(cx), Some((of, _)) if *of == *tool)
    }

    /// The same of a call that is a node, so that no model reads what it answers.
    #[cfg(feature = "a2a-client")]
    pub(crate) fn can_begin_in_node(cx: &Context, tool: &str) -> bool {
        cx.run().log.is_durable() && Self::is_node(cx, tool)
    }

    /// Returns true if the call of a tool of this name, which is here, is a node, durable or not.
    #[cfg(feature = "a2a-client")]
    pub(crate) fn is_node(cx: &Context, tool: &str) -> bool {
        matches!(tool_of(cx), Some((of, true)) if *of == *tool)
    }

    /// What the call that is here waited for when its process ended.
    pub(crate) fn of_earlier(cx: &Context) -> Option<Self> {
        let waiting = cx.is_step().then(|| asks_at(cx.run(), cx.path())).flatten()?;
        Some(Self { cx: cx.clone(), waiting })
    }

    /// Records that the call waits, and with what it continues. The record is kept before anybody sees a question.
    ///
    /// # Errors
    /// When a question is not JSON, or the store fails.
    pub(crate) async fn begin(cx: &Context, state: Encoded, questions: Vec<UserQuestion>) -> Result<Self, ToolError> {
        let questions: Result<Vec<_>, _> = questions.into_iter().map(UserQuestion::into_request).collect();
        let questions = questions.map_err(|error| ToolError::new(error.to_string()))?;
        let asked = number_of_questions(cx);
        let waiting = Arc::new(ToolWaiting::new(state, questions, asked));
        cx.run().record(cx.path().clone(), EventKind::ToolWaiting(Arc::clone(&waiting)));
        cx.run().log.commit().await.map_err(|error| ToolError::new(error.to_string()))?;
        Ok(Self { cx: cx.clone(), waiting })
    }

    /// What the tool needs to continue.
    pub(crate) fn state(&self) -> &Encoded {
        &self.waiting.state
    }

    /// Asks what nobody has been asked yet, waits until everything is answered, and records that the call continues.
    /// `repeatable` says whether what follows may simply be done again.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn answers(self, repeatable: bool) -> Result<Vec<CallAnswer>, ToolError> {
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
            // It continues in another process.
            () = async { run.until_drained().await; run.park(self.cx.path()).await } => return std::future::pending().await,
        };
        run.record(self.cx.path().clone(), EventKind::ToolContinued { repeatable });
        run.log.commit().await.map_err(stored)?;
        Ok(answers)
    }
}

/// Asks a person while the call that is here runs on. A call that is repeated after a crash, and asks the same, gets the
/// answer that was given before.
///
/// # Errors
/// When the question is not JSON, or the store fails.
#[cfg(feature = "mcp")]
pub(crate) async fn ask_within_call(
    cx: &Context,
    asked_here: u32,
    question: UserQuestion,
) -> Result<CallAnswer, ToolError> {
    let request = question.into_request().map_err(|error| ToolError::new(error.to_string()))?;
    let run = cx.run();
    let path = (asked_here + 1..)
        .map(|number| cx.path().question(number))
        .find(|path| {
            let recorded = run.log.records_below(path);
            let before = recorded.iter().rev().find_map(|(_, of, kind)| match kind {
                EventKind::ApprovalRequested(before) if of == path => Some(before),
                _ => None,
            });
            before.is_none_or(|before| before.message == request.message && before.answer == request.answer)
        })
        .unwrap_or_else(|| cx.path().clone());
    let question = CallQuestion::of_call(Arc::clone(run), path, request);
    question.answer().await.map_err(|error| ToolError::new(error.to_string()))
}

/// The tool whose call is here, and whether the call is a node.
fn tool_of(cx: &Context) -> Option<(Arc<str>, bool)> {
    let run = cx.run();
    if !cx.is_step() {
        return None;
    }
    let recorded = run.log.records_below(cx.path());
    let mut own = recorded.into_iter().rev().filter(|(_, path, _)| path == cx.path());
    own.find_map(|(_, _, kind)| match kind {
        EventKind::ToolStarted { call, .. } => Some(Some((call.name.as_str().into(), false))),
        EventKind::NodeStarted { tool, .. } => Some(tool.map(|tool| (tool, true))),
        _ => None,
    })?
}

/// How many questions the call that is here has asked.
fn number_of_questions(cx: &Context) -> u32 {
    let recorded = cx.run().log.records_below(cx.path());
    let asked = recorded.iter().filter(|(_, path, kind)| {
        matches!(kind, EventKind::ApprovalRequested(_))
            && path.is_question()
            && path.parent().as_ref() == Some(cx.path())
    });
    // One that was asked anew is one question.
    let asked: BTreeSet<_> = asked.map(|(_, path, _)| path).collect();
    u32::try_from(asked.len()).unwrap_or(u32::MAX)
}
