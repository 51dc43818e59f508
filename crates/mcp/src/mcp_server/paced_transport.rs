//! A transport with backpressure: it does not read further messages while the client does not read
//! its responses. It also ignores messages before the client's first request.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::JsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Semaphore;

/// Maximum number of messages that wait until the client reads them. At this number, the server
/// stops reading.
const MOST_UNREAD: usize = 64;

pub(super) struct PacedTransport<T> {
    inner: T,
    unread: Arc<Semaphore>,
    /// `true` once the client has sent a request.
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
        // The semaphore is fair, so this waits until all waiting messages before it are being sent.
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
