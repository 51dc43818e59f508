//! A run in a session: how it begins there, waits, and gives the model what was said before. `session_history.rs` reads
//! that, and `session_summary.rs` has it summed up.
//!
//! A run of a session begins in the store before anybody sees it, alone and in one commit, so that the store can refuse
//! it. Its end needs nothing of this: what it adds to the session is its own journal.

use std::sync::Arc;
use std::time::Duration;

use super::driver::Run;
use super::plan::Plan;
use super::run_request::RunRequest;
use super::session_history::{Past, PastRuns, past_of};
use super::session_summary::check_summary;
use crate::error::{Error, Result};
use crate::event::{Event, EventKind, RunId, RunStarted, SessionPlace, SessionSummarized, SessionWindow, Summary};
use crate::message::{Conversation, Message};
use crate::path::StepPath;
use crate::run::{Host, RunEnd, read_events, session_artifacts, state_of};
use crate::session::Session;
use crate::store::{RunStatus, Store, StoreError, StoreErrorKind};

/// How often a session is looked at in which a run of another process is in the way.
const EVERY: Duration = Duration::from_millis(100);
/// After how many of these looks it is asked again whether anybody executes that run.
const LOOKS: u32 = 10;

/// The session of a run.
pub(super) enum InSession {
    /// It has not begun in it.
    Asked(Session),
    /// The store is asked to let it begin with this event.
    Beginning(Box<Event>),
    /// It has, and has not given the model what was said before.
    Begun(Box<Begun>),
}

/// A run that has begun in its session.
pub(super) struct Begun {
    pub(super) place: SessionPlace,
    pub(super) window: SessionWindow,
    pub(super) summary: Option<Arc<Summary>>,
    /// The run before it, when that is read already.
    past: Option<Past>,
    /// What it has recorded of a summary.
    summarized: Option<Arc<SessionSummarized>>,
}

impl InSession {
    /// A step of another run cannot be a run of a session.
    ///
    /// # Errors
    /// [`Error::Build`] when it is to be one.
    pub(super) fn refuse_in_step(plan: &Plan, request: &RunRequest) -> Result<()> {
        if request.session.is_none() {
            return Ok(());
        }
        let problem = "it is to run in a session as a step of another run; a run of a session is a run of its own, begun \
                       with `run`, `start` or `stream`";
        Err(Error::Build { what: "agent", name: Arc::clone(&plan.name), problem: problem.to_owned() })
    }

    /// The session of a run that has begun.
    fn of(started: &RunStarted) -> Option<Box<Self>> {
        let (place, agent) = (started.session.as_ref()?, started.agent()?);
        let (place, window, summary) =
            (SessionPlace::clone(place), agent.window.unwrap_or_default(), agent.summary.clone());
        Some(Box::new(Self::Begun(Box::new(Begun { place, window, summary, past: None, summarized: None }))))
    }

    /// The session that a run is to be one of, and its id.
    ///
    /// # Errors
    /// When the host keeps no sessions, the id cannot be one, or nobody could sum up what was said before.
    pub(super) fn asked(session: &mut Session, plan: &Plan) -> Result<Arc<str>> {
        let host = &plan.host;
        match &host.store {
            None => return Err(StoreError::no_store_for_sessions().into()),
            Some(store) if !store.keeps_sessions() => return Err(StoreError::keeps_no_sessions().into()),
            Some(_) => session.check()?,
        }
        if let Some(summary) = &session.summary {
            check_summary(summary, plan)?;
        }
        Ok(Arc::clone(session.id.get_or_insert_with(|| host.new_run_id().as_str().into())))
    }
}

impl Run {
    /// Whether it is to be a run of a session and has not begun in it.
    pub(super) fn waits_for_session(&self) -> bool {
        matches!(self.session.as_deref(), Some(InSession::Asked(_) | InSession::Beginning(_)))
    }

    /// Takes in what an earlier process recorded of the run.
    pub(super) fn note_session(&mut self, kind: &EventKind) {
        match kind {
            EventKind::RunStarted(started) => self.session = InSession::of(started),
            EventKind::SessionSummarized(summarized) => {
                if let Some(InSession::Begun(begun)) = self.session.as_deref_mut() {
                    begun.summarized = Some(Arc::clone(summarized));
                }
            }
            _ => {}
        }
    }

    /// A run that has not begun in its session has no end to record.
    pub(super) fn settle_before_its_beginning(&mut self) {
        if self.waits_for_session() {
            self.segment.settle();
        }
    }

    /// It has not begun in its session, and nobody finds anything of it.
    pub(super) async fn ended_before_its_beginning(&mut self, ended: Option<Option<Result<RunEnd>>>) -> Result<RunEnd> {
        self.segment.settle();
        let error = match ended {
            Some(Some(result)) => return result,
            Some(None) => Error::Timeout { limit: self.machine.limits().timeout },
            None if self.segment.shared.is_stopping() => Error::Draining,
            None => Error::Cancelled { reason: self.segment.shared.cancel_reason() },
        };
        self.never_began(&error.to_string()).await;
        Err(error)
    }

    /// The run is stopped before it has begun. The store may have it all the same, when it was stopped in the middle of
    /// that: then it is cancelled there, since it would be in the way of others.
    async fn never_began(&self, reason: &str) {
        let Some(InSession::Beginning(first)) = self.session.as_deref() else { return };
        let Some(store) = &self.segment.shared.host.store else { return };
        let run = &first.run_id;
        let ended = async {
            // A write that was asked for is done before this is answered.
            store.holder(run).await?;
            if store.read(run, 0, 2).await? != [Event::clone(first)] {
                return Ok(());
            }
            let kind = EventKind::RunCancelled { reason: reason.into(), by: None };
            let time = self.segment.shared.now();
            let end = Event { run_id: run.clone(), seq: 2, part: 0, time, path: StepPath::root(), kind };
            store.amend(run, 1, vec![end]).await
        };
        match ended.await {
            Err(error) if error.kind() != StoreErrorKind::NotFound => {
                tracing::warn!(%run, %error, "a run that was stopped as it began may be in the way of others of its session");
            }
            _ => {}
        }
    }

    /// Begins in the session, and gives the model the history before it.
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
        let mut history = PastRuns::new(self.segment.shared.host.require_store()?, after, *window, summary.as_deref());
        history.read(known, summarized.take()).await?;
        if let (Some(summary), Some(left_out)) = (&summary, history.to_sum_up().await?) {
            let summarized = Box::pin(self.sum_up(summary, left_out)).await?;
            history.read(None, Some(summarized)).await?;
        }
        self.machine.remember(history.into_messages());
        self.session = None;
        Ok(())
    }

    /// Records the beginning of the run in its session.
    pub(super) async fn begin_in_session(&mut self) -> Result<()> {
        let Some(InSession::Asked(session)) = self.session.as_deref() else { return Ok(()) };
        let (session, shared) = (session.clone(), self.shared());
        let (Some(id), Some(live)) = (&session.id, &shared.host.live) else { return Ok(()) };
        let store = shared.host.require_store()?;
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
                // Another run has begun and ended since the session was looked at, or the session was deleted.
                Err(Error::Store(error)) if error.kind() == StoreErrorKind::Fenced => {}
                Err(Error::Store(error)) if error.kind() == StoreErrorKind::SessionBusy => {
                    if shared.is_draining() {
                        return Err(Error::Draining);
                    }
                    if looks.is_multiple_of(LOOKS)
                        && let Some(left) = left_in(&shared.host, &store, id).await?
                    {
                        return Err(StoreError::session_left(id, &left).into());
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
        self.session =
            Some(Box::new(InSession::Begun(Box::new(Begun { place, window, summary, past, summarized: None }))));
        self.pending = None;
        shared.restore_state(&self.segment.base, &kind);
        self.machine.apply(&self.segment.base, &kind);
        Ok(())
    }

    /// Asks the store to let it begin in the session as it is now; `None` when nothing is to begin.
    async fn try_to_begin(
        &mut self,
        store: &Arc<dyn Store>,
        session: &Session,
        id: &Arc<str>,
    ) -> Result<Option<(EventKind, SessionPlace, Option<Past>)>> {
        let shared = self.shared();
        let known = store.session(id).await?;
        let caller = shared.own().and_then(|own| own.began.caller());
        let place = session.place(id, &shared.id, caller, known.as_ref())?;
        if let (Some(after), true) = (&place.after, session.after.is_some()) {
            check_branch(store, id, after).await?;
        }
        let Some(mut started) = self.pending.as_deref().cloned() else { return Ok(None) };
        (started.window, started.summary) = (Some(session.window), session.summary.clone());
        let (past, state, artifacts) = match &place.after {
            Some(after) => {
                let events = match read_events(store, after, 0).await {
                    // The session was deleted since it was looked at.
                    Err(error) if error.kind() == StoreErrorKind::NotFound && store.session(id).await? != known => {
                        return Err(StoreError::fenced(&shared.id).into());
                    }
                    events => events?,
                };
                let state = state_of(&events).of_session();
                let artifacts = session_artifacts(after, &events);
                let past = past_of(after, &events)?;
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
        self.session = Some(Box::new(InSession::Beginning(Box::new(first.clone()))));
        let begun = shared.log.begin(first).await;
        self.session = Some(Box::new(InSession::Asked(session.clone())));
        begun?;
        Ok(Some((kind, place, past)))
    }
}

/// Whether a request has all messages of a run in it, one after the other.
fn repeats(request: &Conversation, run: &[Arc<Message>]) -> bool {
    let ids = |message: &Message| message.tool_calls().map(|call| call.id.clone()).collect::<Vec<_>>();
    let same = |(one, other): (&Arc<Message>, &Arc<Message>)| {
        one.role() == other.role() && one.text() == other.text() && ids(one) == ids(other)
    };
    !run.is_empty() && request.messages().windows(run.len()).any(|part| part.iter().zip(run).all(same))
}

/// The unfinished run of a session when no process executes it, so that waiting for its end would never end; `None` also
/// where that is not known.
async fn left_in(host: &Host, store: &Arc<dyn Store>, session: &str) -> Result<Option<RunId>, StoreError> {
    let unfinished = async || Ok::<_, StoreError>(store.session(session).await?.and_then(|known| known.unfinished));
    let is_here = |run: &RunId| host.live.as_ref().is_some_and(|live| live.has(run));
    let Some(run) = unfinished().await?.filter(|run| store.knows_holders() && !is_here(run)) else { return Ok(None) };
    if store.holder(&run).await?.is_some() {
        return Ok(None);
    }
    // It may have ended, or somebody has resumed it, while it was looked for.
    Ok(unfinished().await?.filter(|still| *still == run && !is_here(still)))
}

/// Whether a run can be continued in a session.
///
/// # Errors
/// When it is not a completed run of it.
async fn check_branch(store: &Arc<dyn Store>, session: &str, after: &RunId) -> Result<(), StoreError> {
    let record = store.record(after).await?.ok_or_else(|| StoreError::not_found(after))?;
    let problem = match record.session.as_ref().is_some_and(|place| *place.session == *session) {
        false => format!("the run `{after}` is not one of the session `{session}`; name one of its runs"),
        true if record.status != RunStatus::Success => {
            let status = record.status;
            format!("the run `{after}` has added nothing to the session `{session}` ({status}); name a completed one")
        }
        true => return Ok(()),
    };
    Err(StoreError::new(StoreErrorKind::NotFound, problem))
}
