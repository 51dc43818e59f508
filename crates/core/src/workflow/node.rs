//! `Node` and `Branch`: what is said of a node beside its body, and the branches of a race or a fallback. Neither checks
//! anything: the builder does.

use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::bodies::step_of;
use super::entry::Begins;
use super::node_edge::NodeEdge;
use super::node_handle::{Handle, RawHandle, Reads};
use super::order::LooksAt;
use super::policy::{NodePolicy, OnError};
use super::spec::{Spec, Step};
use super::step_error::StepFailure;
use crate::context::Context;
use crate::on_timeout::OnTimeout;
use crate::value::NodeValue;

/// What is said of a node beside its body: its name, its place in the source, its policy. A name alone turns into one.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Node {
    pub(super) name: String,
    pub(super) call: &'static str,
    pub(super) line: u32,
    pub(super) policy: NodePolicy,
    pub(super) after: Vec<RawHandle>,
    pub(super) edges: Vec<NodeEdge>,
    pub(super) begins: Begins,
    pub(super) ends: bool,
    /// The types of the functions that its step calls.
    pub(super) callees: Vec<TypeId>,
    /// Its step is nothing but the call of the first of them.
    pub(super) direct: bool,
    /// The policies of all tools among them are its own.
    pub(super) under_its_tools: bool,
    /// The call as it is written, for the question before it.
    pub(super) text: &'static str,
    /// The fingerprint of the source text of what it does.
    pub(super) code: u64,
    pub(super) writes: bool,
    pub(super) unordered: bool,
    /// The steps above that must have ended before it begins, besides those whose values it reads.
    pub(super) looks: LooksAt,
    /// Nothing below it begins before it has passed.
    pub(super) checks: bool,
    /// What its items or rounds consist of, when that is more than one step.
    pub(super) inner: Option<Arc<Spec>>,
}

impl Node {
    /// A node of a name, which is its identity: a run is resumed by it after a crash.
    ///
    /// A name is a part of paths such as `notes[3]` or `judge/model#2`: no part between slashes may be empty, contain
    /// `[`, `]`, `%`, quotes or `\\`, or begin with `model#`, `tool#`, `call#` or `attempt#`. What a node runs is
    /// recorded below its name, so `a/b` cannot stand beside a node `a`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// What the node calls, for drawings.
    pub fn calls(mut self, call: &'static str) -> Self {
        self.call = call;
        self
    }

    /// Its step calls functions of these types, so that what they say of themselves counts.
    pub(super) fn calling(mut self, callees: Vec<TypeId>) -> Self {
        self.callees = callees;
        self
    }

    /// Its items or rounds consist of more than one step.
    pub(super) fn consisting_of(mut self, inner: Option<Arc<Spec>>) -> Self {
        self.inner = inner;
        self
    }

    /// Its step is nothing but the call of the first function that it calls.
    #[doc(hidden)]
    pub fn direct(mut self) -> Self {
        self.direct = true;
        self
    }

    /// It holds back all that is written below it until it has passed.
    #[doc(hidden)]
    pub fn checking(mut self) -> Self {
        self.checks = true;
        self
    }

    /// Makes it wait for all steps above, since it may depend on data that changes while the workflow runs.
    #[doc(hidden)]
    pub fn at_its_place(mut self) -> Self {
        self.looks = LooksAt::Everything;
        self
    }

    /// Makes it wait for the steps above that may have effects, since it may depend on them.
    #[doc(hidden)]
    pub fn after_effects(mut self) -> Self {
        self.looks = LooksAt::Effects;
        self
    }

    /// Calls [`at_its_place`](Self::at_its_place) if one of its methods is not of the standard library.
    #[doc(hidden)]
    pub fn at_its_place_unless<const N: usize>(self, are_standard: [bool; N]) -> Self {
        if are_standard.contains(&false) { self.at_its_place() } else { self }
    }

    /// Calls [`after_effects`](Self::after_effects) if one of its methods is not of the standard library.
    #[doc(hidden)]
    pub fn after_effects_unless<const N: usize>(self, are_standard: [bool; N]) -> Self {
        if are_standard.contains(&false) { self.after_effects() } else { self }
    }

    /// Its policy is that of all tools that it calls.
    pub(super) fn under_its_tools(mut self) -> Self {
        self.under_its_tools = true;
        self
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The call as it is written, for the question of a tool that needs an approval.
    #[doc(hidden)]
    pub fn text(mut self, text: &'static str) -> Self {
        self.text = text;
        self
    }

    /// The fingerprint of the source text of what it does; it is part of the definition hash.
    #[doc(hidden)]
    pub fn code(mut self, code: u64) -> Self {
        self.code = code;
        self
    }

    /// Its step changes something outside of the run. In a `#[workflow]`, nodes that write keep their written order. A
    /// run is not resumed with a changed definition in which a node of this kind that has begun is gone or is another
    /// one.
    pub fn write(mut self) -> Self {
        self.writes = true;
        self
    }

    /// In a `#[workflow]`: it does not wait for nodes above it that write, nor do nodes below it that write wait for it.
    /// It still waits for gates and checks.
    pub fn unordered(mut self) -> Self {
        self.unordered = true;
        self
    }

    /// The line of the source that the node is written on.
    pub fn line(mut self, line: u32) -> Self {
        self.line = line;
        self
    }

    /// What is done when it fails, takes long, or needs a person's word.
    pub fn policy(mut self, policy: NodePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Begins only when this node has ended, without reading its output. It may have failed or been skipped.
    pub fn after<T>(mut self, handle: Handle<T>) -> Self {
        self.after.push(handle.raw());
        self
    }

    /// Adds an edge that leads to it: it begins when enough of its edges are taken, and is skipped when they can no longer
    /// be. A node in an arm of a router has the edge of the arm, and no others.
    pub fn edge(mut self, edge: NodeEdge) -> Self {
        self.edges.push(edge);
        self
    }

    /// Says how many of its edges must be taken. Default: all of them.
    pub fn begins(mut self, begins: Begins) -> Self {
        self.begins = begins;
        self
    }

    /// Ends the workflow with its output, which must be of the type of the workflow's, and stops all else.
    pub fn ends(mut self) -> Self {
        self.ends = true;
        self
    }

    /// Bounds each attempt; of a gate, the waiting.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.policy = self.policy.timeout(timeout);
        self
    }

    /// Tries again so many times after a failed first attempt.
    pub fn retry(mut self, retries: u32) -> Self {
        self.policy = self.policy.retry(retries);
        self
    }

    /// Sets what a failure means for the run.
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.policy = self.policy.on_error(on_error);
        self
    }

    /// Asks a person before it begins, with the values that it reads.
    pub fn approve(mut self, question: impl Into<String>) -> Self {
        self.policy = self.policy.approve(question);
        self
    }

    /// Bounds how long the answer to the question before the node is waited for. [`timeout`](Self::timeout) bounds the
    /// attempts that follow.
    pub fn approve_timeout(mut self, timeout: Duration) -> Self {
        self.policy = self.policy.approve_timeout(timeout);
        self
    }

    /// Sets what happens when nobody has answered in time: the question before the node, or that of a gate.
    pub fn on_timeout(mut self, on_timeout: OnTimeout) -> Self {
        self.policy = self.policy.on_timeout(on_timeout);
        self
    }

    /// Bounds how many items of a map, or branches of a race, run at once.
    pub fn concurrency(mut self, at_once: u32) -> Self {
        self.policy = self.policy.concurrency(at_once);
        self
    }

    /// Says whether it may be run again when its process ended in the middle of it.
    pub fn repeatable(mut self, repeatable: bool) -> Self {
        self.policy = self.policy.repeatable(repeatable);
        self
    }

    /// Says that it observes: it sees the [state](crate::state), and a change of the state in it, or in what it calls, is an
    /// error.
    pub fn tap(mut self) -> Self {
        self.policy = self.policy.tap();
        self
    }
}

impl<T: Into<String>> From<T> for Node {
    fn from(name: T) -> Self {
        Self::new(name)
    }
}

/// A branch of a race or a fallback.
#[must_use]
pub struct Branch<O> {
    pub(super) name: String,
    pub(super) reads: Vec<RawHandle>,
    pub(super) step: Step,
    pub(super) callees: Vec<TypeId>,
    /// What it consists of, when that is more than one step.
    pub(super) inner: Option<Arc<Spec>>,
    output: PhantomData<fn() -> O>,
}

impl<O: NodeValue> Branch<O> {
    /// A branch of a name, with what it reads and its step. The name is as a [node's](Node::new), without `/`; a second
    /// branch of the same name is recorded as `NAME[1]`.
    pub fn new<R, E, B, F>(name: impl Into<String>, reads: R, body: B) -> Self
    where
        R: Reads<Values: Send>,
        B: Fn(Context, R::Values) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
        E: StepFailure,
    {
        Self::made(name, reads.handles(), step_of(reads, body))
    }
}

impl<O> Branch<O> {
    /// A branch whose step is made already.
    pub(super) fn made(name: impl Into<String>, reads: Vec<RawHandle>, step: Step) -> Self {
        Self { name: name.into(), reads, step, callees: Vec::new(), inner: None, output: PhantomData }
    }

    /// Its step calls functions of these types.
    pub(super) fn calling(mut self, callees: Vec<TypeId>) -> Self {
        self.callees = callees;
        self
    }

    /// It consists of more than one step.
    pub(super) fn consisting_of(mut self, inner: Option<Arc<Spec>>) -> Self {
        self.inner = inner;
        self
    }
}

impl<O> std::fmt::Debug for Branch<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Branch").field("name", &self.name).finish_non_exhaustive()
    }
}
