//! What happens beside the journal while a program runs: its effects in their order, ids, a clock. One world for a
//! process, in which one program runs at a time. It judges nothing.

use std::cell::Cell;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;

use super::tokens;

/// What an entry of the log says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Act {
    /// Something is changed, and twice is not the same as once.
    Write,
    /// Something is changed, and twice is the same as once.
    Idempotent,
    /// Something is changed, and the author lets it go ahead of others.
    Unordered,
    /// Something is looked at.
    Read,
    /// A condition is checked: nothing that is written below begins before.
    Check,
    /// A person answered: nothing that is written below begins before.
    Gate,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// What kind of thing.
    pub act: Act,
    /// Which function.
    pub name: &'static str,
    /// Which call in the program's text.
    pub site: u64,
    /// Its arguments.
    pub text: String,
}

/// The log: entries, and in the plain function the marks of what may happen at the same time.
#[derive(Clone, Debug, PartialEq)]
pub enum Noted {
    /// Something happened.
    Entry(Entry),
    /// The items from here on may run at the same time.
    Open,
    /// The next item begins.
    Item,
    /// The items end.
    Close,
    /// A call of another generated function begins.
    Enter,
    /// It ends.
    Leave,
    /// A process ended.
    Crash,
}

#[derive(Default)]
struct World {
    log: Vec<Noted>,
    ids: u64,
    ticks: u64,
    pace: u64,
}

/// Data outside of the program, which steps change.
pub static RATE: AtomicI64 = AtomicI64::new(2);

thread_local! {
    /// The same.
    pub static LOCAL: Cell<i64> = const { Cell::new(2) };
}

static WORLD: Mutex<Option<World>> = Mutex::new(None);

fn world<T>(act: impl FnOnce(&mut World) -> T) -> T {
    let mut world: MutexGuard<'_, Option<World>> = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    act(world.get_or_insert_default())
}

/// Begins a run of a program: the log is empty. With a pace of 0 nothing waits.
pub fn begin(pace: u64) {
    world(|world| {
        world.log.clear();
        world.pace = pace;
    });
    set_shared_rate(2);
    change_process();
}

/// Another process begins: ids and the clock are elsewhere.
pub fn change_process() {
    world(|world| {
        world.ids += 1_000;
        world.ticks += 70;
        world.pace = world.pace.wrapping_mul(3);
    });
}

/// Notes the end of a process.
pub fn crash() {
    mark(Noted::Crash);
    change_process();
}

/// What happened since [`begin`].
pub fn log() -> Vec<Noted> {
    world(|world| world.log.clone())
}

/// Notes that something happens now.
pub fn note(act: Act, name: &'static str, site: u64, text: String) {
    world(|world| world.log.push(Noted::Entry(Entry { act, name, site, text })));
}

/// Notes a mark.
pub fn mark(noted: Noted) {
    world(|world| world.log.push(noted));
}

/// A call of another generated function: from here to where it is dropped.
#[derive(Debug)]
pub struct Called(());

impl Called {
    /// The call begins.
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

/// What a future gives, unless it panics.
pub async fn caught<F: Future>(future: F) -> Option<F::Output> {
    AssertUnwindSafe(future).catch_unwind().await.ok()
}

/// The future of one of several things that may happen at the same time.
pub async fn item<F: Future>(future: F) -> F::Output {
    mark(Noted::Item);
    future.await
}

/// A new id: another one each time.
pub fn new_id(site: u64) -> String {
    let id = world(|world| {
        world.ids += 1;
        world.ids
    });
    tokens::token("id", site, &format!("{:08}", id % 100_000_000))
}

/// The time: another one each time.
pub fn stamp(site: u64) -> String {
    let tick = world(|world| {
        world.ticks += 3;
        world.ticks
    });
    tokens::token("time", site, &format!("{:08}", tick % 100_000_000))
}

/// Sets data outside of the program, which steps change.
pub fn set_shared_rate(rate: i64) {
    RATE.store(rate, Ordering::SeqCst);
    LOCAL.set(rate);
}

/// Returns the current rate.
pub fn shared_rate() -> i64 {
    RATE.load(Ordering::SeqCst)
}

/// The numbers in the order of a `HashSet`: mostly another one each time.
pub fn hashed(site: u64, numbers: &[i64]) -> String {
    let mut all: Vec<i64> = numbers.to_vec();
    all.extend([11, 12, 13, 14, 15, 16]);
    let set: HashSet<i64> = all.into_iter().collect();
    let shown: Vec<String> = set.into_iter().map(|n| n.to_string()).collect();
    tokens::token("set", site, &shown.join(","))
}

/// Waits for a time that depends on who asks, so that steps overtake each other wherever they may.
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
