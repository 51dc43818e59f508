//! Writes the records of a run to its store. `Journal` holds the epoch (fencing token) of this
//! writer and the write in progress.
//!
//! No lock is held while a write waits for the store. Each task that needs to commit polls the
//! write in progress, even if the task that started it no longer does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::event::RunId;
use crate::future::BoxFuture;
use crate::store::{Answered, Append, Epoch, Store, StoreError};

/// The connection of a run to its store.
pub(crate) struct Journal {
    pub(super) store: Arc<dyn Store>,
    shared: Arc<JournalState>,
    /// The write in progress. At most one write runs at a time, so that records stay in order.
    pending: Mutex<Option<Pending>>,
    /// `true` if a later process can read the journal.
    pub(super) durable: bool,
    /// `true` if another process executes the run and writes its journal, and this process executes
    /// one step.
    pub(super) forwards: bool,
}

/// State shared by the journal and its write in progress.
#[derive(Default)]
struct JournalState {
    /// The epoch of this writer, once the run exists in the store.
    epoch: OnceLock<Epoch>,
    /// `true` if the write was woken since it was last polled.
    woken: AtomicBool,
    waiting: Mutex<CommitWaiters>,
}

/// The tasks that wait for the write in progress. All of them are woken when the write can
/// continue, since any single task may have stopped polling.
#[derive(Default)]
struct CommitWaiters {
    next: u64,
    wakers: Vec<(u64, Waker)>,
}

/// A task that waits for writes. Dropping it removes its waker.
pub(super) struct WriteWaiter<'j> {
    shared: &'j Arc<JournalState>,
    /// Key of its waker in the list of wakers, if it was added.
    id: Option<u64>,
}

/// A write in progress.
pub(super) struct Pending {
    /// Position after the last record that the write covers.
    pub(super) end: usize,
    pub(super) answered: Vec<Answered>,
    pub(super) write: BoxFuture<'static, Result<(), StoreError>>,
}

impl Journal {
    /// Creates the journal of a run. `epoch` is `None` if the store does not have the run yet.
    pub(crate) fn new(store: Arc<dyn Store>, epoch: Option<Epoch>) -> Self {
        let shared = JournalState {
            epoch: epoch.map(OnceLock::from).unwrap_or_default(),
            ..JournalState::default()
        };
        Self {
            store,
            shared: Arc::new(shared),
            pending: Mutex::default(),
            durable: true,
            forwards: false,
        }
    }

    pub(super) fn epoch(&self) -> Option<Epoch> {
        self.shared.epoch.get().copied()
    }

    /// Locks the write in progress. The guard must be dropped before an await.
    pub(super) fn pending(&self) -> MutexGuard<'_, Option<Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn waiter(&self) -> WriteWaiter<'_> {
        WriteWaiter { shared: &self.shared, id: None }
    }

    /// Creates the journal of a run that another process owns. `durable` is `true` if that run has
    /// a store.
    pub(crate) fn forwarding(store: Arc<dyn Store>, durable: bool) -> Self {
        // The process that owns the run checks the epoch.
        Self { durable, forwards: true, ..Self::new(store, Some(Epoch(0))) }
    }

    /// Returns the write of an append. The future owns its data, so it may outlive the committing
    /// task. The write starts when the future is polled.
    pub(super) fn write(
        &self,
        run: &RunId,
        append: Append,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let (store, run, shared) = (Arc::clone(&self.store), run.clone(), Arc::clone(&self.shared));
        Box::pin(async move {
            match shared.epoch.get() {
                Some(epoch) => store.append(&run, *epoch, append).await,
                None => {
                    let (after, state) = (append.events.len() as u64, append.state);
                    let epoch = store.create(&run, append.events).await?;
                    shared.epoch.get_or_init(|| epoch);
                    // No step completes before the run's first commit, so the state is nearly
                    // always empty.
                    match state.is_empty() {
                        true => Ok(()),
                        false => {
                            store
                                .append(
                                    &run,
                                    epoch,
                                    Append::new(after, Vec::new()).with_state(state),
                                )
                                .await
                        }
                    }
                }
            }
        })
    }
}

impl WriteWaiter<'_> {
    /// Polls the write in progress on behalf of all waiting tasks. The lock on `pending` excludes
    /// other polls meanwhile.
    pub(super) fn poll(
        &mut self,
        pending: &mut Pending,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), StoreError>> {
        // Reset before the poll, so that a wake during the poll is noticed.
        self.shared.woken.store(false, Ordering::SeqCst);
        let for_all = Waker::from(Arc::clone(self.shared));
        let written = pending.write.as_mut().poll(&mut Context::from_waker(&for_all));
        if written.is_pending() {
            self.wait(cx.waker());
            if self.shared.woken.load(Ordering::SeqCst) {
                // The write was woken before this waker was in the list.
                cx.waker().wake_by_ref();
            }
        }
        written
    }

    /// Wakes the other tasks after a write has ended: their records are stored, or they start the
    /// next write. Call it after releasing the lock on `pending`.
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

impl Drop for WriteWaiter<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl JournalState {
    fn waiting(&self) -> MutexGuard<'_, CommitWaiters> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_all(&self) {
        self.woken.store(true, Ordering::SeqCst);
        let wakers = std::mem::take(&mut self.waiting().wakers);
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl Wake for JournalState {
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

    /// A store that needs several polls per write and is woken by another thread.
    #[derive(Debug)]
    struct Slow(MemoryStore);

    #[async_trait]
    impl StoreLayer for Slow {
        fn inner(&self) -> &dyn Store {
            &self.0
        }

        async fn append(
            &self,
            run: &RunId,
            epoch: Epoch,
            append: Append,
        ) -> Result<(), StoreError> {
            for _ in 0..append.events.len() % 3 {
                // The end of the blocking task wakes the write.
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
        let started = RunStarted::new(RunBody::Workflow(WorkflowStarted::new(
            "w".into(),
            "h".into(),
            Encoded::null(),
        )));
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
                        // Holds the commit without polling it while another commit waits.
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
        let all = tokio::time::timeout(Duration::from_secs(60), all)
            .await
            .expect("nobody waits for ever");
        all.into_iter().for_each(|writer| writer.unwrap());
        assert!(!log.has_uncommitted());
        let (store, _) = log.store().unwrap();
        let kept = store.read(&log.run_id, 0, usize::MAX).await.unwrap();
        assert_eq!(kept.len() as u64, log.visible());
        assert!(kept.iter().enumerate().all(|(at, event)| event.seq == at as u64 + 1));
    }
}
