//! Watches for Ctrl-C on a separate thread, because a tool that blocks the runtime's threads
//! would prevent the runtime from receiving the signal.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;

use tokio::sync::oneshot;

use super::print::{INTERRUPTED, Stop, note};

/// Starts watching. After this function returns, the receiver gets the first Ctrl-C, and the second
/// one exits the process. If the system does not support the signal, the receiver gets an error.
pub(super) fn watch() -> oneshot::Receiver<()> {
    let (first, told) = oneshot::channel();
    let (listens, ready) = mpsc::channel();
    let listen = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else {
            return;
        };
        runtime.block_on(async {
            let mut ctrl_c = pin!(tokio::signal::ctrl_c());
            // The signal handler is installed by the first poll.
            let pressed = poll_fn(|cx| Poll::Ready(ctrl_c.as_mut().poll(cx))).await;
            let _ = listens.send(());
            let pressed = match pressed {
                Poll::Ready(pressed) => pressed,
                Poll::Pending => ctrl_c.await,
            };
            if pressed.is_err() {
                return;
            }
            let _ = first.send(());
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(INTERRUPTED.into());
            }
        });
    };
    // Without the thread, Ctrl-C terminates the process as usual.
    let _ = std::thread::Builder::new().name("ctrl-c".to_owned()).spawn(listen);
    // This also returns if the thread could not be started or has ended.
    let _ = ready.recv();
    told
}

/// Waits until Ctrl-C is pressed. Never returns if the signal is not supported.
pub(super) async fn pressed(told: &mut oneshot::Receiver<()>) {
    if told.await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Runs work that needs no cleanup, until Ctrl-C is pressed. Needed because a process that was
/// started with the signal ignored would not be stopped by it otherwise.
pub(super) async fn or_stop<T>(work: impl Future<Output = Result<T, Stop>>) -> Result<T, Stop> {
    let mut told = watch();
    tokio::select! {
        ended = work => ended,
        () = pressed(&mut told) => Err(stopped()),
    }
}

/// Reports that the command was stopped.
pub(super) fn stopped() -> Stop {
    note("stopped by Ctrl-C");
    Stop::Interrupted
}
