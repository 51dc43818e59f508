//! Questions that a server asks while it is called: to the call that they belong to. Which call that is the protocol does not
//! say. Over HTTP the stream says it on which a question comes; elsewhere a question is only asked while one call alone runs
//! and each that was given up before has its answer after all, since the server may still be at one that has none.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::ErrorData;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, RequestId};
use rmcp::service::InboundStreamOrigin;
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
    running: Vec<Running>,
    /// The calls that ended here before the server had answered them. It was told, and need not have stopped.
    given_up: HashSet<RequestId>,
    /// Whether they were more than are kept.
    is_over: bool,
}

/// The most calls without an answer that are kept.
const MOST_GIVEN_UP: usize = 1024;

struct Running {
    number: u64,
    /// Its request, once that is sent.
    request: Option<RequestId>,
    /// Where its questions are taken, when it can wait for a person.
    questions: Option<mpsc::Sender<Open>>,
    /// Whether the server has answered it, which it may not know yet itself.
    is_answered: bool,
}

/// A call that runs, until it is dropped: one that has no answer by then was given up.
pub(super) struct OpenCall {
    all: Arc<OpenQuestions>,
    number: u64,
    has_answer: bool,
}

/// The questions of one call.
pub(super) struct QuestionsOfCall(mpsc::Receiver<Open>);

impl OpenQuestions {
    pub(super) fn of_call(self: &Arc<Self>, can_wait: bool) -> (OpenCall, QuestionsOfCall) {
        let (sender, questions) = mpsc::channel(MOST_TIMES as usize);
        let mut calls = self.calls();
        let number = calls.next;
        calls.next += 1;
        calls.running.push(Running {
            number,
            request: None,
            questions: can_wait.then_some(sender),
            is_answered: false,
        });
        let call = OpenCall { all: Arc::clone(self), number, has_answer: false };
        (call, QuestionsOfCall(questions))
    }

    /// The server has answered a request, whether or not somebody still waits for that.
    pub(super) fn is_answered(&self, request: &RequestId) {
        let mut calls = self.calls();
        calls.given_up.remove(request);
        if let Some(call) = calls.running.iter_mut().find(|call| call.request.as_ref() == Some(request)) {
            call.is_answered = true;
        }
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a person in the call that a question belongs to; declines where nobody can be asked. `origin` is the stream on
    /// which the question came, where the transport knows it.
    ///
    /// # Errors
    /// When it is not known which call asks.
    pub(super) async fn ask(
        &self,
        params: ElicitRequestParams,
        origin: Option<&InboundStreamOrigin>,
    ) -> Result<ElicitResult, ErrorData> {
        let declined = || ElicitResult::new(ElicitationAction::Decline);
        let asking = self.calls().asking(origin);
        let call = asking.map_err(|problem| {
            tracing::warn!(problem, "a question of an MCP server is declined");
            ErrorData::invalid_request(problem, None)
        })?;
        let Some(call) = call else { return Ok(declined()) };
        let (reply, answer) = oneshot::channel();
        // More than it may ask in a call, or nobody takes it any more.
        if call.try_send((params, reply)).is_err() {
            return Ok(declined());
        }
        Ok(answer.await.unwrap_or_else(|_| ElicitResult::new(ElicitationAction::Cancel)))
    }
}

impl Calls {
    /// Where the questions of the call are taken that asks; `None` when it cannot wait for a person, or none runs.
    ///
    /// # Errors
    /// Why it is not known which call asks.
    fn asking(&self, origin: Option<&InboundStreamOrigin>) -> Result<Option<mpsc::Sender<Open>>, &'static str> {
        if let Some(InboundStreamOrigin::OutboundRequest(request)) = origin {
            if let Some(call) = self.running.iter().find(|call| call.request.as_ref() == Some(request)) {
                return Ok(call.questions.clone());
            }
            if self.running.iter().all(|call| call.request.is_some()) {
                return Err("the call that asks does not run any more");
            }
        }
        match &*self.running {
            [] => Ok(None),
            _ if self.is_over || !self.given_up.is_empty() => Err(
                "a call over this connection was given up before and may be the one that asks; connect again to be asked",
            ),
            [call] => Ok(call.questions.clone()),
            _ => Err("several calls run over this connection, so it is not known which of them asks"),
        }
    }
}

impl OpenCall {
    /// Its request has been sent; or with `None`, it was refused and nothing of it is at the server any more.
    pub(super) fn is_sent_as(&self, request: Option<RequestId>) {
        let mut calls = self.all.calls();
        if let Some(call) = calls.running.iter_mut().find(|call| call.number == self.number) {
            call.request = request;
        }
    }

    /// The server has answered it.
    pub(super) fn has_answer(&mut self) {
        self.has_answer = true;
    }
}

impl QuestionsOfCall {
    /// Asks a person whatever the server asks, one question after the other, as long as it is polled. What it asks too often
    /// is declined; each question counts, since each is recorded, also one that the server takes back.
    pub(super) async fn answered(mut self, cx: &Context, server: &str) -> Infallible {
        let (mut asked, mut begun) = (0, 0);
        loop {
            // The sender is here.
            let Some((params, mut reply)) = self.0.recv().await else { return std::future::pending().await };
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
                // The server no longer waits. Nothing else may be kept while it is called, and the question stays open so long.
                () = reply.closed() => {
                    if let Err(error) = cx.run().log.commit().await {
                        tracing::warn!(server, %error, "a question of an MCP server that was taken back is kept as open");
                    }
                    continue;
                }
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

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut calls = self.all.calls();
        let Some(at) = calls.running.iter().position(|call| call.number == self.number) else { return };
        let call = calls.running.remove(at);
        // The server knows nothing of a call that was not sent.
        let Some(request) = call.request.filter(|_| !self.has_answer && !call.is_answered) else { return };
        match calls.given_up.len() < MOST_GIVEN_UP {
            true => drop(calls.given_up.insert(request)),
            false => calls.is_over = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_stream_of(request: i64) -> InboundStreamOrigin {
        InboundStreamOrigin::OutboundRequest(RequestId::Number(request))
    }

    #[test]
    fn a_question_is_one_of_the_call_on_whose_stream_it_came() {
        let all = Arc::new(OpenQuestions::default());
        let asking = |origin: Option<&InboundStreamOrigin>| all.calls().asking(origin).map(|call| call.is_some());
        assert_eq!(asking(None), Ok(false));
        // It may ask before its request is known here.
        let (one, mut of_one) = all.of_call(true);
        assert_eq!((asking(None), asking(Some(&on_stream_of(1)))), (Ok(true), Ok(true)));
        one.is_sent_as(Some(RequestId::Number(1)));
        let (two, mut of_two) = all.of_call(true);
        two.is_sent_as(Some(RequestId::Number(2)));
        assert!(asking(None).is_err() && asking(Some(&InboundStreamOrigin::Unassociated)).is_err());
        assert!(asking(Some(&on_stream_of(3))).is_err());
        for (request, questions) in [(1, &mut of_one), (2, &mut of_two)] {
            let call = all.calls().asking(Some(&on_stream_of(request))).unwrap().unwrap();
            let schema = serde_json::json!({"type": "object", "properties": {}});
            let schema = schema.as_object().cloned().unwrap_or_default();
            let requested_schema = rmcp::model::ElicitationSchema::from_json_schema(schema).unwrap();
            let message = String::new();
            let params = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
            call.try_send((params, oneshot::channel().0)).unwrap();
            assert!(questions.0.try_recv().is_ok());
        }
    }

    #[test]
    fn what_a_call_asks_that_was_given_up_is_asked_of_nobody() {
        let all = Arc::new(OpenQuestions::default());
        let asking = |origin: Option<&InboundStreamOrigin>| all.calls().asking(origin).map(|call| call.is_some());
        let (mut ended, _) = all.of_call(true);
        ended.has_answer();
        drop(ended);
        // The server knows nothing of what was not sent, or was refused.
        drop(all.of_call(true));
        let (refused, _) = all.of_call(true);
        refused.is_sent_as(Some(RequestId::Number(0)));
        refused.is_sent_as(None);
        drop(refused);
        let (alone, _) = all.of_call(true);
        assert_eq!(asking(None), Ok(true));
        drop(alone);
        let (given_up, _) = all.of_call(true);
        given_up.is_sent_as(Some(RequestId::Number(1)));
        let (next, _) = all.of_call(true);
        next.is_sent_as(Some(RequestId::Number(2)));
        assert_eq!(asking(Some(&on_stream_of(1))), Ok(true));
        drop(given_up);
        assert!(asking(Some(&on_stream_of(1))).unwrap_err().contains("does not run any more"));
        assert!(asking(None).unwrap_err().contains("given up"));
        // The stream says that it is the other one.
        assert_eq!(asking(Some(&on_stream_of(2))), Ok(true));
        // Its answer comes after all, and that of the other one just before nobody waits for it any more.
        all.is_answered(&RequestId::Number(1));
        assert_eq!(asking(None), Ok(true));
        all.is_answered(&RequestId::Number(2));
        drop(next);
        assert_eq!(asking(None), Ok(false));
        let (_alone, _) = all.of_call(true);
        assert_eq!(asking(None), Ok(true));
    }

    #[test]
    fn calls_without_an_answer_are_kept_up_to_a_number() {
        let all = Arc::new(OpenQuestions::default());
        let most = i64::try_from(MOST_GIVEN_UP).unwrap();
        for request in 0..=most {
            let (call, _) = all.of_call(true);
            call.is_sent_as(Some(RequestId::Number(request)));
        }
        (0..=most).for_each(|request| all.is_answered(&RequestId::Number(request)));
        let (_alone, _) = all.of_call(true);
        // Which one was not kept is unknown.
        assert!(all.calls().asking(None).is_err() && all.calls().given_up.is_empty());
    }
}
