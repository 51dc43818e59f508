//! Bodies of steps: functions of the user, or nested workflows. Wraps them into a `Step` that
//! decodes its inputs and encodes its output and error.

use std::sync::Arc;

use super::driver::WorkflowRun;
use super::node_handle::{Loader, RawHandle, Reads};
use super::spec::{ItemStep, Outputs, Spec, Step, StepFuture, Until};
use super::step_error::{StepError, StepFailure};
use crate::context::Context;
use crate::error::{Error, Failure};
use crate::run::Around;
use crate::tool::ValueScope;
use crate::value::{Encoded, NodeValue};

/// Decodes the outputs that a node reads.
pub(super) fn load<R: Reads>(reads: &R, outputs: &dyn Outputs) -> Result<R::Values, StepError> {
    reads.load(Loader(outputs)).map_err(|error| error.0)
}

pub(super) fn encode<O: NodeValue>(output: &O) -> Result<Encoded, StepError> {
    output.encode().map_err(|error| {
        StepError::value(&format!("a `{}` cannot be recorded", std::any::type_name::<O>()), &error)
    })
}

/// Encodes the result of a body. The body is called on the first poll. The start of the step is
/// committed by then, so effects before the first await of the body also follow it.
fn encoded<O, E, F>(body: impl FnOnce() -> F + Send + 'static) -> StepFuture
where
    O: NodeValue,
    E: StepFailure,
    F: Future<Output = Result<O, E>> + Send + 'static,
{
    Box::pin(async move {
        match body().await {
            Ok(output) => encode(&output),
            Err(error) => Err(StepError::from_error(error)),
        }
    })
}

/// Wraps the body of a step.
pub(super) fn step_of<R, O, E, B, F>(reads: R, body: B) -> Step
where
    R: Reads<Values: Send>,
    O: NodeValue,
    E: StepFailure,
    B: Fn(Context, R::Values) -> F + Send + Sync + 'static,
    F: Future<Output = Result<O, E>> + Send + 'static,
{
    let body = Arc::new(body);
    Arc::new(move |cx, outputs| {
        let (body, values) = (Arc::clone(&body), load(&reads, outputs)?);
        Ok(encoded(move || body(cx, values)))
    })
}

/// Wraps the body of an item or a round. `what` names the item in errors.
pub(super) fn item_step_of<R, I, O, E, B, F>(reads: R, what: &'static str, body: B) -> ItemStep
where
    R: Reads<Values: Send>,
    I: NodeValue,
    O: NodeValue,
    E: StepFailure,
    B: Fn(Context, I, R::Values) -> F + Send + Sync + 'static,
    F: Future<Output = Result<O, E>> + Send + 'static,
{
    let body = Arc::new(body);
    Arc::new(move |cx, item, outputs| {
        let item = I::decode(item).map_err(|error| StepError::value(what, &error))?;
        let (body, values) = (Arc::clone(&body), load(&reads, outputs)?);
        Ok(encoded(move || body(cx, item, values)))
    })
}

/// Wraps the end condition of a repetition.
pub(super) fn until_of<T: NodeValue>(until: impl Fn(&T) -> bool + Send + Sync + 'static) -> Until {
    Arc::new(move |last| {
        let last = T::decode(last).map_err(|error| StepError::value("the last output", &error))?;
        // A tool called here could not ask for its approval, so the call is refused.
        ValueScope::compute(None, || until(&last)).map_err(StepError::recorded)
    })
}

/// Creates a step that runs a nested workflow. The inputs of the workflow are the outputs that the
/// step reads.
pub(super) fn inner_step(inner: &Arc<Spec>, reads: Vec<RawHandle>) -> Step {
    let inner = Arc::clone(inner);
    Arc::new(move |cx, outputs| Ok(inner_run(&inner, inputs(None, &reads, outputs)?, cx)))
}

/// Creates an item step that runs a nested workflow. The item, or the previous round's output, is
/// the first input.
pub(super) fn inner_item_step(inner: &Arc<Spec>, reads: Vec<RawHandle>) -> ItemStep {
    let inner = Arc::clone(inner);
    Arc::new(move |cx, item, outputs| {
        Ok(inner_run(&inner, inputs(Some(item), &reads, outputs)?, cx))
    })
}

/// Collects the inputs of a nested workflow.
fn inputs(
    item: Option<&Encoded>,
    reads: &[RawHandle],
    outputs: &dyn Outputs,
) -> Result<Vec<Encoded>, StepError> {
    let read = reads.iter().map(|read| outputs.output(read.node).cloned());
    let all: Option<Vec<_>> = item.into_iter().cloned().map(Some).chain(read).collect();
    all.ok_or_else(StepError::read_too_early)
}

/// Runs a nested workflow and converts its error into the error of the step.
fn inner_run(inner: &Arc<Spec>, inputs: Vec<Encoded>, cx: Context) -> StepFuture {
    let inner = Arc::clone(inner);
    Box::pin(async move {
        let around = Around::enter(cx.host().max_nesting, cx.depth())
            .map_err(StepError::from_error::<Error>)?;
        let ended = around.scope(begin(&inner, inputs, &cx)).await;
        ended.map_err(|failed| {
            let value = match &failed.error {
                Error::Node { failure, .. } | Error::Recorded(failure) => failure.value.clone(),
                _ => None,
            };
            let StepError { failure, .. } = StepError::from_error(failed.error);
            StepError { failure: Failure { value, ..failure }, original: failed.original }
        })
    })
}

/// Boxes the run in a separate function, so that the future of the step has no space reserved for
/// it.
fn begin(
    inner: &Arc<Spec>,
    inputs: Vec<Encoded>,
    cx: &Context,
) -> crate::future::BoxFuture<'static, Result<Encoded, super::driver::Failed>> {
    Box::pin(WorkflowRun::body(inner, inputs, cx).run_through())
}
