//! What an operator asks of a running workflow: checked against where it is, recorded, answered.

use std::sync::Arc;

use super::WorkflowRun;
use crate::control::{ControlError, ControlErrorKind, Request, Signal};
use crate::event::{EventKind, PauseReason};
use crate::path::StepPath;
use crate::text::nearest;
use crate::value::Encoded;
use crate::workflow::machine::{Phase, Unit};

impl WorkflowRun {
    /// Does what was asked, and says so when it is kept.
    pub(super) fn requested(&mut self, request: Request) {
        if let Signal::Retry { node, .. } | Signal::Answer { node, .. } = &request.signal
            && let Some(path) = self.below_a_step(node)
        {
            return self.shared.park(&self.base, path, request);
        }
        let outcome = match &request.signal {
            Signal::Pause => self.pause(),
            Signal::Resume => self.resume(),
            Signal::Cancel { reason } => {
                self.shared.cancel(reason.as_str());
                Ok(())
            }
            Signal::Retry { node, by } => self.retry(node, by),
            Signal::Answer { node, answer, by } => self.answer(node, answer, by),
        };
        let shared = Arc::clone(&self.shared);
        if outcome.is_ok() && shared.log.is_durable() && request.reply.is_some() {
            // The answer waits for the commit; the run does not.
            tokio::spawn(async move {
                let kept = shared.log.commit().await;
                request.answer(kept.map_err(|error| {
                    ControlError::new(ControlErrorKind::WrongState, format!("it could not be kept: {error}"))
                }));
            });
        } else {
            request.answer(outcome);
        }
    }

    fn pause(&mut self) -> Result<(), ControlError> {
        if self.machine.is_paused() {
            return Err(ControlError::state("paused", "paused already"));
        }
        self.operator(EventKind::RunPaused { reason: PauseReason::Operator });
        Ok(())
    }

    /// An operator's pause is the run's: a workflow that is a step follows it and records nothing.
    fn operator(&mut self, kind: EventKind) {
        match self.base.is_root() {
            true => self.record_run(kind),
            false => self.machine.apply_run(&kind),
        }
    }

    fn resume(&mut self) -> Result<(), ControlError> {
        if !self.machine.is_paused() {
            return Err(ControlError::not_resumable(self.machine.pause_reason()));
        }
        self.operator(EventKind::RunResumed { recovered: false, redefined: None });
        Ok(())
    }

    fn retry(&mut self, node: &str, by: &str) -> Result<(), ControlError> {
        if let Some(whole) = self.whole_of(node) {
            return Err(ControlError::part(node, &whole));
        }
        let unit = self.node(node)?;
        match self.machine.phase(unit) {
            Phase::Failed | Phase::Interrupted => {}
            phase => {
                let state = crate::workflow::state_of(phase);
                return Err(ControlError::new(
                    ControlErrorKind::WrongState,
                    format!("the node `{node}` cannot be retried: it is {state}; only a failed or interrupted one can"),
                ));
            }
        }
        self.record(unit, EventKind::NodeReset { by: by.into() });
        self.goes_on();
        Ok(())
    }

    fn answer(&mut self, node: &str, answer: &Encoded, by: &str) -> Result<(), ControlError> {
        let unit = self.node(node)?;
        if self.machine.phase(unit) != Phase::Asking {
            let state = crate::workflow::state_of(self.machine.phase(unit));
            return Err(ControlError::new(
                ControlErrorKind::WrongState,
                format!("the node `{node}` waits for no answer: it is {state}"),
            ));
        }
        crate::workflow::check_answer(self.machine.spec().node(unit.node), answer)?;
        self.record(unit, EventKind::ApprovalResolved { answer: answer.clone(), by: by.into() });
        self.goes_on();
        Ok(())
    }

    /// A run that waited for this very thing is no longer paused.
    fn goes_on(&mut self) {
        if self.machine.pause_reason().is_some() && !self.machine.is_paused() {
            self.record_run(EventKind::RunResumed { recovered: false, redefined: None });
        }
    }

    /// The path of a node that is none of this workflow's but lies below a step of it that has begun or is about to:
    /// after a restart the workflow it belongs to may not have been taken up yet.
    fn below_a_step(&self, name: &str) -> Option<StepPath> {
        let path: StepPath = name.parse().ok()?;
        if self.node(name).is_ok() {
            return None;
        }
        let spec = self.machine.spec();
        let is_open = |unit: Unit| {
            let step = self.path(unit);
            matches!(self.machine.phase(unit), Phase::Ready | Phase::Running) && path != step && path.is_within(&step)
        };
        let units = (0..).zip(&spec.nodes).flat_map(|(at, _)| self.machine.units(at));
        units.into_iter().any(is_open).then_some(path)
    }

    /// The node that an item or a branch belongs to.
    fn whole_of(&self, name: &str) -> Option<String> {
        let path: StepPath = name.parse().ok()?;
        let units = (0..).zip(&self.machine.spec().nodes).flat_map(|(at, _)| self.machine.units(at));
        let found = units.filter(|unit| unit.child.is_some()).find(|unit| self.path(*unit) == path)?;
        Some(self.path(Unit::node(found.node)).to_string())
    }

    /// A step has ended, so nobody below it will take these wishes.
    pub(super) fn refuse_parked(&self, unit: Unit) {
        for request in self.shared.unpark(&self.path(unit)) {
            let (Signal::Retry { node, .. } | Signal::Answer { node, .. }) = &request.signal else { continue };
            let error = ControlError::new(
                ControlErrorKind::WrongState,
                format!("the node `{node}` takes no word any more: the step it belongs to has ended"),
            );
            request.answer(Err(error));
        }
    }

    fn node(&self, name: &str) -> Result<Unit, ControlError> {
        let spec = self.machine.spec();
        let prefix = if self.base.is_root() { String::new() } else { format!("{}/", self.base) };
        let local = name.strip_prefix(&prefix).unwrap_or(name);
        let found = (0..).zip(&spec.nodes).find(|(_, node)| node.path.names() == local);
        found.map(|(at, _)| Unit::node(at)).ok_or_else(|| {
            let names = spec.nodes.iter().map(|node| node.path.names());
            let hint = nearest(local, names).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            ControlError::new(
                ControlErrorKind::UnknownNode,
                format!("the workflow `{}` has no node `{name}`{hint}", spec.name),
            )
        })
    }
}
