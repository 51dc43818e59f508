//! Writes the records of a run to its store: holds the epoch and the commit in progress.
//!
//! It decides neither what is recorded nor when. Nobody holds anything while a commit waits for its store: whoever has to
//! record something polls the commit that is in progress, also when its author no longer does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::event::RunId;
use crate::future::BoxFuture;
use crate::store::{Answered, Append, Epoch, Store, StoreError};

/// Where the records of a run are kept beyond its process.
pub(crate) struct Journal {
    pub(super) store: Arc<dyn Store>,
    shared: Arc<Shared>,
    /// The write in progress, with the end of the records it covers: one at a time, so that they stay in order.
    pending: Mutex<Option<Pending>>,
    /// Whether a process that comes later reads it.
    pub(super) durable: bool,
    /// `true` if another process executes the run and keeps its journal, and this process executes one step.
    pub(super) forwards: bool,
}

/// What the journal and its write in progress share.
#[derive(Default)]
struct Shared {
    /// The right to write, once the run exists in the store.
    epoch: OnceLock<Epoch>,
    /// The write was woken since it was polled last.
    woken: AtomicBool,
    waiting: Mutex<Waiting>,
}

/// Who waits for the write in progress: all are woken when it continues, since nobody knows which of them is still polled.
#[derive(Default)]
struct Waiting {
    next: u64,
    wakers: Vec<(u64, Waker)>,
}

/// One who waits for writes. Dropped, it is not woken any more.
pub(super) struct Waiter<'j> {
    shared: &'j Arc<Shared>,
    /// It is in the list by this number, or was.
    id: Option<u64>,
}

/// A write in progress.
pub(super) struct Pending {
    /// The end of the records it covers.
    pub(super) end: usize,
    pub(super) answered: Vec<Answered>,
    pub(super) write: BoxFuture<'static, Result<(), StoreError>>,
}

impl Journal {
    /// The journal of a run that the store does not have yet, or that is open there.
    pub(crate) fn new(store: Arc<dyn Store>, epoch: Option<Epoch>) -> Self {
        let shared = Shared { epoch: epoch.map(OnceLock::from).unwrap_or_default(), ..Shared::default() };
        Self { store, shared: Arc::new(shared), pending: Mutex::default(), durable: true, forwards: false }
    }

    pub(super) fn epoch(&self) -> Option<Epoch> {
        self.shared.epoch.get().copied()
    }

    /// The write in progress. Whoever has it polls it and lets it go before anything is awaited.
    pub(super) fn pending(&self) -> MutexGuard<'_, Option<Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn waiter(&self) -> Waiter<'_> {
        Waiter { shared: &self.shared, id: None }
    }

    /// The journal of a run that another process has, and keeps when it has a store.
    pub(crate) fn forwarding(store: Arc<dyn Store>, durable: bool) -> Self {
        // Which writer has the run is that process's to know.
        Self { durable, forwards: true, ..Self::new(store, Some(Epoch(0))) }
    }

    /// The write of an append, which owns what it needs: it may outlive whoever commits. It begins when it is polled.
    pub(super) fn write(&self, run: &RunId, append: Append) -> BoxFuture<'static, Result<(), StoreError>> {
        let (store, run, shared) = (Arc::clone(&self.store), run.clone(), Arc::clone(&self.shared));
        Box::pin(async move {
            match shared.epoch.get() {
                Some(epoch) => store.append(&run, *epoch, append).await,
                None => {
                    let (after, state) = (append.events.len() as u64, append.state);
                    let epoch = store.create(&run, append.events).await?;
                    shared.epoch.get_or_init(|| epoch);
                    // No step has an outcome before the run's first commit, so nearly always there is nothing.
                    match state.is_empty() {
                        true => Ok(()),
                        false => store.append(&run, epoch, Append::new(after, Vec::new()).with_state(state)).await,
                    }
                }
            }
        })
    }
}

impl Waiter<'_> {
    /// Polls the write in progress for everybody who waits for it. The journal lets nobody else poll it meanwhile.
    pub(super) fn poll(&mut self, pending: &mut Pending, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        self.shared.woken.store(false, Ordering::SeqCst);
        let for_all = Waker::from(Arc::clone(self.shared));
        let written = pending.write.as_mut().poll(&mut Context::from_waker(&for_all));
        if written.is_pending() {
            self.wait(cx.waker());
            if self.shared.woken.load(Ordering::SeqCst) {
                // Before it was in the list.
                cx.waker().wake_by_ref();
            }
        }
        written
    }

    /// The write has its end: the others have what they waited for, or begin the next one. It is called when the journal
    /// is let go.
    pub(super) fn wake_others(&mut self) {
        self.leave();
        self.shared.wake_all();
    }

    fn wait(&mut self, waker: &Waker) {
        let mut waiting = self.shared.waiting();
        let id = *self.id.get_or_insert_with(|| {
            waiting.next += 1;
            waiting.next
        });
        match waiting.wakers.iter_mut().find(|(of, _)| *of == id) {
            Some((_, known)) => known.clone_from(waker),
            None => waiting.wakers.push((id, waker.clone())),
        }
    }

    fn leave(&mut self) {
        if let Some(id) = self.id.take() {
            self.shared.waiting().wakers.retain(|(of, _)| *of != id);
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_all(&self) {
        self.woken.store(true, Ordering::SeqCst);
        let wakers = std::mem::take(&mut self.waiting().wakers);
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use async_trait::async_trait;
    use futures_util::future::poll_immediate;

    use super::*;
    use crate::event::{EventKind, RunBody, RunStarted, WorkflowStarted};
    use crate::path::StepPath;
    use crate::run::log::EventLog;
    use crate::store::{MemoryStore, StoreLayer};
    use crate::time::Timestamp;
    use crate::value::Encoded;

    /// Takes several polls for a write, and is woken by another thread.
    #[derive(Debug)]
    struct Slow(MemoryStore);

    #[async_trait]
    impl StoreLayer for Slow {
        fn inner(&self) -> &dyn Store {
            &self.0
        }

        async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError> {
            for _ in 0..append.events.len() % 3 {
                // Nobody joins it: its end is the wake.
                drop(tokio::task::spawn_blocking(|| ()).await);
                tokio::task::yield_now().await;
            }
            self.inner().append(run, epoch, append).await
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn nobody_who_waits_for_a_write_is_forgotten() {
        let run = RunId::new("r");
        let journal = Journal::new(Arc::new(Slow(MemoryStore::new())), None);
        let log = Arc::new(EventLog::new(run, Arc::new([]), Some(journal), None));
        let now = Timestamp::from_millis(0);
        let started = RunStarted::new(RunBody::Workflow(WorkflowStarted::new("w".into(), "h".into(), Encoded::null())));
        let first = log.first(now, EventKind::RunStarted(Arc::new(started)));
        log.begin(first).await.unwrap();
        let writers = (0..8).map(|writer| {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                for at in 0..200 {
                    log.record(now, StepPath::root(), EventKind::resumed());
                    let mut held = pin!(log.commit());
                    if (at + writer) % 3 > 0 && poll_immediate(&mut held).await.is_some() {
                        continue;
                    }
                    match (at + writer) % 4 {
                        // It is held, and not polled while another one waits.
                        0 => {
                            log.record(now, StepPath::root(), EventKind::resumed());
                            log.commit().await.unwrap();
                        }
                        1 => continue,
                        _ => held.await.unwrap(),
                    }
                }
                log.commit().await.unwrap();
            })
        });
        let all = futures_util::future::join_all(writers);
        let all = tokio::time::timeout(Duration::from_secs(60), all).await.expect("nobody waits for ever");
        all.into_iter().for_each(|writer| writer.unwrap());
        assert!(!log.has_uncommitted());
        let (store, _) = log.store().unwrap();
        let kept = store.read(&log.run_id, 0, usize::MAX).await.unwrap();
        assert_eq!(kept.len() as u64, log.visible());
        assert!(kept.iter().enumerate().all(|(at, event)| event.seq == at as u64 + 1));
    }
}
