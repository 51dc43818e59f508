//! A transport wrapper that sees each message of the server first. It records which requests are
//! answered, also abandoned ones. It masks keys, and drops a late response to the first request of
//! the handshake.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use super::masked_messages::masked;
use super::mcp_settings::Described;
use super::open_questions::QuestionRoutes;

pub(super) struct TrackingTransport<T> {
    inner: T,
    described: Arc<Described>,
    questions: Arc<QuestionRoutes>,
    probe: Probe,
}

/// Tracks the request `server/discover`. If it is not answered in time, the library sends
/// `initialize`. A server that starts slowly answers both requests, and the library would reject
/// the response to the first one.
#[derive(Default)]
struct Probe {
    sent: Option<RequestId>,
    given_up: Option<RequestId>,
}

impl Probe {
    fn see(&mut self, id: &RequestId, request: &ClientRequest) {
        match request {
            ClientRequest::DiscoverRequest(_) => self.sent = Some(id.clone()),
            ClientRequest::InitializeRequest(_) => self.given_up = self.sent.take(),
            _ => {}
        }
    }

    fn is_late(&self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        id.is_some() && id == self.given_up.as_ref()
    }
}

impl<T> TrackingTransport<T> {
    pub(super) fn new(inner: T, described: Arc<Described>, questions: Arc<QuestionRoutes>) -> Self {
        Self { inner, described, questions, probe: Probe::default() }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for TrackingTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(sent) = &item {
            self.probe.see(&sent.id, &sent.request);
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = loop {
            let message = self.inner.receive().await?;
            if self.probe.is_late(&message) {
                continue;
            }
            if let Some(message) = masked(message, &self.described.hidden()) {
                break message;
            }
        };
        match &message {
            JsonRpcMessage::Response(response) => self.questions.is_answered(&response.id),
            JsonRpcMessage::Error(error) => {
                error.id.iter().for_each(|id| self.questions.is_answered(id));
            }
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
