//! A transport that records which requests the server has answered, also abandoned ones, and masks keys in all messages of
//! the server.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::JsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use super::masked_messages::masked;
use super::mcp_settings::Described;
use super::open_questions::OpenQuestions;

pub(super) struct HeardAnswers<T> {
    inner: T,
    described: Arc<Described>,
    questions: Arc<OpenQuestions>,
}

impl<T> HeardAnswers<T> {
    pub(super) fn new(inner: T, described: Arc<Described>, questions: Arc<OpenQuestions>) -> Self {
        Self { inner, described, questions }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for HeardAnswers<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = loop {
            let message = self.inner.receive().await?;
            if let Some(message) = masked(message, &self.described.hidden()) {
                break message;
            }
        };
        match &message {
            JsonRpcMessage::Response(response) => self.questions.is_answered(&response.id),
            JsonRpcMessage::Error(error) => error.id.iter().for_each(|id| self.questions.is_answered(id)),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
