//! The state outside of the journal while a program runs: its ordered effects, ids, and a clock. A
//! process has a single world and runs one program at a time.

use std::cell::Cell;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;

pub use super::actions::{Act, Entry, Noted};
use super::tokens;

#[derive(Default)]
struct World {
    log: Vec<Noted>,
    ids: u64,
    ticks: u64,
    pace: u64,
}

/// Data outside of the program that steps change.
pub static RATE: AtomicI64 = AtomicI64::new(2);

/// The same data, behind a lock.
pub static GAUGE: Mutex<i64> = Mutex::new(2);

thread_local! {
    /// The same data, for the current thread.
    pub static LOCAL: Cell<i64> = const { Cell::new(2) };
}

static WORLD: Mutex<Option<World>> = Mutex::new(None);

fn world<T>(act: impl FnOnce(&mut World) -> T) -> T {
    let mut world: MutexGuard<'_, Option<World>> =
        WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    act(world.get_or_insert_default())
}

/// Starts a run of a program with an empty log. With a pace of 0 no step waits.
pub fn begin(pace: u64) {
    world(|world| {
        world.log.clear();
        world.pace = pace;
    });
    set_shared_rate(2);
    change_process();
}

/// Simulates a new process with different ids and a different clock.
pub fn change_process() {
    world(|world| {
        world.ids += 1_000;
        world.ticks += 70;
        world.pace = world.pace.wrapping_mul(3);
    });
}

/// Records the end of a process.
pub fn crash() {
    mark(Noted::Crash);
    change_process();
}

/// Returns the log since [`begin`].
pub fn log() -> Vec<Noted> {
    world(|world| world.log.clone())
}

/// Records an action.
pub fn note(act: Act, name: &'static str, site: u64, text: String) {
    world(|world| world.log.push(Noted::Entry(Entry { act, name, site, text })));
}

/// Records a mark.
pub fn mark(noted: Noted) {
    world(|world| world.log.push(noted));
}

/// A call of another generated function. The call ends when this value is dropped.
#[derive(Debug)]
pub struct Called(());

impl Called {
    /// Starts the call.
    pub fn begin() -> Self {
        mark(Noted::Enter);
        Self(())
    }
}

impl Drop for Called {
    fn drop(&mut self) {
        mark(Noted::Leave);
    }
}

/// Returns the output of a future, or `None` if it panics.
pub async fn caught<F: Future>(future: F) -> Option<F::Output> {
    AssertUnwindSafe(future).catch_unwind().await.ok()
}

/// Runs one of several futures that may run concurrently.
pub async fn item<F: Future>(future: F) -> F::Output {
    mark(Noted::Item);
    future.await
}

/// Returns a new id, different each time.
pub fn new_id(site: u64) -> String {
    let id = world(|world| {
        world.ids += 1;
        world.ids
    });
    tokens::token("id", site, &format!("{:08}", id % 100_000_000))
}

/// Returns the time, different each time.
pub fn stamp(site: u64) -> String {
    let tick = world(|world| {
        world.ticks += 3;
        world.ticks
    });
    tokens::token("time", site, &format!("{:08}", tick % 100_000_000))
}

/// Sets the data outside of the program.
pub fn set_shared_rate(rate: i64) {
    RATE.store(rate, Ordering::SeqCst);
    LOCAL.set(rate);
    *GAUGE.lock().unwrap_or_else(PoisonError::into_inner) = rate;
}

/// Returns the current rate.
pub fn shared_rate() -> i64 {
    RATE.load(Ordering::SeqCst)
}

/// Returns the numbers in the order of a `HashSet`, which usually differs each time.
pub fn hashed(site: u64, numbers: &[i64]) -> String {
    let mut all: Vec<i64> = numbers.to_vec();
    all.extend([11, 12, 13, 14, 15, 16]);
    let set: HashSet<i64> = all.into_iter().collect();
    let shown: Vec<String> = set.into_iter().map(|n| n.to_string()).collect();
    tokens::token("set", site, &shown.join(","))
}

/// Waits for a time that depends on the caller, so that concurrent steps overtake each other.
pub async fn pace(site: u64, place: u64) {
    let pace = world(|world| world.pace);
    if pace == 0 {
        return;
    }
    let mut hasher = DefaultHasher::new();
    (pace, site, place).hash(&mut hasher);
    match hasher.finish() % 5 {
        0 => {}
        1 => tokio::task::yield_now().await,
        more => tokio::time::sleep(Duration::from_millis(more - 1)).await,
    }
}
