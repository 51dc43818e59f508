//! The in-memory journal of a run, and its readers.
//!
//! Recorded events are kept while the run exists and are read by position, so a late or slow
//! subscriber misses none and delays no other task. Deltas are put into a bounded queue of each
//! subscriber and are dropped when it is full: the recorded `model.completed` contains their full
//! text. In a run with a store, events become visible when the store has them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{self, Poll, ready};
use std::time::Duration;

use super::forgotten::InvalidatedRecords;
use super::journal::{Journal, Pending, WriteWaiter};
use super::records::{Record, State, Subscriber, reading_size};
use super::redaction::Redactor;
use super::sinks::Emitter;
use super::spending::Ledger;
use super::time_spent::time_spent;
use crate::event::{AnswerForm, Event, EventKind, EventSink, PauseReason, RunId};
use crate::path::StepPath;
use crate::store::{Answered, Append, Epoch, Store, StoreError, StoreErrorKind};
use crate::time::Timestamp;

/// Maximum number of deltas that wait for one subscriber.
const DELTA_QUEUE: usize = 1024;

/// The journal of a run in memory. Each run has one, so rarely used parts are boxed and created on
/// demand.
pub(crate) struct EventLog {
    pub(super) run_id: RunId,
    /// Set if there are sinks.
    emitter: Option<Box<Emitter>>,
    pub(super) delta_listeners: AtomicUsize,
    state: Mutex<State>,
    pub(super) journal: Option<Box<Journal>>,
    /// Removes secrets from events before they become visible.
    redactor: Option<Redactor>,
    /// `true` if the run waits for a person.
    asks: AtomicBool,
    /// `true` if the agent has messages to process.
    pub(super) has_mail: AtomicBool,
}

impl EventLog {
    pub(crate) fn new(
        run_id: RunId,
        sinks: Arc<[Arc<dyn EventSink>]>,
        journal: Option<Journal>,
        redactor: Option<Redactor>,
    ) -> Self {
        let emitter = (!sinks.is_empty()).then(|| Box::new(Emitter::new(sinks)));
        let delta_listeners =
            AtomicUsize::new(emitter.as_ref().map_or(0, |emitter| emitter.delta_sinks()));
        Self {
            run_id,
            emitter,
            delta_listeners,
            state: Mutex::default(),
            journal: journal.map(Box::new),
            redactor,
            asks: AtomicBool::new(false),
            has_mail: AtomicBool::new(false),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event. Without a store it becomes visible at once, otherwise when it is
    /// committed.
    pub(crate) fn record(&self, time: Timestamp, path: StepPath, kind: EventKind) {
        let mut state = self.state();
        self.add(&mut state, time, path, kind);
        self.recorded(state);
    }

    pub(super) fn add(&self, state: &mut State, time: Timestamp, path: StepPath, kind: EventKind) {
        state.record(time, path, self.redacted(kind));
    }

    fn redacted(&self, kind: EventKind) -> EventKind {
        if let Some(redactor) = &self.redactor { redactor.event(kind) } else { kind }
    }

    /// Makes new records visible, unless they must be committed first.
    pub(super) fn recorded(&self, mut state: MutexGuard<'_, State>) {
        self.note_recorded(&mut state);
        drop(state);
        if self.journal.is_none() {
            self.emit();
        }
    }

    /// Makes new records visible like [`recorded`](Self::recorded), without calling the sinks.
    pub(super) fn note_recorded(&self, state: &mut State) {
        self.note_asks(state);
        let end = state.records.len();
        if self.journal.is_some() {
            // `poll_commit` makes them visible.
        } else if self.emitter.is_none() && state.rare.is_none() {
            state.visible = end;
        } else {
            self.show(state, end, &[]);
        }
    }

    /// Passes new events to the sinks. The caller must not hold the lock.
    pub(super) fn emit(&self) {
        if let Some(emitter) = &self.emitter {
            emitter.emit();
        }
    }

    /// Restores the stored events of a run that is resumed. Sinks do not receive them again.
    ///
    /// `kept` contains the events of the snapshot, which replace the first `offset` events;
    /// `events` are the later ones.
    pub(crate) fn restore(&self, offset: u64, kept: Vec<Event>, events: Vec<Event>) {
        let records = |events: Vec<Event>| {
            events
                .into_iter()
                .map(|Event { time, path, kind, .. }| Record { time, path, kind })
                .collect::<Vec<_>>()
        };
        let mut state = self.state();
        state.offset = offset;
        state.records = records(events);
        // The store has these records already.
        state.visible = state.records.len();
        let (restored, rare) = (state.records.len(), state.rare());
        rare.snapshot_size = reading_size(kept.iter().map(|event| &event.kind));
        rare.kept = records(kept);
        rare.restored = restored;
        state.count_all();
        self.note_asks(&state);
    }

    fn note_asks(&self, state: &State) {
        if let Some(rare) = &state.rare {
            self.asks.store(rare.waits.of_workflows().is_some(), Ordering::Release);
        }
    }

    /// Returns the number of model calls that the run has started, including those before a resume.
    pub(crate) fn model_calls(&self) -> u32 {
        self.state().model_calls
    }

    /// Returns `true` if an agent or a workflow in a step may be running.
    pub(super) fn has_nested(&self) -> bool {
        self.state().nested > 0
    }

    /// Calls `ask` with the spending of the run.
    pub(crate) fn spent<T>(&self, ask: impl FnOnce(&Ledger) -> T) -> T {
        let state = &mut *self.state();
        ask(state.ledger())
    }

    /// Returns the number of visible events of the run.
    pub(crate) fn visible(&self) -> u64 {
        let state = self.state();
        state.offset + state.visible as u64
    }

    /// Returns the hash of the run's current definition, if it executes a workflow.
    pub(crate) fn definition(&self) -> Option<Arc<str>> {
        let state = self.state();
        let definition = |kind: &EventKind| match kind {
            EventKind::RunStarted(started) => {
                started.workflow().map(|workflow| Arc::clone(&workflow.definition))
            }
            EventKind::RunResumed { redefined, .. } => {
                redefined.as_ref().and_then(|new| new.definition.clone())
            }
            _ => None,
        };
        state.all().filter_map(|record| definition(&record.kind)).last()
    }

    /// Returns the reason for which the run waits, according to the records.
    pub(super) fn waits_for(&self) -> Option<PauseReason> {
        self.state().rare.as_ref().and_then(|rare| rare.waits.reason())
    }

    /// Returns the form of the answer of the run's agent.
    pub(crate) fn answer_form(&self) -> AnswerForm {
        let state = self.state();
        match state.all().next().map(|first| &first.kind) {
            Some(EventKind::RunStarted(started)) => {
                started.agent().map(|agent| agent.answer).unwrap_or_default()
            }
            _ => AnswerForm::default(),
        }
    }

    /// Returns `true` if the run executes an agent.
    pub(crate) fn is_agent(&self) -> bool {
        let state = self.state();
        let first = state.all().next();
        first.is_none_or(|first| matches!(&first.kind, EventKind::RunStarted(started) if started.agent().is_some()))
    }

    /// Makes the records up to `end` visible. Sinks receive them after the lock is released.
    /// `answered` contains the outcomes that were stored with the records.
    fn show(&self, state: &mut State, end: usize, answered: &[Answered]) {
        if let Some(emitter) = &self.emitter {
            for at in state.visible..end {
                emitter.add(state.event(&self.run_id, at));
            }
        }
        state.visible = end;
        if let Some(rare) = &mut state.rare {
            rare.replies.kept(end, answered);
            rare.wake();
        }
    }

    /// Creates the first event of the run.
    pub(crate) fn first(&self, time: Timestamp, kind: EventKind) -> Event {
        Event {
            run_id: self.run_id.clone(),
            seq: 1,
            part: 0,
            time,
            path: StepPath::root(),
            kind: self.redacted(kind),
        }
    }

    /// Stores the start of the run, and records it afterwards. If the store refuses it, no event is
    /// recorded.
    pub(crate) async fn begin(&self, first: Event) -> Result<(), StoreError> {
        // A run with a duplicate id was refused when it was registered.
        self.state().rare.as_ref().and_then(|rare| rare.refused.clone()).map_or(Ok(()), Err)?;
        let journal = self.journal.as_ref().ok_or_else(StoreError::no_store)?;
        journal.write(&self.run_id, Append::new(0, vec![first.clone()])).await?;
        let mut state = self.state();
        state.begin(first.time, first.path, first.kind);
        self.show(&mut state, 1, &[]);
        drop(state);
        self.emit();
        Ok(())
    }

    /// Waits until all records so far are in the store. Without a store, returns at once.
    ///
    /// # Cancel safety
    /// If the future is dropped or no longer polled, the next commit continues the write in
    /// progress.
    pub(crate) async fn commit(&self) -> Result<(), StoreError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let wanted = {
            let state = self.state();
            let wanted = state.records.len();
            if state.visible >= wanted && state.answers(wanted, self.redactor.as_ref()).is_empty() {
                return Ok(());
            }
            wanted
        };
        // Writes that complete immediately would otherwise starve other work of the task, such as
        // snapshots.
        tokio::task::coop::consume_budget().await;
        let mut waiter = journal.waiter();
        poll_fn(|cx| self.poll_commit(journal, wanted, &mut waiter, cx)).await
    }

    /// Polls the write in progress and starts the next one, until the first `wanted` records are in
    /// the store.
    fn poll_commit(
        &self,
        journal: &Journal,
        wanted: usize,
        waiter: &mut WriteWaiter<'_>,
        cx: &mut task::Context<'_>,
    ) -> Poll<Result<(), StoreError>> {
        loop {
            // At most one write is in progress. Each waiting task polls it, even if another task
            // started it.
            let mut pending = journal.pending();
            if let Some(write) = pending.as_mut() {
                let written = ready!(waiter.poll(write, cx));
                if let (Some(Pending { end, answered, .. }), Ok(())) = (pending.take(), &written) {
                    self.show(&mut self.state(), end, &answered);
                }
                // Released first, so that the woken tasks can take the lock.
                drop(pending);
                waiter.wake_others();
                self.emit();
                written?;
                continue;
            }
            let mut state = self.state();
            let end = state.records.len();
            let answered = state.answers(end, self.redactor.as_ref());
            if state.visible >= wanted && answered.is_empty() {
                return Poll::Ready(Ok(()));
            }
            if let Some(refused) = state.rare.as_ref().and_then(|rare| rare.refused.as_ref()) {
                return Poll::Ready(Err(refused.clone()));
            }
            if state.closed {
                // Records from after the run was dropped are not part of its journal.
                let message =
                    format!("the run `{}` has stopped here and can be resumed", self.run_id);
                return Poll::Ready(Err(StoreError::new(StoreErrorKind::Fenced, message)));
            }
            let events = (state.visible..end).map(|at| state.event(&self.run_id, at)).collect();
            let after = state.offset + state.visible as u64;
            // State that outlives the run is written in the same commit as its record.
            let writes = state.take_state_writes(end);
            let append = Append { after, events, answered: answered.clone(), state: writes };
            let write = journal.write(&self.run_id, append);
            drop(state);
            *pending = Some(Pending { end, answered, write });
        }
    }

    /// Returns `true` if a workflow or call at a path or below it waits for a person. Reads only an
    /// atomic in most cases, since it is called at every poll.
    pub(crate) fn waits_for_person(&self, base: &StepPath) -> bool {
        self.asks.load(Ordering::Acquire) && self.waits_within(base)
    }

    /// Returns `true` if a workflow or call at a path or below it waits for a person.
    pub(crate) fn waits_within(&self, base: &StepPath) -> bool {
        self.state().rare.as_ref().is_some_and(|rare| rare.waits.are_within(base))
    }

    /// Returns the paths of the workflows and calls at a path and below it that wait for a person.
    pub(super) fn waiting_below(&self, base: &StepPath) -> Vec<StepPath> {
        self.state()
            .rare
            .as_ref()
            .map(|rare| rare.waits.within(base).cloned().collect())
            .unwrap_or_default()
    }

    /// Prevents all further commits with this error.
    pub(crate) fn refuse(&self, error: StoreError) {
        self.state().rare().refused = Some(error);
    }

    /// Returns the store of the run, and the epoch of this writer once the run exists there.
    pub(crate) fn store(&self) -> Option<(&Arc<dyn Store>, Option<Epoch>)> {
        self.journal.as_ref().map(|journal| (&journal.store, journal.epoch()))
    }

    /// Releases the run in its store, after it has ended and all records are committed.
    pub(crate) async fn release(&self) -> Result<(), StoreError> {
        match self.store() {
            Some((store, Some(epoch))) => store.close(&self.run_id, epoch).await,
            _ => Ok(()),
        }
    }

    /// Returns `true` if a record or an outcome is not in the store yet.
    pub(crate) fn has_uncommitted(&self) -> bool {
        self.journal.is_some() && {
            let state = self.state();
            state.visible < state.records.len()
                || !state.answers(state.visible, self.redactor.as_ref()).is_empty()
        }
    }

    /// Returns `true` if the run has a store.
    pub(crate) fn is_durable(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.durable)
    }

    /// Returns `true` if events are recorded outside this process: in a store, or by the process
    /// that owns the run of this step.
    pub(crate) fn has_journal(&self) -> bool {
        self.journal.is_some()
    }

    /// Closes the log: ends all subscriptions and drops the waiting replies.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        if let Some(rare) = &mut state.rare {
            rare.replies.clear();
            rare.mail.early.clear();
            rare.wake();
        }
    }

    /// Returns the valid records at a path and below it, in order. Records that a change of the
    /// definition invalidated are omitted.
    pub(crate) fn records_below(&self, base: &StepPath) -> Vec<(Timestamp, StepPath, EventKind)> {
        self.records_where(|path| path.is_within(base))
    }

    /// Returns the valid records at a path, below it, and at the steps that contain it.
    pub(crate) fn records_around(&self, step: &StepPath) -> Vec<(Timestamp, StepPath, EventKind)> {
        self.records_where(|path| path.belongs_to(step) || step.belongs_to(path))
    }

    /// Returns the valid records whose path satisfies the predicate, in order.
    pub(crate) fn records_where(
        &self,
        is_asked_for: impl Fn(&StepPath) -> bool,
    ) -> Vec<(Timestamp, StepPath, EventKind)> {
        let state = self.state();
        let void = InvalidatedRecords::from_kinds(state.all().map(|record| &record.kind));
        let counts = |(at, record): &(usize, &Record)| {
            is_asked_for(&record.path) && !void.covers(*at, &record.path)
        };
        state.all().enumerate().filter(counts).map(|(_, record)| record.parts()).collect()
    }

    /// Returns the index of the first record whose path satisfies the predicate; `usize::MAX` if no
    /// record does. The order of two paths by this index is the same before and after a resume.
    pub(crate) fn place_of(&self, is_it: impl Fn(&StepPath) -> bool) -> usize {
        self.state().all().position(|record| is_it(&record.path)).unwrap_or(usize::MAX)
    }

    /// Calls `see` for each record, in order.
    pub(crate) fn visit(&self, mut see: impl FnMut(&StepPath, &EventKind)) {
        self.state().all().for_each(|record| see(&record.path, &record.kind));
    }

    /// Returns all records at a path and below it, in order, including invalidated ones.
    pub(crate) fn all_below(&self, base: &StepPath) -> Vec<(Timestamp, StepPath, EventKind)> {
        let state = self.state();
        state.all().filter(|record| record.path.is_within(base)).map(Record::parts).collect()
    }

    /// Returns `true` if the run was resumed. Only then can records exist below a step that is
    /// about to start.
    pub(crate) fn is_restored(&self) -> bool {
        let state = self.state();
        state.rare.as_ref().is_some_and(|rare| rare.restored > 0 || !rare.kept.is_empty())
    }

    /// Returns the event that ended the run, if it is visible.
    pub(crate) fn end(&self) -> Option<EventKind> {
        let state = self.state();
        let last = state.visible.checked_sub(1)?;
        // An end from before the resume no longer counts.
        (last >= state.restored())
            .then(|| &state.records[last].kind)
            .filter(|kind| kind.ends_run())
            .cloned()
    }

    /// Returns the execution time of the agent or workflow at a path: see [`time_spent`].
    pub(crate) fn time_spent(&self, base: &StepPath, now: Timestamp) -> Duration {
        time_spent(
            self.state().all().map(|Record { time, path, kind }| (*time, path, kind)),
            base,
            now,
        )
    }

    /// Returns `true` if the log is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Returns `true` if there are sinks.
    pub(crate) fn has_sinks(&self) -> bool {
        self.emitter.is_some()
    }

    /// Passes an event to the sinks without recording it. Used for calls outside of any run; the
    /// event gets the next number.
    pub(crate) fn tell(&self, time: Timestamp, path: &StepPath, kind: EventKind) {
        let Some(emitter) = &self.emitter else { return };
        let mut state = self.state();
        state.offset += 1;
        state.deltas = 0;
        let seq = state.offset + state.records.len() as u64;
        let (run_id, path) = (self.run_id.clone(), path.clone());
        emitter.add(Event { run_id, seq, part: 0, time, path, kind: self.redacted(kind) });
        drop(state);
        self.emit();
    }

    /// Returns `true` if a delta would have a reader. Deltas are suppressed while a redactor is
    /// set, since a secret may be split across two deltas.
    pub(crate) fn wants_deltas(&self) -> bool {
        self.redactor.is_none() && self.delta_listeners.load(Ordering::Relaxed) > 0
    }

    /// Passes an event that is not recorded to the current subscribers and sinks.
    pub(crate) fn delta(&self, time: Timestamp, path: &StepPath, kind: EventKind) {
        let mut state = self.state();
        state.deltas += 1;
        let event = Event {
            run_id: self.run_id.clone(),
            seq: state.offset + state.records.len() as u64,
            part: state.deltas,
            time,
            path: path.clone(),
            kind,
        };
        if let Some(rare) = &mut state.rare {
            for deltas in
                rare.subscribers.iter_mut().filter_map(|subscriber| subscriber.deltas.as_mut())
            {
                // A full queue drops its oldest delta.
                if deltas.len() == DELTA_QUEUE {
                    deltas.pop_front();
                }
                deltas.push_back(event.clone());
            }
            rare.wake();
        }
        if let Some(emitter) = &self.emitter {
            emitter.add(event);
        }
        drop(state);
        self.emit();
    }

    /// Returns the visible events of this log.
    pub(crate) fn events(&self) -> Vec<Event> {
        let state = self.state();
        (0..state.visible).map(|at| state.event(&self.run_id, at)).collect()
    }

    /// Returns the number of events before the first record of this log. It is greater than 0 for a
    /// run that was resumed from a snapshot.
    pub(super) fn offset(&self) -> u64 {
        self.state().offset
    }

    pub(super) fn subscribe(&self, deltas: bool) -> u64 {
        let mut state = self.state();
        let rare = state.rare();
        let id = rare.next_subscriber;
        rare.next_subscriber += 1;
        rare.subscribers.push(Subscriber { id, deltas: deltas.then(VecDeque::new), waker: None });
        if deltas {
            self.delta_listeners.fetch_add(1, Ordering::Relaxed);
        }
        id
    }

    /// Returns the next event of a subscriber that has received `delivered` records; `None` if no
    /// more events follow.
    pub(super) fn next_for(
        &self,
        id: u64,
        delivered: usize,
        cx: &mut task::Context<'_>,
    ) -> Poll<Option<Next>> {
        let mut state = self.state();
        let visible = state.visible;
        let seen = state.offset + delivered as u64;
        let closed = state.closed;
        let Some(subscriber) =
            state.rare().subscribers.iter_mut().find(|subscriber| subscriber.id == id)
        else {
            return Poll::Ready(None);
        };
        // A delta follows the record with its sequence number, so it is held back until the
        // subscriber has received that record.
        if let Some(deltas) = &mut subscriber.deltas
            && deltas.front().is_some_and(|delta| delta.seq <= seen)
        {
            return Poll::Ready(deltas.pop_front().map(Next::Delta));
        }
        if visible <= delivered {
            if closed {
                return Poll::Ready(None);
            }
            subscriber.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let event = state.event(&self.run_id, delivered);
        // A failed run that was resumed by a retry contains an end that no longer counts.
        let is_last = delivered >= state.restored() && event.kind.ends_run();
        Poll::Ready(Some(Next::Recorded { event, is_last }))
    }

    pub(super) fn unsubscribe(&self, id: u64) {
        let mut state = self.state();
        let subscribers = &mut state.rare().subscribers;
        if let Some(at) = subscribers.iter().position(|subscriber| subscriber.id == id)
            && subscribers.swap_remove(at).deltas.is_some()
        {
            self.delta_listeners.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The next event of a subscriber.
pub(super) enum Next {
    Recorded { event: Event, is_last: bool },
    Delta(Event),
}
