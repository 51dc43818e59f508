//! `Node` and `Branch`: the settings of a node besides its body, and the branches of a race or a
//! fallback. The builder checks them.

use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::bodies::step_of;
use super::entry::Begins;
use super::node_edge::NodeEdge;
use super::node_handle::{Handle, RawHandle, Reads};
use super::order::RequiredSteps;
use super::policy::{NodePolicy, OnError};
use super::spec::{Spec, Step};
use super::step_error::StepFailure;
use crate::context::Context;
use crate::on_timeout::OnTimeout;
use crate::value::NodeValue;

/// Settings of a node besides its body: name, source line, edges and policy. A name converts into a
/// `Node` with default settings.
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::Workflow;
/// use agentflow::workflow::{Handle, Node};
///
/// let doubled = Workflow::<(i64,), i64>::build("doubled", ["n"], |b, (n,): (Handle<i64>,)| {
///     let node = Node::new("twice").timeout(Duration::from_secs(5)).retry(2);
///     b.node(node, (n,), |_cx, (n,)| async move { Ok::<_, agentflow::Error>(2 * n) })
/// });
/// assert!(doubled.is_ok());
/// ```
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
    /// Types of the functions that its step calls.
    pub(super) callees: Vec<TypeId>,
    /// `true` if its step consists of the call of the first of these functions.
    pub(super) direct: bool,
    /// `true` if the policies of all tools among these functions apply to the node.
    pub(super) under_its_tools: bool,
    /// Source text of the call, for its approval question.
    pub(super) text: &'static str,
    /// Fingerprint of the source text of the node's code.
    pub(super) code: u64,
    pub(super) writes: bool,
    pub(super) unordered: bool,
    /// Steps above that must end before it begins, in addition to those whose outputs it reads.
    pub(super) looks: RequiredSteps,
    /// `true` if nodes below it begin only after it has passed.
    pub(super) checks: bool,
    /// Workflow of its items or rounds, if that is more than one step.
    pub(super) inner: Option<Arc<Spec>>,
}

impl Node {
    /// Creates a node. The name identifies the node when a run is resumed after a crash.
    ///
    /// The name is part of paths such as `notes[3]` or `judge/model#2`. No part between slashes may
    /// be empty, contain `[`, `]`, `%`, double quotes, `\\` or control characters, or begin with
    /// `model#`, `tool#`, `call#`, `attempt#`, `undo#` or `ask#`. Steps of a node are recorded below
    /// its name, so a workflow cannot have both a node `a` and a node `a/b`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Sets the text of the call, for drawings.
    pub fn calls(mut self, call: &'static str) -> Self {
        self.call = call;
        self
    }

    /// Sets the functions that its step calls, so that their declared effects and policies apply.
    pub(super) fn calling(mut self, callees: Vec<TypeId>) -> Self {
        self.callees = callees;
        self
    }

    /// Sets the workflow of its items or rounds.
    pub(super) fn consisting_of(mut self, inner: Option<Arc<Spec>>) -> Self {
        self.inner = inner;
        self
    }

    /// Declares that its step consists of the call of the first function that it calls.
    #[doc(hidden)]
    pub fn direct(mut self) -> Self {
        self.direct = true;
        self
    }

    /// Declares that all nodes below begin only after this one has passed.
    #[doc(hidden)]
    pub fn checking(mut self) -> Self {
        self.checks = true;
        self
    }

    /// Makes it wait for all steps above, because it may depend on data that changes while the
    /// workflow runs.
    #[doc(hidden)]
    pub fn at_its_place(mut self) -> Self {
        self.looks = RequiredSteps::Everything;
        self
    }

    /// Makes it wait for the steps above that may have effects, because it may depend on these
    /// effects.
    #[doc(hidden)]
    pub fn after_effects(mut self) -> Self {
        self.looks = RequiredSteps::Effects;
        self
    }

    /// Calls [`at_its_place`](Self::at_its_place) if one of its methods is not from the standard
    /// library.
    #[doc(hidden)]
    pub fn at_its_place_unless<const N: usize>(self, are_standard: [bool; N]) -> Self {
        if are_standard.contains(&false) { self.at_its_place() } else { self }
    }

    /// Calls [`after_effects`](Self::after_effects) if one of its methods is not from the standard
    /// library.
    #[doc(hidden)]
    pub fn after_effects_unless<const N: usize>(self, are_standard: [bool; N]) -> Self {
        if are_standard.contains(&false) { self.after_effects() } else { self }
    }

    /// Applies the policies of all tools that it calls to the node.
    pub(super) fn under_its_tools(mut self) -> Self {
        self.under_its_tools = true;
        self
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Sets the source text of the call, for the question of a tool that needs an approval.
    #[doc(hidden)]
    pub fn text(mut self, text: &'static str) -> Self {
        self.text = text;
        self
    }

    /// Sets the fingerprint of the source text of the node's code. It is part of the definition
    /// hash.
    #[doc(hidden)]
    pub fn code(mut self, code: u64) -> Self {
        self.code = code;
        self
    }

    /// Declares that the step changes something outside of the run. In a `#[workflow]`, nodes that
    /// write keep their written order. If a node that writes has begun, the run is not resumed with
    /// a changed definition in which that node is missing or different.
    pub fn write(mut self) -> Self {
        self.writes = true;
        self
    }

    /// Exempts the node from the order of writes in a `#[workflow]`. It does not wait for nodes
    /// above that write, and nodes below that write do not wait for it. It still waits for gates
    /// and checks.
    pub fn unordered(mut self) -> Self {
        self.unordered = true;
        self
    }

    /// Sets the source line of the node.
    pub fn line(mut self, line: u32) -> Self {
        self.line = line;
        self
    }

    /// Sets the policy: retries, time-outs, approval and the effect of a failure.
    pub fn policy(mut self, policy: NodePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Makes the node wait until another node has ended, without reading its output. The other node
    /// may have failed or been skipped.
    pub fn after<T>(mut self, handle: Handle<T>) -> Self {
        self.after.push(handle.raw());
        self
    }

    /// Adds an edge that leads to the node. The node begins when enough of its edges are taken, and
    /// is skipped when enough can no longer be taken. A node in an arm of a router has the edge of
    /// that arm and cannot have others.
    pub fn edge(mut self, edge: NodeEdge) -> Self {
        self.edges.push(edge);
        self
    }

    /// Sets the number of edges that must be taken. Default: all.
    pub fn begins(mut self, begins: Begins) -> Self {
        self.begins = begins;
        self
    }

    /// Ends the workflow with this node's output, and stops all other nodes. The output must have
    /// the type of the workflow's output.
    pub fn ends(mut self) -> Self {
        self.ends = true;
        self
    }

    /// Limits the duration of each attempt. For a gate, limits the wait for the answer.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.policy = self.policy.timeout(timeout);
        self
    }

    /// Sets the number of attempts after a failed first attempt.
    pub fn retry(mut self, retries: u32) -> Self {
        self.policy = self.policy.retry(retries);
        self
    }

    /// Sets the effect of a failure on the run.
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.policy = self.policy.on_error(on_error);
        self
    }

    /// Asks a person for approval before the node begins. The question shows the values that the
    /// node reads.
    pub fn approve(mut self, question: impl Into<String>) -> Self {
        self.policy = self.policy.approve(question);
        self
    }

    /// Limits the wait for the approval. [`timeout`](Self::timeout) limits the attempts that
    /// follow.
    pub fn approve_timeout(mut self, timeout: Duration) -> Self {
        self.policy = self.policy.approve_timeout(timeout);
        self
    }

    /// Sets the reaction if a question is not answered in time. Applies to the approval of the
    /// node, or to the question of a gate.
    pub fn on_timeout(mut self, on_timeout: OnTimeout) -> Self {
        self.policy = self.policy.on_timeout(on_timeout);
        self
    }

    /// Limits the number of items of a map, or branches of a race, that run at the same time.
    pub fn concurrency(mut self, at_once: u32) -> Self {
        self.policy = self.policy.concurrency(at_once);
        self
    }

    /// Sets whether the node may run again if its process ended while the node was running.
    pub fn repeatable(mut self, repeatable: bool) -> Self {
        self.policy = self.policy.repeatable(repeatable);
        self
    }

    /// Declares that the node only observes. It sees the [state](crate::state), but a change of the
    /// state in it, or in a function that it calls, is an error. See `tap` of [`NodePolicy`].
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
    /// Workflow of the branch, if that is more than one step.
    pub(super) inner: Option<Arc<Spec>>,
    output: PhantomData<fn() -> O>,
}

impl<O: NodeValue> Branch<O> {
    /// Creates a branch with its name, the handles that it reads and its step. The name follows the
    /// rules of [`Node::new`], and has no `/`. A second branch of the same name is recorded as
    /// `NAME[1]`.
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
    /// Creates a branch from a finished step.
    pub(super) fn made(name: impl Into<String>, reads: Vec<RawHandle>, step: Step) -> Self {
        Self {
            name: name.into(),
            reads,
            step,
            callees: Vec::new(),
            inner: None,
            output: PhantomData,
        }
    }

    /// Sets the functions that its step calls.
    pub(super) fn calling(mut self, callees: Vec<TypeId>) -> Self {
        self.callees = callees;
        self
    }

    /// Sets the workflow of the branch.
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
