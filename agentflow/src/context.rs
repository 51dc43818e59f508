//! What a body is given: who it is, what it may use, when to stop.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::agent::{Agent, RunRequest, RunResult};
use crate::control::{ControlError, Request, Signal};
use crate::error::{Error, Result};
use crate::event::{EventKind, EventLog, Journal, RunId};
use crate::nesting::Around;
use crate::path::StepPath;
use crate::resource::{Inject, ResourceKey, Resources};
use crate::runtime::Runtime;
use crate::time::{Clock, Timestamp};

/// What a tool's body is given. Cloning is cheap; a clone may outlive the call, but the run does not wait for it.
///
/// A tool takes it as its first parameter, `cx: &Context`. In a unit test [`Context::detached`] stands in.
#[derive(Clone)]
#[doc(alias = "ToolContext")]
#[doc(alias = "RunContext")]
#[doc(alias = "InvocationContext")]
pub struct Context {
    run: Arc<RunShared>,
    path: StepPath,
    attempt: u32,
    /// The number of what an attempt records below itself: that of the attempts that failed before, from 1. An attempt
    /// that a crash cut short has the same as the one that takes its work up.
    scope: u32,
    /// How many agents and workflows stand around it.
    depth: u32,
    resources: Resources,
}

/// What all steps of one run share.
pub(crate) struct RunShared {
    pub(crate) id: RunId,
    pub(crate) runtime: Runtime,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) cancellation: CancellationToken,
    pub(crate) log: EventLog,
    /// The most model calls of the run and all it starts.
    pub(crate) max_llm_calls: AtomicU32,
    cancel_reason: OnceLock<Arc<str>>,
    /// How many agents and workflows were begun at a path by the same attempt at a step.
    nested: Mutex<HashMap<StepPath, u32>>,
    /// The workflows of the run that take an operator's wishes, with where they are.
    listeners: Mutex<Listeners>,
}

#[derive(Default)]
struct Listeners {
    workflows: Vec<(StepPath, mpsc::UnboundedSender<Request>)>,
    /// Wishes for nodes of workflows that are yet to be taken up, by the paths of the nodes.
    parked: Vec<(StepPath, Request)>,
}

impl Listeners {
    /// The innermost workflow that a node may belong to.
    fn innermost(&self, node: &StepPath) -> Option<&(StepPath, mpsc::UnboundedSender<Request>)> {
        let holds = |base: &StepPath| node.is_within(base) && node != base;
        self.workflows.iter().filter(|(base, _)| holds(base)).max_by_key(|(base, _)| base.to_string().len())
    }
}

impl RunShared {
    pub(crate) fn new(id: RunId, runtime: &Runtime, journal: Option<Journal>) -> Self {
        Self {
            log: EventLog::new(id.clone(), runtime.sinks(), journal, runtime.redactor()),
            id,
            clock: runtime.clock(),
            runtime: runtime.clone(),
            cancellation: CancellationToken::new(),
            max_llm_calls: AtomicU32::new(runtime.max_llm_calls()),
            cancel_reason: OnceLock::new(),
            nested: Mutex::default(),
            listeners: Mutex::default(),
        }
    }

    /// Records what happened, now.
    pub(crate) fn record(&self, path: StepPath, kind: EventKind) {
        self.log.record(self.clock.now(), path, kind);
    }

    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A workflow at a path takes an operator's wishes from now on, and those that came for it before.
    pub(crate) fn listen(&self, base: &StepPath, sender: mpsc::UnboundedSender<Request>) {
        let mut listeners = self.listeners();
        let (own, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut listeners.parked).into_iter().partition(|(node, _)| node.is_within(base));
        listeners.parked = others;
        for (_, request) in own {
            // Its other end is held by the workflow that listens.
            let _ = sender.send(request);
        }
        listeners.workflows.push((base.clone(), sender));
    }

    pub(crate) fn unlisten(&self, base: &StepPath) {
        self.listeners().workflows.retain(|(path, _)| path != base);
    }

    /// Passes on a wish for a node of a workflow that is a step of the one at `base`, or keeps it until that is taken up.
    pub(crate) fn park(&self, base: &StepPath, node: StepPath, request: Request) {
        let mut listeners = self.listeners();
        match listeners.innermost(&node).filter(|(path, _)| path != base) {
            // It has begun to listen meanwhile. Its other end is held by the workflow.
            Some((_, listener)) => drop(listener.send(request)),
            None => listeners.parked.push((node, request)),
        }
    }

    /// Takes back the wishes that were kept for a step that has ended.
    pub(crate) fn unpark(&self, step: &StepPath) -> Vec<Request> {
        let mut listeners = self.listeners();
        if listeners.parked.is_empty() {
            return Vec::new();
        }
        let (own, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut listeners.parked).into_iter().partition(|(node, _)| node.is_within(step));
        listeners.parked = others;
        own.into_iter().map(|(_, request)| request).collect()
    }

    /// Passes a wish on to the workflow that it is about: the innermost one that a node belongs to, else the outermost.
    /// Gives it back when nobody listens.
    pub(crate) fn send(&self, request: Request) -> Result<(), Request> {
        let listeners = self.listeners();
        let node: Option<StepPath> = match &request.signal {
            Signal::Retry { node, .. } | Signal::Answer { node, .. } => node.parse().ok(),
            _ => None,
        };
        if matches!(request.signal, Signal::Pause | Signal::Resume) {
            // The workflows that are steps follow the outermost, whose word counts.
            for (_, listener) in listeners.workflows.iter().skip(1) {
                let _ = listener.send(Request { signal: request.signal.clone(), reply: None });
            }
        }
        match node.and_then(|node| listeners.innermost(&node)).or_else(|| listeners.workflows.first()) {
            Some((_, listener)) => listener.send(request).map_err(|unsent| unsent.0),
            None => Err(request),
        }
    }

    /// Asks the run's workflow for something and waits for its word; `None` when no workflow listens.
    pub(crate) async fn ask(&self, signal: Signal) -> Option<Result<(), ControlError>> {
        let (reply, answer) = oneshot::channel();
        self.send(Request { signal, reply: Some(reply) }).ok()?;
        answer.await.ok()
    }

    /// The path below which an agent or a workflow records what it does when it is begun at `path`. The first one has
    /// the path for itself, so that an agent that is a node is seen as that node.
    fn claim(&self, path: StepPath) -> StepPath {
        let mut nested = self.nested.lock().unwrap_or_else(PoisonError::into_inner);
        let count = nested.entry(path.clone()).or_default();
        *count += 1;
        match *count {
            1 => path,
            count => path.child(&format!("call#{count}")),
        }
    }

    /// Asks the run to stop; the first reason counts.
    pub(crate) fn cancel(&self, reason: impl Into<Arc<str>>) {
        self.cancel_reason.get_or_init(|| reason.into());
        self.cancellation.cancel();
    }

    pub(crate) fn cancel_reason(&self) -> Arc<str> {
        self.cancel_reason.get().cloned().unwrap_or_else(|| "no reason was given".into())
    }
}

impl Context {
    pub(crate) fn new(run: Arc<RunShared>, path: StepPath, resources: Resources) -> Self {
        // Whatever has a path is inside of its run.
        let depth = Around::depth().max(u32::from(!path.is_root()));
        Self { run, path, attempt: 1, scope: 1, depth, resources }
    }

    /// The same for another attempt at the step.
    pub(crate) fn with_attempt(self, attempt: u32, scope: u32) -> Self {
        Self { attempt, scope, ..self }
    }

    /// A context that belongs to no run, for calling a tool's function in a test.
    pub fn detached() -> Self {
        Self::detached_with(Resources::default())
    }

    /// Like [`detached`](Self::detached), with resources.
    pub fn detached_with(resources: Resources) -> Self {
        Self { resources, ..Runtime::default().context() }
    }

    pub(crate) fn run(&self) -> &Arc<RunShared> {
        &self.run
    }

    /// Whether it belongs to no run.
    pub(crate) fn is_detached(&self) -> bool {
        self.path.is_root()
    }

    pub(crate) fn resources(&self) -> &Resources {
        &self.resources
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// The path below which an agent or a workflow that is begun here records what it does.
    pub(crate) fn claim(&self) -> StepPath {
        self.run.claim(self.scope())
    }

    fn scope(&self) -> StepPath {
        match self.scope {
            1 => self.path.clone(),
            scope => self.path.child(&format!("attempt#{scope}")),
        }
    }

    /// An attempt begins: what it begins is counted from the first one.
    pub(crate) fn forget_claims(&self) {
        let mut nested = self.run.nested.lock().unwrap_or_else(PoisonError::into_inner);
        if !nested.is_empty() {
            nested.remove(&self.scope());
        }
    }

    /// The runtime of the run: agents and workflows that are begun here use it.
    pub fn runtime(&self) -> &Runtime {
        &self.run.runtime
    }

    /// The attempt at this step, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Runs an agent to its answer as a step of the run that this belongs to: what it does is recorded below this step,
    /// it ends when the run ends, and what was done before a crash is not done again. Of a context that belongs to no
    /// run, this is [`Agent::run`].
    ///
    /// The request's run id is not used. Dropping the future ends the agent.
    ///
    /// # Errors
    /// See [`Error`](crate::Error).
    pub async fn run_agent<O: 'static>(
        &self,
        agent: &Agent<O>,
        request: impl Into<RunRequest>,
    ) -> Result<RunResult<O>> {
        agent.run_in(self, request.into()).await
    }

    /// The run this belongs to.
    pub fn run_id(&self) -> &RunId {
        &self.run.id
    }

    /// Where in the run this is, such as `tool#2.search`.
    pub fn path(&self) -> &StepPath {
        &self.path
    }

    /// A key that stays the same however often this step is started again, for services that take one.
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}", self.run.id, self.path)
    }

    /// The resource of a type, if the agent or its runtime has one. A parameter `Inject<T>` asks for it earlier.
    pub fn resource<T: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.resources.get::<T>()
    }

    /// The resource of a type for a parameter [`Inject<T>`](Inject): in a step of a workflow, which calls a tool as the
    /// function that it is.
    ///
    /// ```
    /// use agentflow::prelude::*;
    /// use agentflow::Result;
    ///
    /// struct Stock(u32);
    ///
    /// /// What is left.
    /// #[tool]
    /// async fn left(stock: Inject<Stock>, sold: u32) -> u32 {
    ///     stock.0 - sold
    /// }
    ///
    /// #[workflow]
    /// async fn count(cx: &Context, sold: u32) -> Result<u32> {
    ///     let left = left(cx.inject()?, sold).await;
    ///     Ok(left)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().resource(Stock(5)).build();
    /// assert_eq!(count(&runtime.context(), 2).await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::MissingResource`](crate::Error::MissingResource) when neither the run's runtime nor whoever began this
    /// has one.
    pub fn inject<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Inject<T>> {
        match self.resource::<T>() {
            Some(resource) => Ok(resource.into()),
            None => Err(Error::MissingResource { resource: self.resources.missing(ResourceKey::of::<T>()) }),
        }
    }

    /// The time by the run's clock; use it instead of the system's so that tests own it.
    pub fn now(&self) -> Timestamp {
        self.run.clock.now()
    }

    /// Whether the run was cancelled. Long loops and blocking bodies ask now and then.
    pub fn is_cancelled(&self) -> bool {
        self.run.cancellation.is_cancelled()
    }

    /// Waits until the run is cancelled. An async body need not: it is dropped at its next await.
    pub async fn cancelled(&self) {
        self.run.cancellation.cancelled().await;
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("run", &self.run.id).field("path", &self.path).finish()
    }
}
