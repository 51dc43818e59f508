//! Counts the resources that are being closed, so that draining can wait for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The resources of ended runs and sessions that are being closed.
#[derive(Debug, Default)]
pub(crate) struct Closings {
    open: AtomicUsize,
    ended: Notify,
}

impl Closings {
    /// Counts a closing resource until the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Closing {
        self.open.fetch_add(1, Ordering::SeqCst);
        Closing(Arc::clone(self))
    }

    /// Waits until all resources are closed.
    pub(crate) async fn until_closed(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // Enabled before the count is read, so that an end in between is not missed.
            ended.as_mut().enable();
            if self.open.load(Ordering::SeqCst) == 0 {
                return;
            }
            ended.await;
        }
    }
}

/// A guard that counts a closing resource.
pub(super) struct Closing(Arc<Closings>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
        self.0.ended.notify_waiters();
    }
}
