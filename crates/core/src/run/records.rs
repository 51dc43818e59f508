//! The log's state in memory: its records, the rarely used parts, and its readers.
//!
//! It has no lock and writes nowhere; `log.rs` does.

use std::collections::VecDeque;
use std::task::Waker;

use super::redaction::Redactor;
use super::replies::Replies;
use super::sent::Mail;
use super::spending::Ledger;
use super::waits::Waits;
use crate::event::{Event, EventKind, RunId};
use crate::path::StepPath;
use crate::state::StateOwner;
use crate::store::{Answered, StateWrite, StoreError};
use crate::time::Timestamp;

/// A log of fewer records grows by half of them.
const SHORT: usize = 64;

#[derive(Default)]
pub(super) struct State {
    /// How many events of the run are not in `records`.
    pub(super) offset: u64,
    pub(super) records: Vec<Record>,
    /// How many records may be seen: all of them, or those that the store has.
    pub(super) visible: usize,
    /// How many model calls were begun, without those that middleware answered.
    pub(super) model_calls: u32,
    pub(super) deltas: u32,
    /// How many agents and workflows in steps have begun and not ended; of what an earlier process began perhaps more.
    pub(super) nested: u32,
    /// What was spent by the first so many records; there is one once somebody asks.
    pub(super) ledger: Option<Box<(usize, Ledger)>>,
    pub(super) rare: Option<Box<Rare>>,
    /// Nothing more will be seen.
    pub(super) closed: bool,
    /// The run of an agent is about to end with its answer: it takes no message any more.
    pub(super) ending: bool,
}

/// What the log of most runs never holds.
#[derive(Default)]
pub(super) struct Rare {
    /// What still matters of the events that are not in the log's records.
    pub(super) kept: Vec<Record>,
    /// How many records are of an earlier life of the run.
    pub(super) restored: usize,
    /// How many records the last snapshot stands for, and how many events it has.
    pub(super) snapshot_at: usize,
    pub(super) snapshot_size: usize,
    pub(super) subscribers: Vec<Subscriber>,
    pub(super) next_subscriber: u64,
    /// What the run waits for, by what is recorded.
    pub(super) waits: Waits,
    /// Outcomes of control requests that wait until they are kept.
    pub(super) replies: Replies,
    /// The values that outlive the run and are written with the record of this number.
    pub(super) state_writes: Vec<(usize, StateWrite)>,
    /// The messages that were sent to the run.
    pub(super) mail: Mail,
    /// Why nothing of the run can be kept.
    pub(super) refused: Option<StoreError>,
}

/// An event without what all events of the log have in common.
pub(super) struct Record {
    pub(super) time: Timestamp,
    pub(super) path: StepPath,
    pub(super) kind: EventKind,
}

impl Record {
    pub(super) fn parts(&self) -> (Timestamp, StepPath, EventKind) {
        (self.time, self.path.clone(), self.kind.clone())
    }
}

pub(super) struct Subscriber {
    pub(super) id: u64,
    /// `None` for one who reads none.
    pub(super) deltas: Option<VecDeque<Event>>,
    pub(super) waker: Option<Waker>,
}

impl State {
    pub(super) fn record(&mut self, time: Timestamp, path: StepPath, mut kind: EventKind) {
        self.count(&path, &kind);
        match &mut kind {
            EventKind::RunResumed { recovered: false, waiting, .. }
            | EventKind::RunResumed { redefined: Some(_), waiting, .. } => {
                *waiting = self.rare.as_ref().and_then(|rare| rare.waits.reason());
            }
            _ => {}
        }
        let len = self.records.len();
        if len == self.records.capacity() {
            // A short one by half and not to twice: most of the memory of a run that waits is this. A long one is copied
            // seldom.
            self.records.reserve_exact(if len < SHORT { (len / 2).max(4) } else { len });
        }
        self.note_state(&kind);
        self.records.push(Record { time, path, kind });
        self.deltas = 0;
    }

    /// What a step of the run itself saved that outlives the run goes to its place with the record.
    fn note_state(&mut self, kind: &EventKind) {
        let Some(saved) = kind.saved().filter(|saved| saved.place().is_some()) else { return };
        let lasting = |key: &str| StateOwner::split(key).0;
        if !saved.changes().any(|(key, _)| lasting(key).outlives_runs()) {
            return;
        }
        let caller = self.all().find_map(|record| match &record.kind {
            EventKind::RunStarted(started) => Some(started.caller.clone()),
            _ => None,
        });
        let (caller, at) = (caller.flatten(), self.records.len());
        for (key, value) in saved.changes() {
            let user = match lasting(key) {
                StateOwner::App => None,
                StateOwner::User if caller.is_some() => caller.as_deref(),
                _ => continue,
            };
            self.rare().state_writes.push((at, StateWrite::new(user, key, value.cloned())));
        }
    }

    /// What goes to its place with the first so many records.
    pub(super) fn take_state_writes(&mut self, records: usize) -> Vec<StateWrite> {
        let Some(rare) = &mut self.rare else { return Vec::new() };
        let end = rare.state_writes.partition_point(|(at, _)| *at < records);
        rare.state_writes.drain(..end).map(|(_, write)| write).collect()
    }

    /// Records the beginning, before what an operator asked meanwhile.
    pub(super) fn begin(&mut self, time: Timestamp, path: StepPath, kind: EventKind) {
        self.records.reserve_exact(4);
        self.records.insert(0, Record { time, path, kind });
    }

    pub(super) fn count(&mut self, path: &StepPath, kind: &EventKind) {
        match &mut self.rare {
            Some(rare) => rare.waits.apply(path, kind),
            // Nothing is waited for until a pause is recorded.
            None if matches!(kind, EventKind::RunPaused { .. }) => self.rare().waits.apply(path, kind),
            None => {}
        }
        match kind {
            EventKind::ModelStarted { .. } => self.model_calls = self.model_calls.saturating_add(1),
            EventKind::ModelCompleted(response) if response.answered_by.is_some() => {
                self.model_calls = self.model_calls.saturating_sub(1);
            }
            EventKind::AgentStarted(_) | EventKind::WorkflowStarted(_) => self.nested = self.nested.saturating_add(1),
            EventKind::AgentCompleted(_)
            | EventKind::AgentFailed { .. }
            | EventKind::WorkflowCompleted(_)
            | EventKind::WorkflowFailed { .. } => self.nested = self.nested.saturating_sub(1),
            EventKind::RunSpent(rows) => {
                self.model_calls = rows.iter().fold(0, |calls: u32, row| calls.saturating_add(row.calls));
            }
            EventKind::MessageReceived { .. }
            | EventKind::MessageDelivered { .. }
            | EventKind::RunClosed { .. }
            | EventKind::RunAdvanced(_) => self.rare().mail.sent.apply(kind),
            _ => {}
        }
    }

    /// Counts what is there already.
    pub(super) fn count_all(&mut self) {
        let (kept, records) = (std::mem::take(&mut self.rare().kept), std::mem::take(&mut self.records));
        kept.iter().chain(&records).for_each(|record| self.count(&record.path, &record.kind));
        self.rare().kept = kept;
        self.records = records;
    }

    pub(super) fn ledger(&mut self) -> &Ledger {
        let Self { rare, records, ledger, .. } = self;
        let (read, ledger) = &mut **ledger.get_or_insert_with(|| {
            let mut ledger = Ledger::default();
            rare.iter().flat_map(|rare| &rare.kept).for_each(|record| ledger.apply(&record.path, &record.kind));
            Box::new((0, ledger))
        });
        records[*read..].iter().for_each(|record| ledger.apply(&record.path, &record.kind));
        *read = records.len();
        ledger
    }

    pub(super) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    pub(super) fn replies(&mut self) -> &mut Replies {
        &mut self.rare().replies
    }

    /// The outcomes that other processes wait for and that go with the first so many records.
    pub(super) fn answers(&self, records: usize, redactor: Option<&Redactor>) -> Vec<Answered> {
        self.rare.as_ref().map(|rare| rare.replies.messages(records, redactor)).unwrap_or_default()
    }

    pub(super) fn kept(&self) -> &[Record] {
        self.rare.as_ref().map_or(&[], |rare| &rare.kept)
    }

    pub(super) fn restored(&self) -> usize {
        self.rare.as_ref().map_or(0, |rare| rare.restored)
    }

    /// What still matters of everything that was recorded.
    pub(super) fn all(&self) -> impl Iterator<Item = &Record> {
        self.kept().iter().chain(&self.records)
    }

    pub(super) fn event(&self, run_id: &RunId, at: usize) -> Event {
        self.event_of(run_id, self.offset + at as u64 + 1, &self.records[at])
    }

    #[expect(clippy::unused_self, reason = "an event is one of this log's")]
    pub(super) fn event_of(&self, run_id: &RunId, seq: u64, Record { time, path, kind }: &Record) -> Event {
        Event { run_id: run_id.clone(), seq, part: 0, time: *time, path: path.clone(), kind: kind.clone() }
    }
}

impl Rare {
    pub(super) fn wake(&mut self) {
        for subscriber in &mut self.subscribers {
            if let Some(waker) = subscriber.waker.take() {
                waker.wake();
            }
        }
    }
}

/// How much there is to read in these events, in events.
pub(super) fn reading_size<'k>(kinds: impl Iterator<Item = &'k EventKind>) -> usize {
    let of = |kind: &EventKind| match kind {
        EventKind::RunAdvanced(advanced) => advanced.messages.len(),
        _ => 1,
    };
    kinds.map(of).sum()
}
