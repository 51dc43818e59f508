//! Routes each control request of a live run to the one component that decides it, and decides
//! requests by the journal if no workflow does.
//!
//! A running workflow decides the requests for its own nodes. The lock of [`Listeners`] is held
//! from the choice of the recipient until a decision by the journal is recorded, and no request is
//! routed while a workflow reads the journal. A workflow therefore either receives a request or
//! reads the decision: each request is decided once, and a question keeps its first answer.

use std::sync::{Arc, MutexGuard, OnceLock};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::control_events::Recorder;
use super::control_request::{Asked, ControlRequest, GrantingEvents, Reply};
use super::shared::{RunShared, locked, status_of};
use super::state::RunState;
use crate::error::{ControlError, Result};
use crate::event::{EventKind, PauseReason};
use crate::path::StepPath;
use crate::time::Timestamp;

/// The workflows of a run that receive control requests.
#[derive(Default)]
pub(super) struct Listeners {
    workflows: Vec<(StepPath, mpsc::UnboundedSender<Asked>)>,
    /// Number of workflows that read the journal and do not listen yet.
    beginning: usize,
    /// Requests that arrived meanwhile.
    waiting: Vec<Asked>,
}

impl Listeners {
    /// Returns the innermost workflow around a node, among those below `above`.
    fn innermost(
        &self,
        node: &StepPath,
        above: Option<&StepPath>,
    ) -> Option<&mpsc::UnboundedSender<Asked>> {
        let takes = |base: &StepPath| {
            node != base
                && node.is_within(base)
                && above.is_none_or(|above| base != above && base.is_within(above))
        };
        let around = self.workflows.iter().filter(|(base, _)| takes(base));
        around.max_by_key(|(base, _)| base.depth()).map(|(_, sender)| sender)
    }

    fn outermost(&self) -> Option<&mpsc::UnboundedSender<Asked>> {
        self.workflows.iter().find(|(base, _)| base.is_root()).map(|(_, sender)| sender)
    }

    /// Sends a notice that expects no reply to the listeners; `nested` excludes the run's own
    /// workflow.
    pub(super) fn notify(&self, notice: &ControlRequest, nested: bool) {
        for (_, listener) in self.workflows.iter().filter(|(base, _)| !nested || !base.is_root()) {
            // A workflow that has just ended has no work left to start.
            let _ = listener.send(Asked { request: notice.clone(), by: None, reply: None });
        }
    }
}

/// Delays all requests of a run while a workflow reads the journal. Dropping it routes them, also
/// to that workflow if it listens by then.
pub(crate) struct WorkflowStartGuard<'r>(&'r Arc<RunShared>);

impl Drop for WorkflowStartGuard<'_> {
    fn drop(&mut self) {
        let Self(run) = self;
        let waiting = {
            let mut listeners = run.listeners();
            listeners.beginning -= 1;
            match listeners.beginning {
                0 => std::mem::take(&mut listeners.waiting),
                _ => return,
            }
        };
        if waiting.is_empty() {
            return;
        }
        waiting.into_iter().for_each(|asked| run.request(asked));
        // The run of an agent may wait for its model before it commits.
        if run.log.has_uncommitted()
            && let Ok(handle) = Handle::try_current()
        {
            let run = Arc::clone(run);
            handle.spawn(async move { drop(run.log.commit().await) });
        }
    }
}

impl RunShared {
    pub(super) fn listeners(&self) -> MutexGuard<'_, Listeners> {
        locked(&self.operations().listeners)
    }

    /// Delays all requests until the starting workflow has read the journal and listens.
    pub(crate) fn workflow_begins(self: &Arc<Self>) -> WorkflowStartGuard<'_> {
        self.listeners().beginning += 1;
        WorkflowStartGuard(self)
    }

    /// Registers the workflow at a path as a recipient of control requests.
    pub(crate) fn listen(&self, base: &StepPath, sender: mpsc::UnboundedSender<Asked>) {
        self.listeners().workflows.push((base.clone(), sender));
    }

    pub(crate) fn unlisten(&self, base: &StepPath) {
        self.listeners().workflows.retain(|(path, _)| path != base);
    }

    /// Routes a control request to the innermost workflow that contains its node, or otherwise to
    /// the outermost one. If the run stops before the decision, the reply is dropped, and the
    /// caller looks up the run again.
    pub(crate) fn request(&self, asked: Asked) {
        let now = self.now();
        let listeners = self.listeners();
        if self.is_undoing() && !asked.request.is_of_undo() {
            drop(listeners);
            return self.request_while_compensating(asked);
        }
        if asked.request.is_for_agents() {
            drop(listeners);
            return self.request_by_mail(asked);
        }
        if let ControlRequest::Cancel { reason } = asked.request {
            drop(listeners);
            return self.request_cancel(reason, asked.by, asked.reply);
        }
        self.route(listeners, now, None, asked);
    }

    /// Routes a request for a node below a step of the workflow at `above`: to a workflow below
    /// that step, or to the journal if that workflow has ended or has not started again after a
    /// restart.
    pub(crate) fn request_below(&self, above: &StepPath, asked: Asked) {
        let now = self.now();
        self.route(self.listeners(), now, Some(above), asked);
    }

    fn route(
        &self,
        mut listeners: MutexGuard<'_, Listeners>,
        now: Timestamp,
        above: Option<&StepPath>,
        asked: Asked,
    ) {
        if listeners.beginning > 0 {
            return listeners.waiting.push(asked);
        }
        let node: Option<StepPath> = asked.request.node().and_then(|node| node.parse().ok());
        let innermost = node.and_then(|node| listeners.innermost(&node, above));
        let recipient = innermost.or_else(|| listeners.outermost().filter(|_| above.is_none()));
        if let Some(recipient) = recipient {
            // A workflow that ends returns the requests that it did not handle.
            drop(recipient.send(asked));
        } else if above.is_some() || self.log.is_agent() || self.is_undoing() {
            self.decide(listeners, now, asked);
        }
    }

    /// Decides a request by the journal.
    fn decide(
        &self,
        listeners: MutexGuard<'_, Listeners>,
        now: Timestamp,
        Asked { request, by, reply }: Asked,
    ) {
        let events = match request {
            // Pausing does not depend on the state of the nodes.
            ControlRequest::Pause | ControlRequest::Unpause => self.hold_events(&request),
            _ => self.events_by_journal(&request),
        };
        let events: Vec<_> = match events {
            Ok(events) => events
                .into_iter()
                .map(|(path, kind)| (path, kind.with_operator(by.as_ref())))
                .collect(),
            Err(error) => {
                drop(listeners);
                return self.log.reply(reply, Err(error));
            }
        };
        if !self.log.record_decision(now, events, reply, |end| request.over(status_of(end))) {
            drop(listeners);
            return self.log.emit();
        }
        match request {
            ControlRequest::Pause => self.hold_listeners(&listeners, true),
            ControlRequest::Unpause => self.hold_listeners(&listeners, false),
            _ => {}
        }
        // Sinks run code of the program, which may send a request and would deadlock.
        drop(listeners);
        self.log.emit();
        self.operations().answered.notify_waiters();
    }

    /// Records the events that answer a question below a step when its time limit is reached.
    ///
    /// # Errors
    /// Fails if the question is not open any more: its first answer counts.
    pub(super) fn decide_timeout(
        &self,
        events: impl FnOnce(&RunState) -> Result<Vec<(StepPath, EventKind)>, ControlError>,
    ) -> Result<(), ControlError> {
        let now = self.now();
        let listeners = self.listeners();
        let events = events(&self.log.open_questions())?;
        if !self.log.record_decision(now, events, None, |end| {
            ControlError::over("answered", status_of(end))
        }) {
            return Err(ControlError::state("answered", "over"));
        }
        drop(listeners);
        self.log.emit();
        self.operations().answered.notify_waiters();
        Ok(())
    }

    /// Returns the events that pause the run of an agent or continue it.
    fn hold_events(
        &self,
        request: &ControlRequest,
    ) -> Result<Vec<(StepPath, EventKind)>, ControlError> {
        if let Some(end) = self.log.end() {
            return Err(ControlError::over(request.done(), status_of(&end)));
        }
        let waits_for = self.log.waits_for();
        let kind = match (request, waits_for) {
            (ControlRequest::Pause, Some(PauseReason::Operator)) => {
                return Err(ControlError::state("paused", "paused already"));
            }
            (ControlRequest::Pause, _) => EventKind::paused(PauseReason::Operator),
            (_, Some(PauseReason::Operator)) => EventKind::resumed(),
            _ => return Err(ControlError::not_paused(waits_for)),
        };
        Ok(vec![(StepPath::root(), kind)])
    }

    fn events_by_journal(
        &self,
        request: &ControlRequest,
    ) -> Result<Vec<(StepPath, EventKind)>, ControlError> {
        if matches!(request, ControlRequest::Answer { .. })
            && let Ok(events) =
                self.host.events_for(&self.log.open_questions(), request, Recorder::Live)
        {
            return Ok(events);
        }
        // The error message describes the state of other nodes, so it needs all records.
        let state = RunState::from_records(&self.log.records_below(&StepPath::root()));
        self.host.events_for(&state, request, Recorder::Live)
    }

    /// Sends a request and waits until its outcome is stored.
    ///
    /// # Errors
    /// If the run stops before that, the error contains the events that granted the request, which
    /// may be stored.
    pub(crate) async fn ask(
        &self,
        request: ControlRequest,
        by: Option<Arc<str>>,
    ) -> Result<Result<(), ControlError>, Option<GrantingEvents>> {
        let ((reply, outcome), granting) = (oneshot::channel(), Arc::new(OnceLock::new()));
        self.request(Asked {
            request,
            by,
            reply: Some(Reply::Caller(reply, Arc::clone(&granting))),
        });
        if self.log.has_uncommitted() && (self.log.is_agent() || self.is_undoing()) {
            // Commits here, because an agent that waits for its model or a tool would commit later,
            // and so would a compensation that waits for a person. The run itself reports a failure
            // of its store.
            drop(self.log.commit().await);
        }
        outcome.await.map_err(|_| granting.get().copied())
    }

    /// Pauses the agents of the run and the workflows in its steps, or continues them.
    pub(crate) fn hold(&self, held: bool) {
        self.hold_listeners(&self.listeners(), held);
    }

    /// Requires the lock, so that two changes reach the listeners in the order in which they are
    /// made.
    fn hold_listeners(&self, listeners: &Listeners, held: bool) {
        use std::sync::atomic::Ordering;
        // A drained run stays held. The journal contains the operator's request.
        if self.is_draining() || self.held.swap(held, Ordering::SeqCst) == held {
            return;
        }
        {
            let (since, total) = &mut *locked(&self.operations().held_for);
            match held {
                true => *since = Some(Instant::now()),
                false => *total += since.take().map(|since| since.elapsed()).unwrap_or_default(),
            }
        }
        listeners
            .notify(if held { &ControlRequest::Pause } else { &ControlRequest::Unpause }, true);
        self.operations().released.notify_waiters();
    }
}
