//! Outcomes of control requests that are held back until their effect is in the store.
//!
//! It decides nothing: the receiver of a request gives its outcome, and the log says when the effect is stored.

use std::sync::{Arc, OnceLock};

use super::control_request::{GrantingEvents, Reply};
use super::log::EventLog;
use super::records::State;
use super::redaction::Redactor;
use crate::error::ControlError;
use crate::event::EventKind;
use crate::path::StepPath;
use crate::store::Answered;
use crate::time::Timestamp;

/// Outcomes that are not given yet.
#[derive(Debug, Default)]
pub(super) struct Replies {
    waiting: Vec<Waiting>,
    next: u64,
}

#[derive(Debug)]
struct Waiting {
    id: u64,
    /// How many records must be kept before the outcome is given.
    records: usize,
    outcome: Result<(), ControlError>,
    reply: Reply,
}

impl Replies {
    /// Gives an outcome when so many records are kept; what is returned names it until then.
    pub(super) fn add(&mut self, records: usize, reply: Reply, outcome: Result<(), ControlError>) -> u64 {
        let id = self.next;
        self.next += 1;
        self.waiting.push(Waiting { id, records, outcome, reply });
        id
    }

    /// The outcome is another one, of what is recorded so far.
    pub(super) fn amend(&mut self, id: u64, records: usize, outcome: Result<(), ControlError>) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.id == id) {
            (waiting.records, waiting.outcome) = (records, outcome);
        }
    }

    /// The outcomes that other processes wait for and that go with the first so many records. They stay in the store until
    /// they are read, so what is taken out of events is taken out of them.
    pub(super) fn messages(&self, records: usize, redactor: Option<&Redactor>) -> Vec<Answered> {
        let due = self.waiting.iter().filter(|waiting| waiting.records <= records);
        due.filter_map(|Waiting { outcome, reply, .. }| match reply {
            Reply::Message(id) => Some(Answered::new(*id, outcome_text(outcome, redactor))),
            Reply::Caller(..) => None,
        })
        .collect()
    }

    /// So many records are kept: callers in this process have their outcomes, and messages were answered with them.
    pub(super) fn kept(&mut self, records: usize, answered: &[Answered]) {
        if self.waiting.is_empty() {
            return;
        }
        for Waiting { id: name, records: needed, outcome, reply } in std::mem::take(&mut self.waiting) {
            match reply {
                // Whoever asked may have gone.
                Reply::Caller(caller, _) if needed <= records => drop(caller.send(outcome)),
                Reply::Message(id) if answered.iter().any(|answered| answered.message == id) => {}
                reply => self.waiting.push(Waiting { id: name, records: needed, outcome, reply }),
            }
        }
    }

    /// Nobody will be told anything more by this log; callers see that and look elsewhere.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}

impl Reply {
    /// The place where a caller of this process looks for the granting events.
    fn granting(&self) -> Option<Arc<OnceLock<GrantingEvents>>> {
        match self {
            Self::Caller(_, granting) => Some(Arc::clone(granting)),
            Self::Message(_) => None,
        }
    }
}

impl State {
    /// Notes that the records from this one on grant a request.
    fn note_granting(&self, granting: &OnceLock<GrantingEvents>, from: usize) {
        if let Some(record) = self.records.get(from) {
            let number = |records: usize| self.offset + records as u64;
            // A request is granted once.
            let _ = granting.set(GrantingEvents {
                first: number(from + 1),
                last: number(self.records.len()),
                time: record.time,
            });
        }
    }

    /// Sends an outcome once the first `records` records are committed. A closed log commits no more: it drops the reply, and
    /// the caller looks up the run again.
    fn add_reply(&mut self, records: usize, reply: Reply, outcome: Result<(), ControlError>) -> u64 {
        match self.closed {
            true => u64::MAX,
            false => self.replies().add(records, reply, outcome),
        }
    }
}

impl EventLog {
    /// Records the events that a request asks for, and with them its outcome. The caller [emits](Self::emit) them when it
    /// holds no lock.
    ///
    /// Returns false if the run has recorded its end, perhaps not committed yet: nothing may follow it, and the request is
    /// refused with `over`.
    pub(super) fn record_decision(
        &self,
        time: Timestamp,
        events: impl IntoIterator<Item = (StepPath, EventKind)>,
        reply: Option<Reply>,
        over: impl FnOnce(&EventKind) -> ControlError,
    ) -> bool {
        let mut state = self.state();
        if let Some(end) = state.recorded_end() {
            let refusal = over(end);
            self.add_with_outcomes(&mut state, time, [], reply.map(|reply| (reply, Err(refusal))));
            return false;
        }
        self.add_with_outcomes(&mut state, time, events, reply.map(|reply| (reply, Ok(()))));
        true
    }

    /// Records events together with the outcomes of any number of requests.
    pub(crate) fn record_and_answer(
        &self,
        time: Timestamp,
        events: impl IntoIterator<Item = (StepPath, EventKind)>,
        outcomes: impl IntoIterator<Item = (Reply, Result<(), ControlError>)>,
    ) {
        self.add_with_outcomes(&mut self.state(), time, events, outcomes);
        self.emit();
    }

    fn add_with_outcomes(
        &self,
        state: &mut State,
        time: Timestamp,
        events: impl IntoIterator<Item = (StepPath, EventKind)>,
        outcomes: impl IntoIterator<Item = (Reply, Result<(), ControlError>)>,
    ) {
        // The time was read before the lock.
        let time = state.records.last().map_or(time, |last| last.time.max(time));
        let begin = state.records.len();
        for (path, kind) in events {
            self.add(state, time, path, kind);
        }
        let end = state.records.len();
        let mut any = false;
        for (reply, outcome) in outcomes {
            if let Some(granting) = reply.granting().filter(|_| outcome.is_ok()) {
                state.note_granting(&granting, begin);
            }
            state.add_reply(end, reply, outcome);
            any = true;
        }
        if any {
            // Outcomes without records are sent at once.
            let visible = state.visible;
            state.replies().kept(visible, &[]);
        }
        self.note_recorded(state);
    }

    /// Sends the outcome of a request that adds no record.
    pub(crate) fn reply(&self, reply: Option<Reply>, outcome: Result<(), ControlError>) {
        let Some(reply) = reply else { return };
        let mut state = self.state();
        let (records, visible) = (state.records.len(), state.visible);
        state.add_reply(records, reply, outcome);
        state.replies().kept(visible, &[]);
    }

    /// Executes a control request on the run's own task. Sends its outcome once its effect is committed; to another process,
    /// in the same commit. The records of `act` precede all others.
    pub(crate) fn replying(&self, reply: Option<Reply>, act: impl FnOnce() -> Result<(), ControlError>) {
        let Some(reply) = reply else {
            // No caller waits for the outcome.
            let _ = act();
            return;
        };
        let granting = reply.granting();
        let (begin, id) = {
            let mut state = self.state();
            let begin = state.records.len();
            (begin, state.add_reply(begin + 1, reply, Ok(())))
        };
        let outcome = act();
        let mut state = self.state();
        let (records, visible) = (state.records.len(), state.visible);
        if let Some(granting) = granting.filter(|_| outcome.is_ok()) {
            state.note_granting(&granting, begin);
        }
        let replies = state.replies();
        if outcome.is_err() {
            replies.amend(id, records, outcome);
        }
        replies.kept(visible, &[]);
    }

    /// Sends an outcome once the next record is committed.
    pub(crate) fn reply_with_next(&self, reply: Reply, outcome: Result<(), ControlError>) {
        let mut state = self.state();
        let next = state.records.len() + 1;
        state.add_reply(next, reply, outcome);
    }
}

/// An outcome as the process that waits for it reads it.
fn outcome_text(outcome: &Result<(), ControlError>, redactor: Option<&Redactor>) -> String {
    let without = redactor
        .zip(outcome.as_ref().err())
        .map(|(redactor, error)| Err(ControlError::new(error.kind(), redactor.text(&error.to_string()))));
    // An outcome is made of texts alone.
    serde_json::to_string(without.as_ref().unwrap_or(outcome)).unwrap_or_default()
}

/// Reads an outcome back.
pub(crate) fn read_outcome(text: &str) -> Option<Result<(), ControlError>> {
    serde_json::from_str(text).ok()
}
