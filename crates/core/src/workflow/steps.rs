//! `Steps`: the builder interface for `#[workflow]`. It has the workflow's error type, finds the
//! functions that each step calls, and keeps the written order. The builder does the rest.

#![allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]

use std::any::Any;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::bodies::{encode, inner_item_step, inner_step, load, until_of};
use super::builder::{Builder, Router};
use super::callee::{StepArgs, find_callees, tool_policy};
use super::decider::{NextNode, NodeDecision};
use super::node::{Branch, Node};
use super::node_handle::{Handle, RawHandle, Reads};
use super::node_schema::NodeSchema;
use super::policy::StopPolicy;
use super::run_limits::RunLimits;
use super::same_type::{Arms, Branches, MatchedOutput, PlainOutput, SameArm};
use super::spec::{Body, ItemStep, NodeKind, Pure, Step, StepFuture};
use super::step_error::{StepError, StepFailure};
use crate::error::FailureKind;
use crate::value::{Encoded, NodeValue};

/// A builder whose steps all have the error type of the workflow, so that the compiler checks this
/// type once and not for each step.
pub struct Steps<'b, E> {
    builder: &'b mut Builder,
    of: fn(E) -> StepError,
}

impl<E> fmt::Debug for Steps<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.builder.fmt(f)
    }
}

/// Ends of the arms that return, in order.
pub struct Returns<O>(Vec<Handle<O>>);

pub fn returns<O>() -> Returns<O> {
    Returns(Vec::new())
}

impl<O> Returns<O> {
    pub fn add<T: SameArm<O>>(&mut self, ended: Handle<T>) {
        self.0.push(T::same(ended));
    }
}

/// Handle of the join of the returns so far.
#[derive(Clone, Copy)]
pub struct Returned(RawHandle);

/// Wraps the future of a step, so that its output is encoded and its error converted.
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

/// Returns the result of a body that does not wait.
fn at_once(step: StepFuture) -> Result<Encoded, StepError> {
    // A body that waits for nothing is ready at the first poll.
    match pin!(step).poll(&mut std::task::Context::from_waker(Waker::noop())) {
        Poll::Ready(ended) => ended,
        Poll::Pending => Err(StepError::new(
            FailureKind::Value,
            "a value waits for something; write it as a step",
        )),
    }
}

impl<'b, E: 'static> Steps<'b, E> {
    pub(super) fn new(builder: &'b mut Builder, of: fn(E) -> StepError) -> Self {
        builder.keep_order();
        Self { builder, of }
    }

    pub fn describe(&mut self, description: &'static str) {
        self.builder.describe(description);
    }

    pub fn concurrency(&mut self, at_once: usize) {
        self.builder.concurrency(at_once);
    }

    /// Sets the limits of each run. `None` means no limit.
    pub fn limits(&mut self, max_llm_calls: Option<u32>, timeout_ms: Option<u64>) {
        self.builder.limits(RunLimits { max_llm_calls, timeout_ms });
    }

    pub fn stop_policy(&mut self, stop: StopPolicy) {
        self.builder.stop_policy(stop);
    }

    /// Adds a step.
    pub fn step<R, O, B, F>(&mut self, node: Node, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        O: NodeValue,
        B: Fn(StepArgs<R::Values>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        let node = node.calling(find_callees(&body));
        self.builder.push(
            node,
            NodeKind::Step,
            reads.handles(),
            Body::Step(made(self.of, reads, body)),
        )
    }

    /// Adds a step without `?`.
    pub fn step_plain<R, O, B, F>(&mut self, node: Node, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        O: PlainOutput,
        B: Fn(StepArgs<R::Values>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        self.step(node, reads, body)
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

    /// Adds no node. Values without a reader are passed here, so that the compiler checks them and
    /// reports its warnings.
    pub fn unread<R: Reads>(&self, _: R, _: impl FnOnce(R::Values)) {}

    /// Adds a step whose output a `match` or an `if` inspects.
    pub fn matched<R, O, B, F>(&mut self, node: Node, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        O: MatchedOutput,
        B: Fn(StepArgs<R::Values>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        self.step(node, reads, body)
    }

    /// Adds a condition that must hold. Nodes below begin only after it has passed.
    pub fn check<R, B, F>(&mut self, node: Node, reads: R, body: B) -> Handle<()>
    where
        R: Reads,
        B: Fn(StepArgs<R::Values>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        self.computed(NodeKind::Check, node.checking(), reads, body)
    }

    /// Adds the end of an arm that never has a value, such as `return Err(..)`. It acts as a check.
    pub fn never<R, O, B>(&mut self, node: Node, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        O: NodeValue,
        B: Fn(R::Values) -> Result<O, E> + Send + Sync + 'static,
    {
        self.value(node.checking(), reads, body)
    }

    /// Adds the end of an arm that never has a value and calls functions before. If it calls a
    /// `#[tool]`, it becomes a step with the policy of that tool.
    pub fn never_call<R, O, B, F>(&mut self, node: Node, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        O: NodeValue,
        B: Fn(StepArgs<R::Values>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        self.computed(NodeKind::Value, node.checking(), reads, body)
    }

    pub(super) fn computed<R, O, B, F>(
        &mut self,
        kind: NodeKind,
        node: Node,
        reads: R,
        body: B,
    ) -> Handle<O>
    where
        R: Reads,
        O: NodeValue,
        B: Fn(StepArgs<R::Values>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        let callees = find_callees(&body);
        let step = made(self.of, reads, body);
        let handles = reads.handles();
        // The policy of a tool applies to steps only, so a value that calls a tool becomes a step.
        if callees.iter().any(|callee| tool_policy(*callee).is_some()) {
            let node = node.calling(callees).under_its_tools();
            return self.builder.push(node, NodeKind::Step, handles, Body::Step(step));
        }
        let pure: Pure = Arc::new(move |outputs, cx| at_once(step(cx(), outputs)?));
        self.builder.push(node, kind, handles, Body::Pure(pure))
    }

    /// Adds a router whose arms are selected by name.
    pub fn route<R, B>(&mut self, node: Node, arms: &[&'static str], reads: R, pick: B) -> Router
    where
        R: Reads,
        B: Fn(R::Values) -> Result<&'static str, E> + Send + Sync + 'static,
    {
        let (of, names) = (self.of, arms.to_vec());
        self.builder.route(node, arms.iter().copied(), reads, move |values| {
            let chosen = pick(values).map_err(of)?;
            names.iter().position(|arm| *arm == chosen).ok_or_else(|| {
                StepError::new(
                    FailureKind::Value,
                    format!("the router chose `{chosen}`, which is not one of its arms"),
                )
            })
        })
    }

    pub fn arm<O>(
        &mut self,
        router: Router,
        arm: &'static str,
        nodes: impl FnOnce(&mut Steps<'_, E>) -> Handle<O>,
    ) -> Handle<O> {
        let of = self.of;
        let arm = self.builder.arm_named(router, arm);
        self.builder.arm(router, arm, |builder| nodes(&mut Steps { builder, of }))
    }

    pub fn join<O: NodeValue>(&mut self, router: Router, arms: Arms<O>) -> Handle<O> {
        self.builder.join(router, arms.0)
    }

    /// Adds the join of the returns so far. `router` has the arm of the last one.
    pub fn returned<O: NodeValue>(&mut self, router: Router, returns: &Returns<O>) -> Returned {
        Returned(self.builder.returned(router, &returns.0))
    }

    /// Adds nodes that run only if no return was reached before.
    pub fn unless<O>(
        &mut self,
        returned: Returned,
        nodes: impl FnOnce(&mut Steps<'_, E>) -> Handle<O>,
    ) -> Handle<O> {
        let of = self.of;
        self.builder.unless(returned.0, |builder| nodes(&mut Steps { builder, of }))
    }

    /// Adds a join: its output is the output of the return that was reached, or the output of
    /// `rest`.
    pub fn either<O: NodeValue>(&mut self, returns: &Returns<O>, rest: Handle<O>) -> Handle<O> {
        let ends: Vec<Handle<O>> = returns.0.iter().copied().chain([rest]).collect();
        self.builder.joined(super::names::RETURN.to_owned(), &ends)
    }

    /// Sets the function that is asked before each step.
    pub fn decider<X, B, F>(&mut self, ask: B)
    where
        X: StepFailure,
        B: Fn(NextNode) -> F + Send + Sync + 'static,
        F: Future<Output = Result<NodeDecision, X>> + Send + 'static,
    {
        self.builder.decider(move |_, next| ask(next));
    }

    pub fn approve(&mut self, node: Node) {
        self.builder.approve(node);
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
        B: Fn(StepArgs<R::Values>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        let callees = find_callees(&body);
        Branch::made(name, reads.handles(), made(self.of, reads, body)).calling(callees)
    }

    /// Creates a branch of several steps.
    pub fn branch_body<R, O>(
        &mut self,
        name: &'static str,
        reads: R,
        nodes: impl FnOnce(&mut Steps<'_, E>, R) -> Handle<O>,
    ) -> Branch<O>
    where
        R: Reads,
        O: NodeValue,
    {
        let of = self.of;
        let inner = self
            .builder
            .inner(name, None, reads, |builder, _, reads| nodes(&mut Steps { builder, of }, reads));
        let step = match &inner {
            Some(inner) => inner_step(inner, reads.handles()),
            None => unbuilt(),
        };
        Branch::made(name, reads.handles(), step).consisting_of(inner)
    }

    pub fn race<O: NodeValue>(&mut self, node: Node, branches: Branches<O>) -> Handle<O> {
        self.builder.race(node, branches.0)
    }

    pub fn fallback<O: NodeValue>(&mut self, node: Node, branches: Branches<O>) -> Handle<O> {
        self.builder.fallback(node, branches.0)
    }

    /// Returns the list of a map: the handle itself if its output is a `Vec`, otherwise a new node
    /// that collects the items.
    pub fn items<T>(&mut self, node: Node, from: Handle<T>) -> Handle<Vec<T::Item>>
    where
        T: IntoIterator + NodeValue,
        T::Item: NodeValue,
        Vec<T::Item>: NodeValue,
    {
        // Test at run time if `T` is `Vec<T::Item>`. No node is needed then.
        let any: &dyn Any = &from;
        match any.downcast_ref::<Handle<Vec<T::Item>>>() {
            Some(already) => *already,
            None => self.value(node, (from,), |(all,)| Ok(all.into_iter().collect())),
        }
    }

    pub fn map<I, R, O, B, F>(
        &mut self,
        node: Node,
        items: Handle<Vec<I>>,
        reads: R,
        body: B,
    ) -> Handle<Vec<O>>
    where
        I: NodeValue,
        R: Reads,
        O: NodeValue,
        Vec<O>: NodeValue,
        B: Fn(StepArgs<(I, R::Values)>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        let node = node.calling(find_callees(&body));
        let step = make_item_step(self.of, reads, "an item of the list", body);
        self.builder.each(node, NodeKind::Map, items.raw(), reads.handles(), step)
    }

    /// Adds a map of several steps for each item.
    pub fn map_body<I, R, O>(
        &mut self,
        node: Node,
        items: Handle<Vec<I>>,
        reads: R,
        nodes: impl FnOnce(&mut Steps<'_, E>, Handle<I>, R) -> Handle<O>,
    ) -> Handle<Vec<O>>
    where
        I: NodeValue,
        R: Reads,
        O: NodeValue,
        Vec<O>: NodeValue,
    {
        let (node, step) = self.of_items("item", node, reads, nodes);
        self.builder.each(node, NodeKind::Map, items.raw(), reads.handles(), step)
    }

    /// Adds steps that run for each item, one item after another.
    pub fn for_each<I, R>(
        &mut self,
        node: Node,
        items: Handle<Vec<I>>,
        reads: R,
        nodes: impl FnOnce(&mut Steps<'_, E>, Handle<I>, R) -> Handle<()>,
    ) -> Handle<()>
    where
        I: NodeValue,
        R: Reads,
    {
        let (node, step) = self.of_items("item", node, reads, nodes);
        self.builder.each(node, NodeKind::Each, items.raw(), reads.handles(), step)
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
        B: Fn(StepArgs<(T, R::Values)>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let node = node.calling(find_callees(&body));
        let step = make_item_step(self.of, reads, "the last output", body);
        self.builder.repeated(node, first, reads.handles(), (max, until_of(until)), step)
    }

    /// Adds a repetition of several steps in each round.
    pub fn repeat_body<R, T>(
        &mut self,
        node: Node,
        first: Handle<T>,
        reads: R,
        (max, until): (u32, impl Fn(&T) -> bool + Send + Sync + 'static),
        nodes: impl FnOnce(&mut Steps<'_, E>, Handle<T>, R) -> Handle<T>,
    ) -> Handle<T>
    where
        R: Reads,
        T: NodeValue,
    {
        let (node, step) = self.of_items("last", node, reads, nodes);
        self.builder.repeated(node, first, reads.handles(), (max, until_of(until)), step)
    }

    /// Builds the nested workflow of each item or round of a node.
    fn of_items<I, R, O>(
        &mut self,
        item: &'static str,
        node: Node,
        reads: R,
        nodes: impl FnOnce(&mut Steps<'_, E>, Handle<I>, R) -> Handle<O>,
    ) -> (Node, ItemStep)
    where
        I: NodeValue,
        R: Reads,
        O: NodeValue,
    {
        let of = self.of;
        let described = (item, (std::any::type_name::<I>().into(), NodeSchema::for_type::<I>()));
        let inner =
            self.builder.inner(node.name(), Some(described), reads, |builder, item, reads| {
                // The item is described above, so it is always present.
                let item = Handle::from_raw(item.unwrap_or(RawHandle::nowhere()));
                nodes(&mut Steps { builder, of }, item, reads)
            });
        let step = match &inner {
            Some(inner) => inner_item_step(inner, reads.handles()),
            None => placeholder_item_step(),
        };
        (node.consisting_of(inner), step)
    }
}

fn made<R, O, E, B, F>(of: fn(E) -> StepError, reads: R, body: B) -> Step
where
    R: Reads,
    O: NodeValue,
    E: 'static,
    B: Fn(StepArgs<R::Values>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<O, E>> + Send + 'static,
{
    Arc::new(move |cx, outputs| Ok(ended(body(StepArgs::run(cx, load(&reads, outputs)?)), of)))
}

fn make_item_step<I, R, O, E, B, F>(
    of: fn(E) -> StepError,
    reads: R,
    what: &'static str,
    body: B,
) -> ItemStep
where
    I: NodeValue,
    R: Reads,
    O: NodeValue,
    E: 'static,
    B: Fn(StepArgs<(I, R::Values)>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<O, E>> + Send + 'static,
{
    Arc::new(move |cx, item, outputs| {
        let item = I::decode(item).map_err(|error| StepError::value(what, &error))?;
        Ok(ended(body(StepArgs::run(cx, (item, load(&reads, outputs)?))), of))
    })
}

/// Returns the step of a body that has a problem. The workflow is not built, so the step never
/// runs.
fn unbuilt() -> Step {
    Arc::new(|_, _| Err(StepError::new(FailureKind::Build, "the body of this node has a problem")))
}

fn placeholder_item_step() -> ItemStep {
    Arc::new(|_, _, _| {
        Err(StepError::new(FailureKind::Build, "the body of this node has a problem"))
    })
}
