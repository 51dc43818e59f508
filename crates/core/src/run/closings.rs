//! Counts the resources that are being closed, so that draining can wait for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Resources of ended runs and sessions that are being closed.
#[derive(Debug, Default)]
pub(crate) struct Closings {
    open: AtomicUsize,
    ended: Notify,
}

impl Closings {
    /// Counts one more until the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Closing {
        self.open.fetch_add(1, Ordering::SeqCst);
        Closing(Arc::clone(self))
    }

    /// Waits until all are closed.
    pub(crate) async fn until_closed(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // From now on no end is missed.
            ended.as_mut().enable();
            if self.open.load(Ordering::SeqCst) == 0 {
                return;
            }
            ended.await;
        }
    }
}

/// Resources that are being closed until this is dropped.
pub(super) struct Closing(Arc<Closings>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
        self.0.ended.notify_waiters();
    }
}
