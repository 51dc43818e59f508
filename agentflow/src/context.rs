//! What a body is given: who it is, what it may use, when to stop.

use std::fmt;
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use crate::event::{EventLog, EventSink, RunId};
use crate::path::StepPath;
use crate::resource::Resources;
use crate::time::{Clock, SystemClock, Timestamp};

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
}

/// What all steps of one run share.
pub(crate) struct RunShared {
    pub(crate) id: RunId,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) resources: Resources,
    pub(crate) cancellation: CancellationToken,
    pub(crate) log: EventLog,
    cancel_reason: OnceLock<Arc<str>>,
}

impl RunShared {
    pub(crate) fn new(
        id: RunId,
        clock: Arc<dyn Clock>,
        resources: Resources,
        sinks: Arc<[Arc<dyn EventSink>]>,
    ) -> Self {
        Self {
            log: EventLog::new(id.clone(), sinks),
            id,
            clock,
            resources,
            cancellation: CancellationToken::new(),
            cancel_reason: OnceLock::new(),
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
    pub(crate) fn new(run: Arc<RunShared>, path: StepPath) -> Self {
        Self { run, path }
    }

    /// A context that belongs to no run, for calling a tool's function in a test.
    pub fn detached() -> Self {
        Self::detached_with(Resources::default())
    }

    /// Like [`detached`](Self::detached), with resources.
    pub fn detached_with(resources: Resources) -> Self {
        let shared = RunShared::new(RunId::new("detached"), Arc::new(SystemClock), resources, Arc::default());
        Self::new(Arc::new(shared), StepPath::root())
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
        self.run.resources.get::<T>()
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
