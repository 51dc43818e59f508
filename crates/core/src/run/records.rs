//! The in-memory state of a log: its records, rarely used parts, and subscribers. `log.rs` adds the
//! lock.

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

/// Number of records below which the capacity grows by half.
const SHORT: usize = 64;

#[derive(Default)]
pub(super) struct State {
    /// Number of events of the run that precede `records`.
    pub(super) offset: u64,
    pub(super) records: Vec<Record>,
    /// Number of visible records: all of them, or the stored ones if there is a store.
    pub(super) visible: usize,
    /// Number of started model calls, excluding responses that middleware supplied.
    pub(super) model_calls: u32,
    pub(super) deltas: u32,
    /// Number of agents and workflows in steps that started and did not end. It may be too high if
    /// an earlier process started some.
    pub(super) nested: u32,
    /// The spending in the first records, with their number. Created on first use.
    pub(super) ledger: Option<Box<(usize, Ledger)>>,
    pub(super) rare: Option<Box<RareLogState>>,
    /// `true` if no more records become visible.
    pub(super) closed: bool,
    /// `true` if the run of an agent is about to end with its answer, so it accepts no more
    /// messages.
    pub(super) ending: bool,
}

/// State that most runs never need.
#[derive(Default)]
pub(super) struct RareLogState {
    /// Events of the snapshot that the log starts from.
    pub(super) kept: Vec<Record>,
    /// Number of records from before the run was resumed.
    pub(super) restored: usize,
    /// Number of records that the last snapshot covers, and number of events in it.
    pub(super) snapshot_at: usize,
    pub(super) snapshot_size: usize,
    pub(super) subscribers: Vec<Subscriber>,
    pub(super) next_subscriber: u64,
    /// The reasons for which the run waits, according to the records.
    pub(super) waits: Waits,
    /// Outcomes of control requests that wait until their records are stored.
    pub(super) replies: Replies,
    /// Writes to state that outlives the run, each with the index of its record. Both are stored in
    /// one commit.
    pub(super) state_writes: Vec<(usize, StateWrite)>,
    /// The messages sent to the run.
    pub(super) mail: Mail,
    /// The error that prevents the run from being stored.
    pub(super) refused: Option<StoreError>,
}

/// An event without the run id and the sequence number.
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
    /// `None` for a subscriber that does not read deltas.
    pub(super) deltas: Option<VecDeque<Event>>,
    pub(super) waker: Option<Waker>,
}

impl State {
    pub(super) fn record(&mut self, time: Timestamp, path: StepPath, mut kind: EventKind) {
        self.count(&path, &kind);
        // `count` has applied this event to the waits, so the reason is the one for which the run
        // still waits.
        match &mut kind {
            EventKind::RunResumed { recovered: false, waiting, .. }
            | EventKind::RunResumed { redefined: Some(_), waiting, .. } => {
                *waiting = self.rare.as_ref().and_then(|rare| rare.waits.reason());
            }
            _ => {}
        }
        let len = self.records.len();
        if len == self.records.capacity() {
            // Grows a short log by half instead of doubling it: the records are most of the memory
            // of a waiting run. A long log is copied rarely.
            self.records.reserve_exact(if len < SHORT { (len / 2).max(4) } else { len });
        }
        self.note_state(&kind);
        self.records.push(Record { time, path, kind });
        self.deltas = 0;
    }

    /// Queues writes to state that outlives the run, if a step of the run itself saved such values.
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
                // Without a caller, a user value has no owner and is not stored.
                StateOwner::User if caller.is_some() => caller.as_deref(),
                _ => continue,
            };
            self.rare().state_writes.push((at, StateWrite::new(user, key, value.cloned())));
        }
    }

    /// Takes the queued state writes of the first `records` records.
    pub(super) fn take_state_writes(&mut self, records: usize) -> Vec<StateWrite> {
        let Some(rare) = &mut self.rare else { return Vec::new() };
        let end = rare.state_writes.partition_point(|(at, _)| *at < records);
        rare.state_writes.drain(..end).map(|(_, write)| write).collect()
    }

    /// Records the start of the run before requests that were recorded meanwhile.
    pub(super) fn begin(&mut self, time: Timestamp, path: StepPath, kind: EventKind) {
        self.records.reserve_exact(4);
        self.records.insert(0, Record { time, path, kind });
    }

    pub(super) fn count(&mut self, path: &StepPath, kind: &EventKind) {
        match &mut self.rare {
            Some(rare) => rare.waits.apply(path, kind),
            // The waits are empty until a pause is recorded.
            None if matches!(kind, EventKind::RunPaused { .. }) => {
                self.rare().waits.apply(path, kind);
            }
            None => {}
        }
        match kind {
            EventKind::ModelStarted { .. } => self.model_calls = self.model_calls.saturating_add(1),
            EventKind::ModelCompleted(response) if response.answered_by.is_some() => {
                self.model_calls = self.model_calls.saturating_sub(1);
            }
            EventKind::AgentStarted(_) | EventKind::WorkflowStarted(_) => {
                self.nested = self.nested.saturating_add(1);
            }
            EventKind::AgentCompleted(_)
            | EventKind::AgentFailed { .. }
            | EventKind::WorkflowCompleted(_)
            | EventKind::WorkflowFailed { .. } => self.nested = self.nested.saturating_sub(1),
            EventKind::RunSpent(rows) => {
                self.model_calls =
                    rows.iter().fold(0, |calls: u32, row| calls.saturating_add(row.calls));
            }
            EventKind::MessageReceived { .. }
            | EventKind::MessageDelivered { .. }
            | EventKind::RunClosed { .. }
            | EventKind::RunAdvanced(_) => self.rare().mail.sent.apply(kind),
            _ => {}
        }
    }

    /// Counts the records that exist already.
    pub(super) fn count_all(&mut self) {
        let (kept, records) =
            (std::mem::take(&mut self.rare().kept), std::mem::take(&mut self.records));
        kept.iter().chain(&records).for_each(|record| self.count(&record.path, &record.kind));
        self.rare().kept = kept;
        self.records = records;
    }

    pub(super) fn ledger(&mut self) -> &Ledger {
        let Self { rare, records, ledger, .. } = self;
        let (read, ledger) = &mut **ledger.get_or_insert_with(|| {
            let mut ledger = Ledger::default();
            rare.iter()
                .flat_map(|rare| &rare.kept)
                .for_each(|record| ledger.apply(&record.path, &record.kind));
            Box::new((0, ledger))
        });
        records[*read..].iter().for_each(|record| ledger.apply(&record.path, &record.kind));
        *read = records.len();
        ledger
    }

    pub(super) fn rare(&mut self) -> &mut RareLogState {
        self.rare.get_or_insert_default()
    }

    pub(super) fn replies(&mut self) -> &mut Replies {
        &mut self.rare().replies
    }

    /// Returns the outcomes for other processes that are stored together with the first `records`
    /// records.
    pub(super) fn answers(&self, records: usize, redactor: Option<&Redactor>) -> Vec<Answered> {
        self.rare.as_ref().map(|rare| rare.replies.messages(records, redactor)).unwrap_or_default()
    }

    pub(super) fn kept(&self) -> &[Record] {
        self.rare.as_ref().map_or(&[], |rare| &rare.kept)
    }

    pub(super) fn restored(&self) -> usize {
        self.rare.as_ref().map_or(0, |rare| rare.restored)
    }

    /// Returns the events of the snapshot, then the records.
    pub(super) fn all(&self) -> impl Iterator<Item = &Record> {
        self.kept().iter().chain(&self.records)
    }

    pub(super) fn event(&self, run_id: &RunId, at: usize) -> Event {
        self.event_of(run_id, self.offset + at as u64 + 1, &self.records[at])
    }

    #[expect(clippy::unused_self, reason = "an event is one of this log's")]
    pub(super) fn event_of(
        &self,
        run_id: &RunId,
        seq: u64,
        Record { time, path, kind }: &Record,
    ) -> Event {
        Event {
            run_id: run_id.clone(),
            seq,
            part: 0,
            time: *time,
            path: path.clone(),
            kind: kind.clone(),
        }
    }
}

impl RareLogState {
    pub(super) fn wake(&mut self) {
        for subscriber in &mut self.subscribers {
            if let Some(waker) = subscriber.waker.take() {
                waker.wake();
            }
        }
    }
}

/// Returns the cost of reading these events, in events. A conversation counts as its number of
/// messages.
pub(super) fn reading_size<'k>(kinds: impl Iterator<Item = &'k EventKind>) -> usize {
    let of = |kind: &EventKind| match kind {
        EventKind::RunAdvanced(advanced) => advanced.messages.len(),
        _ => 1,
    };
    kinds.map(of).sum()
}
