//! The bodies of steps: a function of the caller's, or a workflow below the node. Each is made into what the driver
//! starts: the outputs it reads decoded, its own output encoded, its error as it is recorded.

use std::sync::Arc;

use super::driver::WorkflowRun;
use super::node_handle::{Loader, RawHandle, Reads};
use super::spec::{ItemStep, Outputs, Spec, Step, StepFuture, Until};
use super::step_error::{StepError, StepFailure};
use crate::context::Context;
use crate::error::{Error, Failure};
use crate::run::Around;
use crate::tool::ValuePlace;
use crate::value::{Encoded, NodeValue};

pub(super) fn load<R: Reads>(reads: &R, outputs: &dyn Outputs) -> Result<R::Values, StepError> {
    reads.load(Loader(outputs)).map_err(|error| error.0)
}

pub(super) fn encode<O: NodeValue>(output: &O) -> Result<Encoded, StepError> {
    output
        .encode()
        .map_err(|error| StepError::value(&format!("a `{}` cannot be recorded", std::any::type_name::<O>()), &error))
}

/// The outcome of a body. The body is called when the future is first polled: by then the start of the step is kept,
/// and whatever the body does before its first await comes after that too.
fn encoded<O, E, F>(body: impl FnOnce() -> F + Send + 'static) -> StepFuture
where
    O: NodeValue,
    E: StepFailure,
    F: Future<Output = Result<O, E>> + Send + 'static,
{
    Box::pin(async move {
        match body().await {
            Ok(output) => encode(&output),
            Err(error) => Err(StepError::of(error)),
        }
    })
}

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

/// Whether a repetition is over, from its encoded output.
pub(super) fn until_of<T: NodeValue>(until: impl Fn(&T) -> bool + Send + Sync + 'static) -> Until {
    Arc::new(move |last| {
        let last = T::decode(last).map_err(|error| StepError::value("the last output", &error))?;
        // A tool in it could ask nobody, so it is refused there.
        Ok(ValuePlace::compute(None, || until(&last)))
    })
}

/// A step that is a workflow below its node: it reads what the workflow's inputs are named after.
pub(super) fn inner_step(inner: &Arc<Spec>, reads: Vec<RawHandle>) -> Step {
    let inner = Arc::clone(inner);
    Arc::new(move |cx, outputs| Ok(inner_run(&inner, inputs(None, &reads, outputs)?, cx)))
}

/// The same for one item, or one round, which is the first input.
pub(super) fn inner_item_step(inner: &Arc<Spec>, reads: Vec<RawHandle>) -> ItemStep {
    let inner = Arc::clone(inner);
    Arc::new(move |cx, item, outputs| Ok(inner_run(&inner, inputs(Some(item), &reads, outputs)?, cx)))
}

fn inputs(item: Option<&Encoded>, reads: &[RawHandle], outputs: &dyn Outputs) -> Result<Vec<Encoded>, StepError> {
    let read = reads.iter().map(|read| outputs.output(read.node).cloned());
    let all: Option<Vec<_>> = item.into_iter().cloned().map(Some).chain(read).collect();
    all.ok_or_else(StepError::read_too_early)
}

fn inner_run(inner: &Arc<Spec>, inputs: Vec<Encoded>, cx: Context) -> StepFuture {
    let inner = Arc::clone(inner);
    Box::pin(async move {
        let around = Around::enter(cx.host().max_nesting, cx.depth()).map_err(StepError::of::<Error>)?;
        let ended = around.scope(begin(&inner, inputs, &cx)).await;
        ended.map_err(|failed| {
            let value = match &failed.error {
                Error::Node { failure, .. } | Error::Recorded(failure) => failure.value.clone(),
                _ => None,
            };
            let StepError { failure, .. } = StepError::of(failed.error);
            StepError { failure: Failure { value, ..failure }, original: failed.original }
        })
    })
}

/// Boxed in a function that returns, so that the step's own future holds no room for it.
fn begin(
    inner: &Arc<Spec>,
    inputs: Vec<Encoded>,
    cx: &Context,
) -> crate::future::BoxFuture<'static, Result<Encoded, super::driver::Failed>> {
    Box::pin(WorkflowRun::body(inner, inputs, cx).run_through())
}
