//! The world of interpreted programs: the log of their actions, ids, a clock, and data that steps
//! change. The counterpart of `kit/world.rs` of the generated programs.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::Poll;

use fastrand::Rng;

use super::kit::actions::{Act, Entry, Noted};
use super::kit::tokens;
use super::value::{Value, intern};

pub(super) struct World {
    log: RefCell<Vec<Noted>>,
    ids: Cell<u64>,
    ticks: Cell<u64>,
    pub(super) rate: Cell<i64>,
    /// Chooses who continues, and for how long a step waits.
    pub(super) chance: RefCell<Rng>,
    /// `true` if steps wait, so that others can overtake them.
    is_paced: Cell<bool>,
    /// Number of things that have happened so far.
    happened: Cell<usize>,
}

impl World {
    /// Creates a world. Steps wait only if it is paced.
    pub(super) fn new(seed: u64, is_paced: bool) -> Self {
        let mut chance = Rng::with_seed(seed);
        Self {
            log: RefCell::default(),
            ids: Cell::new(chance.u64(..1_000_000)),
            ticks: Cell::new(chance.u64(..1_000_000)),
            rate: Cell::new(2),
            chance: RefCell::new(chance),
            is_paced: Cell::new(is_paced),
            happened: Cell::new(0),
        }
    }

    /// Starts another process, with other ids and another clock.
    pub(super) fn crash(&self) {
        self.mark(Noted::Crash);
        self.ids.set(self.ids.get() + 1_000);
        self.ticks.set(self.ticks.get() + 70);
    }

    pub(super) fn log(&self) -> Vec<Noted> {
        self.log.borrow().clone()
    }

    /// Counts something that happened.
    pub(super) fn happens(&self) {
        self.happened.set(self.happened.get() + 1);
    }

    /// Waits as a person does: until nothing else happens.
    pub(super) async fn think(&self) {
        const TURNS: usize = 12;
        let (mut seen, mut still) = (self.happened.get(), 0);
        poll_fn(|_| {
            if std::mem::replace(&mut seen, self.happened.get()) == self.happened.get() {
                still += 1;
            } else {
                still = 0;
            }
            if still > TURNS { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    pub(super) fn mark(&self, noted: Noted) {
        self.happens();
        self.log.borrow_mut().push(noted);
    }

    pub(super) fn note(&self, act: Act, name: &str, site: i64, text: String) {
        self.mark(Noted::Entry(Entry { act, name: intern(name), site: site as u64, text }));
    }

    pub(super) fn below(&self, limit: usize) -> usize {
        self.chance.borrow_mut().usize(..limit.max(1))
    }

    /// Waits for a random number of turns of the others.
    pub(super) async fn pace(&self) {
        let mut left = if self.is_paced.get() { self.below(4).saturating_sub(1) } else { 0 };
        poll_fn(|_| match left {
            0 => Poll::Ready(()),
            _ => {
                left -= 1;
                Poll::Pending
            }
        })
        .await;
    }

    /// Calls a function of the world that does not wait.
    pub(super) fn call(&self, name: &str, arguments: &[Value]) -> Value {
        let next = |counter: &Cell<u64>, by: u64| {
            counter.set(counter.get() + by);
            format!("{:08}", counter.get() % 100_000_000)
        };
        let site = || arguments[0].as_int() as u64;
        match name {
            "new_id" => Value::text(tokens::token("id", site(), &next(&self.ids, 1))),
            "stamp" => Value::text(tokens::token("time", site(), &next(&self.ticks, 3))),
            "hashed" => {
                // A hash set has another order each time.
                let mut numbers: Vec<i64> =
                    arguments[1].as_list().iter().map(Value::as_int).collect();
                numbers.extend(11..=16);
                numbers.sort_unstable();
                numbers.dedup();
                self.chance.borrow_mut().shuffle(&mut numbers);
                let shown: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                Value::text(tokens::token("set", site(), &shown.join(",")))
            }
            "stripped" => Value::text(tokens::stripped(arguments[0].as_text())),
            "shared_rate" => Value::Int(self.rate.get()),
            "set_shared_rate" => {
                self.rate.set(arguments[0].as_int());
                Value::Unit
            }
            "note" => {
                let act = match arguments[0].as_data().variant {
                    "Write" => Act::Write,
                    "Idempotent" => Act::Idempotent,
                    "Unordered" => Act::Unordered,
                    "Read" => Act::Read,
                    "Check" => Act::Check,
                    "Gate" => Act::Gate,
                    other => panic!("there is no action `{other}`"),
                };
                let (name, text) = (arguments[1].as_text(), arguments[3].as_text());
                self.note(act, name, arguments[2].as_int(), text.to_owned());
                Value::Unit
            }
            "mark" => {
                self.mark(match arguments[0].as_data().variant {
                    "Open" => Noted::Open,
                    "Item" => Noted::Item,
                    "Close" => Noted::Close,
                    other => panic!("there is no mark `{other}`"),
                });
                Value::Unit
            }
            name => panic!("the interpreter does not know the function `{name}`"),
        }
    }
}

/// Returns `true` for functions of the world.
pub(super) fn is_native(name: &str) -> bool {
    matches!(
        name,
        "new_id"
            | "stamp"
            | "hashed"
            | "stripped"
            | "shared_rate"
            | "set_shared_rate"
            | "note"
            | "mark"
            | "pace"
            | "item"
            | "caught"
    )
}
