//! Waits for the signals that stop a long-running command: Ctrl-C and SIGTERM.

use std::pin::Pin;

#[cfg(unix)]
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use super::ctrl_c;

/// Signal that stopped a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    CtrlC,
    Terminate,
}

/// Watches for the signals from its creation on. A second Ctrl-C exits the process at once.
pub(super) struct StopSignals {
    ctrl_c: oneshot::Receiver<()>,
    terminated: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl StopSignals {
    pub(super) fn watch() -> Self {
        Self { ctrl_c: ctrl_c::watch(), terminated: Box::pin(watch_terminate()) }
    }

    /// Waits for the first signal.
    pub(super) async fn received(&mut self) -> Signal {
        tokio::select! {
            () = ctrl_c::pressed(&mut self.ctrl_c) => Signal::CtrlC,
            () = &mut self.terminated => Signal::Terminate,
        }
    }
}

/// Starts to watch for SIGTERM. The future completes when it arrives, and never on systems without
/// it.
#[cfg(unix)]
fn watch_terminate() -> impl Future<Output = ()> + Send {
    let watched = signal(SignalKind::terminate());
    async move {
        match watched {
            Ok(mut watched) => {
                watched.recv().await;
            }
            // Without a handler, the signal ends the process at once, as usual.
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(not(unix))]
fn watch_terminate() -> impl Future<Output = ()> + Send {
    std::future::pending()
}
