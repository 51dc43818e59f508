//! The journal of a run in memory, and its readers.
//!
//! Recorded events are kept for the life of the run and read by position, so a subscriber that comes late or reads
//! slowly misses none and delays nobody. Deltas go into a bounded queue of each subscriber and are lost when it is
//! full: the recorded `model.completed` has all of their text. In a run with a store, nobody sees an event before the
//! store has it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{self, Poll, ready};
use std::time::Duration;

use super::forgotten::Void;
use super::journal::{Journal, Pending, Waiter};
use super::records::{Record, State, Subscriber, reading_size};
use super::redaction::Redactor;
use super::sinks::Emitter;
use super::spending::Ledger;
use super::time_spent::time_spent;
use crate::event::{AnswerForm, Event, EventKind, EventSink, PauseReason, RunId};
use crate::path::StepPath;
use crate::store::{Answered, Append, Epoch, Store, StoreError, StoreErrorKind};
use crate::time::Timestamp;

/// The most deltas that wait for one subscriber.
const DELTA_QUEUE: usize = 1024;

/// Every run has one, so what few runs need is in a box that is made when it is needed.
pub(crate) struct EventLog {
    pub(super) run_id: RunId,
    /// There is one when there are sinks.
    emitter: Option<Box<Emitter>>,
    pub(super) delta_listeners: AtomicUsize,
    state: Mutex<State>,
    pub(super) journal: Option<Box<Journal>>,
    /// What is taken out of events before anybody sees them.
    redactor: Option<Redactor>,
    /// Whether something in the run waits for a person.
    asks: AtomicBool,
    /// Whether there are messages that its agent has not looked at.
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
        let delta_listeners = AtomicUsize::new(emitter.as_ref().map_or(0, |emitter| emitter.delta_sinks()));
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

    /// Records an event. Without a store everybody who listens sees it now, else when it is committed.
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

    /// Shows what was recorded, unless it is to be committed before.
    pub(super) fn recorded(&self, mut state: MutexGuard<'_, State>) {
        self.note_recorded(&mut state);
        drop(state);
        if self.journal.is_none() {
            self.emit();
        }
    }

    /// Makes new records visible as [`recorded`](Self::recorded) does, without calling the sinks.
    pub(super) fn note_recorded(&self, state: &mut State) {
        self.note_asks(state);
        let end = state.records.len();
        if self.journal.is_some() {
            // It is seen when it is committed.
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

    /// Takes in the events that the store has of an earlier life of the run. Sinks saw them then.
    ///
    /// `kept` is what still matters of the first `offset` events; `events` are those after them.
    pub(crate) fn restore(&self, offset: u64, kept: Vec<Event>, events: Vec<Event>) {
        let records = |events: Vec<Event>| {
            events.into_iter().map(|Event { time, path, kind, .. }| Record { time, path, kind }).collect::<Vec<_>>()
        };
        let mut state = self.state();
        state.offset = offset;
        state.records = records(events);
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

    /// How many calls of models the run has begun, in all its lives.
    pub(crate) fn model_calls(&self) -> u32 {
        self.state().model_calls
    }

    /// Whether an agent or a workflow in a step may have begun and not ended.
    pub(super) fn has_nested(&self) -> bool {
        self.state().nested > 0
    }

    /// Asks what the run has spent.
    pub(crate) fn spent<T>(&self, ask: impl FnOnce(&Ledger) -> T) -> T {
        let state = &mut *self.state();
        ask(state.ledger())
    }

    /// How many events of the run may be seen.
    pub(crate) fn visible(&self) -> u64 {
        let state = self.state();
        state.offset + state.visible as u64
    }

    /// The definition that the run goes by, when it is one of a workflow.
    pub(crate) fn definition(&self) -> Option<Arc<str>> {
        let state = self.state();
        let definition = |kind: &EventKind| match kind {
            EventKind::RunStarted(started) => started.workflow().map(|workflow| Arc::clone(&workflow.definition)),
            EventKind::RunResumed { redefined, .. } => redefined.as_ref().and_then(|new| new.definition.clone()),
            _ => None,
        };
        state.all().filter_map(|record| definition(&record.kind)).last()
    }

    /// What the run waits for, by what is recorded.
    pub(super) fn waits_for(&self) -> Option<PauseReason> {
        self.state().rare.as_ref().and_then(|rare| rare.waits.reason())
    }

    /// The form in which the agent of the run answers.
    pub(crate) fn answer_form(&self) -> AnswerForm {
        let state = self.state();
        match state.all().next().map(|first| &first.kind) {
            Some(EventKind::RunStarted(started)) => started.agent().map(|agent| agent.answer).unwrap_or_default(),
            _ => AnswerForm::default(),
        }
    }

    /// Whether the run is one of an agent.
    pub(crate) fn is_agent(&self) -> bool {
        let state = self.state();
        let first = state.all().next();
        first.is_none_or(|first| matches!(&first.kind, EventKind::RunStarted(started) if started.agent().is_some()))
    }

    /// Shows the records up to `end` to everybody who listens; sinks see them when the lock is released. With them went
    /// answers to other processes.
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

    /// The event in which the run begins.
    pub(crate) fn first(&self, time: Timestamp, kind: EventKind) -> Event {
        Event { run_id: self.run_id.clone(), seq: 1, part: 0, time, path: StepPath::root(), kind: self.redacted(kind) }
    }

    /// Records the beginning of the run once the store has it: when the store refuses it, nothing is recorded.
    pub(crate) async fn begin(&self, first: Event) -> Result<(), StoreError> {
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

    /// Makes sure that everything recorded so far is in the store. Without one there is nothing to do.
    ///
    /// Dropping the future, or polling it no more, leaves a write that has begun to the next commit.
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
        // Writes that are always done at once leave room for whatever else the task does, such as snapshots.
        tokio::task::coop::consume_budget().await;
        let mut waiter = journal.waiter();
        poll_fn(|cx| self.poll_commit(journal, wanted, &mut waiter, cx)).await
    }

    /// Polls whichever write is in progress, and begins the next one, until so many records are in the store.
    fn poll_commit(
        &self,
        journal: &Journal,
        wanted: usize,
        waiter: &mut Waiter<'_>,
        cx: &mut task::Context<'_>,
    ) -> Poll<Result<(), StoreError>> {
        loop {
            let mut pending = journal.pending();
            if let Some(write) = pending.as_mut() {
                let written = ready!(waiter.poll(write, cx));
                if let (Some(Pending { end, answered, .. }), Ok(())) = (pending.take(), &written) {
                    self.show(&mut self.state(), end, &answered);
                }
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
                // What was recorded while the run was dropped is not part of its journal.
                let message = format!("the run `{}` has stopped here and can be resumed", self.run_id);
                return Poll::Ready(Err(StoreError::new(StoreErrorKind::Fenced, message)));
            }
            let events = (state.visible..end).map(|at| state.event(&self.run_id, at)).collect();
            let after = state.offset + state.visible as u64;
            let writes = state.take_state_writes(end);
            let append = Append { after, events, answered: answered.clone(), state: writes };
            let write = journal.write(&self.run_id, append);
            drop(state);
            *pending = Some(Pending { end, answered, write });
        }
    }

    /// The same, asked often: nearly always one look.
    pub(crate) fn waits_for_person(&self, base: &StepPath) -> bool {
        self.asks.load(Ordering::Acquire) && self.waits_within(base)
    }

    /// Whether something at a path or below it waits for a person.
    pub(crate) fn waits_within(&self, base: &StepPath) -> bool {
        self.state().rare.as_ref().is_some_and(|rare| rare.waits.are_within(base))
    }

    /// What waits for a person at a path and below it.
    pub(super) fn waiting_below(&self, base: &StepPath) -> Vec<StepPath> {
        self.state().rare.as_ref().map(|rare| rare.waits.within(base).cloned().collect()).unwrap_or_default()
    }

    /// Nothing of the run can be kept.
    pub(crate) fn refuse(&self, error: StoreError) {
        self.state().rare().refused = Some(error);
    }

    /// The store of the run and the right to write it, once the run exists there.
    pub(crate) fn store(&self) -> Option<(&Arc<dyn Store>, Option<Epoch>)> {
        self.journal.as_ref().map(|journal| (&journal.store, journal.epoch()))
    }

    /// Gives up the right to write the run: it has ended here, and everything is committed.
    pub(crate) async fn release(&self) -> Result<(), StoreError> {
        match self.store() {
            Some((store, Some(epoch))) => store.close(&self.run_id, epoch).await,
            _ => Ok(()),
        }
    }

    /// Whether something recorded is not in the store yet.
    pub(crate) fn has_uncommitted(&self) -> bool {
        self.journal.is_some() && {
            let state = self.state();
            state.visible < state.records.len() || !state.answers(state.visible, self.redactor.as_ref()).is_empty()
        }
    }

    /// Whether the run has a store.
    pub(crate) fn is_durable(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.durable)
    }

    /// Returns true if its events are recorded beyond this process: in a store, or by the process that handed a step out.
    pub(crate) fn has_journal(&self) -> bool {
        self.journal.is_some()
    }

    /// Ends all subscriptions: nothing more will be seen of this run here.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        if let Some(rare) = &mut state.rare {
            rare.replies.clear();
            rare.mail.early.clear();
            rare.wake();
        }
    }

    /// What is recorded at a path and below it, in order, and still counts: what a change of the definition made void
    /// is left out.
    pub(crate) fn records_below(&self, base: &StepPath) -> Vec<(Timestamp, StepPath, EventKind)> {
        self.records_where(|path| path.is_within(base))
    }

    /// The same of what a path is in, too: the steps around it.
    pub(crate) fn records_around(&self, step: &StepPath) -> Vec<(Timestamp, StepPath, EventKind)> {
        self.records_where(|path| path.belongs_to(step) || step.belongs_to(path))
    }

    /// Everything that is recorded at such paths and counts, in order.
    pub(crate) fn records_where(
        &self,
        is_asked_for: impl Fn(&StepPath) -> bool,
    ) -> Vec<(Timestamp, StepPath, EventKind)> {
        let state = self.state();
        let void = Void::of(state.all().map(|record| &record.kind));
        let counts = |(at, record): &(usize, &Record)| is_asked_for(&record.path) && !void.covers(*at, &record.path);
        state.all().enumerate().filter(counts).map(|(_, record)| record.parts()).collect()
    }

    /// Which of all records is the first one at such a path. Of two paths the same one comes first in each life of the run.
    /// One without records stands behind all.
    pub(crate) fn place_of(&self, is_it: impl Fn(&StepPath) -> bool) -> usize {
        self.state().all().position(|record| is_it(&record.path)).unwrap_or(usize::MAX)
    }

    /// Shows everything that is recorded, in order.
    pub(crate) fn visit(&self, mut see: impl FnMut(&StepPath, &EventKind)) {
        self.state().all().for_each(|record| see(&record.path, &record.kind));
    }

    /// Everything that is recorded at a path and below it, in order.
    pub(crate) fn all_below(&self, base: &StepPath) -> Vec<(Timestamp, StepPath, EventKind)> {
        let state = self.state();
        state.all().filter(|record| record.path.is_within(base)).map(Record::parts).collect()
    }

    /// Whether anything was recorded before this life of the run: only then may there be something below a step that is
    /// about to begin.
    pub(crate) fn is_restored(&self) -> bool {
        let state = self.state();
        state.rare.as_ref().is_some_and(|rare| rare.restored > 0 || !rare.kept.is_empty())
    }

    /// How the run ended, when it has: by what may be seen.
    pub(crate) fn end(&self) -> Option<EventKind> {
        let state = self.state();
        let last = state.visible.checked_sub(1)?;
        // What ended an earlier life of the run was undone since.
        (last >= state.restored()).then(|| &state.records[last].kind).filter(|kind| kind.ends_run()).cloned()
    }

    /// How long something has been executed, by what is recorded: see [`time_spent`].
    pub(crate) fn time_spent(&self, base: &StepPath, now: Timestamp) -> Duration {
        time_spent(self.state().all().map(|Record { time, path, kind }| (*time, path, kind)), base, now)
    }

    /// Whether nothing more will be seen of the run here.
    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Whether there are sinks.
    pub(crate) fn has_sinks(&self) -> bool {
        self.emitter.is_some()
    }

    /// Shows sinks an event that is numbered as the next one and is not kept: of what is called outside of any run.
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

    /// Whether anybody would see a delta. Nobody does while something is taken out of events: a secret may be in two
    /// pieces.
    pub(crate) fn wants_deltas(&self) -> bool {
        self.redactor.is_none() && self.delta_listeners.load(Ordering::Relaxed) > 0
    }

    /// Shows what is not recorded to everybody who listens now.
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
            for deltas in rare.subscribers.iter_mut().filter_map(|subscriber| subscriber.deltas.as_mut()) {
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

    /// The events that may be seen so far.
    pub(crate) fn events(&self) -> Vec<Event> {
        let state = self.state();
        (0..state.visible).map(|at| state.event(&self.run_id, at)).collect()
    }

    /// The number of events that stand before those of this log: a run that is resumed has its latest ones here.
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

    /// What a subscriber sees next, after so many records; `None` when nothing more will come.
    pub(super) fn next_for(&self, id: u64, delivered: usize, cx: &mut task::Context<'_>) -> Poll<Option<Next>> {
        let mut state = self.state();
        let visible = state.visible;
        let seen = state.offset + delivered as u64;
        let closed = state.closed;
        let Some(subscriber) = state.rare().subscribers.iter_mut().find(|subscriber| subscriber.id == id) else {
            return Poll::Ready(None);
        };
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
        // A run that had failed, and was resumed when a node was retried, has an end that no longer counts.
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

/// What a subscriber sees next.
pub(super) enum Next {
    Recorded { event: Event, is_last: bool },
    Delta(Event),
}
