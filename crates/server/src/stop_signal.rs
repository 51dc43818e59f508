//! `StopSignal`: tells the streams of a server that it stops.

use tokio::sync::watch;

/// Tells the streams of a server that it stops. Requests end by themselves, streams may not.
#[derive(Clone, Debug)]
pub(crate) struct StopSignal(watch::Receiver<bool>);

/// Sends the signal. Dropping it sends the signal, too.
#[derive(Debug)]
pub(crate) struct StopSender(watch::Sender<bool>);

impl StopSignal {
    pub(crate) fn new() -> (StopSender, Self) {
        let (sender, receiver) = watch::channel(false);
        (StopSender(sender), Self(receiver))
    }

    /// Waits until the server stops.
    pub(crate) async fn stopped(&mut self) {
        // An error means that the sender is gone, so the server is gone, too.
        let _ = self.0.wait_for(|stops| *stops).await;
    }
}

impl StopSender {
    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }
}
