//! `StartRun`: the options of a workflow run before it is started. Awaiting it starts the run.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use crate::access::ActingCaller;
use crate::caller::Caller;
use crate::error::{Error, Result, noted};
use crate::event::RunId;
use crate::future::BoxFuture;
use crate::run::{Ended, RunHandle, RunOptions, RunShared};
use crate::runtime::Runtime;
use crate::runtime::execution::queued_start::queue;
use crate::runtime::execution::workflow_runs::{named, start_spec};
use crate::state::{StateKey, StateValue};
use crate::value::Encoded;
use crate::workflow::spec::Spec;

/// The workflow to run, with its inputs.
pub(crate) enum Described {
    Workflow(Result<(Arc<Spec>, Vec<Encoded>)>),
    /// A workflow by name, with an object of its inputs.
    Named(Arc<str>, Result<Encoded>),
}

impl Described {
    /// Returns the workflow and its checked inputs.
    async fn resolve(
        self,
        runtime: &Runtime,
        version: Option<u64>,
    ) -> Result<(Arc<Spec>, Vec<Encoded>)> {
        match (self, version) {
            (Self::Workflow(workflow), None) => workflow,
            (Self::Workflow(workflow), Some(version)) => {
                let (workflow, current) = (Arc::clone(&workflow?.0.name), None);
                Err(Error::UnknownVersion { workflow, version, current })
            }
            (Self::Named(name, input), version) => named(runtime, &name, &input?, version).await,
        }
    }
}

/// Converts the outcome of a run to the caller's type.
pub(crate) type Decode<T> = Box<dyn Fn(Ended) -> Result<T> + Send + Sync>;

/// A builder for a workflow run, returned by [`Runtime::start`] and [`Runtime::start_named`].
/// Awaiting it starts the run on a separate task and returns its handle. With a store, the run is
/// stored by then.
///
/// The options are recorded when the run starts; resuming the run does not change them.
/// [`RunRequest`](crate::agent::RunRequest) has the same methods for agents.
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::prelude::*;
/// use agentflow::store::{MemoryStore, RunFilter};
///
/// #[workflow]
/// async fn greet(cx: &Context, name: String) -> Result<String> {
///     let greeting = format!("Hello {name}, asked by {}.", cx.caller().map_or("a guest", |caller| caller.name()));
///     Ok(greeting)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let runtime = Runtime::builder().store(MemoryStore::new()).build();
/// let run = runtime
///     .start(greet::workflow(), "Grace".to_owned())
///     .caller("ada")
///     .tag("tenant", "acme")
///     .timeout(Duration::from_secs(60))
///     .await?;
/// assert_eq!(run.result().await?, "Hello Grace, asked by ada.");
/// let of_acme = runtime.runs().list(RunFilter::new().tag("tenant", "acme")).await?;
/// assert_eq!(of_acme[0].caller.as_deref(), Some("ada"));
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
/// Dropping the builder before it is awaited starts nothing. If the future is dropped before it
/// completes, a run with a store may have been started and continue; a run in memory is cancelled.
#[must_use = "a run starts when this is awaited"]
pub struct StartRun<'r, T> {
    runtime: &'r Runtime,
    described: Described,
    decode: Decode<T>,
    options: RunOptions,
    /// Receiver for the events of the run from its start.
    first_events: Option<crate::run::FirstEvents>,
    /// Version of the stored document to execute.
    version: Option<u64>,
    /// The caller for which access control is asked. It overrides the caller of the options.
    acting: Option<ActingCaller>,
}

impl<'r, T> StartRun<'r, T> {
    pub(crate) fn new(runtime: &'r Runtime, described: Described, decode: Decode<T>) -> Self {
        Self {
            runtime,
            described,
            decode,
            options: RunOptions::default(),
            first_events: None,
            version: None,
            acting: None,
        }
    }

    /// Starts the run for a caller, for which access control is asked.
    pub(crate) fn of_caller(mut self, acting: Option<&ActingCaller>) -> Self {
        self.acting = acting.cloned();
        self
    }

    /// Starts this version of a stored document instead of the current one. A run names its version
    /// in its [record](crate::store::RunRecord::document). Workflows that the document calls have
    /// their current versions. The start fails with
    /// [`Error::UnknownVersion`](crate::Error::UnknownVersion) if the workflow is not a stored
    /// document, its document was removed, or it has no such version. Default: the current version.
    #[cfg(feature = "documents")]
    pub fn version(mut self, version: u64) -> Self {
        self.version = Some(version);
        self
    }

    /// Sets the id of the run, so that the same request is not started twice: if the store has a
    /// run with this id, the start is refused
    /// ([`StoreErrorKind::Exists`](crate::store::StoreErrorKind::Exists)). Default: a new id from
    /// the runtime.
    pub fn run_id(mut self, id: RunId) -> Self {
        self.options.run_id = Some(id);
        self
    }

    /// Sets the caller on whose behalf the run is started: a [`Caller`], or the name of one. It is
    /// recorded, used by [`RunFilter::caller`](crate::store::RunFilter::caller), and returned by
    /// [`Context::caller`](crate::Context::caller) in all steps. Its scopes are granted to the run.
    /// Default: none.
    pub fn caller(mut self, caller: impl Into<Caller>) -> Self {
        self.options.caller = Some(caller.into());
        self
    }

    /// Sets the trace of the host application that the run belongs to, such as the 32 hexadecimal
    /// digits of a W3C trace id. It is recorded and returned by
    /// [`Context::trace_id`](crate::Context::trace_id) in all steps. Spans of the run belong to the
    /// trace that is current where the run is executed; a process that resumes the run finds the
    /// original trace here. Default: none.
    pub fn trace_id(mut self, trace_id: impl Into<Arc<str>>) -> Self {
        self.options.trace_id = Some(trace_id.into());
        self
    }

    /// Adds a tag. It is recorded, used by [`RunFilter::tag`](crate::store::RunFilter::tag), and
    /// returned by [`Context::tags`](crate::Context::tags) in all steps. A second tag with the same
    /// key replaces the first.
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.tags.insert(key.into(), value.into());
        self
    }

    /// Registers a receiver for the events of the run, before any step is executed.
    #[doc(hidden)]
    pub fn first_events(mut self, events: crate::run::FirstEvents) -> Self {
        self.first_events = Some(events);
        self
    }

    /// Grants scopes to this run, in addition to the scopes of the runtime
    /// ([`RuntimeBuilder::grant`](crate::runtime::RuntimeBuilder::grant)).
    pub fn grant<S: Into<Arc<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.options.grants.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Sets a state key before the run starts. All steps read the value with
    /// [`Context::state`](crate::Context::state). It is recorded with the start of the run. Only
    /// session keys ([`StateKey::session`]) are allowed. Another key, a value without a JSON form,
    /// or more than 1 MiB in total cause an [`Error::State`](crate::Error::State) when the run is
    /// started.
    pub fn state<V: StateValue>(mut self, key: &StateKey<V>, value: &V) -> Self {
        self.options.set_state(key, value);
        self
    }

    /// Adds a resource, identified by its type. It replaces the runtime's resource of that type,
    /// also for nested calls. The resource is not stored: after a restart
    /// [`RuntimeBuilder::run_resource`](crate::runtime::RuntimeBuilder::run_resource) creates it.
    /// Without such a factory, the run cannot be resumed if one of its tools needs the resource.
    pub fn resource<V: Send + Sync + 'static>(mut self, resource: V) -> Self {
        self.options.resources.insert(resource);
        self
    }

    /// Sets the maximum execution time of the run, in all processes together. Pauses, for a person
    /// or an operator, do not count. After that, running steps are stopped and the run fails with
    /// [`Error::Timeout`](crate::Error::Timeout). Default: no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Compensates the completed steps if the run fails or is cancelled. This covers each completed
    /// call to a tool with a compensating tool (`#[tool(compensate = undo)]`,
    /// [`ToolPolicy::compensate`](crate::tool::ToolPolicy::compensate)), in steps, in nested
    /// workflows, by models and by tools that they call. The last call is compensated first. Each
    /// call is compensated once, also if the process ends during the compensation. The status of
    /// the run is `compensating` until it ends. Its error and its record list the calls that could
    /// not be compensated. Nodes of such a run cannot be retried. A run that no process executes is
    /// compensated by the process that [cancels](crate::runtime::RunRef::cancel) it, or by a
    /// process with the required tools that resumes it. Default: off.
    ///
    /// ```
    /// use agentflow::prelude::*;
    ///
    /// /// Take money.
    /// #[tool(compensate = pay_back)]
    /// async fn charge(cents: u32) -> String {
    ///     format!("receipt of {cents}")
    /// }
    ///
    /// /// Give it back.
    /// #[tool]
    /// async fn pay_back(cents: u32, output: String) -> bool {
    ///     output == format!("receipt of {cents}")
    /// }
    ///
    /// async fn pack(receipt: String) -> Result<String, String> {
    ///     Err(format!("nothing to pack for the {receipt}"))
    /// }
    ///
    /// #[workflow]
    /// async fn order(cents: u32) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    ///     let receipt = charge(cents).await;
    ///     let parcel = pack(receipt).await?;
    ///     Ok(parcel)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let run = Runtime::default().start(order::workflow(), 500).compensate().await?;
    /// assert!(run.result().await.is_err());
    /// let undone = run.recorded().into_iter().find(|event| event.path.to_string().ends_with("tool#1.pay_back"));
    /// assert!(undone.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn compensate(mut self) -> Self {
        self.options.compensate = true;
        self
    }

    /// Streams all model calls, so that a listener that subscribes during a call receives the rest
    /// of its deltas. Default: a call is streamed if a listener for deltas exists when the call
    /// starts.
    pub fn stream(mut self) -> Self {
        self.options.stream = true;
        self
    }

    /// Disables `tracing` spans for the run and its nested agents and workflows, also after it is
    /// resumed. Default: enabled.
    pub fn without_spans(mut self) -> Self {
        self.options.untraced = true;
        self
    }

    /// Excludes the run from the `MetricsSink` (feature `metrics`). A process that resumes the run
    /// counts the rest of it. Default: included.
    pub fn without_metrics(mut self) -> Self {
        self.options.unmetered = true;
        self
    }

    /// Stores the run without executing it here, and returns its id. A [`Worker`](crate::runtime::Worker) of
    /// any process with the store executes it, or a process that resumes it. Until then its status
    /// is [`Queued`](crate::store::RunStatus::Queued). The [timeout](Self::timeout) counts from its
    /// first execution. [`RunRef::attach`](crate::runtime::RunRef::attach) follows it.
    ///
    /// The executing process provides the resources that the run needs.
    ///
    /// # Errors
    /// As [`Runtime::start`](crate::Runtime::start), except that missing resources are noticed by
    /// the process that executes the run. Also if the runtime has no store, or the run was given a
    /// [resource](Self::resource), which cannot leave this process.
    ///
    /// # Cancel safety
    /// If the future is dropped, the run may have been queued.
    pub async fn queued(self) -> Result<RunId> {
        let Self { runtime, described, mut options, version, acting, .. } = self;
        let queued = async {
            check_start(acting.as_ref(), &described, &mut options).await?;
            let (spec, inputs) = described.resolve(runtime, version).await?;
            queue(runtime, options, spec, inputs).await
        };
        noted(queued.await)
    }

    /// Sets the maximum number of model calls of the run and everything it starts. It can only
    /// lower the runtime's limit
    /// ([`RuntimeBuilder::max_llm_calls`](crate::runtime::RuntimeBuilder::max_llm_calls)). A
    /// further call fails with [`Error::LlmCallLimit`](crate::Error::LlmCallLimit), which no retry
    /// policy repeats.
    pub fn max_llm_calls(mut self, calls: u32) -> Self {
        self.options.max_llm_calls = Some(calls);
        self
    }
}

impl<'r, T: 'static> IntoFuture for StartRun<'r, T> {
    type Output = Result<RunHandle<T>>;
    type IntoFuture = BoxFuture<'r, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { runtime, described, decode, mut options, version, acting, .. } = self;
        let begins = {
            let first = self.first_events;
            move |run: &Arc<RunShared>| first.iter().for_each(|first| first.begin(run))
        };
        Box::pin(async move {
            let started = async {
                check_start(acting.as_ref(), &described, &mut options).await?;
                let (spec, inputs) = described.resolve(runtime, version).await?;
                let run = start_spec(runtime, options, &spec, inputs, decode, begins).await?;
                Ok(run.of_caller(acting.as_ref()))
            };
            noted(started.await)
        })
    }
}

/// Asks the access control, and makes the acting caller the caller of the run. A denied
/// caller gets the same error for an unknown workflow.
async fn check_start(
    acting: Option<&ActingCaller>,
    described: &Described,
    options: &mut RunOptions,
) -> Result<()> {
    let Some(acting) = acting else { return Ok(()) };
    match described {
        Described::Workflow(Ok((spec, _))) => acting.check_start(&spec.name).await?,
        Described::Named(name, _) => acting.check_start(name).await?,
        // The start fails with the error of the input.
        Described::Workflow(Err(_)) => {}
    }
    options.caller = Some(acting.caller().clone());
    Ok(())
}

impl<T> fmt::Debug for StartRun<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let workflow = match &self.described {
            Described::Workflow(workflow) => workflow.as_ref().map(|(spec, _)| &spec.name),
            Described::Named(name, _) => Ok(name),
        };
        f.debug_struct("StartRun")
            .field("workflow", &workflow)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
