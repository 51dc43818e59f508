//! A transport that notes which requests the server has answered, those included for which nobody waits any more. It changes no
//! message.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::JsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use super::open_questions::OpenQuestions;

pub(super) struct HeardAnswers<T> {
    inner: T,
    questions: Arc<OpenQuestions>,
}

impl<T> HeardAnswers<T> {
    pub(super) fn new(inner: T, questions: Arc<OpenQuestions>) -> Self {
        Self { inner, questions }
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
        let message = self.inner.receive().await?;
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
