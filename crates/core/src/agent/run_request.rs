//! `RunRequest`: the input and options of an agent's run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Hooks;
use crate::caller::Caller;
use crate::event::RunId;
use crate::message::Conversation;
use crate::middleware::Middleware;
use crate::run::{RunHandle, RunOptions, RunResult};
use crate::session::Session;
use crate::state::{StateKey, StateValue};

/// Input and options of a run. A string, a [`Message`](crate::Message) or a [`Conversation`]
/// converts into a request.
///
/// ```
/// use agentflow::agent::RunRequest;
/// use agentflow::prelude::*;
/// use agentflow_testing::{ScriptedModel, Turn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let agent = Agent::new(ScriptedModel::new([Turn::text("Hello, Ada.")]));
/// let request = RunRequest::new("Greet Ada.").caller("ada").tag("desk", "front").max_steps(4);
/// assert_eq!(agent.run(request).await?.output(), "Hello, Ada.");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunRequest {
    #[doc(alias = "task")]
    pub(crate) conversation: Conversation,
    pub(crate) max_steps: Option<u32>,
    pub(crate) options: RunOptions,
    pub(crate) session: Option<Box<Session>>,
    pub(super) callbacks: RequestCallbacks,
    /// Receiver for the events of the run from its start.
    pub(crate) first_events: Option<crate::run::FirstEvents>,
}

/// The middleware of a single run, outermost first.
#[derive(Clone, Default)]
pub(super) struct RequestCallbacks(pub(super) Vec<Arc<dyn Middleware>>);

impl fmt::Debug for RequestCallbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|middleware| middleware.name())).finish()
    }
}

impl RunRequest {
    /// Creates a request with the conversation that the agent continues. It must not contain the
    /// agent's instructions, which are added to each model request.
    pub fn new(conversation: impl Into<Conversation>) -> Self {
        Self { conversation: conversation.into(), ..Self::default() }
    }

    /// Runs the request in a session: the model receives the history of the session, and the next
    /// run receives the messages of this one after it has completed. The request contains only the
    /// new messages. See [`session`](crate::session). Default: no session.
    ///
    /// A session has at most one unfinished run. If there is another one, the run fails with
    /// [`StoreErrorKind::SessionBusy`](crate::store::StoreErrorKind::SessionBusy), or waits
    /// ([`Session::waiting`]). An agent in a step of another run cannot have a session.
    ///
    /// ```
    /// use agentflow::agent::RunRequest;
    /// use agentflow::prelude::*;
    /// use agentflow::store::MemoryStore;
    /// use agentflow_testing::{ScriptedModel, Turn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let model = ScriptedModel::new([
    ///     Turn::text("Hello Ada."),
    ///     Turn::text("Ada.").expect_conversation([
    ///         "system: Be short.",
    ///         "user: I am Ada.",
    ///         "assistant: Hello Ada.",
    ///         "user: Who am I?",
    ///     ]),
    /// ]);
    /// let runtime = Runtime::builder().store(MemoryStore::new()).build();
    /// let agent = Agent::new(model).instruct("Be short.").runtime(&runtime);
    /// agent.run(RunRequest::new("I am Ada.").session("ada-1")).await?;
    /// let answer = agent.run(RunRequest::new("Who am I?").session("ada-1")).await?;
    /// assert_eq!(answer.output(), "Ada.");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn session(mut self, session: impl Into<Session>) -> Self {
        self.session = Some(Box::new(session.into()));
        self
    }

    /// Makes the run live: after an answer it does not end, but waits for the next
    /// [message](crate::RunHandle::send_message), until it is [closed](crate::RunHandle::close) or
    /// cancelled, or the [idle time-out](Self::idle_timeout) expires. The output is the last
    /// answer. Each message after an answer restarts the limit of turns. The limits of model calls
    /// and time apply to the whole run; the time of waiting does not count. Default: not live.
    ///
    /// Start a live run with [`start`](super::Agent::start), [`stream`](super::Agent::stream) or
    /// [`Runtime::start_agent`](crate::Runtime::start_agent). [`run`](super::Agent::run) and an
    /// agent in a step return no handle, so they end with the model's answer.
    ///
    /// See [live runs](crate::session#live-runs) for an example.
    #[must_use]
    #[doc(alias = "execute_task_live")]
    pub fn live(mut self) -> Self {
        self.options.live.get_or_insert_default();
        self
    }

    /// Makes the run [live](Self::live) and closes it after it has waited this long for a message.
    /// The time is measured from the recorded start of the wait, also across a restart, and is
    /// suspended while an operator pauses the run. Default: no time-out.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        let live = self.options.live.get_or_insert_default();
        live.idle_timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Compensates the completed steps if the run fails or is cancelled: see
    /// [`StartRun::compensate`](crate::runtime::StartRun::compensate). Ignored for an agent in a
    /// step of another run, which compensates all its steps itself. Default: off.
    #[must_use]
    pub fn compensate(mut self) -> Self {
        self.options.compensate = true;
        self
    }

    /// Streams all model calls, so that a listener that subscribes during a call receives the rest
    /// of its deltas. Default: a call is streamed if a listener for deltas exists when the call
    /// starts. Ignored for an agent in a step of another run.
    #[must_use]
    pub fn stream(mut self) -> Self {
        self.options.stream = true;
        self
    }

    /// Disables `tracing` spans for the run and its nested agents and workflows, also after it is
    /// resumed. Default: enabled.
    #[must_use]
    pub fn without_spans(mut self) -> Self {
        self.options.untraced = true;
        self
    }

    /// Excludes the run from the `MetricsSink` (feature `metrics`). A process that resumes the run
    /// counts the rest of it. Default: included.
    #[must_use]
    pub fn without_metrics(mut self) -> Self {
        self.options.unmetered = true;
        self
    }

    /// Sets the id of the run, so that the same request is not started twice in a store. Default: a
    /// new id from the runtime. Ignored for an agent in a step of another run.
    #[must_use]
    pub fn run_id(mut self, id: RunId) -> Self {
        self.options.run_id = Some(id);
        self
    }

    /// Sets the caller on whose behalf the run is started: a [`Caller`], or the name of one. It is
    /// recorded, used by [`RunFilter::caller`](crate::store::RunFilter::caller), and returned by
    /// [`Context::caller`](crate::Context::caller). Its scopes are granted to the run. An agent in a
    /// step has the caller of the enclosing run instead.
    #[must_use]
    pub fn caller(mut self, caller: impl Into<Caller>) -> Self {
        self.options.caller = Some(caller.into());
        self
    }

    /// Sets the trace of the host application that the run belongs to, such as the 32 hexadecimal
    /// digits of a W3C trace id. It is recorded and returned by
    /// [`Context::trace_id`](crate::Context::trace_id). Spans of the run belong to the trace that
    /// is current where the run is executed; a process that resumes the run finds the original
    /// trace here. Default: none.
    #[must_use]
    pub fn trace_id(mut self, trace_id: impl Into<Arc<str>>) -> Self {
        self.options.trace_id = Some(trace_id.into());
        self
    }

    /// Adds a tag. It is recorded, used by [`RunFilter::tag`](crate::store::RunFilter::tag), and
    /// returned by [`Context::tags`](crate::Context::tags). A second tag with the same key replaces
    /// the first. An agent in a step has the tags of the enclosing run instead.
    #[must_use]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.tags.insert(key.into(), value.into());
        self
    }

    /// Sets the maximum number of turns, instead of the agent's own limit.
    #[must_use]
    pub fn max_steps(mut self, steps: u32) -> Self {
        self.max_steps = Some(steps);
        self
    }

    /// Sets the maximum execution time of the run, instead of the agent's own limit. Waiting for a
    /// person does not count. The run then ends with [`Error::Timeout`](crate::Error::Timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Sets the maximum number of model calls of the run and everything it starts. It can only
    /// lower the agent's own limit ([`Limits::max_llm_calls`](super::Limits::max_llm_calls)). A
    /// further call fails with [`Error::LlmCallLimit`](crate::Error::LlmCallLimit), which no retry
    /// policy repeats.
    #[must_use]
    pub fn max_llm_calls(mut self, calls: u32) -> Self {
        self.options.max_llm_calls = Some(calls);
        self
    }

    /// Grants scopes to this run, in addition to the agent's own.
    #[must_use]
    pub fn grant<S: Into<Arc<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.options.grants.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Sets a state key before the run starts. Its tools and nested agents read the value with
    /// [`Context::state`](crate::Context::state). The value is recorded with the start of the run,
    /// and in a session it replaces the value of earlier runs. Only session keys
    /// ([`StateKey::session`](crate::state::StateKey::session)) are allowed. Another key, a value
    /// without a JSON form, or more than 1 MiB in total cause an
    /// [`Error::State`](crate::Error::State) when the run is started. An agent in a step uses the
    /// state of the step instead.
    ///
    /// ```
    /// use agentflow::agent::RunRequest;
    /// use agentflow::prelude::*;
    /// use agentflow::state::StateKey;
    /// use agentflow_testing::{ScriptedModel, Turn};
    ///
    /// static TENANT: StateKey<String> = StateKey::session("tenant");
    ///
    /// /// The tenant of the request.
    /// #[tool(effects = "read")]
    /// async fn tenant(cx: &Context) -> Result<Option<String>> {
    ///     cx.state(&TENANT).await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let model = ScriptedModel::new([
    ///     Turn::call("tenant", serde_json::json!({})),
    ///     Turn::text("It is acme.").expect_result("tenant", serde_json::json!("acme")),
    /// ]);
    /// let agent = Agent::new(model).tools(tools![tenant]);
    /// agent.run(RunRequest::new("Whose request is it?").state(&TENANT, &"acme".to_owned())).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    #[doc(alias = "context")]
    pub fn state<T: StateValue>(mut self, key: &StateKey<T>, value: &T) -> Self {
        self.options.set_state(key, value);
        self
    }

    /// Adds a resource, identified by its type. It replaces the agent's or the runtime's resource
    /// of that type, also for nested calls. The resource is not stored: after a restart
    /// [`RuntimeBuilder::run_resource`](crate::runtime::RuntimeBuilder::run_resource) creates it.
    #[must_use]
    pub fn resource<T: Send + Sync + 'static>(mut self, resource: T) -> Self {
        self.options.resources.insert(resource);
        self
    }

    /// Adds middleware or [`Hooks`] for this run, inside the agent's middleware. They are not
    /// stored: a process that resumes the run does not call them.
    #[must_use]
    #[doc(alias = "callbacks")]
    pub fn with(mut self, hooks: impl Into<Hooks>) -> Self {
        self.callbacks.0.extend(hooks.into().middleware);
        self
    }
}

impl RunRequest {
    /// Removes the live option, for a caller that has no handle to send messages or to close the
    /// run.
    pub(super) fn without_live(mut self) -> Self {
        self.options.live = None;
        self
    }

    /// Adds the scopes of the context in which the agent starts.
    pub(super) fn granted_as(mut self, grants: &[Arc<str>]) -> Self {
        let missing = |scope: &&Arc<str>| !self.options.grants.contains(*scope);
        let more: Vec<Arc<str>> = grants.iter().filter(missing).cloned().collect();
        self.options.grants.extend(more);
        self
    }
}

impl<T: Into<Conversation>> From<T> for RunRequest {
    fn from(conversation: T) -> Self {
        Self::new(conversation)
    }
}

impl<O> RunHandle<RunResult<O>> {
    /// Returns the conversation so far, with a result for every tool call. Another run can continue
    /// it, also after this run has failed or was cancelled.
    pub fn conversation(&self) -> Conversation {
        Conversation::from_events(&self.recorded())
    }
}
