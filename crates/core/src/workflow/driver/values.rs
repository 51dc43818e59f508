//! Values, checks and the choices of routers. They are computed in place, once per run.

use std::sync::Arc;

use super::WorkflowRun;
use crate::context::Context;
use crate::error::FailureKind;
use crate::event::EventKind;
use crate::tool::{ValueScope, size_error};
use crate::value::Encoded;
use crate::workflow::machine::Unit;
use crate::workflow::spec::{Body, NodeIndex, Outputs};
use crate::workflow::step_error::{StepError, caught};

/// Bytes reserved in an event for data other than the output.
const EVENT_ROOM: u64 = 4096;

impl WorkflowRun {
    /// Computes a value. Records it if a later process or attempt could compute a different one.
    pub(super) fn value(&mut self, node: NodeIndex) {
        match self.evaluate(node).and_then(|output| self.check_event_size(Unit::node(node), output))
        {
            Ok(output) if self.is_recorded(node) => {
                self.record(
                    Unit::node(node),
                    EventKind::NodeCompleted { output, duration_ms: 0, saved: None },
                );
            }
            Ok(output) => {
                self.unsee(node);
                self.machine.evaluated(node, output);
            }
            Err(error) => self.fail(Unit::node(node), error),
        }
    }

    /// Evaluates a value or a router's choice.
    pub(super) fn evaluate(&self, node: NodeIndex) -> Result<Encoded, StepError> {
        self.check_allowed(node)?;
        let definition = self.machine.spec().node(node);
        let (Body::Pure(pure) | Body::Router { pick: pure, .. }) = &definition.body else {
            return Err(StepError::new(FailureKind::Value, "a step is not a value"));
        };
        let cx = || {
            let path = self.path(Unit::node(node));
            Context::new(Arc::clone(&self.segment.shared), path, self.resources.clone())
                .granted(&self.grants)
                .of_value()
        };
        let seen = (definition.sees_state || !definition.saves.is_empty())
            .then(|| self.outputs_with_state(node));
        let outputs: &dyn Outputs =
            seen.as_ref().map_or(&self.machine as &dyn Outputs, |seen| seen);
        ValueScope::compute(Some(&self.segment.shared.host), || caught(|| pure(outputs, &cx)))
            .unwrap_or_else(|failure| Err(StepError::recorded(failure)))
    }

    /// Returns `true` if the value is recorded. The output of the workflow is part of its final
    /// event instead.
    fn is_recorded(&self, node: NodeIndex) -> bool {
        let spec = self.machine.spec();
        let is_output = node == spec.output && spec.followers(node).is_empty();
        // The next attempt at the step must see the same values.
        !spec.node(node).saves.is_empty()
            || !is_output && (!self.segment.is_run() || self.segment.shared.log.is_durable())
    }

    /// Checks the output of a step against the limit of its tool and the limit for all steps.
    pub(super) fn within_limits(&self, unit: Unit, output: Encoded) -> Result<Encoded, StepError> {
        let of_tool =
            self.machine.spec().node(unit.node).called.as_ref().map(|tool| tool.policy.max_output);
        match of_tool.and_then(|limit| size_error(output.as_str(), limit)) {
            Some(error) => {
                Err(StepError::new(FailureKind::from(error.status().as_str()), error.message()))
            }
            None => self.check_event_size(unit, output),
        }
    }

    /// Saves the declared state and checks the output against the limit for all steps. The event
    /// also contains the saved state.
    pub(super) fn check_event_size(
        &self,
        unit: Unit,
        output: Encoded,
    ) -> Result<Encoded, StepError> {
        self.save_output(unit, &output)?;
        let saved = self.checked_saved_size(unit)?;
        let (size, mut limit) = (output.as_str().len(), self.segment.shared.host.max_output_bytes);
        if let Some(most) =
            self.segment.shared.log.store().and_then(|(store, _)| store.max_event_bytes())
        {
            // Besides the output, the event contains metadata and the saved state.
            limit = limit.min(
                usize::try_from(most.saturating_sub(EVENT_ROOM + saved as u64))
                    .unwrap_or(usize::MAX),
            );
        }
        if size <= limit {
            return Ok(output);
        }
        let message = format!(
            "the output has {size} bytes, more than the {limit} that one step may have; put the data where it belongs \
             and hand on where it is, or raise the limit with `Runtime::builder().max_output_bytes(..)`"
        );
        Err(StepError::new(FailureKind::TooLarge, message))
    }
}
