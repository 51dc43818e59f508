//! Routes a server's questions to the tool call that they belong to. In the older era of the
//! protocol, a question does not name its call. Over HTTP, the stream on which the question arrives
//! identifies the call. Over other transports, a question is accepted only if exactly one call is
//! running and every abandoned call has been answered, because the server may still be executing an
//! abandoned call.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::ErrorData;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, RequestId};
use rmcp::service::InboundStreamOrigin;
use tokio::sync::{mpsc, oneshot};

use super::elicited::{self, MOST_TIMES};
use agentflow_core::Context;
use agentflow_core::tool::{UserQuestion, ask_within_call};

/// A question with the channel for its answer.
type Open = (ElicitRequestParams, oneshot::Sender<ElicitResult>);

/// The running calls of one connection.
#[derive(Default)]
pub(super) struct QuestionRoutes(Mutex<RoutedCalls>);

#[derive(Default)]
struct RoutedCalls {
    next: u64,
    running: Vec<Running>,
    /// Calls that ended here before the server answered them. The server was notified, but may not
    /// have stopped.
    given_up: HashSet<RequestId>,
    /// `true` once more calls were abandoned than can be stored.
    is_over: bool,
}

/// Maximum number of abandoned calls that are stored.
const MOST_GIVEN_UP: usize = 1024;

struct Running {
    number: u64,
    /// Id of the call's request, once it is sent.
    request: Option<RequestId>,
    /// Channel for the call's questions, if the call can wait for a person.
    questions: Option<mpsc::Sender<Open>>,
    /// `true` if the server has answered the call. The call itself may not have seen the answer
    /// yet.
    is_answered: bool,
}

/// A running call. If it is dropped without an answer, it counts as abandoned.
pub(super) struct OpenCall {
    all: Arc<QuestionRoutes>,
    number: u64,
    has_answer: bool,
}

/// Receiver of one call's questions.
pub(super) struct QuestionReceiver(mpsc::Receiver<Open>);

impl QuestionRoutes {
    pub(super) fn of_call(self: &Arc<Self>, can_wait: bool) -> (OpenCall, QuestionReceiver) {
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
        (call, QuestionReceiver(questions))
    }

    /// Records that the server has answered a request, also if its caller no longer waits.
    pub(super) fn is_answered(&self, request: &RequestId) {
        let mut calls = self.calls();
        calls.given_up.remove(request);
        if let Some(call) =
            calls.running.iter_mut().find(|call| call.request.as_ref() == Some(request))
        {
            call.is_answered = true;
        }
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, RoutedCalls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a question to a person, in the call that it belongs to. Declines if no person can be
    /// asked. `origin` is the stream on which the question arrived, if the transport reports it.
    ///
    /// # Errors
    /// Fails if the call of the question cannot be determined.
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
        // The call has too many questions in its queue, or no longer receives any.
        if call.try_send((params, reply)).is_err() {
            return Ok(declined());
        }
        Ok(answer.await.unwrap_or_else(|_| ElicitResult::new(ElicitationAction::Cancel)))
    }
}

impl RoutedCalls {
    /// Returns the channel for questions of the call that asks. Returns `None` if no call is
    /// running or the call cannot wait for a person.
    ///
    /// # Errors
    /// Fails if the call of the question cannot be determined.
    fn asking(
        &self,
        origin: Option<&InboundStreamOrigin>,
    ) -> Result<Option<mpsc::Sender<Open>>, &'static str> {
        if let Some(InboundStreamOrigin::OutboundRequest(request)) = origin {
            if let Some(call) =
                self.running.iter().find(|call| call.request.as_ref() == Some(request))
            {
                return Ok(call.questions.clone());
            }
            // A call whose request id is not known yet may be the one on this stream; otherwise the
            // call has ended.
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
            _ => {
                Err("several calls run over this connection, so it is not known which of them asks")
            }
        }
    }
}

impl OpenCall {
    /// Records the id of the call's request after it was sent. `None` means that the server refused
    /// the request and does not execute it.
    pub(super) fn set_request(&self, request: Option<RequestId>) {
        let mut calls = self.all.calls();
        if let Some(call) = calls.running.iter_mut().find(|call| call.number == self.number) {
            call.request = request;
        }
    }

    /// Records that the server has answered the call.
    pub(super) fn has_answer(&mut self) {
        self.has_answer = true;
    }
}

impl QuestionReceiver {
    /// Puts the server's questions to a person, one after the other, while the future is polled.
    /// Questions beyond the limit are declined. Questions that the server withdraws count, too,
    /// because each is recorded in the journal.
    pub(super) async fn answered(mut self, cx: &Context, server: &str) -> Infallible {
        let (mut asked, mut begun) = (0, 0);
        loop {
            // The sender is stored in `QuestionRoutes` while the call runs, so the channel stays
            // open. A call that cannot wait has no sender.
            let Some((params, mut reply)) = self.0.recv().await else {
                return std::future::pending().await;
            };
            let question = match elicited::question_from_params(server, &params) {
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
                // The server withdrew the question. Commit now, because the call may record nothing
                // else for a long time, and the journal would show the question as open until then.
                () = reply.closed() => {
                    if let Err(error) = cx.store_events().await {
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

/// Puts one question to a person and converts the answer.
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
        let Some(at) = calls.running.iter().position(|call| call.number == self.number) else {
            return;
        };
        let call = calls.running.remove(at);
        // The server does not know a call that was never sent.
        let Some(request) = call.request.filter(|_| !self.has_answer && !call.is_answered) else {
            return;
        };
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
        let all = Arc::new(QuestionRoutes::default());
        let asking = |origin: Option<&InboundStreamOrigin>| {
            all.calls().asking(origin).map(|call| call.is_some())
        };
        assert_eq!(asking(None), Ok(false));
        // A question may arrive before the call's request id is known here.
        let (one, mut of_one) = all.of_call(true);
        assert_eq!((asking(None), asking(Some(&on_stream_of(1)))), (Ok(true), Ok(true)));
        one.set_request(Some(RequestId::Number(1)));
        let (two, mut of_two) = all.of_call(true);
        two.set_request(Some(RequestId::Number(2)));
        assert!(asking(None).is_err() && asking(Some(&InboundStreamOrigin::Unassociated)).is_err());
        assert!(asking(Some(&on_stream_of(3))).is_err());
        for (request, questions) in [(1, &mut of_one), (2, &mut of_two)] {
            let call = all.calls().asking(Some(&on_stream_of(request))).unwrap().unwrap();
            let schema = serde_json::json!({"type": "object", "properties": {}});
            let schema = schema.as_object().cloned().unwrap_or_default();
            let requested_schema =
                rmcp::model::ElicitationSchema::from_json_schema(schema).unwrap();
            let message = String::new();
            let params = ElicitRequestParams::FormElicitationParams {
                meta: None,
                message,
                requested_schema,
            };
            call.try_send((params, oneshot::channel().0)).unwrap();
            assert!(questions.0.try_recv().is_ok());
        }
    }

    #[test]
    fn what_a_call_asks_that_was_given_up_is_asked_of_nobody() {
        let all = Arc::new(QuestionRoutes::default());
        let asking = |origin: Option<&InboundStreamOrigin>| {
            all.calls().asking(origin).map(|call| call.is_some())
        };
        let (mut ended, _) = all.of_call(true);
        ended.has_answer();
        drop(ended);
        // The server does not execute a call that was never sent, or was refused.
        drop(all.of_call(true));
        let (refused, _) = all.of_call(true);
        refused.set_request(Some(RequestId::Number(0)));
        refused.set_request(None);
        drop(refused);
        let (alone, _) = all.of_call(true);
        assert_eq!(asking(None), Ok(true));
        drop(alone);
        let (given_up, _) = all.of_call(true);
        given_up.set_request(Some(RequestId::Number(1)));
        let (next, _) = all.of_call(true);
        next.set_request(Some(RequestId::Number(2)));
        assert_eq!(asking(Some(&on_stream_of(1))), Ok(true));
        drop(given_up);
        assert!(asking(Some(&on_stream_of(1))).unwrap_err().contains("does not run any more"));
        assert!(asking(None).unwrap_err().contains("given up"));
        // The stream identifies the other call.
        assert_eq!(asking(Some(&on_stream_of(2))), Ok(true));
        // The abandoned call is answered late. The other call is answered just before its caller
        // stops waiting.
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
        let all = Arc::new(QuestionRoutes::default());
        let most = i64::try_from(MOST_GIVEN_UP).unwrap();
        for request in 0..=most {
            let (call, _) = all.of_call(true);
            call.set_request(Some(RequestId::Number(request)));
        }
        (0..=most).for_each(|request| all.is_answered(&RequestId::Number(request)));
        let (_alone, _) = all.of_call(true);
        // It is unknown which call was not stored.
        assert!(all.calls().asking(None).is_err() && all.calls().given_up.is_empty());
    }
}
