//! The thread of a store, with its tokio runtime.
//!
//! All connections belong to this runtime. They outlive the runtimes of callers, their timers do
//! not depend on a paused clock, the lease is renewed while a step blocks the caller's threads, and
//! a dropped future does not interrupt a write.

use std::io;
use std::thread;
use std::time::Duration;

use agentflow_core::store::{StoreError, StoreErrorKind};
use futures_util::future::BoxFuture;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Time that the drop of a store waits for operations that have been requested.
const DRAIN: Duration = Duration::from_secs(5);

/// Time that the drop of a store waits for its last operation.
const LAST: Duration = Duration::from_secs(2);

pub(super) struct IoThread {
    handle: Handle,
    /// Each operation holds a clone, so that the thread notices when all are complete.
    pending: Option<mpsc::Sender<()>>,
    stop: Option<oneshot::Sender<BoxFuture<'static, ()>>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl IoThread {
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (pending, mut complete) = mpsc::channel::<()>(1);
        let (stop, stopped) = oneshot::channel::<BoxFuture<'static, ()>>();
        let name = "agentflow-postgres".to_owned();
        let thread = thread::Builder::new().name(name).spawn(move || {
            runtime.block_on(async move {
                let last = stopped.await;
                // `recv` returns when every sender is dropped; none of them sends a value.
                let _ = timeout(DRAIN, complete.recv()).await;
                if let Ok(last) = last {
                    let _ = timeout(LAST, last).await;
                }
            });
            // An address lookup may block a thread of the runtime.
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, pending: Some(pending), stop: Some(stop), thread: Some(thread) })
    }

    /// Starts an operation at once. It is executed even if the returned future is dropped.
    /// `unread` receives the value if the caller has dropped the future.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        operation: impl Future<Output = Result<T, StoreError>> + Send + 'static,
        unread: impl FnOnce(T) -> BoxFuture<'static, ()> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'static {
        let (reply, answer) = oneshot::channel();
        let pending = self.pending.clone();
        self.handle.spawn(async move {
            if let Err(Ok(value)) = reply.send(operation.await) {
                unread(value).await;
            }
            drop(pending);
        });
        async move {
            answer.await.unwrap_or_else(|_| {
                let text = "the thread of the store has ended; connect again";
                Err(StoreError::new(StoreErrorKind::Io, text))
            })
        }
    }

    /// Starts a task that ends with the thread.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }

    /// Waits for all operations, executes a last one, and ends the thread. Each wait is limited.
    pub(super) fn shut_down(&mut self, last: BoxFuture<'static, ()>) {
        self.pending = None;
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(last);
        }
        // A thread cannot join itself.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

/// Drops a value whose caller has dropped its future.
pub(super) fn ignore<T>(_: T) -> BoxFuture<'static, ()> {
    Box::pin(std::future::ready(()))
}
