//! A run in a session: starts in the session, waits if another run is unfinished, and loads the
//! history for the model. `session_history.rs` reads the history, and `session_summary.rs`
//! summarizes it.
//!
//! The start of such a run is committed alone and before it is visible, so that the store can
//! refuse it. The end needs no special write: the run's contribution to the session is its own
//! journal.

use std::sync::Arc;
use std::time::Duration;

use super::driver::Run;
use super::plan::Plan;
use super::run_request::RunRequest;
use super::session_history::{HistoryReader, PastRunWithPredecessor, past_run_from_events};
use super::session_summary::check_summary;
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::event::{
    Event, EventKind, RunId, RunStarted, SessionPlace, SessionSummarized, SessionWindow, Summary,
};
use crate::message::{Conversation, Message};
use crate::path::StepPath;
use crate::run::{Host, RunEnd, read_events, session_artifacts, state_of};
use crate::session::Session;
use crate::store::{RunStatus, Store, StoreError, StoreErrorKind};

/// Interval for polling the session while a run of another process is unfinished in it.
const EVERY: Duration = Duration::from_millis(100);
/// Number of polls after which the run checks again that some process executes the unfinished run.
const LOOKS: u32 = 10;

/// State of a run in its session.
pub(super) enum InSession {
    /// The run is not recorded in the session yet.
    Asked(Session),
    /// The store was asked to start the run with this event; the result is unknown.
    Beginning(Box<Event>),
    /// The run has started. Its history is not loaded yet.
    Begun(Box<Begun>),
}

/// A run that has started in its session.
pub(super) struct Begun {
    pub(super) place: SessionPlace,
    pub(super) window: SessionWindow,
    pub(super) summary: Option<Arc<Summary>>,
    /// The previous run, if it was read while starting.
    past: Option<PastRunWithPredecessor>,
    /// The summary that this run has recorded.
    summarized: Option<Arc<SessionSummarized>>,
}

impl InSession {
    /// Refuses a session for a run that is a step of another run.
    ///
    /// # Errors
    /// [`Error::Build`] if the request has a session.
    pub(super) fn refuse_in_step(plan: &Plan, request: &RunRequest) -> Result<()> {
        if request.session.is_none() {
            return Ok(());
        }
        let problem = "it is to run in a session as a step of another run; a run of a session is a run of its own, begun \
                       with `run`, `start` or `stream`";
        Err(Error::Build {
            what: "agent",
            name: Arc::clone(&plan.name),
            problem: problem.to_owned(),
        })
    }

    /// Restores the session of a run from its start event.
    fn from_start_event(started: &RunStarted) -> Option<Box<Self>> {
        let (place, agent) = (started.session.as_ref()?, started.agent()?);
        let (place, window, summary) =
            (SessionPlace::clone(place), agent.window.unwrap_or_default(), agent.summary.clone());
        Some(Box::new(Self::Begun(Box::new(Begun {
            place,
            window,
            summary,
            past: None,
            summarized: None,
        }))))
    }

    /// Checks the session of a request and returns its id.
    ///
    /// # Errors
    /// If the host has no store for sessions, the id is invalid, or the configured summary cannot
    /// work.
    pub(super) fn asked(session: &mut Session, plan: &Plan) -> Result<Arc<str>> {
        let host = &plan.host;
        match &host.store {
            None => return Err(StoreError::no_store_for_sessions().into()),
            Some(store) => {
                store.require_sessions()?;
                session.check()?;
            }
        }
        if let Some(summary) = &session.summary {
            check_summary(summary, plan)?;
        }
        Ok(Arc::clone(session.id.get_or_insert_with(|| host.new_run_id().as_str().into())))
    }
}

impl Run {
    /// `true` if the run has a session and has not started in it.
    pub(super) fn waits_for_session(&self) -> bool {
        matches!(self.session.as_deref(), Some(InSession::Asked(_) | InSession::Beginning(_)))
    }

    /// Replays an event that an earlier process recorded.
    pub(super) fn note_session(&mut self, kind: &EventKind) {
        match kind {
            EventKind::RunStarted(started) => self.session = InSession::from_start_event(started),
            EventKind::SessionSummarized(summarized) => {
                if let Some(InSession::Begun(begun)) = self.session.as_deref_mut() {
                    begun.summarized = Some(Arc::clone(summarized));
                }
            }
            _ => {}
        }
    }

    /// Suppresses the end event of a run that has not started in its session.
    pub(super) fn settle_before_its_beginning(&mut self) {
        if self.waits_for_session() {
            self.segment.settle();
        }
    }

    /// Returns the error of a run that ended before it started in its session. The run leaves no
    /// record.
    pub(super) async fn ended_before_its_beginning(
        &mut self,
        ended: Option<Option<Result<RunEnd>>>,
    ) -> Result<RunEnd> {
        self.segment.settle();
        let error = match ended {
            Some(Some(result)) => return result,
            Some(None) => Error::Timeout { limit: self.machine.limits().timeout },
            None if self.segment.shared.is_stopping() => Error::Draining,
            None => Error::Cancelled { reason: self.segment.shared.cancel_reason() },
        };
        self.cancel_uncertain_start(&error.to_string()).await;
        Err(error)
    }

    /// Handles a run that was stopped while its start was being written. The store may contain the
    /// run nevertheless. It is cancelled there, since it would block the session.
    async fn cancel_uncertain_start(&self, reason: &str) {
        let Some(InSession::Beginning(first)) = self.session.as_deref() else { return };
        let Some(store) = &self.segment.shared.host.store else { return };
        let run = &first.run_id;
        let ended = async {
            // `holder` is answered after pending writes, so the read below sees the start event if
            // it was written.
            store.known_holder(run).await?;
            if store.read(run, 0, 2).await? != [Event::clone(first)] {
                return Ok(());
            }
            let kind = EventKind::RunCancelled { reason: reason.into(), by: None };
            let time = self.segment.shared.now();
            let end =
                Event { run_id: run.clone(), seq: 2, part: 0, time, path: StepPath::root(), kind };
            store.amend(run, 1, vec![end]).await
        };
        match ended.await {
            Err(error) if error.kind() != StoreErrorKind::NotFound => {
                tracing::warn!(%run, %error, "a run that was stopped as it began may be in the way of others of its session");
            }
            _ => {}
        }
    }

    /// Starts the run in its session and loads the history for the model.
    pub(super) async fn enter_session(&mut self) -> Result<()> {
        if self.waits_for_session() {
            self.begin_in_session().await?;
        }
        let Some(InSession::Begun(begun)) = self.session.as_deref_mut() else { return Ok(()) };
        let Begun { place, window, summary, past, summarized } = &mut **begun;
        let Some(after) = place.after.clone() else {
            self.session = None;
            return Ok(());
        };
        let (summary, known) = (summary.clone(), past.take());
        let mut history = HistoryReader::new(
            self.segment.shared.host.require_store()?,
            after,
            *window,
            summary.as_deref(),
        );
        history.read(known, summarized.take()).await?;
        if let (Some(summary), Some(left_out)) = (&summary, history.text_to_summarize().await?) {
            let summarized = Box::pin(self.sum_up(summary, left_out)).await?;
            history.read(None, Some(summarized)).await?;
        }
        self.machine.remember(history.into_messages());
        self.session = None;
        Ok(())
    }

    /// Records the start of the run in its session. Waits for other runs if the session is
    /// configured so.
    pub(super) async fn begin_in_session(&mut self) -> Result<()> {
        let Some(InSession::Asked(session)) = self.session.as_deref() else { return Ok(()) };
        let (session, shared) = (session.clone(), self.shared());
        let (Some(id), Some(live)) = (&session.id, &shared.host.live) else { return Ok(()) };
        let store = shared.host.require_store()?;
        // A queue in this process gives waiting runs their turn in order of arrival.
        let _queue = match session.waits {
            true => Some(live.queue_for(id).lock_owned().await),
            false => None,
        };
        let mut changes = live.changes();
        let mut looks = 0_u32;
        let (kind, place, past) = loop {
            match self.try_to_begin(&store, &session, id).await {
                Ok(Some(begun)) => break begun,
                Ok(None) => return Ok(()),
                // Another run started and ended since the session was read, or the session was
                // deleted: try again.
                Err(Error::Store(error)) if error.kind() == StoreErrorKind::Fenced => {}
                Err(Error::Store(error)) if error.kind() == StoreErrorKind::SessionBusy => {
                    if shared.is_draining() {
                        return Err(Error::Draining);
                    }
                    if looks.is_multiple_of(LOOKS)
                        && let Some(left) = left_in(&shared.host, &store, id).await?
                    {
                        return Err(StoreError::session_abandoned(id, &left).into());
                    }
                    if !session.waits {
                        return Err(error.into());
                    }
                    looks += 1;
                    tokio::select! {
                        _ = changes.changed() => {}
                        () = tokio::time::sleep(EVERY) => {}
                    }
                }
                Err(error) => return Err(error),
            }
        };
        let (window, summary) = (session.window, session.summary.clone());
        self.session = Some(Box::new(InSession::Begun(Box::new(Begun {
            place,
            window,
            summary,
            past,
            summarized: None,
        }))));
        self.pending = None;
        shared.restore_state(&self.segment.base, &kind);
        self.machine.apply(&self.segment.base, &kind);
        Ok(())
    }

    /// Attempts to start in the current state of the session. Returns `None` if there is nothing to
    /// start.
    async fn try_to_begin(
        &mut self,
        store: &Arc<dyn Store>,
        session: &Session,
        id: &Arc<str>,
    ) -> Result<Option<(EventKind, SessionPlace, Option<PastRunWithPredecessor>)>> {
        let shared = self.shared();
        let sessions = store.require_sessions()?;
        let known = sessions.session(id).await?;
        let caller = shared.own().and_then(|own| own.began.caller()).map(Caller::name);
        let place = session.place(id, &shared.id, caller, known.as_ref())?;
        // `Session::after` may name a run of another session, or a run that did not complete.
        if let (Some(after), true) = (&place.after, session.after.is_some()) {
            check_branch(store, id, after).await?;
        }
        let Some(mut started) = self.pending.as_deref().cloned() else { return Ok(None) };
        (started.window, started.summary) = (Some(session.window), session.summary.clone());
        let (past, state, artifacts) = match &place.after {
            Some(after) => {
                let events = match read_events(store, after, 0).await {
                    // The session was deleted after it was read.
                    Err(error)
                        if error.kind() == StoreErrorKind::NotFound
                            && sessions.session(id).await? != known =>
                    {
                        return Err(StoreError::fenced(&shared.id).into());
                    }
                    events => events?,
                };
                let state = state_of(&events).session_values();
                let artifacts = session_artifacts(after, &events);
                let past = past_run_from_events(after, &events)?;
                // A common mistake: sending the whole conversation again, although the session
                // contains it.
                if repeats(&started.input, &past.0.messages) {
                    let problem = format!(
                        "the request repeats what the session `{id}` has: the conversation of its run `{after}`; give what is new \
                         alone, such as the next message"
                    );
                    return Err(Error::Build { what: "agent", name: started.name, problem });
                }
                (Some(past), (!state.is_empty()).then(|| Arc::new(state)), artifacts)
            }
            None => (None, None, Vec::new()),
        };
        let kind = self.segment.begins(started).with_parts(&self.plan.parts().id);
        let kind = kind.with_session(place.clone(), state, artifacts);
        let first = shared.log.first(shared.now(), kind.clone());
        // Set before the write: if this future is dropped meanwhile, `cancel_uncertain_start` has to look for
        // the run in the store.
        self.session = Some(Box::new(InSession::Beginning(Box::new(first.clone()))));
        let begun = shared.log.begin(first).await;
        // The result is known now, so a refused start can be tried again.
        self.session = Some(Box::new(InSession::Asked(session.clone())));
        begun?;
        Ok(Some((kind, place, past)))
    }
}

/// `true` if the request contains all messages of a run, in order.
fn repeats(request: &Conversation, run: &[Arc<Message>]) -> bool {
    let ids =
        |message: &Message| message.tool_calls().map(|call| call.id.clone()).collect::<Vec<_>>();
    let same = |(one, other): (&Arc<Message>, &Arc<Message>)| {
        one.role() == other.role() && one.text() == other.text() && ids(one) == ids(other)
    };
    !run.is_empty()
        && request.messages().windows(run.len()).any(|part| part.iter().zip(run).all(same))
}

/// Returns the unfinished run of a session if no process executes it, since waiting for it would
/// never end. Returns `None` if the store cannot tell.
async fn left_in(
    host: &Host,
    store: &Arc<dyn Store>,
    session: &str,
) -> Result<Option<RunId>, StoreError> {
    let sessions = store.require_sessions()?;
    let Some(leases) = store.leases() else { return Ok(None) };
    let unfinished = async || {
        Ok::<_, StoreError>(sessions.session(session).await?.and_then(|known| known.unfinished))
    };
    let is_here = |run: &RunId| host.live.as_ref().is_some_and(|live| live.has(run));
    let Some(run) = unfinished().await?.filter(|run| !is_here(run)) else {
        return Ok(None);
    };
    if leases.holder(&run).await?.is_some() {
        return Ok(None);
    }
    // Read again: the run may have ended, or another process may have resumed it meanwhile.
    Ok(unfinished().await?.filter(|still| *still == run && !is_here(still)))
}

/// Checks that a session can be branched after a run.
///
/// # Errors
/// If the run is not a completed run of the session.
async fn check_branch(
    store: &Arc<dyn Store>,
    session: &str,
    after: &RunId,
) -> Result<(), StoreError> {
    let record = store.record(after).await?.ok_or_else(|| StoreError::not_found(after))?;
    let problem = match record.session.as_ref().is_some_and(|place| *place.session == *session) {
        false => {
            format!("the run `{after}` is not one of the session `{session}`; name one of its runs")
        }
        true if record.status != RunStatus::Success => {
            let status = record.status;
            format!(
                "the run `{after}` has added nothing to the session `{session}` ({status}); name a completed one"
            )
        }
        true => return Ok(()),
    };
    Err(StoreError::new(StoreErrorKind::NotFound, problem))
}
