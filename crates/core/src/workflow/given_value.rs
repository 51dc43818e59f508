//! `Given`: the input of a step, computed from outputs and from the state when the step begins.
//! State keys that outlive the run are loaded from the store first.

use std::sync::Arc;

use super::mapping::{Mapping, Names, Scope};
use super::outputs::{CopiedOutputs, Outputs, OutputsWithState};
use super::spec::{Step, StepFuture};
use super::step_error::StepError;
use crate::context::Context;
use crate::state::{SavedByStep, StateOwner};
use crate::value::Encoded;

/// A mapping, with the nodes that its names refer to.
#[derive(Clone)]
pub(super) struct Given(Arc<Inner>);

struct Inner {
    value: Mapping,
    names: Names,
    sees_state: bool,
    /// State keys that the mapping reads and that outlive the run.
    lasting: Vec<String>,
}

impl Given {
    pub(super) fn new(value: Mapping, names: Names) -> Self {
        let keys = value.state_keys(&|name| names.contains_key(name));
        let sees_state = !keys.is_empty();
        let lasting = keys.iter().filter(|(key, _)| StateOwner::split(key).0.outlives_runs());
        let lasting = lasting.map(|(key, _)| (*key).to_owned()).collect();
        Self(Arc::new(Inner { value, names, sees_state, lasting }))
    }

    /// Returns true if the value needs keys from the store.
    pub(super) fn waits(&self) -> bool {
        !self.0.lasting.is_empty()
    }

    /// Computes the value and starts the step with it: at once, or when the store has answered.
    pub(super) fn then<C: Send + 'static>(
        &self,
        cx: Context,
        outputs: &dyn Outputs,
        item: Option<&Encoded>,
        callee: C,
        begin: impl FnOnce(C, Context, Encoded) -> StepFuture + Send + 'static,
    ) -> Result<StepFuture, StepError> {
        self.start_with_or(cx, outputs, item, callee, begin, Err)
    }

    /// Like [`then`](Self::then), but calls `otherwise` if the value cannot be computed. A store
    /// that does not answer is still an error.
    pub(super) fn start_with_or<C: Send + 'static>(
        &self,
        cx: Context,
        outputs: &dyn Outputs,
        item: Option<&Encoded>,
        callee: C,
        begin: impl FnOnce(C, Context, Encoded) -> StepFuture + Send + 'static,
        otherwise: impl FnOnce(StepError) -> Result<StepFuture, StepError> + Send + 'static,
    ) -> Result<StepFuture, StepError> {
        // A decider may have revised the arguments of the call. Calls for single items compute
        // their own.
        if let (Some(given), None) = (outputs.given(), item) {
            return Ok(begin(callee, cx, given.clone()));
        }
        if !self.waits() {
            let seen = if self.0.sees_state { cx.seen_state() } else { SavedByStep::default() };
            return match self.0.made(&cx, outputs, item, seen) {
                Ok(value) => Ok(begin(callee, cx, value)),
                Err(error) => otherwise(error),
            };
        }
        // The future must not borrow from the run, so it gets a copy of the outputs that it needs.
        let (given, outputs, item) = (Arc::clone(&self.0), self.0.read(outputs), item.cloned());
        Ok(Box::pin(async move {
            let seen = cx.seen_state_with(&given.lasting).await.map_err(StepError::from_error)?;
            match given.made(&cx, &outputs, item.as_ref(), seen) {
                Ok(value) => begin(callee, cx, value).await,
                Err(error) => otherwise(error)?.await,
            }
        }))
    }

    /// Builds a step that outputs the value.
    pub(super) fn into_step(self) -> Step {
        Arc::new(move |cx, outputs| {
            self.then(cx, outputs, None, (), |(), _, value| Box::pin(std::future::ready(Ok(value))))
        })
    }
}

impl Inner {
    fn made(
        &self,
        cx: &Context,
        outputs: &dyn Outputs,
        item: Option<&Encoded>,
        state: SavedByStep,
    ) -> Result<Encoded, StepError> {
        let outputs = OutputsWithState { outputs, state };
        let scope = Scope { names: &self.names, outputs: &outputs, item };
        Ok(self.value.encoded(&scope, || cx.host().max_output_bytes)?)
    }

    /// Copies the outputs and failures that the mapping reads, so that they can be used without the
    /// run.
    fn read(&self, outputs: &dyn Outputs) -> CopiedOutputs {
        let mut read = CopiedOutputs::default();
        let reads = self.value.reads(&|name| self.names.contains_key(name));
        for at in reads.into_iter().filter_map(|(name, _)| self.names.get(name).copied()) {
            outputs
                .output(at)
                .cloned()
                .into_iter()
                .for_each(|output| drop(read.outputs.insert(at, output)));
            outputs
                .failure(at)
                .cloned()
                .into_iter()
                .for_each(|failure| drop(read.failures.insert(at, failure)));
        }
        read
    }
}
