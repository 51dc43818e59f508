//! A transport that reads nothing while the client does not read its answers, and ignores what comes before a client has
//! asked for something. It changes no message.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::JsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Semaphore;

/// The most messages that wait until the client reads them, before nothing more of it is read.
const MOST_UNREAD: usize = 64;

pub(super) struct PacedTransport<T> {
    inner: T,
    unread: Arc<Semaphore>,
    /// Whether the client has asked for anything.
    has_begun: bool,
}

impl<T> PacedTransport<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, unread: Arc::new(Semaphore::new(MOST_UNREAD)), has_begun: false }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for PacedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (sent, unread) = (self.inner.send(item), Arc::clone(&self.unread));
        async move {
            let _unread = unread.acquire().await;
            sent.await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        // It stands behind everybody who waits to send.
        drop(self.unread.acquire().await);
        loop {
            let message = self.inner.receive().await?;
            self.has_begun |= matches!(message, JsonRpcMessage::Request(_));
            if self.has_begun {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
