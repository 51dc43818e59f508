//! `Context`: the argument that the body of a tool, an agent or a workflow step gets. It has the run's id, the step's
//! path, the resources, the clock and the cancellation. It runs nothing itself.

mod artifact_access;
mod mail_access;
mod memory_access;
mod state_access;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::event::{EventKind, RunId};
use crate::failure::Failure;
use crate::path::StepPath;
use crate::resource::{Inject, ResourceKey, Resources, UnusedResources};
use crate::run::{Around, HOOKS, Host, NestedCall, RunShared};
use crate::time::Timestamp;
use crate::value::Encoded;

/// What the body of a tool, an agent or a workflow step is given: its run and place, its resources, its clock.
///
/// Take it as the first parameter, `cx: &Context`; the model never sees it. Cloning is cheap. A clone may outlive the
/// call, but the run does not wait for it.
///
/// In a program's own code a context comes from [`Runtime::context`](crate::Runtime::context), in a unit test from
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
    /// The number of what an attempt records below itself: that of the attempts that failed before, from 1. An attempt
    /// that a crash interrupted has the same as the one that continues its work.
    scope: u32,
    /// What is known of a call of a tool from the attempts at its step before this one, where there is something.
    made_before: Option<Arc<MadeBefore>>,
    /// How many agents and workflows stand around it.
    depth: u32,
    /// Whether it is one of a run, and not of a program's own code.
    in_run: bool,
    /// Whether it is that of hooks around an agent, which run only when the agent begins: their calls have paths of their
    /// own.
    of_hooks: bool,
    /// Whether it is that of a value, which is computed in place and saves nothing.
    of_value: bool,
    resources: Resources,
    /// The scopes that what runs here is granted.
    grants: Arc<[Arc<str>]>,
}

/// What earlier attempts at a step say of a call of a tool that a further one makes, too.
#[derive(Default)]
pub(crate) struct MadeBefore {
    /// What names the call over all attempts, when that is not its path.
    pub(crate) key: Option<Arc<str>>,
    /// Where they made it.
    pub(crate) paths: Vec<StepPath>,
    /// It had failed of itself, and was not stopped in the middle.
    pub(crate) failed: bool,
}

impl Context {
    pub(crate) fn new(run: Arc<RunShared>, path: StepPath, resources: Resources) -> Self {
        let grants = Arc::clone(&run.host.scopes);
        Self::with_grants(run, path, resources, grants)
    }

    /// One with other grants than those of the runtime.
    pub(crate) fn with_grants(
        run: Arc<RunShared>,
        path: StepPath,
        resources: Resources,
        grants: Arc<[Arc<str>]>,
    ) -> Self {
        // Whatever has a path is inside of its run.
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

    /// One that belongs to no run, for a program's own code. Its id is a new one.
    pub(crate) fn of_host(host: &Arc<Host>) -> Self {
        let run = Arc::new(RunShared::new(host.detached_id(), host, None));
        Self { in_run: false, ..Self::new(run, StepPath::root(), host.resources.clone()) }
    }

    /// The same with other grants than those of the runtime.
    pub(crate) fn granted(self, grants: &Arc<[Arc<str>]>) -> Self {
        Self { grants: Arc::clone(grants), ..self }
    }

    /// The scopes that what runs here is granted, and what is begun here.
    pub(crate) fn grants(&self) -> &Arc<[Arc<str>]> {
        &self.grants
    }

    /// The same for another attempt at the step.
    pub(crate) fn with_attempt(self, attempt: u32, scope: u32) -> Self {
        Self { attempt, scope, ..self }
    }

    /// The context of a call of a tool in the step that this belongs to.
    pub(crate) fn of_call(&self, path: StepPath, key: &str, before: MadeBefore, resources: &Resources) -> Self {
        let key = (path.to_string() != key).then(|| key.into());
        let made_before = (key.is_some() || !before.paths.is_empty()).then(|| Arc::new(MadeBefore { key, ..before }));
        let resources = resources.clone();
        Self { path, made_before, attempt: 1, scope: 1, resources, ..self.clone() }
    }

    /// What names the step over all attempts, within its run.
    pub(crate) fn call_key(&self) -> String {
        let key = self.made_before.as_ref().and_then(|before| before.key.as_ref());
        key.map_or_else(|| self.path.to_string(), ToString::to_string)
    }

    /// Where earlier attempts at the step made the call of a tool that this is, and whether it had failed of itself then.
    pub(crate) fn made_before(&self) -> (&[StepPath], bool) {
        self.made_before.as_ref().map_or((&[], false), |before| (&before.paths, before.failed))
    }

    /// The number of what this attempt records below itself, from 1.
    pub(crate) fn attempt_scope(&self) -> u32 {
        self.scope
    }

    /// A context that belongs to no run, for calling a tool's function in a test. Each has an id of its own, so that
    /// [`idempotency_key`](Self::idempotency_key)s differ.
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

    /// Whether an agent or a workflow that is begun here is part of the run: in a step. Outside of any run, and in a
    /// hook that runs before the run's own first event, it is a run of its own.
    pub(crate) fn is_step(&self) -> bool {
        self.in_run && !self.path.is_root()
    }

    /// Whether it is one of a run, and not of a program's own code.
    pub(crate) fn is_in_run(&self) -> bool {
        self.in_run
    }

    /// Shows an event of what is called here to sinks, outside of any run: nothing keeps it.
    pub(crate) fn tell(&self, kind: EventKind) {
        self.run.log.tell(self.now(), &self.path, kind);
    }

    pub(crate) fn resources(&self) -> &Resources {
        &self.resources
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// The same for hooks around the agent that is here.
    pub(crate) fn of_hooks(self) -> Self {
        Self { of_hooks: true, ..self }
    }

    /// The same for the expression of a value.
    pub(crate) fn of_value(self) -> Self {
        Self { of_value: true, ..self }
    }

    /// The path below which an agent or a workflow that is begun here records what it does.
    ///
    /// # Errors
    /// When this attempt had called something else in an earlier process, which may have had an effect.
    pub(crate) fn claim(&self, called: impl FnOnce() -> NestedCall) -> Result<StepPath> {
        self.run.claim(self.scope(), called)
    }

    /// The path below which calls of tools are recorded here; `known` is where they were before.
    pub(crate) fn claim_base(&self, known: Option<StepPath>) -> StepPath {
        self.run.claim_base(self.scope(), known)
    }

    /// Why the output of this attempt cannot be trusted: it called something else in the place of an agent or a workflow
    /// that it had begun in an earlier process.
    pub(crate) fn left_over(&self) -> Option<Failure> {
        self.run.left_over(|| self.scope())
    }

    fn scope(&self) -> StepPath {
        match self.of_hooks {
            true => self.path.child(HOOKS),
            false => scope_of(&self.path, self.scope),
        }
    }

    /// How many attempts at this step have failed before.
    pub(crate) fn failed_attempts(&self) -> u32 {
        self.scope - 1
    }

    /// Whether this attempt, in a further call, continues what an earlier one has begun at a path. It does so once.
    pub(crate) fn continues(&self, base: &StepPath) -> bool {
        self.run.continues(&self.scope(), base)
    }

    /// An attempt begins: what it begins is counted from the first one, and what one before it wrote does not count.
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

    /// The run that this belongs to; outside of any run, an id of this context alone.
    pub fn run_id(&self) -> &RunId {
        &self.run.id
    }

    /// Where in the run this is, such as `tool#2.search`.
    pub fn path(&self) -> &StepPath {
        &self.path
    }

    /// The id of the session that the run is one of ([`RunRequest::session`](crate::agent::RunRequest::session)): what a
    /// tool keeps for a session, it keeps by this.
    pub fn session(&self) -> Option<&str> {
        self.run.own().and_then(|own| own.began.session())
    }

    /// On whose behalf the run was started, as the program said with [`StartRun::caller`](crate::runtime::StartRun::caller)
    /// or [`RunRequest::caller`](crate::agent::RunRequest::caller). It is a name and no proof: what a run may do is
    /// decided by its grants.
    pub fn caller(&self) -> Option<&str> {
        self.run.own().and_then(|own| own.began.caller())
    }

    /// The trace of the host that the run belongs to, as the program said with
    /// [`StartRun::trace_id`](crate::runtime::StartRun::trace_id) or
    /// [`RunRequest::trace_id`](crate::agent::RunRequest::trace_id): also after a restart, so that a tool can hand it on to
    /// a service that it calls.
    pub fn trace_id(&self) -> Option<&str> {
        self.run.own().and_then(|own| own.began.trace_id())
    }

    /// The tags of the run: the same for everything that is nested in it.
    pub fn tags(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.run.own().map_or(&NONE, |own| own.began.tags())
    }

    /// A key that stays the same however often this step is started again, for services that take one.
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}", self.run.id, self.call_key())
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
        let key = ResourceKey::of::<T>();
        match self.resource::<T>() {
            Some(resource) => Ok(resource.into()),
            None if self.host().part::<UnusedResources>().is_some_and(|unused| (unused.0)(key)) => Ok(Inject::absent()),
            None => Err(Error::MissingResource { resource: self.resources.missing(key) }),
        }
    }

    /// Shows how far this step has come: any value that is JSON, such as `"3 of 7"`. It is an event `step.progress` for the
    /// streams of the run and for the sinks that want deltas, now and in order; it is never recorded and changes nothing.
    /// When nobody listens, and outside of any run, it costs a look; so it does while a redactor takes secrets out of events,
    /// since a secret may be in two pieces. A value without a JSON form is left out.
    pub fn emit<P: Serialize + ?Sized>(&self, progress: &P) {
        if self.run.log.wants_deltas()
            && let Ok(json) = serde_json::to_string(progress)
            && let Ok(value) = Encoded::from_json(json)
        {
            self.run.log.delta(self.now(), &self.path, EventKind::StepProgress { value });
        }
    }

    /// The time by the run's clock; use it instead of the system's so that tests own it.
    pub fn now(&self) -> Timestamp {
        self.run.now()
    }

    /// Whether the run was cancelled. Long loops and blocking bodies ask now and then.
    pub fn is_cancelled(&self) -> bool {
        self.run.is_cancelled()
    }

    /// Waits until the run is cancelled. An async body need not: it is dropped at its next await.
    pub async fn cancelled(&self) {
        self.run.cancelled().await;
    }
}

/// Where an attempt at a step records what is below it.
pub(crate) fn scope_of(step: &StepPath, scope: u32) -> StepPath {
    match scope {
        1 => step.clone(),
        scope => step.child(&format!("attempt#{scope}")),
    }
}

/// The attempt at a step that records what it begins at a path, or its calls below it, from 1; `None` when none does.
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
