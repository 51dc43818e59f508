//! [`MessageStore`]: the optional part of a store for control requests between processes.

use std::time::Duration;

use async_trait::async_trait;

use super::{Epoch, MessageId, StoreError, StoreMessage};
use crate::event::RunId;
use crate::future::BoxFuture;

/// Interval of the default [`MessageStore::message_sent`]. An answer of a person should not wait
/// noticeably: it reaches a waiting run in less than 50 ms. One query serves all runs of a process.
const POLL: Duration = Duration::from_millis(20);

/// Messages of a [`Store`](super::Store): control requests for runs that another process executes.
///
/// A process that receives a control request for a run of another process [sends](Self::send) a
/// message and polls its [`outcome`](Self::outcome). The executing process reads its
/// [`inbox`](Self::inbox) while it executes runs, once for all of them, each time that
/// [`message_sent`](Self::message_sent) completes. It answers with [`Append::answered`](super::Append::answered), in the
/// commit with the events that follow from the message, so a store that returns this part stores
/// these outcomes in its own [`append`](super::Store::append).
///
/// A message without an outcome is received again when the run is opened again. The commit that
/// ends a run removes its unanswered messages. Outcomes are stored until they are withdrawn; a
/// store may remove outcomes that are older than an hour. The text of a message is not needed after
/// its outcome is stored.
#[async_trait]
pub trait MessageStore: Send + Sync {
    /// Sends a message to the process that executes a run.
    ///
    /// # Errors
    /// `not_found`; `ended`; `too_large`.
    ///
    /// # Cancel safety
    /// If the future is dropped, the message may have been sent.
    async fn send(&self, run: &RunId, message: String) -> Result<MessageId, StoreError>;

    /// Returns the messages for a run that have no outcome yet, oldest first.
    ///
    /// # Errors
    /// `fenced` if another writer has opened the run since.
    async fn receive(&self, run: &RunId, epoch: Epoch) -> Result<Vec<StoreMessage>, StoreError>;

    /// Returns the messages without an outcome for all runs that this process has open, oldest
    /// first.
    ///
    /// # Errors
    /// Any error of the store, such as `locked`. The runtime logs it and tries again.
    async fn inbox(&self) -> Result<Vec<StoreMessage>, StoreError>;

    /// Returns the outcome of a message; `None` if it is not answered yet or does not exist.
    ///
    /// # Errors
    /// Any error of the store.
    async fn outcome(&self, message: MessageId) -> Result<Option<String>, StoreError>;

    /// Withdraws a message, so that it has no effect. If the message was already answered, the
    /// outcome is returned and removed.
    ///
    /// # Errors
    /// Any error of the store.
    async fn withdraw(&self, message: MessageId) -> Result<Option<String>, StoreError>;

    /// Returns a future that completes when the [`inbox`](Self::inbox) of this process should be
    /// read again: a message was sent after this call, or it is time to look. `None` if no other
    /// process can send messages, so that the inbox is never read.
    ///
    /// The default completes after 20 milliseconds, so the inbox is polled. A store that is
    /// notified of messages completes the future early, and after a few seconds also without a
    /// notification. The future does not keep the store open.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect on messages.
    #[doc(alias = "changed")]
    fn message_sent(&self) -> Option<BoxFuture<'static, ()>> {
        Some(Box::pin(tokio::time::sleep(POLL)))
    }
}
