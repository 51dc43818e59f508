//! Notifications of other processes: a message was sent to a run of this process, or a run became
//! claimable.
//!
//! All stores of a schema listen on one channel. The payload is the id of the process that has a
//! message, or [`RUNS`]. A transaction that sends a notification takes a lock for its commit that
//! all of these transactions share, so the frequent writes (appends) send none.
//!
//! A notification can be lost: the connection is cut, or a pooler does not forward it. Therefore
//! each future also completes after an interval. It is short unless notifications are known to
//! arrive: with each renewal of its lease, a store sends itself a notification.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentflow_core::__private::sha256;
use futures_util::future::BoxFuture;
use tokio::sync::watch;

/// Payload for all processes: a run may be claimable.
pub(super) const RUNS: &str = "runs";

/// Interval while notifications may not arrive.
const POLL: Duration = Duration::from_millis(500);

/// Interval while notifications arrive. It limits the delay after a cut that is not noticed, and
/// the time until a worker sees that the lease of another process has expired.
const SLOW_POLL: Duration = Duration::from_millis(1500);

/// Returns the channel for notifications of a schema. The name of a channel is limited to 63 bytes.
pub(super) fn channel(schema: &str) -> String {
    format!("agentflow_{}", &sha256(schema.as_bytes())[..24])
}

/// Returns the payload that a process sends to itself.
pub(super) fn echo(owner: &str) -> String {
    format!("echo {owner}")
}

/// Wakes the futures that wait for notifications.
#[derive(Debug)]
pub(super) struct Notices {
    messages: watch::Sender<()>,
    runs: watch::Sender<()>,
    arrive: AtomicBool,
}

impl Notices {
    pub(super) fn new() -> Self {
        Self {
            messages: watch::Sender::new(()),
            runs: watch::Sender::new(()),
            arrive: AtomicBool::new(false),
        }
    }

    /// Handles the payload of a notification.
    pub(super) fn receive(&self, payload: &str, owner: &str) {
        if payload == owner {
            self.messages.send_replace(());
        } else if payload == RUNS {
            self.runs.send_replace(());
        } else if payload == echo(owner) {
            self.arrive.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that notifications may have been lost, or may be lost from now on.
    pub(super) fn may_be_lost(&self) {
        self.arrive.store(false, Ordering::Relaxed);
        self.messages.send_replace(());
        self.runs.send_replace(());
    }

    /// Returns a future that completes when the inbox should be read.
    pub(super) fn message_sent(&self) -> BoxFuture<'static, ()> {
        self.next_of(&self.messages)
    }

    /// Returns a future that completes when the claimable runs should be read.
    pub(super) fn runs_changed(&self) -> BoxFuture<'static, ()> {
        self.next_of(&self.runs)
    }

    fn next_of(&self, sender: &watch::Sender<()>) -> BoxFuture<'static, ()> {
        // A subscription sees later notifications only.
        let mut receiver = sender.subscribe();
        let interval = match self.arrive.load(Ordering::Relaxed) {
            true => SLOW_POLL,
            false => POLL,
        };
        Box::pin(async move {
            let notified = async {
                // After the store is dropped, no notification arrives.
                if receiver.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = notified => {}
                () = tokio::time::sleep(interval) => {}
            }
        })
    }
}
