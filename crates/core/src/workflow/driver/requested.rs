//! Control requests to a running workflow: checks each request against the state of the machine,
//! records and answers it.

use std::sync::Arc;

use agentflow_schema::text::{did_you_mean, nearest};

use super::WorkflowRun;
use crate::error::{ControlError, ControlErrorKind};
use crate::event::{EventKind, PauseReason};
use crate::on_timeout::OnTimeout;
use crate::path::StepPath;
use crate::run::{Asked, ControlRequest, InSegment, RunState, check_question, timeout_answer};
use crate::time::Timestamp;
use crate::value::Encoded;
use crate::workflow::machine::{Phase, Unit};

impl WorkflowRun {
    /// Executes a request. The reply is sent after its record is committed.
    pub(super) fn requested(&mut self, Asked { request, by, reply }: Asked) {
        let shared = Arc::clone(&self.segment.shared);
        // A nested workflow may have started since the request arrived.
        if request.node().is_some_and(|node| self.is_below_step(node)) {
            return shared.request_below(&self.segment.base, Asked { request, by, reply });
        }
        shared.log.replying(reply, || match &request {
            ControlRequest::Pause => self.pause(by.as_ref()),
            ControlRequest::Unpause => self.unpause(by.as_ref()),
            // The drive loop checks for draining before its next command.
            ControlRequest::Drain => Ok(()),
            // Only agents take these requests. A run of a workflow refuses them before this point.
            ControlRequest::Message { .. } | ControlRequest::Close => Ok(()),
            // Normally handled by the run before this point.
            ControlRequest::Cancel { reason } => {
                self.segment.shared.cancel(reason.as_str());
                Ok(())
            }
            ControlRequest::Retry { node, by } => self.retry(node, by),
            ControlRequest::Answer { node, question, answer, by } => {
                self.answer(node, question.as_deref(), (answer, by))
            }
        });
    }

    fn pause(&mut self, by: Option<&Arc<str>>) -> Result<(), ControlError> {
        if !self.segment.is_run() {
            self.machine.set_paused(true);
            return Ok(());
        }
        if self.machine.is_paused() {
            return Err(ControlError::state("paused", "paused already"));
        }
        self.record_own(EventKind::paused(PauseReason::Operator).with_operator(by));
        self.segment.shared.hold(true);
        Ok(())
    }

    fn unpause(&mut self, by: Option<&Arc<str>>) -> Result<(), ControlError> {
        // The run records the pause. Its nested workflows follow without a record.
        if !self.segment.is_run() {
            self.machine.set_paused(false);
            return Ok(());
        }
        if !self.machine.is_paused() {
            return Err(ControlError::not_paused(self.machine.pause_reason()));
        }
        self.record_own(EventKind::resumed().with_operator(by));
        self.segment.shared.hold(false);
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
                let step = self.path(unit);
                // A nested workflow in this step may be waiting for the retry instead.
                let recorded =
                    RunState::from_records(&self.segment.shared.log.records_below(&step));
                let message = match recorded.waiting_in(&step) {
                    Some(inner) => format!(
                        "the node `{node}` cannot be retried: it is {state}, and `{inner}` in it waits for a decision; \
                         retry that one"
                    ),
                    None => format!(
                        "the node `{node}` cannot be retried: it is {state}; only a failed or interrupted one can"
                    ),
                };
                return Err(ControlError::new(ControlErrorKind::WrongState, message));
            }
        }
        self.record(unit, EventKind::NodeReset { by: by.into() });
        self.record_unpaused();
        Ok(())
    }

    fn answer(
        &mut self,
        node: &str,
        question: Option<&str>,
        (answer, by): (&Encoded, &str),
    ) -> Result<(), ControlError> {
        let unit = self.node(node)?;
        if self.machine.phase(unit) != Phase::Asking {
            let state = crate::workflow::state_of(self.machine.phase(unit));
            return Err(ControlError::new(
                ControlErrorKind::WrongState,
                format!("the node `{node}` waits for no answer: it is {state}"),
            ));
        }
        if let Some(asked) = self.machine.asked(unit.node) {
            check_question(&self.path(unit), &asked.question, question)?;
        }
        crate::workflow::check_answer(self.machine.spec().node(unit.node), answer)?;
        self.record(unit, EventKind::ApprovalResolved { answer: answer.clone(), by: by.into() });
        self.record_unpaused();
        Ok(())
    }

    /// Applies the timeout of a question. If the question was asked again in the meantime, the
    /// newer one has its own timer.
    pub(super) fn unanswered(&mut self, unit: Unit, since: Timestamp) {
        let Some(asked) = self.machine.asked(unit.node).filter(|asked| asked.since == since) else {
            return;
        };
        match timeout_answer(&asked.question) {
            Ok(answer) => {
                self.record(unit, EventKind::ApprovalResolved { answer, by: OnTimeout::BY.into() });
            }
            Err(failure) => {
                self.record(unit, EventKind::NodeFailed { attempt: 0, error: Arc::new(failure) });
            }
        }
        self.record_unpaused();
    }

    /// Records that the run continues, if it was paused for the request that was just handled.
    fn record_unpaused(&mut self) {
        if self.machine.pause_reason().is_some() && !self.machine.is_paused() {
            self.record_own(EventKind::resumed());
        }
    }

    /// Returns `true` if the node is not part of this workflow and lies below one of its steps. It
    /// then belongs to a nested workflow that has ended, or has not started again after a restart.
    fn is_below_step(&self, name: &str) -> bool {
        let Ok(path) = name.parse::<StepPath>() else { return false };
        if self.node(name).is_ok() || self.whole_of(name).is_some() {
            return false;
        }
        let below = |unit: Unit| {
            let step = self.path(unit);
            path != step && path.is_within(&step)
        };
        (0..).zip(&self.machine.spec().nodes).flat_map(|(at, _)| self.machine.units(at)).any(below)
    }

    /// Returns the node that an item or a branch belongs to.
    fn whole_of(&self, name: &str) -> Option<String> {
        let path: StepPath = name.parse().ok()?;
        let units =
            (0..).zip(&self.machine.spec().nodes).flat_map(|(at, _)| self.machine.units(at));
        let found =
            units.filter(|unit| unit.child.is_some()).find(|unit| self.path(*unit) == path)?;
        Some(self.path(Unit::node(found.node)).to_string())
    }

    /// Finds a node by name.
    fn node(&self, name: &str) -> Result<Unit, ControlError> {
        let spec = self.machine.spec();
        let path = name.parse::<StepPath>().ok();
        // The name may be the full path in the run, or the node's path in this workflow.
        let is_full = path.as_ref().is_some_and(|path| path.is_within(&self.segment.base));
        let paths = || {
            (0..).zip(&spec.nodes).map(|(at, node)| {
                if is_full { self.path(Unit::node(at)) } else { node.path.clone() }
            })
        };
        let found = (0..).zip(paths()).find(|(_, of)| path.as_ref() == Some(of));
        found.map(|(at, _)| Unit::node(at)).ok_or_else(|| {
            // A node in an arm of a router is often named without the path of its router.
            let within = path.as_ref().and_then(|path| paths().find(|of| of.ends_below(path)));
            let near = within.map(|path| path.to_string());
            let names: Vec<String> = paths().map(|path| path.to_string()).collect();
            let near = near
                .or_else(|| nearest(name, names.iter().map(String::as_str)).map(ToOwned::to_owned));
            let hint = did_you_mean(near);
            ControlError::new(
                ControlErrorKind::UnknownNode,
                format!("the workflow `{}` has no node `{name}`{hint}", spec.name),
            )
        })
    }
}
