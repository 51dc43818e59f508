//! Ctrl-C, on a thread of its own: a tool that holds a thread of the runtime can keep the runtime from seeing any signal.

use tokio::sync::oneshot;

use super::output::INTERRUPTED;

/// From now on the first Ctrl-C is told to the receiver, and the second ends the process. Where the system gives no such
/// signal the receiver gets an error.
pub(super) fn watch() -> oneshot::Receiver<()> {
    let (first, told) = oneshot::channel();
    let listen = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
        runtime.block_on(async {
            if tokio::signal::ctrl_c().await.is_err() {
                return;
            }
            let _ = first.send(());
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(INTERRUPTED.into());
            }
        });
    };
    // Without the thread, Ctrl-C does what it does to any program.
    let _ = std::thread::Builder::new().name("ctrl-c".to_owned()).spawn(listen);
    told
}
