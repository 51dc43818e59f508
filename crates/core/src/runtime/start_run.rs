//! `StartRun`: a run of a workflow that is about to be started, with what it is given. Awaiting it starts the run; until
//! then nothing has happened.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use super::Runtime;
use crate::error::{Result, noted};
use crate::event::RunId;
use crate::future::BoxFuture;
use crate::run::{Ended, RunHandle, RunOptions, RunShared};
use crate::state::{StateKey, StateValue};
use crate::value::Encoded;
use crate::workflow::spec::Spec;

/// What runs, with its inputs.
pub(super) enum Described {
    Workflow(Result<(Arc<Spec>, Vec<Encoded>)>),
    /// A workflow by its name, and an object of its inputs.
    Named(Arc<str>, Result<Encoded>),
}

/// Makes a run's outcome a value of the caller's type.
pub(super) type Decode<T> = Box<dyn Fn(Ended) -> Result<T> + Send + Sync>;

/// A run of a workflow that is about to be started: returned by [`Runtime::start`] and [`Runtime::start_named`]. Awaiting
/// it starts the run on a task of its own and gives its handle; with a store, the run is kept there by then.
///
/// What it is given here is recorded when the run begins, and resuming the run changes nothing about it. A request of
/// an agent, [`RunRequest`](crate::agent::RunRequest), has the same methods.
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::prelude::*;
/// use agentflow::store::{MemoryStore, RunFilter};
///
/// #[workflow]
/// async fn greet(cx: &Context, name: String) -> Result<String> {
///     let greeting = format!("Hello {name}, asked by {}.", cx.caller().unwrap_or("nobody"));
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
/// let of_acme = runtime.runs(RunFilter::new().tag("tenant", "acme")).await?;
/// assert_eq!(of_acme[0].caller.as_deref(), Some("ada"));
/// # Ok(())
/// # }
/// ```
///
/// Dropped before it is awaited, nothing is started. Dropping the future before it is ready may leave a run with a store
/// that has begun and continues; one in memory is cancelled.
#[must_use = "a run starts when this is awaited"]
pub struct StartRun<'r, T> {
    runtime: &'r Runtime,
    described: Described,
    decode: Decode<T>,
    options: RunOptions,
    /// Where its events are listened to from the first moment on.
    #[cfg(feature = "mcp-server")]
    first_events: Option<crate::run::FirstEvents>,
}

impl<'r, T> StartRun<'r, T> {
    pub(super) fn new(runtime: &'r Runtime, described: Described, decode: Decode<T>) -> Self {
        Self {
            runtime,
            described,
            decode,
            options: RunOptions::default(),
            #[cfg(feature = "mcp-server")]
            first_events: None,
        }
    }

    /// Names the run, so that the same request is not started twice: when the store has a run of this id, starting it is
    /// refused ([`StoreErrorKind::Exists`](crate::store::StoreErrorKind::Exists)). Default: a new id from the runtime.
    pub fn run_id(mut self, id: RunId) -> Self {
        self.options.run_id = Some(id);
        self
    }

    /// On whose behalf it runs: recorded, listed by [`RunFilter::caller`](crate::store::RunFilter::caller), and read by
    /// [`Context::caller`](crate::Context::caller) in all of its steps. Default: nobody.
    pub fn caller(mut self, caller: impl Into<Arc<str>>) -> Self {
        self.options.caller = Some(caller.into());
        self
    }

    /// The trace of the host that the run belongs to, such as the 32 hexadecimal digits of a W3C trace id: recorded, and
    /// read by [`Context::trace_id`](crate::Context::trace_id) in all of its steps. The spans of the run are in the trace that is current where it is
    /// executed; a process that resumes it finds here which one it began in. Default: none is recorded.
    pub fn trace_id(mut self, trace_id: impl Into<Arc<str>>) -> Self {
        self.options.trace_id = Some(trace_id.into());
        self
    }

    /// Adds a tag: recorded, listed by [`RunFilter::tag`](crate::store::RunFilter::tag), and read by
    /// [`Context::tags`](crate::Context::tags) in all of its steps. A second one of the same key replaces the first.
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.tags.insert(key.into(), value.into());
        self
    }

    /// Listens to its events before anything of it is executed.
    #[cfg(feature = "mcp-server")]
    pub(crate) fn first_events(mut self, events: crate::run::FirstEvents) -> Self {
        self.first_events = Some(events);
        self
    }

    /// Grants scopes to this run, beside those of the runtime ([`RuntimeBuilder::grant`](super::RuntimeBuilder::grant)).
    pub fn grant<S: Into<Arc<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.options.grants.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Sets a key of the state before the run begins: every step reads the value with
    /// [`Context::state`](crate::Context::state). It is recorded with the beginning of the run. Only keys of the session
    /// ([`StateKey::session`]) can be set so; another key, a value without a JSON form and more than 1 MiB in total are an
    /// [`Error::State`](crate::Error::State) when the run is started.
    pub fn state<V: StateValue>(mut self, key: &StateKey<V>, value: &V) -> Self {
        self.options.set_state(key, value);
        self
    }

    /// Gives the run a resource, found by its type, in the place of the runtime's of that type; everything that is nested
    /// in the run has it too. It is not kept: after a restart
    /// [`RuntimeBuilder::run_resource`](super::RuntimeBuilder::run_resource) makes it, and without that the run is not
    /// resumed when a tool of it takes one.
    pub fn resource<V: Send + Sync + 'static>(mut self, resource: V) -> Self {
        self.options.resources.insert(resource);
        self
    }

    /// The longest that the run may be executed, in all its processes together; the time in which it is paused, for a
    /// person or an operator, does not count. Then what is running is stopped and the run fails with
    /// [`Error::Timeout`](crate::Error::Timeout). Default: no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// When the run fails or is cancelled, undo what it had done: each completed call of a tool that says how it is undone
    /// (`#[tool(compensate = undo)]`, [`ToolPolicy::compensate`](crate::tool::ToolPolicy::compensate)), in steps, in
    /// nested workflows, by models and by the tools that these call, the last one first. Each is undone once, also when the process ends in the middle
    /// of it; the run ends after that and is `compensating` meanwhile. Its error and its record name the calls that could not
    /// be undone. A node of such a run cannot be retried. A run that no process executes is undone where it is
    /// [cancelled](super::Runtime::cancel), or where a process resumes it that has the tools. Default: nothing is undone.
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

    /// Streams all model calls, so that a listener that subscribes during a call receives the rest of its deltas. Default: a
    /// call is streamed if a listener for deltas exists when the call begins.
    pub fn stream(mut self) -> Self {
        self.options.stream = true;
        self
    }

    /// Makes no `tracing` spans for the run and its nested agents and workflows, also when it is resumed. Default: it has spans.
    pub fn without_spans(mut self) -> Self {
        self.options.untraced = true;
        self
    }

    /// Has a `MetricsSink` (feature `metrics`) leave the run out. A process that resumes the run counts the rest
    /// of it. Default: it is counted.
    pub fn without_metrics(mut self) -> Self {
        self.options.unmetered = true;
        self
    }

    /// The most model calls of the run and everything it starts, where that is fewer than the runtime's
    /// ([`RuntimeBuilder::max_llm_calls`](super::RuntimeBuilder::max_llm_calls)). One more fails with
    /// [`Error::LlmCallLimit`](crate::Error::LlmCallLimit), which no retry policy repeats.
    pub fn max_llm_calls(mut self, calls: u32) -> Self {
        self.options.max_llm_calls = Some(calls);
        self
    }
}

impl<'r, T: 'static> IntoFuture for StartRun<'r, T> {
    type Output = Result<RunHandle<T>>;
    type IntoFuture = BoxFuture<'r, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { runtime, described, decode, options, .. } = self;
        #[cfg(feature = "mcp-server")]
        let begins = {
            let first = self.first_events;
            move |run: &Arc<RunShared>| first.iter().for_each(|first| first.begin(run))
        };
        #[cfg(not(feature = "mcp-server"))]
        let begins = |_: &Arc<RunShared>| ();
        Box::pin(async move {
            let started = async {
                let (spec, inputs) = match described {
                    Described::Workflow(workflow) => workflow?,
                    Described::Named(name, input) => runtime.named(&name, &input?).await?,
                };
                runtime.start_spec(options, &spec, inputs, decode, begins).await
            };
            noted(started.await)
        })
    }
}

impl<T> fmt::Debug for StartRun<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let workflow = match &self.described {
            Described::Workflow(workflow) => workflow.as_ref().map(|(spec, _)| &spec.name),
            Described::Named(name, _) => Ok(name),
        };
        f.debug_struct("StartRun").field("workflow", &workflow).field("options", &self.options).finish_non_exhaustive()
    }
}
