//! [`Context`]: the argument that the body of a tool, an agent or a workflow step receives.
//!
//! It gives access to the run's id, the step's path, the resources, the clock, the cancellation,
//! and, in the submodules, the state, the mailboxes, the artifacts and the memory. A context
//! executes nothing; agents, workflows and tools derive a new context for each nested call.

mod artifact_access;
mod mail_access;
mod memory_access;
mod state_access;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::event::{EventKind, RunId};
use crate::failure::Failure;
use crate::path::StepPath;
use crate::resource::{Inject, ResourceKey, Resources, UnusedResources};
use crate::run::{Around, HOOKS, Host, NestedCall, RunShared};
use crate::time::Timestamp;
use crate::value::Encoded;

/// The environment of the body of a tool, an agent or a workflow step: its run and path, its
/// resources, its clock.
///
/// Take it as the first parameter, `cx: &Context`; the model never sees it. Cloning is cheap. A
/// clone may outlive the call, but the run does not wait for it.
///
/// Outside of a run, use [`Runtime::context`](crate::Runtime::context); in a unit test, use
/// [`Context::detached`].
///
/// ```
/// use agentflow::prelude::*;
///
/// /// Charge a customer.
/// #[tool(idempotent)]
/// async fn charge(cx: &Context, cents: u64) -> String {
///     // The same key however often this step is started again: the bank charges once.
///     format!("charged {cents} under {}", cx.idempotency_key())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let cx = Context::detached();
/// assert!(charge(&cx, 500).await.starts_with("charged 500 under "));
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "ToolContext")]
#[doc(alias = "RunContext")]
#[doc(alias = "InvocationContext")]
#[doc(alias = "ExecutionContext")]
pub struct Context {
    run: Arc<RunShared>,
    path: StepPath,
    attempt: u32,
    /// Numbers the scope below which an attempt records nested calls: 1 plus the number of failed
    /// attempts. An attempt that a crash interrupted and the attempt that continues it have the
    /// same number.
    scope: u32,
    /// Earlier attempts at this tool call, if any.
    made_before: Option<Arc<PreviousCallAttempts>>,
    /// Number of agents and workflows that contain this step.
    depth: u32,
    /// `true` in a run, `false` in a program's own code.
    in_run: bool,
    /// `true` in the hooks around an agent. Hooks run only when the agent starts, so their calls
    /// are recorded below a separate path.
    of_hooks: bool,
    /// `true` while a value or a condition is computed, which saves nothing.
    of_value: bool,
    resources: Resources,
    /// Scopes that are granted to the code in this context.
    grants: Arc<[Arc<str>]>,
}

/// Earlier attempts at a tool call that the current attempt makes again.
#[derive(Default)]
pub(crate) struct PreviousCallAttempts {
    /// Key that identifies the call over all attempts, if it differs from the path.
    pub(crate) key: Option<Arc<str>>,
    /// Paths of the earlier calls.
    pub(crate) paths: Vec<StepPath>,
    /// `true` if the call failed, `false` if it was interrupted.
    pub(crate) failed: bool,
}

impl Context {
    pub(crate) fn new(run: Arc<RunShared>, path: StepPath, resources: Resources) -> Self {
        let grants = Arc::clone(&run.host.scopes);
        Self::with_grants(run, path, resources, grants)
    }

    /// Creates a context with other grants than the runtime's.
    pub(crate) fn with_grants(
        run: Arc<RunShared>,
        path: StepPath,
        resources: Resources,
        grants: Arc<[Arc<str>]>,
    ) -> Self {
        // A step with a path is nested at least one level deep, in its run.
        let depth = Around::depth().max(u32::from(!path.is_root()));
        Self {
            run,
            path,
            attempt: 1,
            scope: 1,
            made_before: None,
            depth,
            in_run: true,
            of_hooks: false,
            of_value: false,
            resources,
            grants,
        }
    }

    /// Creates a context for a program's own code. It does not belong to a run and has a new id.
    pub(crate) fn of_host(host: &Arc<Host>) -> Self {
        let run = Arc::new(RunShared::new(host.detached_id(), host, None));
        Self { in_run: false, ..Self::new(run, StepPath::root(), host.resources.clone()) }
    }

    /// Replaces the grants.
    pub(crate) fn granted(self, grants: &Arc<[Arc<str>]>) -> Self {
        Self { grants: Arc::clone(grants), ..self }
    }

    /// Scopes that are granted to the code in this context and to the agents and workflows it
    /// calls.
    pub(crate) fn grants(&self) -> &Arc<[Arc<str>]> {
        &self.grants
    }

    /// Returns the context of another attempt at the step.
    pub(crate) fn with_attempt(self, attempt: u32, scope: u32) -> Self {
        Self { attempt, scope, ..self }
    }

    /// Returns the context of a tool call in this step.
    pub(crate) fn of_call(
        &self,
        path: StepPath,
        key: &str,
        before: PreviousCallAttempts,
        resources: &Resources,
    ) -> Self {
        // The key is stored only if it differs from the path, so that the common case needs no
        // allocation.
        let key = (path.to_string() != key).then(|| key.into());
        let made_before = (key.is_some() || !before.paths.is_empty())
            .then(|| Arc::new(PreviousCallAttempts { key, ..before }));
        let resources = resources.clone();
        Self { path, made_before, attempt: 1, scope: 1, resources, ..self.clone() }
    }

    /// Returns the key that identifies the step in its run over all attempts.
    pub(crate) fn call_key(&self) -> String {
        let key = self.made_before.as_ref().and_then(|before| before.key.as_ref());
        key.map_or_else(|| self.path.to_string(), ToString::to_string)
    }

    /// Returns the paths at which earlier attempts made this tool call, and `true` if the call
    /// failed there.
    pub(crate) fn made_before(&self) -> (&[StepPath], bool) {
        self.made_before.as_ref().map_or((&[], false), |before| (&before.paths, before.failed))
    }

    /// Returns the number of the attempt's scope, from 1; see the field `scope`.
    pub(crate) fn attempt_scope(&self) -> u32 {
        self.scope
    }

    /// Creates a context that does not belong to a run, for calling a tool's function in a test.
    /// Each context has a new id, so that [`idempotency_key`](Self::idempotency_key)s differ.
    pub fn detached() -> Self {
        Self::of_host(Host::of_process())
    }

    /// Like [`detached`](Self::detached), with resources.
    pub fn detached_with(resources: Resources) -> Self {
        Self { resources, ..Self::detached() }
    }

    pub(crate) fn run(&self) -> &Arc<RunShared> {
        &self.run
    }

    pub(crate) fn host(&self) -> &Arc<Host> {
        &self.run.host
    }

    /// Returns `true` if an agent or a workflow that is started here becomes part of the run.
    /// Outside of any run, and in a hook that runs before the first event of the run, it becomes a
    /// separate run.
    pub(crate) fn is_step(&self) -> bool {
        self.in_run && !self.path.is_root()
    }

    /// Returns `true` in a run, `false` in a program's own code.
    pub(crate) fn is_in_run(&self) -> bool {
        self.in_run
    }

    /// Sends an event to the sinks outside of any run. The event is not recorded.
    pub(crate) fn tell(&self, kind: EventKind) {
        self.run.log.tell(self.now(), &self.path, kind);
    }

    pub(crate) fn resources(&self) -> &Resources {
        &self.resources
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Returns the context for hooks around this agent.
    pub(crate) fn of_hooks(self) -> Self {
        Self { of_hooks: true, ..self }
    }

    /// Returns the context for the expression of a value.
    pub(crate) fn of_value(self) -> Self {
        Self { of_value: true, ..self }
    }

    /// Returns the path below which an agent or a workflow that is started here records its steps.
    ///
    /// # Errors
    /// If this attempt made another call at this position in an earlier process, and that call may
    /// have had an effect.
    pub(crate) fn claim(&self, called: impl FnOnce() -> NestedCall) -> Result<StepPath> {
        self.run.claim(self.scope(), called)
    }

    /// Returns the path below which tool calls are recorded here. `known` is the path they had
    /// before.
    pub(crate) fn claim_base(&self, known: Option<StepPath>) -> StepPath {
        self.run.claim_base(self.scope(), known)
    }

    /// Returns the failure of an attempt whose nested calls differ from those that it made in an
    /// earlier process. Its output cannot be trusted.
    pub(crate) fn left_over(&self) -> Option<Failure> {
        self.run.left_over(|| self.scope())
    }

    fn scope(&self) -> StepPath {
        match self.of_hooks {
            true => self.path.child(HOOKS),
            false => scope_of(&self.path, self.scope),
        }
    }

    /// Returns the number of failed attempts at this step.
    pub(crate) fn failed_attempts(&self) -> u32 {
        self.scope - 1
    }

    /// Returns `true` if a further call of this attempt continues the call that an earlier process
    /// began at `base`. Returns it once for each path.
    pub(crate) fn continues(&self, base: &StepPath) -> bool {
        self.run.continues(&self.scope(), base)
    }

    /// Starts an attempt: nested calls are counted from the first again, and state that the
    /// previous attempt wrote is discarded.
    pub(crate) fn begin_attempt(&self) {
        self.run.forget_claims(|| self.scope());
        if let Some(mut states) = self.run.states() {
            states.restart(&self.path);
        }
    }

    /// The attempt at this step, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The id of the run. Outside of any run, an id of this context only.
    pub fn run_id(&self) -> &RunId {
        &self.run.id
    }

    /// The path of the step in the run, such as `tool#2.search`.
    pub fn path(&self) -> &StepPath {
        &self.path
    }

    /// The id of the session that the run belongs to
    /// ([`RunRequest::session`](crate::agent::RunRequest::session)). Tools that keep data per
    /// session use it as the key.
    pub fn session(&self) -> Option<&str> {
        self.run.own().and_then(|own| own.began.session())
    }

    /// The caller on whose behalf the run was started, set with
    /// [`StartRun::caller`](crate::runtime::StartRun::caller) or
    /// [`RunRequest::caller`](crate::agent::RunRequest::caller). The permissions of a run are its
    /// grants, which include the scopes of the caller.
    pub fn caller(&self) -> Option<&Caller> {
        self.run.own().and_then(|own| own.began.caller())
    }

    /// The trace id of the host program, set with
    /// [`StartRun::trace_id`](crate::runtime::StartRun::trace_id) or
    /// [`RunRequest::trace_id`](crate::agent::RunRequest::trace_id). It is kept over restarts, so
    /// that a tool can pass it to the services that it calls.
    pub fn trace_id(&self) -> Option<&str> {
        self.run.own().and_then(|own| own.began.trace_id())
    }

    /// The tags of the run. Nested agents and workflows have the same tags.
    pub fn tags(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.run.own().map_or(&NONE, |own| own.began.tags())
    }

    /// A key that stays the same in each attempt at this step, for services that accept an
    /// idempotency key.
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}", self.run.id, self.call_key())
    }

    /// Returns the resource of a type, if the agent or its runtime has one. A parameter of type
    /// `Inject<T>` reports a missing resource earlier: when the agent is built or the run starts.
    pub fn resource<T: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.resources.get::<T>()
    }

    /// Returns the resource of a type as a parameter [`Inject<T>`](Inject), for a workflow step
    /// that calls a tool as a plain function.
    ///
    /// ```
    /// use agentflow::prelude::*;
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
    /// [`Error::MissingResource`](crate::Error::MissingResource) if neither the runtime nor the run
    /// provides the resource.
    pub fn inject<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Inject<T>> {
        let key = ResourceKey::of::<T>();
        match self.resource::<T>() {
            Some(resource) => Ok(resource.into()),
            // A test that replaces the tool need not provide its resources.
            None if self.host().part::<UnusedResources>().is_some_and(|unused| (unused.0)(key)) => {
                Ok(Inject::absent())
            }
            None => Err(Error::MissingResource { resource: self.resources.missing(key) }),
        }
    }

    /// Reports the progress of this step: any value that is JSON, such as `"3 of 7"`.
    ///
    /// The event `step.progress` goes to the streams of the run and to the sinks that want deltas,
    /// immediately and in order. It is never recorded. The call is cheap if no sink listens or
    /// outside of any run, and it sends nothing while a redactor removes secrets from events, since
    /// a secret may be split over two values. A value without a JSON form is dropped.
    pub fn emit<P: Serialize + ?Sized>(&self, progress: &P) {
        if self.run.log.wants_deltas()
            && let Ok(json) = serde_json::to_string(progress)
            && let Ok(value) = Encoded::from_json(json)
        {
            self.run.log.delta(self.now(), &self.path, EventKind::StepProgress { value });
        }
    }

    /// The current time of the run's clock. Use it instead of the system's clock, so that tests
    /// control the time.
    pub fn now(&self) -> Timestamp {
        self.run.now()
    }

    /// Returns `true` if the run was cancelled. Long loops and blocking bodies should check it
    /// regularly.
    pub fn is_cancelled(&self) -> bool {
        self.run.is_cancelled()
    }

    /// Waits until the run is cancelled. An async body does not need it: it is dropped at its next
    /// await.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait and has no other effect.
    pub async fn cancelled(&self) {
        self.run.cancelled().await;
    }

    /// Returns `true` if this process stops executing the run without cancelling it, because its
    /// runtime is drained. The run continues where it is resumed.
    ///
    /// A call that is dropped then should leave remote work open, because the call continues in
    /// another process.
    pub fn is_draining(&self) -> bool {
        self.run.is_stopping()
    }

    /// Stores the recorded events of the run now. They are otherwise stored with the next event
    /// that requires it, such as the outcome of the call.
    ///
    /// # Errors
    /// [`Error::Store`] if the store fails.
    ///
    /// # Cancel safety
    /// If the future is dropped, the events are stored with a later one.
    pub async fn store_events(&self) -> Result<()> {
        self.run.log.commit().await.map_err(Error::Store)
    }
}

/// Returns the path below which an attempt at a step records nested calls: the step itself for the
/// first scope, then `attempt#N`.
pub(crate) fn scope_of(step: &StepPath, scope: u32) -> StepPath {
    match scope {
        1 => step.clone(),
        scope => step.child(&format!("attempt#{scope}")),
    }
}

/// Returns the scope number, from 1, of the attempt at `step` that records calls below `parent`.
/// Returns `None` if `parent` is not such a path.
pub(crate) fn attempt_of(step: &StepPath, parent: &StepPath) -> Option<u32> {
    let (step, parent) = (step.to_string(), parent.to_string());
    let rest = parent.strip_prefix(&step)?;
    let mut attempt = 1;
    if rest.is_empty() {
        return Some(attempt);
    }
    for part in rest.strip_prefix('/')?.split('/') {
        match part.strip_prefix("attempt#") {
            Some(number) => attempt = number.parse().ok()?,
            // `call#N` numbers the calls of an attempt and does not start another one.
            None if part.starts_with("call#") => {}
            None => return None,
        }
    }
    Some(attempt)
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("run", &self.run.id).field("path", &self.path).finish()
    }
}
