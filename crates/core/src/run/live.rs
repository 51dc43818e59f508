//! The runs of a store that this process executes, by id, shared by all runtimes with that store;
//! and the task that reads messages of other processes from the store for all of them.
//!
//! A run is registered here before it is opened in the store, so that this process does not open it
//! twice.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::runtime::{self, Handle};
use tokio::sync::watch;

use super::control_request::{Reply, StoredRequest};
use super::shared::RunShared;
use crate::error::ControlError;
use crate::event::RunId;
use crate::store::{MessageStore, Store, StoreError, StoreMessage};

/// The runs of one store that this process executes.
pub(crate) struct LiveRuns {
    state: Mutex<LiveState>,
    /// Counts the changes of `state`.
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct LiveState {
    runs: HashMap<RunId, Entry>,
    /// The tokio runtimes on which a task polls the store. If a runtime ends, only its own task
    /// ends.
    watched_on: HashSet<runtime::Id>,
    /// Hashes of definitions that the store has.
    definitions: HashSet<Arc<str>>,
    /// By session.
    queues: HashMap<Arc<str>, Weak<tokio::sync::Mutex<()>>>,
}

/// The lock for starting the next run of a session.
type Queue = Arc<tokio::sync::Mutex<()>>;

enum Entry {
    /// Reserved by a task of this process that is about to open or change the run.
    Reserved,
    Live(Weak<RunShared>),
}

/// Location of a run, as known to this process.
pub(crate) enum Found {
    /// This process executes the run.
    Live(Arc<RunShared>),
    /// This process does not execute the run. No other task of this process opens it while the
    /// reservation is held.
    Free(Reservation),
}

/// The exclusive right within this process to open or change a run that it does not execute.
/// Dropping it gives up the right.
pub(crate) struct Reservation {
    live: Arc<LiveRuns>,
    run: RunId,
}

/// All stores of this process, by the identity of the store.
static ALL: Mutex<Vec<(String, Weak<LiveRuns>)>> = Mutex::new(Vec::new());

impl LiveRuns {
    /// Returns the runs of a store, shared by all runtimes with this store.
    pub(crate) fn for_store(store: &Arc<dyn Store>) -> Arc<Self> {
        let new = || Arc::new(Self { state: Mutex::default(), changed: watch::Sender::new(0) });
        // Without an identity, other handles of the same store cannot be recognized.
        let Some(identity) = store.identity() else { return new() };
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, live)| live.strong_count() > 0);
        if let Some(live) =
            all.iter().find(|(of, _)| *of == identity).and_then(|(_, live)| live.upgrade())
        {
            return live;
        }
        let live = new();
        all.push((identity, Arc::downgrade(&live)));
        live
    }

    fn state(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut LiveState) -> T) -> T {
        let changed = change(&mut self.state());
        self.changed.send_modify(|count| *count += 1);
        changed
    }

    /// Finds a run, or reserves it. Waits while another task of this process holds a reservation,
    /// or the run is just ending.
    pub(crate) async fn find(self: &Arc<Self>, run: &RunId) -> Found {
        // Subscribed before the first look, so that no change is missed.
        let mut changes = self.changed.subscribe();
        loop {
            if let Some(found) = self.look(run) {
                return found;
            }
            // Cannot fail, because `self` owns the sender.
            let _ = changes.changed().await;
        }
    }

    /// Returns a receiver that is notified when a run starts or ends in this process.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Returns the lock that orders the runs of a session which start in this process.
    pub(crate) fn queue_for(&self, session: &Arc<str>) -> Queue {
        let queues = &mut self.state().queues;
        if let Some(queue) = queues.get(session).and_then(Weak::upgrade) {
            return queue;
        }
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = Queue::default();
        queues.insert(Arc::clone(session), Arc::downgrade(&queue));
        queue
    }

    /// Returns a run that this process executes.
    pub(crate) fn get(&self, run: &RunId) -> Option<Arc<RunShared>> {
        match self.state().runs.get(run) {
            Some(Entry::Live(shared)) => shared.upgrade().filter(|shared| !shared.log.is_closed()),
            Some(Entry::Reserved) | None => None,
        }
    }

    /// Returns `true` if this process executes the run or is about to, or the run is just ending.
    pub(crate) fn has(&self, run: &RunId) -> bool {
        match self.state().runs.get(run) {
            Some(Entry::Live(shared)) => shared.strong_count() > 0,
            Some(Entry::Reserved) => true,
            None => false,
        }
    }

    fn look(self: &Arc<Self>, run: &RunId) -> Option<Found> {
        let mut state = self.state();
        match state.runs.get(run) {
            Some(Entry::Reserved) => return None,
            Some(Entry::Live(shared)) => match shared.upgrade() {
                // The run has stopped and is about to be removed.
                Some(shared) if shared.log.is_closed() => return None,
                Some(shared) => return Some(Found::Live(shared)),
                None => {}
            },
            None => {}
        }
        state.runs.insert(run.clone(), Entry::Reserved);
        Some(Found::Free(Reservation { live: Arc::clone(self), run: run.clone() }))
    }

    /// Registers a new run. If another run with the same id is registered, the new run is refused
    /// and cannot store anything.
    pub(crate) fn add(self: &Arc<Self>, shared: &Arc<RunShared>) {
        let added = self.change(|state| {
            let taken = matches!(state.runs.get(&shared.id), Some(Entry::Live(other)) if other.strong_count() > 0);
            if !taken {
                state.runs.insert(shared.id.clone(), Entry::Live(Arc::downgrade(shared)));
            }
            !taken
        });
        match added {
            true => self.watch(shared),
            false => shared.log.refuse(StoreError::exists(&shared.id)),
        }
    }

    pub(crate) fn remove(&self, shared: &RunShared) {
        self.change(|state| {
            if let Some(Entry::Live(of)) = state.runs.get(&shared.id)
                // A later execution of the same run may be registered already.
                && std::ptr::eq(of.as_ptr(), shared)
            {
                state.runs.remove(&shared.id);
            }
        });
    }

    /// Returns `true` if a definition must still be written to the store.
    pub(crate) fn lacks_definition(&self, hash: &Arc<str>) -> bool {
        !self.state().definitions.contains(hash)
    }

    pub(crate) fn has_definition(&self, hash: &Arc<str>) {
        self.state().definitions.insert(Arc::clone(hash));
    }

    /// Starts the task that waits for messages of other processes, unless it is running on this
    /// tokio runtime. One task serves all runs, as long as this process has an unfinished run.
    fn watch(self: &Arc<Self>, shared: &Arc<RunShared>) {
        let Some((store, _)) = shared.log.store() else { return };
        let Some(mut sent) = store.messages().and_then(MessageStore::message_sent) else { return };
        let on = Handle::current().id();
        if !self.state().watched_on.insert(on) {
            return;
        }
        // Weak references, so that this task does not keep the store open.
        let (mut watched, store) =
            (Watched { live: Arc::downgrade(self), on }, Arc::downgrade(store));
        tokio::spawn(async move {
            let mut problems = 0_u32;
            loop {
                sent.await;
                let Some(live) = watched.live.upgrade() else { return };
                let Some(store) = live.store_of_any().or_else(|| store.upgrade()) else { return };
                if live.is_idle(on) {
                    watched.disarm();
                    return;
                }
                let Some(messages) = store.messages() else { return };
                // Requested before the inbox is read, so that a message which is sent meanwhile is
                // not missed.
                let Some(next) = messages.message_sent() else { return };
                sent = next;
                match messages.inbox().await {
                    Ok(messages) => {
                        problems = 0;
                        messages.into_iter().for_each(|message| live.deliver(message));
                    }
                    Err(error) => {
                        problems += 1;
                        // Logs at growing intervals, since a file may be locked for a while.
                        if problems.is_power_of_two() {
                            tracing::warn!(%error, problems, "requests of other processes cannot be read; trying again");
                        }
                    }
                }
            }
        });
    }

    /// Returns the store handle of any run that is executed here; it exists as long as the run.
    fn store_of_any(&self) -> Option<Arc<dyn Store>> {
        let state = self.state();
        let mut runs = state.runs.values().filter_map(|entry| match entry {
            Entry::Live(shared) => shared.upgrade(),
            Entry::Reserved => None,
        });
        runs.find_map(|shared| shared.log.store().map(|(store, _)| Arc::clone(store)))
    }

    /// Returns `true` if no run is executed here. In that case, also unregisters the polling task
    /// of this tokio runtime.
    fn is_idle(&self, on: runtime::Id) -> bool {
        let mut state = self.state();
        let idle = !state.runs.values().any(|entry| match entry {
            Entry::Live(shared) => shared.strong_count() > 0,
            Entry::Reserved => true,
        });
        if idle {
            state.watched_on.remove(&on);
        }
        idle
    }

    /// Passes a message to its run.
    fn deliver(&self, message: StoreMessage) {
        let shared = match self.state().runs.get(&message.run) {
            Some(Entry::Live(shared)) => shared.upgrade(),
            // The task that opens the run reads its messages first.
            _ => None,
        };
        if let Some(shared) = shared {
            deliver(&shared, message);
        }
    }
}

/// Passes a message to its run. Each message is handled once.
pub(crate) fn deliver(shared: &Arc<RunShared>, message: StoreMessage) {
    if !shared.take_message(message.id) {
        return;
    }
    match StoredRequest::read(&message.body, Some(Reply::Message(message.id))) {
        Ok(asked) => shared.request(asked),
        Err(error) => {
            let error = shared.host.redacted(error);
            tracing::warn!(run = %shared.id, error, "a message from another process is not understood");
            shared.log.reply(Some(Reply::Message(message.id)), Err(ControlError::not_understood()));
        }
    }
    if shared.log.has_uncommitted() {
        // Commits a refusal, since the run may not record an event for a long time. The run itself
        // notices a failure of its store.
        let shared = Arc::clone(shared);
        tokio::spawn(async move { drop(shared.log.commit().await) });
    }
}

/// Unregisters the polling task of a tokio runtime when dropped, however the task ended.
struct Watched {
    live: Weak<LiveRuns>,
    on: runtime::Id,
}

impl Watched {
    /// Skips the drop handler, because the task was unregistered already.
    fn disarm(&mut self) {
        self.live = Weak::new();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(live) = self.live.upgrade() {
            live.state().watched_on.remove(&self.on);
        }
    }
}

impl Reservation {
    /// Registers the run, which this process executes from now on.
    pub(crate) fn becomes(self, shared: &Arc<RunShared>) {
        self.live.change(|state| {
            state.runs.insert(self.run.clone(), Entry::Live(Arc::downgrade(shared)))
        });
        self.live.watch(shared);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.live.change(|state| {
            if let Some(Entry::Reserved) = state.runs.get(&self.run) {
                state.runs.remove(&self.run);
            }
        });
    }
}

impl fmt::Debug for LiveRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveRuns").field("runs", &self.state().runs.len()).finish_non_exhaustive()
    }
}
