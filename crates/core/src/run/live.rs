//! The runs of a store that this process executes, by id, whichever runtime executes them; and the one task that reads
//! messages of other processes from the store for all of them.
//!
//! A run is registered here before it is opened in the store, so that nobody in this process opens it a second time. It
//! executes nothing itself.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::{self, Handle};
use tokio::sync::watch;

use super::control_request::{Reply, StoredRequest};
use super::shared::RunShared;
use crate::error::ControlError;
use crate::event::RunId;
use crate::store::{Store, StoreError, StoreMessage};

/// How often a store that other processes may use is asked for messages, so that the answer of a person reaches a run that
/// waits for it in less than 50 ms. It is asked while this process has an unfinished run, once for all of them.
const EVERY: Duration = Duration::from_millis(20);

/// The runs of one store that this process executes.
pub(crate) struct LiveRuns {
    state: Mutex<State>,
    /// Counts the changes of `state`.
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    runs: HashMap<RunId, Entry>,
    /// The tokio runtimes on which the store is looked at: one that ends stops only its own look.
    watched_on: HashSet<runtime::Id>,
    /// The hashes of definitions that the store has.
    definitions: HashSet<Arc<str>>,
    /// By the session.
    queues: HashMap<Arc<str>, Weak<tokio::sync::Mutex<()>>>,
}

/// Who holds it is the next to begin.
type Queue = Arc<tokio::sync::Mutex<()>>;

enum Entry {
    /// Somebody in this process is about to open or to change the run.
    Reserved,
    Live(Weak<RunShared>),
}

/// Where a run is, as far as this process knows.
pub(crate) enum Found {
    /// It is executed here.
    Live(Arc<RunShared>),
    /// It is not, and nobody else in this process opens it while the reservation is held.
    Free(Reservation),
}

/// The right to open or change a run that this process does not execute; given up when it is dropped.
pub(crate) struct Reservation {
    live: Arc<LiveRuns>,
    run: RunId,
}

/// All of this process, by what distinguishes their stores.
static ALL: Mutex<Vec<(String, Weak<LiveRuns>)>> = Mutex::new(Vec::new());

impl LiveRuns {
    /// Those of a store, shared by all runtimes that have it.
    pub(crate) fn of(store: &Arc<dyn Store>) -> Arc<Self> {
        let new = || Arc::new(Self { state: Mutex::default(), changed: watch::Sender::new(0) });
        let Some(identity) = store.identity() else { return new() };
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, live)| live.strong_count() > 0);
        if let Some(live) = all.iter().find(|(of, _)| *of == identity).and_then(|(_, live)| live.upgrade()) {
            return live;
        }
        let live = new();
        all.push((identity, Arc::downgrade(&live)));
        live
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state());
        self.changed.send_modify(|count| *count += 1);
        changed
    }

    /// Finds a run, or reserves it. Waits while somebody else in this process has it reserved, or it is just ending.
    pub(crate) async fn find(self: &Arc<Self>, run: &RunId) -> Found {
        let mut changes = self.changed.subscribe();
        loop {
            if let Some(found) = self.look(run) {
                return found;
            }
            // The sender lives as long as `self`.
            let _ = changes.changed().await;
        }
    }

    /// Changes whenever a run begins or ends here.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Where the runs of a session wait that are to begin here, in the order in which they asked.
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

    /// A run that is executed here.
    pub(crate) fn get(&self, run: &RunId) -> Option<Arc<RunShared>> {
        match self.state().runs.get(run) {
            Some(Entry::Live(shared)) => shared.upgrade().filter(|shared| !shared.log.is_closed()),
            Some(Entry::Reserved) | None => None,
        }
    }

    /// Whether a run is executed here, is about to be, or is just ending.
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
                // It has stopped and is about to be removed.
                Some(shared) if shared.log.is_closed() => return None,
                Some(shared) => return Some(Found::Live(shared)),
                None => {}
            },
            None => {}
        }
        state.runs.insert(run.clone(), Entry::Reserved);
        Some(Found::Free(Reservation { live: Arc::clone(self), run: run.clone() }))
    }

    /// A new run is executed here. When another one of its id is, that one stays, and the new one can keep nothing.
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
                && std::ptr::eq(of.as_ptr(), shared)
            {
                state.runs.remove(&shared.id);
            }
        });
    }

    /// Whether a definition is still to be put into the store; asked once for each.
    pub(crate) fn lacks_definition(&self, hash: &Arc<str>) -> bool {
        !self.state().definitions.contains(hash)
    }

    pub(crate) fn has_definition(&self, hash: &Arc<str>) {
        self.state().definitions.insert(Arc::clone(hash));
    }

    /// Looks at the store for messages as long as a run is executed here: one look for all of them.
    fn watch(self: &Arc<Self>, shared: &Arc<RunShared>) {
        let Some((store, _)) = shared.log.store().filter(|(store, _)| store.is_shared()) else { return };
        let on = Handle::current().id();
        if !self.state().watched_on.insert(on) {
            return;
        }
        let (mut watched, store) = (Watched { live: Arc::downgrade(self), on }, Arc::downgrade(store));
        tokio::spawn(async move {
            let mut problems = 0_u32;
            loop {
                tokio::time::sleep(EVERY).await;
                let Some(live) = watched.live.upgrade() else { return };
                let Some(store) = live.store_of_any().or_else(|| store.upgrade()) else { return };
                if live.is_idle(on) {
                    watched.disarm();
                    return;
                }
                match store.inbox().await {
                    Ok(messages) => {
                        problems = 0;
                        messages.into_iter().for_each(|message| live.deliver(message));
                    }
                    Err(error) => {
                        problems += 1;
                        // At growing distances: a file may be locked for a while.
                        if problems.is_power_of_two() {
                            tracing::warn!(%error, problems, "requests of other processes cannot be read; trying again");
                        }
                    }
                }
            }
        });
    }

    /// The store of a run that is executed here: its handle lives as long as the run.
    fn store_of_any(&self) -> Option<Arc<dyn Store>> {
        let state = self.state();
        let mut runs = state.runs.values().filter_map(|entry| match entry {
            Entry::Live(shared) => shared.upgrade(),
            Entry::Reserved => None,
        });
        runs.find_map(|shared| shared.log.store().map(|(store, _)| Arc::clone(store)))
    }

    /// Whether nothing is executed here; then this tokio runtime no longer looks.
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

    /// Hands a message to its run.
    fn deliver(&self, message: StoreMessage) {
        let shared = match self.state().runs.get(&message.run) {
            Some(Entry::Live(shared)) => shared.upgrade(),
            // Who opens it reads its messages first.
            _ => None,
        };
        if let Some(shared) = shared {
            deliver(&shared, message);
        }
    }
}

/// Hands a message to its run, once.
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
        // A refusal is reported, also when the run records nothing for a long time. A run whose store fails
        // notices that itself.
        let shared = Arc::clone(shared);
        tokio::spawn(async move { drop(shared.log.commit().await) });
    }
}

/// Says that a tokio runtime no longer looks, however its look ended.
struct Watched {
    live: Weak<LiveRuns>,
    on: runtime::Id,
}

impl Watched {
    /// It is said already.
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
    /// The run is executed here from now on.
    pub(crate) fn becomes(self, shared: &Arc<RunShared>) {
        self.live.change(|state| state.runs.insert(self.run.clone(), Entry::Live(Arc::downgrade(shared))));
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
