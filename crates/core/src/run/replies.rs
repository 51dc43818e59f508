//! Outcomes of control requests, which are held back until their effect is in the store.
//!
//! The recipient of a request determines its outcome, and the log reports when the effect is
//! stored.

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

/// Outcomes that were not sent yet.
#[derive(Debug, Default)]
pub(super) struct Replies {
    waiting: Vec<WaitingReply>,
    next: u64,
}

#[derive(Debug)]
struct WaitingReply {
    id: u64,
    /// Number of records that must be stored before the outcome is sent.
    records: usize,
    outcome: Result<(), ControlError>,
    reply: Reply,
}

impl Replies {
    /// Adds an outcome to be sent when `records` records are stored. Returns its id.
    pub(super) fn add(
        &mut self,
        records: usize,
        reply: Reply,
        outcome: Result<(), ControlError>,
    ) -> u64 {
        let id = self.next;
        self.next += 1;
        self.waiting.push(WaitingReply { id, records, outcome, reply });
        id
    }

    /// Replaces an outcome, with the number of records that it depends on.
    pub(super) fn amend(&mut self, id: u64, records: usize, outcome: Result<(), ControlError>) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.id == id) {
            (waiting.records, waiting.outcome) = (records, outcome);
        }
    }

    /// Returns the outcomes for other processes that are stored together with the first `records`
    /// records. The store keeps them until they are read, so they are redacted like events.
    pub(super) fn messages(&self, records: usize, redactor: Option<&Redactor>) -> Vec<Answered> {
        let due = self.waiting.iter().filter(|waiting| waiting.records <= records);
        due.filter_map(|WaitingReply { outcome, reply, .. }| match reply {
            Reply::Message(id) => Some(Answered::new(*id, outcome_text(outcome, redactor))),
            Reply::Caller(..) => None,
        })
        .collect()
    }

    /// Sends the outcomes for which enough records are stored. `answered` contains the outcomes for
    /// other processes that were stored with the records.
    pub(super) fn kept(&mut self, records: usize, answered: &[Answered]) {
        if self.waiting.is_empty() {
            return;
        }
        for WaitingReply { id: name, records: needed, outcome, reply } in
            std::mem::take(&mut self.waiting)
        {
            match reply {
                // Fails if the caller no longer waits, which is allowed.
                Reply::Caller(caller, _) if needed <= records => drop(caller.send(outcome)),
                Reply::Message(id) if answered.iter().any(|answered| answered.message == id) => {}
                reply => {
                    self.waiting.push(WaitingReply { id: name, records: needed, outcome, reply });
                }
            }
        }
    }

    /// Drops all outcomes, because this log stores no more records. Callers notice the drop and
    /// look up the run again.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}

impl Reply {
    /// Returns the cell in which a caller of this process looks for the granting events.
    fn granting(&self) -> Option<Arc<OnceLock<GrantingEvents>>> {
        match self {
            Self::Caller(_, granting) => Some(Arc::clone(granting)),
            Self::Message(_) => None,
        }
    }
}

impl State {
    /// Notes that the records from `from` on grant a request.
    fn note_granting(&self, granting: &OnceLock<GrantingEvents>, from: usize) {
        if let Some(record) = self.records.get(from) {
            let number = |records: usize| self.offset + records as u64;
            // Cannot fail, since a request is granted once.
            let _ = granting.set(GrantingEvents {
                first: number(from + 1),
                last: number(self.records.len()),
                time: record.time,
            });
        }
    }

    /// Sends an outcome once the first `records` records are committed. A closed log commits no
    /// more: it drops the reply, and the caller looks up the run again.
    fn add_reply(
        &mut self,
        records: usize,
        reply: Reply,
        outcome: Result<(), ControlError>,
    ) -> u64 {
        match self.closed {
            true => u64::MAX,
            false => self.replies().add(records, reply, outcome),
        }
    }
}

impl EventLog {
    /// Records the events that a request causes, together with its outcome. The caller then calls
    /// [`emit`](Self::emit) without holding a lock.
    ///
    /// Returns `false` if the run has recorded its end, even if it is not committed yet. No event
    /// may follow the end, so the request is refused with `over`.
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
        // The time was read before the lock was taken, so a later record may exist.
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
            // Outcomes without new records are sent at once.
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

    /// Executes a control request on the run's own task. Sends its outcome once its effect is
    /// committed. An outcome for another process is stored in the same commit. The records of `act`
    /// precede all others.
    pub(crate) fn replying(
        &self,
        reply: Option<Reply>,
        act: impl FnOnce() -> Result<(), ControlError>,
    ) {
        let Some(reply) = reply else {
            // No caller waits for the outcome.
            let _ = act();
            return;
        };
        let granting = reply.granting();
        let (begin, id) = {
            let mut state = self.state();
            let begin = state.records.len();
            // Added before `act` records events, so that their commit also stores the outcome.
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

/// Serializes an outcome for the process that waits for it.
fn outcome_text(outcome: &Result<(), ControlError>, redactor: Option<&Redactor>) -> String {
    let without = redactor.zip(outcome.as_ref().err()).map(|(redactor, error)| {
        Err(ControlError::new(error.kind(), redactor.text(&error.to_string())))
    });
    // Cannot fail, because an outcome consists of strings.
    serde_json::to_string(without.as_ref().unwrap_or(outcome)).unwrap_or_default()
}

/// Parses a serialized outcome.
pub(crate) fn read_outcome(text: &str) -> Option<Result<(), ControlError>> {
    serde_json::from_str(text).ok()
}
