//! `Builder`: the typed builder that `#[workflow]` expands to, and that writes any workflow by hand.
//!
//! It checks what types cannot: names, and that handles stay with their builder. It runs nothing.

use std::any::TypeId;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::names;
use super::node_handle::{Handle, Loader, RawHandle, Reads};
use super::policy::{NodePolicy, OnError, StopPolicy};
use super::spec::{Body, Branch as SpecBranch, NodeIndex, NodeKind, NodeSpec, Outputs, Spec, StepFuture};
use super::step_error::{StepError, StepFailure};
use crate::context::Context;
use crate::error::FailureKind;
use crate::event::ApprovalRequest;
use crate::path::StepPath;
use crate::tool::{Effects, ToolPolicy};
use crate::value::{Encoded, NodeValue};

/// What is said of a node beside its body: its name, its place in the source, its policy. A name alone turns into one.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Node {
    name: String,
    call: &'static str,
    line: u32,
    policy: NodePolicy,
    after: Vec<RawHandle>,
    /// The type of the function that its step calls.
    callee: Option<TypeId>,
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

    /// Its step calls a function of a type, so that what the function says of itself counts.
    pub(crate) fn calling(mut self, callee: Option<TypeId>) -> Self {
        self.callee = callee;
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
        self.after.push(RawHandle { node: handle.node, builder: handle.builder });
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
}

impl<T: Into<String>> From<T> for Node {
    fn from(name: T) -> Self {
        Self::new(name)
    }
}

/// A choice of one arm; made by [`Builder::route`].
#[derive(Clone, Copy, Debug)]
pub struct Router {
    node: NodeIndex,
    builder: u32,
}

/// A branch of a race or a fallback.
#[must_use]
pub struct Branch<O> {
    name: String,
    reads: Vec<RawHandle>,
    step: super::spec::Step,
    callee: Option<TypeId>,
    output: std::marker::PhantomData<fn() -> O>,
}

impl<O: NodeValue> Branch<O> {
    /// A branch of a name, with what it reads and its step. The name is as a [node's](Node::new), without `/`; a second
    /// branch of the same name is recorded as `NAME[1]`.
    pub fn new<R, E, B, F>(name: impl Into<String>, reads: R, body: B) -> Self
    where
        R: Reads,
        B: Fn(Context, R::Values) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
        E: StepFailure,
    {
        Self {
            name: name.into(),
            reads: reads.handles(),
            step: step_of(reads, body),
            callee: None,
            output: std::marker::PhantomData,
        }
    }

    /// Its step calls a function of a type.
    pub(crate) fn calling(mut self, callee: Option<TypeId>) -> Self {
        self.callee = callee;
        self
    }
}

impl<O> std::fmt::Debug for Branch<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Branch").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Adds nodes to a workflow; [`Workflow::build`](super::Workflow::build) gives one.
#[derive(Debug)]
pub struct Builder {
    id: u32,
    nodes: Vec<NodeSpec>,
    names: HashSet<String>,
    prefix: String,
    guard: Option<(NodeIndex, u32)>,
    pub(super) description: Arc<str>,
    pub(super) concurrency: usize,
    pub(super) stop: StopPolicy,
    problems: Vec<String>,
}

impl std::fmt::Debug for NodeSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeSpec").field("path", &self.path).field("kind", &self.kind).finish_non_exhaustive()
    }
}

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

fn step_of<R, O, E, B, F>(reads: R, body: B) -> super::spec::Step
where
    R: Reads,
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

fn item_step_of<R, I, O, E, B, F>(reads: R, what: &'static str, body: B) -> super::spec::ItemStep
where
    R: Reads,
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

impl Builder {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            nodes: Vec::new(),
            names: HashSet::new(),
            prefix: String::new(),
            guard: None,
            description: "".into(),
            concurrency: super::CONCURRENCY,
            stop: StopPolicy::default(),
            problems: Vec::new(),
        }
    }

    /// Says what the workflow is for; shown in listings.
    pub fn describe(&mut self, description: impl Into<Arc<str>>) {
        self.description = description.into();
    }

    /// Bounds how many steps run at once. Default: 16.
    pub fn concurrency(&mut self, at_once: usize) {
        self.concurrency = at_once;
    }

    /// Sets what the other nodes do when one has failed for good.
    pub fn stop_policy(&mut self, stop: StopPolicy) {
        self.stop = stop;
    }

    pub(super) fn input<T: NodeValue>(&mut self, name: &'static str) -> Handle<T> {
        let fits = |value: &Encoded| T::decode(value).map(drop);
        self.push::<T>(Node::new(name), NodeKind::Input, Vec::new(), Body::Input { fits })
    }

    /// Adds a step. It begins when all that it reads is there, beside every other step that can begin.
    pub fn node<R, O, E, B, F>(&mut self, node: impl Into<Node>, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        O: NodeValue,
        E: StepFailure,
        B: Fn(Context, R::Values) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        self.push::<O>(node.into(), NodeKind::Step, reads.handles(), Body::Step(step_of(reads, body)))
    }

    /// Adds a value that follows from others without an effect. It is not recorded but computed anew after a crash.
    pub fn value<R, O, E, B>(&mut self, node: impl Into<Node>, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        O: NodeValue,
        E: StepFailure,
        B: Fn(R::Values) -> Result<O, E> + Send + Sync + 'static,
    {
        let pure: super::spec::Pure =
            Arc::new(move |outputs| encode(&body(load(&reads, outputs)?).map_err(StepError::of)?));
        self.push::<O>(node.into(), NodeKind::Value, reads.handles(), Body::Pure(pure))
    }

    /// Adds a router: `pick` gives the place of the arm that is taken. Each arm is then added with [`arm`](Self::arm),
    /// and [`join`](Self::join) puts them together.
    pub fn route<R, E, B, A>(&mut self, node: impl Into<Node>, arms: A, reads: R, pick: B) -> Router
    where
        R: Reads,
        E: StepFailure,
        B: Fn(R::Values) -> Result<usize, E> + Send + Sync + 'static,
        A: IntoIterator,
        A::Item: Into<Arc<str>>,
    {
        let arms: Vec<Arc<str>> = arms.into_iter().map(Into::into).collect();
        let names = arms.clone();
        let pick: super::spec::Pure = Arc::new(move |outputs| {
            let at = pick(load(&reads, outputs)?).map_err(StepError::of)?;
            let Some(arm) = names.get(at) else {
                return Err(StepError::new(
                    FailureKind::Value,
                    format!("the router has {} arms and chose {at}", names.len()),
                ));
            };
            #[derive(serde::Serialize)]
            struct Chosen<'a> {
                arm: &'a str,
            }
            Encoded::new(&Chosen { arm }).map_err(|error| StepError::value("the chosen arm", &error))
        });
        let node = node.into();
        let mut seen = HashSet::new();
        for arm in arms.iter().filter(|arm| !seen.insert(Arc::clone(arm))) {
            self.problems.push(format!("the router `{}` has two arms `{arm}`; name them apart", node.name));
        }
        let handle =
            self.push::<serde_json::Value>(node, NodeKind::Router, reads.handles(), Body::Router { pick, arms });
        Router { node: handle.node, builder: handle.builder }
    }

    /// Adds what an arm of a router consists of: its nodes run only when the arm is taken.
    pub fn arm<O>(&mut self, router: Router, arm: usize, nodes: impl FnOnce(&mut Self) -> Handle<O>) -> Handle<O> {
        if self.is_foreign(router) {
            return nodes(self);
        }
        let of = &self.nodes[router.node as usize];
        let Body::Router { arms, .. } = &of.body else { unreachable!("a `Router` is made by `route`") };
        let name = match arms.get(arm) {
            Some(name) => Arc::clone(name),
            None => {
                self.problems.push(format!("the router `{}` has no arm {arm}", of.path));
                "?".into()
            }
        };
        let prefix = format!("{}/{name}/", of.path);
        let outer = (std::mem::replace(&mut self.prefix, prefix), self.guard);
        self.guard = Some((router.node, u32::try_from(arm).unwrap_or(u32::MAX)));
        let end = nodes(self);
        (self.prefix, self.guard) = outer;
        end
    }

    /// Whether a router was made by another builder, which is a mistake and noted as one.
    fn is_foreign(&mut self, router: Router) -> bool {
        let foreign = router.builder != self.id;
        if foreign {
            let problem = "a router of another workflow is given arms; call `route` of the same builder first";
            self.problems.push(problem.to_owned());
        }
        foreign
    }

    /// The output of whichever arm is taken.
    pub fn join<O: NodeValue>(&mut self, router: Router, arms: impl IntoIterator<Item = Handle<O>>) -> Handle<O> {
        let of = match self.is_foreign(router) {
            true => "?".to_owned(),
            false => self.nodes[router.node as usize].path.to_string(),
        };
        let name = format!("{of}/{}", names::END);
        let ends = arms.into_iter().map(|end| RawHandle { node: end.node, builder: end.builder }).collect();
        let outer = std::mem::take(&mut self.prefix);
        let handle = self.push::<O>(Node::new(name), NodeKind::Join, ends, Body::Join);
        self.prefix = outer;
        handle
    }

    /// Adds a question to a person: `ask` gives its text and what it is about. The output is the answer, of any type;
    /// [`Approval`](crate::Approval) is the usual one. [`Node::timeout`] bounds the waiting.
    pub fn gate<R, P, A, E, B>(&mut self, node: impl Into<Node>, reads: R, ask: B) -> Handle<A>
    where
        R: Reads,
        P: NodeValue,
        A: NodeValue,
        E: StepFailure,
        B: Fn(R::Values) -> Result<(String, P), E> + Send + Sync + 'static,
    {
        let node = node.into();
        let timeout_ms = node.policy.timeout_ms;
        let question: super::spec::Question = Arc::new(move |outputs| {
            let (message, payload) = ask(load(&reads, outputs)?).map_err(StepError::of)?;
            let answer = Encoded::new(&A::schema()).map_err(|error| StepError::value("the answer's schema", &error))?;
            Ok(ApprovalRequest::new(message, encode(&payload)?, answer, timeout_ms))
        });
        self.push::<A>(
            node,
            NodeKind::Gate,
            reads.handles(),
            Body::Gate { question, fits: |answer| A::decode(answer).map(drop) },
        )
    }

    /// Adds a step for each item of a list. The outputs keep the items' order; each item is a step of its own in the
    /// journal, `NAME[3]`, and the node's policy holds for each.
    pub fn map<I, R, O, E, B, F>(
        &mut self,
        node: impl Into<Node>,
        items: Handle<Vec<I>>,
        reads: R,
        body: B,
    ) -> Handle<Vec<O>>
    where
        I: NodeValue,
        R: Reads,
        O: NodeValue,
        Vec<O>: NodeValue,
        E: StepFailure,
        B: Fn(Context, I, R::Values) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        let step = item_step_of(reads, "an item of the list", body);
        let items = RawHandle { node: items.node, builder: items.builder };
        let all = std::iter::once(items).chain(reads.handles()).collect();
        self.push::<Vec<O>>(node.into(), NodeKind::Map, all, Body::Map { items: items.node, step })
    }

    /// Adds branches that run at the same time; the first to succeed gives the output, the others are cancelled and
    /// what they had is dropped. When all fail, the node fails.
    pub fn race<O: NodeValue>(
        &mut self,
        node: impl Into<Node>,
        branches: impl IntoIterator<Item = Branch<O>>,
    ) -> Handle<O> {
        self.branches(node.into(), NodeKind::Race, branches, Body::Race)
    }

    /// Adds branches that are tried one after another; the first to succeed gives the output. When all fail, the node
    /// fails with all the reasons.
    pub fn fallback<O: NodeValue>(
        &mut self,
        node: impl Into<Node>,
        branches: impl IntoIterator<Item = Branch<O>>,
    ) -> Handle<O> {
        self.branches(node.into(), NodeKind::Fallback, branches, Body::Fallback)
    }

    fn branches<O: NodeValue>(
        &mut self,
        mut node: Node,
        kind: NodeKind,
        branches: impl IntoIterator<Item = Branch<O>>,
        body: fn(Vec<SpecBranch>) -> Body,
    ) -> Handle<O> {
        let mut reads = Vec::new();
        let mut of_spec: Vec<SpecBranch> = Vec::new();
        for branch in branches {
            reads.extend(branch.reads);
            // One branch that must not run twice makes a node that must not.
            if node.policy.repeatable.is_none()
                && branch.callee.and_then(super::callee::tool_policy).is_some_and(|tool| !is_repeatable(&tool))
            {
                node.policy.repeatable = Some(false);
            }
            self.problems.extend(names::problem_of_branch(&node.name, &branch.name));
            let mut name = branch.name.clone();
            let mut repeat = 1;
            while of_spec.iter().any(|other| *other.name == *name) {
                name = format!("{}[{repeat}]", branch.name);
                repeat += 1;
            }
            of_spec.push(SpecBranch { name: name.into(), step: branch.step });
        }
        if of_spec.is_empty() {
            self.problems.push(format!("the node `{}` has no branches; give it at least one", node.name));
        }
        self.push::<O>(node, kind, reads, body(of_spec))
    }

    /// Adds a step that is repeated on its own output until `until` holds, at most `max` times; its output is the last.
    pub fn repeat<R, T, E, B, F>(
        &mut self,
        node: impl Into<Node>,
        first: Handle<T>,
        reads: R,
        max: u32,
        until: impl Fn(&T) -> bool + Send + Sync + 'static,
        body: B,
    ) -> Handle<T>
    where
        R: Reads,
        T: NodeValue,
        E: StepFailure,
        B: Fn(Context, T, R::Values) -> F + Send + Sync + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let step = item_step_of(reads, "the last output", body);
        let until: super::spec::Until = Arc::new(move |last| {
            let last = T::decode(last).map_err(|error| StepError::value("the last output", &error))?;
            Ok(until(&last))
        });
        let first = RawHandle { node: first.node, builder: first.builder };
        let all = std::iter::once(first).chain(reads.handles()).collect();
        let body = Body::Repeat { first: first.node, step, until: Some(until), max: max.max(1) };
        self.push::<T>(node.into(), NodeKind::Repeat, all, body)
    }

    fn push<T: NodeValue>(&mut self, node: Node, kind: NodeKind, reads: Vec<RawHandle>, body: Body) -> Handle<T> {
        let Node { name, call, line, mut policy, after, callee } = node;
        let name = format!("{}{name}", self.prefix);
        if let Some(problem) = names::problem_of_node(&name) {
            self.problems.push(problem);
        }
        if !self.names.insert(name.clone()) {
            self.problems.push(format!("two nodes are named `{name}`; rename one"));
        }
        if reads.iter().chain(&after).any(|handle| handle.builder != self.id) {
            self.problems.push(format!("the node `{name}` reads a handle of another workflow"));
        }
        if let Some(tool) = callee.and_then(super::callee::tool_policy) {
            take_over(&mut policy, &tool, call);
        }
        let at = NodeIndex::try_from(self.nodes.len()).unwrap_or(NodeIndex::MAX);
        self.nodes.push(NodeSpec {
            path: StepPath::of_names(name.into()),
            kind,
            call,
            line,
            reads: reads.iter().map(|handle| handle.node).collect(),
            after: after.iter().map(|handle| handle.node).collect(),
            guard: self.guard,
            policy,
            type_name: std::any::type_name::<T>(),
            schema: T::schema,
            callee,
            body,
        });
        Handle::new(at, self.id)
    }

    /// A step that is made already: what a workflow's macro puts together itself, so that the compiler has less to do
    /// for each node.
    pub(super) fn made<O: NodeValue>(
        &mut self,
        node: Node,
        reads: Vec<RawHandle>,
        step: super::spec::Step,
    ) -> Handle<O> {
        self.push::<O>(node, NodeKind::Step, reads, Body::Step(step))
    }

    pub(super) fn finish(mut self, name: Arc<str>, output: NodeIndex) -> Result<Spec, String> {
        self.problems.extend(names::problems_of_places(&self.nodes));
        match self.problems.is_empty() {
            true => Ok(Spec::new(name, self.description, self.nodes, output, self.concurrency, self.stop)),
            false => Err(self.problems.join("; ")),
        }
    }
}

fn is_repeatable(tool: &ToolPolicy) -> bool {
    tool.idempotent || tool.effects != Effects::Write
}

/// What a tool says of itself counts where the node says nothing.
fn take_over(policy: &mut NodePolicy, tool: &ToolPolicy, call: &str) {
    policy.repeatable.get_or_insert(is_repeatable(tool));
    if policy.timeout_ms.is_none()
        && let Some(timeout) = tool.timeout
    {
        *policy = std::mem::take(policy).timeout(timeout);
    }
    if policy.retry == super::RetryPolicy::default() && tool.retry > 0 {
        *policy = std::mem::take(policy).retry(tool.retry);
    }
    if tool.approve {
        policy.approve.get_or_insert_with(|| format!("call `{call}`?"));
    }
}
