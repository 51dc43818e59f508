//! `RunRequest`: the input and options of an agent's run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Hooks;
use crate::event::RunId;
use crate::message::Conversation;
use crate::middleware::Middleware;
use crate::run::{RunHandle, RunOptions, RunResult};
use crate::session::Session;
use crate::state::{StateKey, StateValue};

/// What a run is asked. A text, a [`Message`](crate::Message) or a [`Conversation`] turns into one by itself.
///
/// ```
/// use agentflow::agent::RunRequest;
///
/// let request = RunRequest::new("What is 2 + 3?").max_steps(3);
/// # let _ = request;
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
    /// Where its events are listened to from the first moment on.
    #[cfg(feature = "mcp-server")]
    pub(crate) first_events: Option<crate::run::FirstEvents>,
}

/// The middleware of one run, the outermost first.
#[derive(Clone, Default)]
pub(super) struct RequestCallbacks(pub(super) Vec<Arc<dyn Middleware>>);

impl fmt::Debug for RequestCallbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|middleware| middleware.name())).finish()
    }
}

impl RunRequest {
    /// The conversation that the agent continues, without its instructions, which stand in front of each request.
    pub fn new(conversation: impl Into<Conversation>) -> Self {
        Self { conversation: conversation.into(), ..Self::default() }
    }

    /// Makes it a run of a session: the agent is given what was said in it before, and what this run adds is there for the
    /// next one, once it is complete. The request holds what is new alone. See [`session`](crate::session). Default: none.
    ///
    /// The run begins when nobody else's run of the session is unfinished; until then it fails with a
    /// [`StoreErrorKind::SessionBusy`](crate::store::StoreErrorKind::SessionBusy), or waits ([`Session::waiting`]). Not for
    /// an agent in a step of another run.
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

    /// Makes it a live run: one that does not end with the model's answer but waits for the next
    /// [message](crate::RunHandle::send_message), until it is [closed](crate::RunHandle::close), cancelled, or nobody has sent
    /// a message for its [idle time-out](Self::idle_timeout). Its output is its last answer. The limit of turns counts anew
    /// with each message that it is sent after an answer; those of model calls and time count for the whole run, and the time
    /// in which it waits does not count. It is begun with [`start`](super::Agent::start), [`stream`](super::Agent::stream) or
    /// [`Runtime::start_agent`](crate::Runtime::start_agent): [`run`](super::Agent::run) and an agent in a step give no handle and
    /// end with the model's answer. Default: not live.
    ///
    /// See [live runs](crate::session#live-runs) for an example.
    #[must_use]
    #[doc(alias = "execute_task_live")]
    pub fn live(mut self) -> Self {
        self.options.live.get_or_insert_default();
        self
    }

    /// Makes it a [live run](Self::live) that closes itself when it has waited so long for a message. The time counts from the
    /// recorded beginning of the wait, also over a restart, and stands still while an operator holds the run. Default: it
    /// waits for ever.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        let live = self.options.live.get_or_insert_default();
        live.idle_timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// When the run fails or is cancelled, undo what it had done: see
    /// [`StartRun::compensate`](crate::runtime::StartRun::compensate). An agent in a step of another run undoes nothing by
    /// itself: its run does. Default: nothing is undone.
    #[must_use]
    pub fn compensate(mut self) -> Self {
        self.options.compensate = true;
        self
    }

    /// Streams all model calls, so that a listener that subscribes during a call receives the rest of its deltas. Default: a
    /// call is streamed if a listener for deltas exists when the call begins.
    /// Not used for an agent in a step of another run.
    #[must_use]
    pub fn stream(mut self) -> Self {
        self.options.stream = true;
        self
    }

    /// Makes no `tracing` spans for the run and its nested agents and workflows, also when it is resumed. Default: it has spans.
    #[must_use]
    pub fn without_spans(mut self) -> Self {
        self.options.untraced = true;
        self
    }

    /// Has a `MetricsSink` (feature `metrics`) leave the run out. A process that resumes the run counts the rest
    /// of it. Default: it is counted.
    #[must_use]
    pub fn without_metrics(mut self) -> Self {
        self.options.unmetered = true;
        self
    }

    /// Names the run, so that the same request is not started twice in one store. Default: a new id from the runtime.
    /// Not used for an agent in a step of another run.
    #[must_use]
    pub fn run_id(mut self, id: RunId) -> Self {
        self.options.run_id = Some(id);
        self
    }

    /// On whose behalf it runs: recorded, listed by [`RunFilter::caller`](crate::store::RunFilter::caller), and read by
    /// [`Context::caller`](crate::Context::caller). An agent in a step has the caller of its run and not this one.
    #[must_use]
    pub fn caller(mut self, caller: impl Into<Arc<str>>) -> Self {
        self.options.caller = Some(caller.into());
        self
    }

    /// The trace of the host that the run belongs to, such as the 32 hexadecimal digits of a W3C trace id: recorded, and
    /// read by [`Context::trace_id`](crate::Context::trace_id). The spans of the run are in the trace that is current where it is
    /// executed; a process that resumes it finds here which one it began in. Default: none is recorded.
    #[must_use]
    pub fn trace_id(mut self, trace_id: impl Into<Arc<str>>) -> Self {
        self.options.trace_id = Some(trace_id.into());
        self
    }

    /// Adds a tag: recorded, listed by [`RunFilter::tag`](crate::store::RunFilter::tag), and read by
    /// [`Context::tags`](crate::Context::tags). A second one of the same key replaces the first. An agent in a step has
    /// the tags of its run and not these.
    #[must_use]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.tags.insert(key.into(), value.into());
        self
    }

    /// The most turns, instead of the agent's own limit.
    #[must_use]
    pub fn max_steps(mut self, steps: u32) -> Self {
        self.max_steps = Some(steps);
        self
    }

    /// The longest that the run may be executed, instead of the agent's own limit; the time in which it waits for a
    /// person does not count. Then it ends with [`Error::Timeout`](crate::Error::Timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// The most model calls of the run and everything it starts, where that is fewer than the agent's own limit
    /// ([`Limits::max_llm_calls`](super::Limits::max_llm_calls)). One more fails with
    /// [`Error::LlmCallLimit`](crate::Error::LlmCallLimit), which no retry policy repeats.
    #[must_use]
    pub fn max_llm_calls(mut self, calls: u32) -> Self {
        self.options.max_llm_calls = Some(calls);
        self
    }

    /// Grants scopes to this run, beside the agent's own.
    #[must_use]
    pub fn grant<S: Into<Arc<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.options.grants.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Sets a key of the state before the run begins: its tools and nested agents read the value with
    /// [`Context::state`](crate::Context::state). It is recorded with the beginning of the run, and in a session replaces the
    /// value of earlier runs. Only keys of the session ([`StateKey::session`](crate::state::StateKey::session)) can be set so;
    /// another key, a value without a JSON form and more than 1 MiB in total are an [`Error::State`](crate::Error::State) when
    /// the run is started. An agent in a step sees the state of the step instead.
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

    /// Gives the run a resource, found by its type, in the place of what the agent or the runtime has of that type. What
    /// is nested in the run has it too. It is not kept: after a restart
    /// [`RuntimeBuilder::run_resource`](crate::runtime::RuntimeBuilder::run_resource) makes it.
    #[must_use]
    pub fn resource<T: Send + Sync + 'static>(mut self, resource: T) -> Self {
        self.options.resources.insert(resource);
        self
    }

    /// Adds middleware or [`Hooks`] for this run, inside of the agent's middleware. They are not stored: a process that resumes
    /// the run calls none of them.
    #[must_use]
    #[doc(alias = "callbacks")]
    pub fn with(mut self, hooks: impl Into<Hooks>) -> Self {
        self.callbacks.0.extend(hooks.into().middleware);
        self
    }
}

impl RunRequest {
    /// The same as one that ends with the model's answer, for a caller who has no handle to say more or to close it.
    pub(super) fn unlive(mut self) -> Self {
        self.options.live = None;
        self
    }

    /// The same with the scopes of the context that the agent begins in.
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
    /// The conversation so far, with a result for every tool call: another run can
    /// continue from it after this one has failed or was cancelled.
    pub fn conversation(&self) -> Conversation {
        Conversation::from_events(&self.recorded())
    }
}
