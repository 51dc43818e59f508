//! The functions that `#[workflow]` calls besides the public builder: steps whose function is known, arms and branches
//! of one type, the call of a workflow's function. They are named through `__private` only.
//!
//! It decides nothing that the builder does not: it looks up which function a step calls, turns the workflow's error
//! type into a recorded one, and improves the compiler's messages.

#![allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::builder::{Branch, Builder, Node, Router, encode, load};
use super::callee::{StepArgs, ask_callee};
use super::inputs::Inputs;
use super::node_handle::{Handle, Reads};
use super::policy::StopPolicy;
use super::same_type::{Arms, Branches};
use super::spec::{Spec, Step, StepFuture};
use super::step_error::{StepError, StepFailure};
use super::{Workflow, own_error};
use crate::context::Context;
use crate::error::{Error, Failure};
use crate::linked;
use crate::tool::StepPlace;
use crate::tuples::all_the_tuples;
use crate::value::NodeValue;

/// The return type of a workflow's function; an alias of `Result` is one too.
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

/// The two types of a workflow's `Result`, by the name of its function.
pub trait WorkflowTypes {
    type Ok;
    type Error;
}

/// The same with what its two types must be, which is asked for in one place.
pub trait RecordedReturn: WorkflowReturn<Ok: NodeValue, Error: WorkflowError> {}

impl<T: NodeValue, E: WorkflowError> RecordedReturn for Result<T, E> {}

/// The error type of a workflow.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a workflow",
    label = "a run can fail by itself, and `{Self}` cannot hold that",
    note = "implement `From<agentflow::Error>` and `std::fmt::Display` for `{Self}`, or return `agentflow::Result<_>`"
)]
pub trait WorkflowError: From<Error> + StepFailure {}

#[diagnostic::do_not_recommend]
impl<E: From<Error> + StepFailure> WorkflowError for E {}

/// The first parameter of a workflow when it is a reference.
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

/// The output of a step without `?`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel between the nodes of a workflow",
    label = "if this is a `Result`, add `?` after `.await`",
    note = "else derive `serde::Serialize`, `serde::Deserialize` and `schemars::JsonSchema` for `{Self}`; it must own \
            its data and be `Send`"
)]
pub trait PlainOutput: NodeValue {}

#[diagnostic::do_not_recommend]
impl<T: NodeValue> PlainOutput for T {}

/// A `#[workflow]` of the program. Several may have one name; `linked` reports that.
#[derive(Clone, Copy)]
pub struct LinkedWorkflow {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    pub(crate) line: u32,
    /// The graph; made when it is first asked for.
    pub(crate) spec: fn() -> Arc<Spec>,
}

impl LinkedWorkflow {
    pub const fn new(name: &'static str, (file, line): (&'static str, u32), GraphOf(spec): GraphOf) -> Self {
        Self { name, file, line, spec }
    }
}

/// The workflows that are linked into the program, by name.
pub(crate) fn linked() -> Result<BTreeMap<&'static str, LinkedWorkflow>, Error> {
    let place = |linked: &LinkedWorkflow| (linked.name, linked.file, linked.line);
    linked::by_name(place, |linked| linked.name).map_err(|(first, second)| {
        let problem = format!(
            "two workflows have this name: at {}:{} and at {}:{}; rename one or give it `#[workflow(name = \"..\")]`",
            first.file, first.line, second.file, second.line
        );
        Error::Build { what: "workflow", name: first.name.into(), problem }
    })
}

/// Makes the graph of a workflow.
pub struct GraphOf(fn() -> Arc<Spec>);

impl fmt::Debug for LinkedWorkflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkedWorkflow")
            .field("name", &self.name)
            .field("file", &self.file)
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

type Output<R> = <R as WorkflowReturn>::Ok;
type Fails<R> = <R as WorkflowReturn>::Error;

/// The traits of workflows, one for each number of inputs, so that a type that cannot be recorded is reported once and
/// at its place: the bounds of the associated types are judged where the expansion gives them.
macro_rules! workflow_fn {
    ($WorkflowFn:ident $count:literal $($T:ident $at:tt)*) => {
        pub trait $WorkflowFn: Sized + 'static {
            $(type $T: NodeValue;)*
            type Return: RecordedReturn;

            const NAME: &'static str;
            const INPUTS: [&'static str; $count];

            fn cell() -> &'static OnceLock<Workflow<($(Self::$T,)*), Output<Self::Return>>>;

            fn nodes(steps: &mut Steps<'_, Fails<Self::Return>>, inputs: ($(Handle<Self::$T>,)*)) -> Handle<Output<Self::Return>>;

            /// The workflow, built when it is first asked for.
            fn workflow() -> Workflow<($(Self::$T,)*), Output<Self::Return>> {
                let build = || {
                    let nodes = |builder: &mut Builder, inputs: ($(Handle<Self::$T>,)*)| {
                        Self::nodes(&mut Steps { builder, of: StepError::of::<Fails<Self::Return>> }, inputs)
                    };
                    match Workflow::build(Self::NAME, Self::INPUTS, nodes) {
                        Ok(workflow) => workflow,
                        // The macro has checked all that the builder checks.
                        Err(error) => panic!("{error}"),
                    }
                };
                Self::cell().get_or_init(build).clone()
            }

            fn run(
                cx: Option<&Context>,
                inputs: ($(Self::$T,)*),
            ) -> impl Future<Output = Result<Output<Self::Return>, Fails<Self::Return>>> + Send {
                run(Self::workflow(), cx, inputs)
            }

            const GRAPH: GraphOf = GraphOf(|| Arc::clone(Self::workflow().spec()));
        }
    };
}

all_the_tuples!(workflow_fn, [
    WorkflowFn0 WorkflowFn1 WorkflowFn2 WorkflowFn3 WorkflowFn4 WorkflowFn5 WorkflowFn6 WorkflowFn7 WorkflowFn8 WorkflowFn9
    WorkflowFn10 WorkflowFn11 WorkflowFn12
]);

/// Runs a workflow for a call of its function: in the run that `cx` belongs to, or as a run of its own.
async fn run<In: Inputs, Out: NodeValue, E: WorkflowError>(
    workflow: Workflow<In, Out>,
    cx: Option<&Context>,
    inputs: In,
) -> Result<Out, E> {
    let cx = cx.cloned().or_else(StepPlace::context).unwrap_or_else(Context::detached);
    let ended = workflow.run_to_end(&cx, inputs).await;
    let ended = ended.inspect_err(|failed| StepPlace::note_failure(|| Failure::from(&failed.error)));
    ended.map_err(|failed| match own_error::<E>(failed.original) {
        Some(own) => own,
        None => E::from(failed.error),
    })
}

/// A step's future with its end as it is recorded.
fn ended<O, E, F>(step: F, of: fn(E) -> StepError) -> StepFuture
where
    O: NodeValue,
    E: 'static,
    F: Future<Output = Result<O, E>> + Send + 'static,
{
    Box::pin(async move {
        match step.await {
            Ok(output) => encode(&output),
            Err(error) => Err(of(error)),
        }
    })
}

/// A builder whose steps all have the error type of the workflow, so that it is judged once and not at each step.
pub struct Steps<'b, E> {
    builder: &'b mut Builder,
    of: fn(E) -> StepError,
}

impl<E> fmt::Debug for Steps<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.builder.fmt(f)
    }
}

impl<E: 'static> Steps<'_, E> {
    pub fn describe(&mut self, description: &'static str) {
        self.builder.describe(description);
    }

    pub fn concurrency(&mut self, at_once: usize) {
        self.builder.concurrency(at_once);
    }

    pub fn stop_policy(&mut self, stop: StopPolicy) {
        self.builder.stop_policy(stop);
    }

    /// A step that is an expression of any form.
    pub fn step<R, O, B, F>(&mut self, node: Node, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        O: NodeValue,
        B: Fn(Context, R::Values) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        let of = self.of;
        let step: Step = Arc::new(move |cx, outputs| Ok(ended(body(cx, load(&reads, outputs)?), of)));
        self.builder.made(node, reads.handles(), step)
    }

    /// A step that is a call of a function.
    pub fn call<R, O, B, F>(&mut self, node: Node, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        O: NodeValue,
        B: Fn(StepArgs<R::Values>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        let node = node.calling(ask_callee(&body));
        let of = self.of;
        let step: Step = Arc::new(move |cx, outputs| Ok(ended(body(StepArgs::run(cx, load(&reads, outputs)?)), of)));
        self.builder.made(node, reads.handles(), step)
    }

    /// A step without `?`.
    pub fn step_plain<R, O, B, F>(&mut self, node: Node, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        O: PlainOutput,
        B: Fn(Context, R::Values) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        self.step(node, reads, body)
    }

    /// A call without `?`.
    pub fn call_plain<R, O, B, F>(&mut self, node: Node, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        O: PlainOutput,
        B: Fn(StepArgs<R::Values>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        self.call(node, reads, body)
    }

    pub fn value<R, O, B>(&mut self, node: Node, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        O: NodeValue,
        B: Fn(R::Values) -> Result<O, E> + Send + Sync + 'static,
    {
        let of = self.of;
        self.builder.value(node, reads, move |values| body(values).map_err(of))
    }

    pub fn route<R, B, const N: usize>(&mut self, node: Node, arms: [&'static str; N], reads: R, pick: B) -> Router
    where
        R: Reads,
        B: Fn(R::Values) -> Result<usize, E> + Send + Sync + 'static,
    {
        let of = self.of;
        self.builder.route(node, arms, reads, move |values| pick(values).map_err(of))
    }

    pub fn arm<O>(
        &mut self,
        router: Router,
        arm: usize,
        nodes: impl FnOnce(&mut Steps<'_, E>) -> Handle<O>,
    ) -> Handle<O> {
        let of = self.of;
        self.builder.arm(router, arm, |builder| nodes(&mut Steps { builder, of }))
    }

    pub fn join<O: NodeValue>(&mut self, router: Router, arms: Arms<O>) -> Handle<O> {
        self.builder.join(router, arms.0)
    }

    pub fn gate<R, P, A, B>(&mut self, node: Node, reads: R, ask: B) -> Handle<A>
    where
        R: Reads,
        P: NodeValue,
        A: NodeValue,
        B: Fn(R::Values) -> Result<(String, P), E> + Send + Sync + 'static,
    {
        let of = self.of;
        self.builder.gate(node, reads, move |values| ask(values).map_err(of))
    }

    pub fn branch<R, O, B, F>(&mut self, name: &'static str, reads: R, body: B) -> Branch<O>
    where
        R: Reads,
        O: NodeValue,
        B: Fn(Context, R::Values) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        let of = self.of;
        Branch::new(name, reads, move |cx, values| {
            let step = body(cx, values);
            async move { step.await.map_err(of) }
        })
    }

    pub fn branch_call<R, O, B, F>(&mut self, name: &'static str, reads: R, body: B) -> Branch<O>
    where
        R: Reads,
        O: NodeValue,
        B: Fn(StepArgs<R::Values>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        let callee = ask_callee(&body);
        self.branch(name, reads, move |cx, values| body(StepArgs::run(cx, values))).calling(callee)
    }

    pub fn race<O: NodeValue>(&mut self, node: Node, branches: Branches<O>) -> Handle<O> {
        self.builder.race(node, branches.0)
    }

    pub fn fallback<O: NodeValue>(&mut self, node: Node, branches: Branches<O>) -> Handle<O> {
        self.builder.fallback(node, branches.0)
    }

    /// The list of a map: the handle itself when its output is a `Vec`, else a node that makes one of it.
    pub fn items<T>(&mut self, node: Node, from: Handle<T>) -> Handle<Vec<T::Item>>
    where
        T: IntoIterator + NodeValue,
        T::Item: NodeValue,
        Vec<T::Item>: NodeValue,
    {
        let any: &dyn Any = &from;
        match any.downcast_ref::<Handle<Vec<T::Item>>>() {
            Some(already) => *already,
            None => self.value(node, (from,), |(all,)| Ok(all.into_iter().collect())),
        }
    }

    pub fn map<I, R, O, B, F>(&mut self, node: Node, items: Handle<Vec<I>>, reads: R, body: B) -> Handle<Vec<O>>
    where
        I: NodeValue,
        R: Reads,
        O: NodeValue,
        Vec<O>: NodeValue,
        B: Fn(Context, I, R::Values) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        let of = self.of;
        self.builder.map(node, items, reads, move |cx, item, values| {
            let step = body(cx, item, values);
            async move { step.await.map_err(of) }
        })
    }

    pub fn map_call<I, R, O, B, F>(&mut self, node: Node, items: Handle<Vec<I>>, reads: R, body: B) -> Handle<Vec<O>>
    where
        I: NodeValue,
        R: Reads,
        O: NodeValue,
        Vec<O>: NodeValue,
        B: Fn(StepArgs<(I, R::Values)>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        let node = node.calling(ask_callee(&body));
        self.map(node, items, reads, move |cx, item, values| body(StepArgs::run(cx, (item, values))))
    }

    pub fn repeat<R, T, B, F>(
        &mut self,
        node: Node,
        first: Handle<T>,
        reads: R,
        (max, until): (u32, impl Fn(&T) -> bool + Send + Sync + 'static),
        body: B,
    ) -> Handle<T>
    where
        R: Reads,
        T: NodeValue,
        B: Fn(Context, T, R::Values) -> F + Send + Sync + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let of = self.of;
        self.builder.repeat(node, first, reads, max, until, move |cx, last, values| {
            let step = body(cx, last, values);
            async move { step.await.map_err(of) }
        })
    }

    pub fn repeat_call<R, T, B, F>(
        &mut self,
        node: Node,
        first: Handle<T>,
        reads: R,
        until: (u32, impl Fn(&T) -> bool + Send + Sync + 'static),
        body: B,
    ) -> Handle<T>
    where
        R: Reads,
        T: NodeValue,
        B: Fn(StepArgs<(T, R::Values)>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let node = node.calling(ask_callee(&body));
        self.repeat(node, first, reads, until, move |cx, last, values| body(StepArgs::run(cx, (last, values))))
    }
}

/// Stands where the pattern of an arm does not match the router's value: a node of another arm does not run.
pub fn not_this_arm() -> ! {
    unreachable!("a node of an arm that was not taken has run")
}

/// A repetition that ends by its number alone.
pub fn never<T>() -> impl Fn(&T) -> bool + Send + Sync + 'static {
    |_| false
}

/// A handle of the type that a `let` gives.
pub fn of_type<T>(handle: Handle<T>) -> Handle<T> {
    handle
}
