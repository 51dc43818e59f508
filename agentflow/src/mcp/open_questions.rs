//! Questions that a server asks while it is called: to the call that they belong to. Which call that is the protocol does not
//! say, so a question is only asked while one call alone runs.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::ErrorData;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use tokio::sync::{mpsc, oneshot};

use super::elicited::{self, MOST_TIMES};
use crate::context::Context;
use crate::tool::{UserQuestion, ask_within_call};

/// A question, and where its answer is waited for.
type Open = (ElicitRequestParams, oneshot::Sender<ElicitResult>);

/// The calls of one connection that run.
#[derive(Default)]
pub(super) struct OpenQuestions(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    next: u64,
    /// With where its questions are taken, when it can wait for a person.
    running: Vec<(u64, Option<mpsc::Sender<Open>>)>,
}

/// The questions of one call, until it is dropped.
pub(super) struct QuestionsOfCall {
    all: Arc<OpenQuestions>,
    number: u64,
    questions: mpsc::Receiver<Open>,
}

impl OpenQuestions {
    pub(super) fn of_call(self: &Arc<Self>, can_wait: bool) -> QuestionsOfCall {
        let (sender, questions) = mpsc::channel(MOST_TIMES as usize);
        let mut calls = self.calls();
        let number = calls.next;
        calls.next += 1;
        calls.running.push((number, can_wait.then_some(sender)));
        QuestionsOfCall { all: Arc::clone(self), number, questions }
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a person in the call that runs; declines where nobody can be asked.
    ///
    /// # Errors
    /// When several calls run.
    pub(super) async fn ask(&self, params: ElicitRequestParams) -> Result<ElicitResult, ErrorData> {
        let declined = || ElicitResult::new(ElicitationAction::Decline);
        let call = match &*self.calls().running {
            [(_, call)] => call.clone(),
            [] => None,
            _ => {
                let problem = "several calls run over this connection, so it is not known which of them asks";
                return Err(ErrorData::invalid_request(problem, None));
            }
        };
        let Some(call) = call else { return Ok(declined()) };
        let (reply, answer) = oneshot::channel();
        // More than it may ask in a call, or nobody takes it any more.
        if call.try_send((params, reply)).is_err() {
            return Ok(declined());
        }
        Ok(answer.await.unwrap_or_else(|_| ElicitResult::new(ElicitationAction::Cancel)))
    }
}

impl QuestionsOfCall {
    /// Asks a person whatever the server asks, one question after the other, as long as it is polled. What it asks too often
    /// is declined; each question counts, since each is recorded, also one that the server takes back.
    pub(super) async fn answered(mut self, cx: &Context, server: &str) -> Infallible {
        let (mut asked, mut begun) = (0, 0);
        loop {
            // The sender is here.
            let Some((params, mut reply)) = self.questions.recv().await else { return std::future::pending().await };
            let question = match elicited::of_params(server, &params) {
                Ok(_) if begun == MOST_TIMES => {
                    Err(format!("it asked {MOST_TIMES} times in one call, which is the most"))
                }
                question => question,
            };
            let question = match question {
                Ok(question) => question,
                Err(problem) => {
                    tracing::warn!(server, problem, "a question of an MCP server is declined");
                    let _ = reply.send(ElicitResult::new(ElicitationAction::Decline));
                    continue;
                }
            };
            begun += 1;
            let answer = tokio::select! {
                biased;
                // The server no longer waits.
                () = reply.closed() => continue,
                answer = said(cx, asked, question) => answer,
            };
            asked += 1;
            let _ = reply.send(answer);
        }
    }
}

/// What a person says to a question.
async fn said(cx: &Context, asked: u32, question: UserQuestion) -> ElicitResult {
    match ask_within_call(cx, asked, question).await {
        Ok(answer) => elicited::answer(&answer),
        Err(problem) => {
            tracing::warn!(%problem, "a question of an MCP server could not be asked");
            ElicitResult::new(ElicitationAction::Cancel)
        }
    }
}

impl Drop for QuestionsOfCall {
    fn drop(&mut self) {
        self.all.calls().running.retain(|(number, _)| *number != self.number);
    }
}
