//! Reads the history of a session for a new run: the completed runs are read from their journals,
//! newest first, until the window is full or a summary covers the rest. `session/past.rs`
//! implements the window.

use std::sync::Arc;

use crate::event::{
    Event, EventKind, RunId, SessionPlace, SessionSummarized, SessionWindow, Summary,
};
use crate::message::{Conversation, Message};
use crate::run::read_events;
use crate::session::{PastRun, Window, summary_message, transcript};
use crate::store::{Store, StoreError, StoreErrorKind};

/// The contribution of a completed run to its session, and the run before it.
pub(super) type PastRunWithPredecessor = (PastRun, Option<RunId>);

/// Maximum size of the text that is summarized at once, in windows.
const SUMMED_UP: u32 = 4;

/// The history of a session, as seen by a run that continues it.
pub(super) struct HistoryReader {
    store: Arc<dyn Store>,
    /// The newest run.
    last: RunId,
    limits: SessionWindow,
    sums_up: bool,
    window: Window,
    /// The runs in the window, newest first, each with its predecessor. Only filled if a summary is
    /// configured.
    taken: Vec<(RunId, PastRunWithPredecessor)>,
    /// The newest run that did not fit.
    left: Option<RunId>,
    /// The summary that precedes the runs in the window.
    front: Option<Arc<SessionSummarized>>,
    /// `true` if this run has made a summary, so it does not make a second one.
    has_summed_up: bool,
}

impl HistoryReader {
    pub(super) fn new(
        store: Arc<dyn Store>,
        last: RunId,
        mut limits: SessionWindow,
        summary: Option<&Summary>,
    ) -> Self {
        if let Some(summary) = summary {
            // The summary takes part of the window's tokens.
            limits.tokens -= summary.tokens_in(limits);
        }
        // A window of zero runs means that the model gets no history at all.
        let sums_up = summary.is_some() && limits.runs > 0;
        let (window, taken) = (Window::new(limits), Vec::new());
        Self {
            store,
            last,
            limits,
            sums_up,
            window,
            taken,
            left: None,
            front: None,
            has_summed_up: false,
        }
    }

    /// Reads the runs from the newest backwards and fills the window. `known` is the newest run if
    /// it was read already. `own` is the summary that the new run has recorded.
    pub(super) async fn read(
        &mut self,
        mut known: Option<PastRunWithPredecessor>,
        own: Option<Arc<SessionSummarized>>,
    ) -> Result<(), StoreError> {
        let mut already = std::mem::take(&mut self.taken).into_iter();
        (self.window, self.left, self.has_summed_up) =
            (Window::new(self.limits), None, own.is_some());
        self.front = own.filter(|own| own.text.is_some());
        let mut next = Some(self.last.clone());
        while let Some(run) = next.take().filter(|run| !self.is_covered(run)) {
            if !self.window.has_room() {
                self.left = Some(run);
                break;
            }
            // Runs that an earlier pass has read are not read again.
            let past = match (known.take(), already.next()) {
                (Some(past), _) | (None, Some((_, past))) => past,
                (None, None) => read_past(&self.store, &run).await?,
            };
            if self.sums_up {
                self.front = self.front.take().or_else(|| past.0.summary().cloned());
                self.taken.push((run.clone(), past.clone()));
            }
            let (past, before) = past;
            match self.window.take(past) {
                true => next = before,
                // The run did not fit, so it belongs to the part that is summarized or omitted.
                false => {
                    self.taken.pop();
                    self.left = Some(run);
                }
            }
        }
        Ok(())
    }

    /// `true` if the summary covers this run and all runs before it.
    fn is_covered(&self, run: &RunId) -> bool {
        self.front.as_ref().is_some_and(|front| front.up_to == *run)
    }

    /// Returns the text to summarize and the newest run that it contains. Returns `None` if all
    /// runs fit, or if this run has tried already. Half of the window stays unsummarized, so that
    /// the next runs fit without a new summary.
    pub(super) async fn text_to_summarize(&self) -> Result<Option<(RunId, String)>, StoreError> {
        let Some(left) = self.left.as_ref().filter(|_| self.sums_up && !self.has_summed_up) else {
            return Ok(None);
        };
        let SessionWindow { runs, tokens, .. } = self.limits;
        let mut half = Window::new(self.limits.runs((runs / 2).max(1)).tokens(tokens / 2));
        let stays =
            self.taken.iter().take_while(|(_, (past, _))| half.take(past.clone())).count().max(1);
        let mut already = self.taken.iter().skip(stays);
        let up_to = already.clone().next().map_or(left, |(run, _)| run).clone();
        let limits = self
            .limits
            .runs(runs.saturating_mul(SUMMED_UP))
            .tokens(tokens.saturating_mul(SUMMED_UP));
        let (mut window, mut next) = (Window::new(limits), Some(up_to.clone()));
        let mut is_whole = true;
        while let Some(run) = next.take().filter(|run| !self.is_covered(run)) {
            let (past, before) = match already.next() {
                Some((_, past)) => past.clone(),
                None => read_past(&self.store, &run).await?,
            };
            is_whole = window.take(past);
            next = before.filter(|_| is_whole);
        }
        let front = self.front.as_ref().and_then(|front| front.text.as_deref());
        Ok(Some((up_to, transcript(front, is_whole, &window.into_messages()))))
    }

    /// Returns the messages for the model, oldest first.
    pub(super) fn into_messages(self) -> Vec<Arc<Message>> {
        let front =
            self.front.as_ref().and_then(|front| front.text.as_deref()).map(summary_message);
        front.into_iter().chain(self.window.into_messages()).collect()
    }
}

/// Reads the contribution of a completed run to its session, and the run before it.
pub(crate) async fn read_past(
    store: &Arc<dyn Store>,
    run: &RunId,
) -> Result<PastRunWithPredecessor, StoreError> {
    past_run_from_events(run, &read_events(store, run, 0).await?)
}

/// Returns the contribution of a completed run, given its journal.
pub(super) fn past_run_from_events(
    run: &RunId,
    events: &[Event],
) -> Result<PastRunWithPredecessor, StoreError> {
    let place = events.iter().find_map(place_of).ok_or_else(|| {
        let message =
            format!("a session lists the run `{run}`, but the journal of the run names no session");
        StoreError::new(StoreErrorKind::Damaged, message)
    })?;
    let answer = events.iter().rev().find_map(|event| match &event.kind {
        EventKind::RunCompleted(completed) => {
            completed.agent().map(|answer| answer.text().into_owned())
        }
        _ => None,
    });
    let summarized = events.iter().rev().find_map(|event| match &event.kind {
        EventKind::SessionSummarized(summarized) if event.path.is_root() => {
            Some(Arc::clone(summarized))
        }
        _ => None,
    });
    let messages = Conversation::from_events(events).messages().to_vec();
    let past =
        PastRun { number: place.number, messages, answer: answer.unwrap_or_default(), summarized };
    Ok((past, place.after.clone()))
}

fn place_of(event: &Event) -> Option<&SessionPlace> {
    match &event.kind {
        EventKind::RunStarted(started) => started.session.as_deref(),
        _ => None,
    }
}
