//! Support code for the expansion of `#[workflow]`: traits for the inputs, output and error of the
//! function, construction of the workflow on first use, and the call to the function. Exported
//! through `__private` only.
//!
//! [`Steps`] adds the nodes.

#![allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use super::builder::Builder;
use super::inputs::Inputs;
pub use super::linked_workflow::LinkedWorkflow;
use super::linked_workflow::{GraphOf, Unbuilt};
use super::node_handle::Handle;
use super::step_error::{StepError, StepFailure};
pub use super::steps::{Returned, Returns, Steps, returns};
use super::{Workflow, own_error};
use crate::context::Context;
use crate::error::{Error, Failure, note};
use crate::tool::CurrentStep;
use crate::tool::call_forms::ErrorForm;
use crate::tuples::all_the_tuples;
use crate::value::NodeValue;

/// The return type of a workflow function: a `Result`, or an alias of it.
#[diagnostic::on_unimplemented(
    message = "a workflow returns a `Result`, and `{Self}` is not one",
    label = "write `Result<{Self}>` here, and `Ok(..)` at the end",
    note = "a step can fail, and so can the run as a whole"
)]
pub trait WorkflowReturn {
    type Ok;
    type Error;
}

#[diagnostic::do_not_recommend]
impl<T, E> WorkflowReturn for Result<T, E> {
    type Ok = T;
    type Error = E;
}

/// Names the two types of a workflow's `Result`.
pub trait WorkflowTypes {
    type Ok;
    type Error;
}

/// A return type whose two types meet all requirements. The bounds are in one place, so that each
/// error is reported once.
pub trait RecordedReturn: WorkflowReturn<Ok: NodeValue, Error: WorkflowError> {}

impl<T: NodeValue, E: WorkflowError> RecordedReturn for Result<T, E> {}

/// The error type of a workflow.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a workflow",
    label = "a run can fail by itself, and `{Self}` cannot hold that",
    note = "implement `From<agentflow::Error>` and `std::fmt::Display` for `{Self}`, or return `agentflow::Result<_>`"
)]
pub trait WorkflowError: StepFailure {
    /// Converts an error of the run itself, such as a cancellation.
    fn of_run(error: Error) -> Self;
}

#[diagnostic::do_not_recommend]
impl<E: From<Error> + StepFailure> WorkflowError for E {
    fn of_run(error: Error) -> Self {
        error.into()
    }
}

/// The first parameter of a workflow, if it is a reference.
#[diagnostic::on_unimplemented(
    message = "a workflow cannot borrow an input",
    label = "take an owned value, such as `String` for `&str`",
    note = "inputs are recorded, so that a run can be resumed after a crash; only the first parameter may be a \
            reference, and only to `agentflow::Context`"
)]
pub trait WorkflowContext {
    fn of(cx: &Context) -> &Self;
    fn context(&self) -> &Context;
}

impl WorkflowContext for Context {
    fn of(cx: &Context) -> &Self {
        cx
    }

    fn context(&self) -> &Context {
        self
    }
}

thread_local! {
    /// The workflows that this thread is building, by the addresses of their cells.
    static BUILDING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Guard for an entry of `BUILDING`. Removes the entry when it is dropped, also during a panic.
struct BuildingGuard;

impl BuildingGuard {
    fn enter(cell: usize) -> Result<Self, Unbuilt> {
        BUILDING.with_borrow_mut(|building| match building.contains(&cell) {
            true => Err(Unbuilt::Recursive),
            false => {
                building.push(cell);
                Ok(Self)
            }
        })
    }
}

impl Drop for BuildingGuard {
    fn drop(&mut self) {
        BUILDING.with_borrow_mut(Vec::pop);
    }
}

/// Returns the workflow in a cell and builds it on first use. Two threads may build it
/// concurrently, and the first result is kept. A lock could deadlock, because building a workflow
/// also builds the workflows that it calls.
fn built<In: Inputs, Out: NodeValue, E: 'static>(
    cell: &OnceLock<Workflow<In, Out>>,
    name: &'static str,
    inputs: In::Names,
    of: fn(E) -> StepError,
    nodes: fn(&mut Steps<'_, E>, In::Handles) -> Handle<Out>,
) -> Result<Workflow<In, Out>, Unbuilt> {
    if let Some(workflow) = cell.get() {
        return Ok(workflow.clone());
    }
    let _building = BuildingGuard::enter(std::ptr::from_ref(cell).addr())?;
    let nodes =
        |builder: &mut Builder, inputs: In::Handles| nodes(&mut Steps::new(builder, of), inputs);
    let workflow = Workflow::build(name, inputs, nodes).map_err(Unbuilt::Wrong)?;
    Ok(cell.get_or_init(|| workflow).clone())
}

type Output<R> = <R as WorkflowReturn>::Ok;
type Fails<R> = <R as WorkflowReturn>::Error;

/// Defines one trait per number of inputs. The bounds are checked where the expansion sets the
/// associated types, so that an unsupported type is reported once and at its own position.
macro_rules! workflow_fn {
    ($WorkflowFn:ident $count:literal $($T:ident $at:tt)*) => {
        pub trait $WorkflowFn: Sized + 'static {
            $(type $T: NodeValue;)*
            type Return: RecordedReturn;

            const NAME: &'static str;
            const INPUTS: [&'static str; $count];

            fn cell() -> &'static OnceLock<Workflow<($(Self::$T,)*), Output<Self::Return>>>;

            /// Returns the functions that record the error of the workflow and read it back.
            fn error_form() -> ErrorForm<std::result::Result<(), Fails<Self::Return>>>;

            fn nodes(steps: &mut Steps<'_, Fails<Self::Return>>, inputs: ($(Handle<Self::$T>,)*)) -> Handle<Output<Self::Return>>;

            /// Returns the workflow and builds it on first use.
            fn built() -> Result<Workflow<($(Self::$T,)*), Output<Self::Return>>, Unbuilt> {
                let of = |error| StepError::of_workflow(error, &Self::error_form());
                built(Self::cell(), Self::NAME, Self::INPUTS, of, Self::nodes)
            }

            /// Returns the workflow. Panics if it cannot be built.
            fn workflow() -> Workflow<($(Self::$T,)*), Output<Self::Return>> {
                match Self::built() {
                    Ok(workflow) => workflow,
                    Err(unbuilt) => panic!("{}", unbuilt.error(Self::NAME)),
                }
            }

            fn run(
                cx: Option<&Context>,
                inputs: ($(Self::$T,)*),
            ) -> impl Future<Output = Result<Output<Self::Return>, Fails<Self::Return>>> + Send {
                run(Self::built().map_err(|unbuilt| unbuilt.error(Self::NAME)), cx, inputs, Self::error_form)
            }

            const GRAPH: GraphOf = GraphOf(|| Ok(Arc::clone(Self::built()?.spec())));
        }
    };
}

all_the_tuples!(workflow_fn, [
    WorkflowFn0 WorkflowFn1 WorkflowFn2 WorkflowFn3 WorkflowFn4 WorkflowFn5 WorkflowFn6 WorkflowFn7 WorkflowFn8 WorkflowFn9
    WorkflowFn10 WorkflowFn11 WorkflowFn12
]);

/// Runs a workflow when its function is called: nested in the run of `cx` or of the calling step,
/// otherwise as a new run.
async fn run<In: Inputs, Out: NodeValue, E: WorkflowError>(
    workflow: Result<Workflow<In, Out>, Error>,
    cx: Option<&Context>,
    inputs: In,
    form: fn() -> ErrorForm<Result<(), E>>,
) -> Result<Out, E> {
    let cx = cx.cloned().or_else(CurrentStep::context).unwrap_or_else(Context::detached);
    let ended = workflow.map_err(E::of_run)?.run_to_end(&cx, inputs).await;
    note(ended.as_ref().err().map(|failed| &failed.error));
    let ended =
        ended.inspect_err(|failed| CurrentStep::note_failure(|| Failure::from(&failed.error)));
    ended.map_err(|failed| match own_error::<E>(failed.original) {
        Some(own) => own,
        None => recorded_error(failed.error, &form()),
    })
}

/// Restores the typed error of a workflow that failed in an earlier process.
fn recorded_error<E: WorkflowError>(error: Error, form: &ErrorForm<Result<(), E>>) -> E {
    let (Error::Recorded(failure) | Error::Node { failure, .. }) = &error else {
        return E::of_run(error);
    };
    let Some(value) = &failure.value else { return E::of_run(error) };
    let mut own = Failure { value: None, ..Failure::clone(failure) };
    if let Ok(text) = value.decode::<String>() {
        own.message = text;
    }
    match (form.read)(Some(value), own.clone()) {
        Some(Err(error)) => error,
        _ => E::of_run(Error::Recorded(Arc::new(own))),
    }
}

/// Used when the pattern of an arm does not match the router's value. Never called, since nodes of
/// other arms do not run.
pub fn not_this_arm() -> ! {
    unreachable!("a node of an arm that was not taken has run")
}

/// Returns the `until` function of a repetition that is limited only by its number of rounds.
pub fn never<T>() -> impl Fn(&T) -> bool + Send + Sync + 'static {
    |_| false
}

/// Fixes the type of a handle to the declared type of a `let`.
pub fn of_type<T>(handle: Handle<T>) -> Handle<T> {
    handle
}
