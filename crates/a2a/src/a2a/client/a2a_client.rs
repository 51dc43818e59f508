//! `A2aClient`: the public client of a remote A2A agent. It fetches the card on first use;
//! `peer.rs` exchanges the requests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::Stream;
use serde_json::Value;

use super::super::{
    A2aAnswer, A2aCard, A2aMessage, A2aPushConfig, A2aPushConfigs, A2aTask, A2aTasks,
};
use super::a2a_error::A2aError;
use super::asked::{answer_message, asked};
use super::memory_link::{Link, MEMORY};
use super::operation::{A2aTaskQuery, Operation};
use super::peer::{Peer, Settings};
use super::relay_model::A2aRelay;
use super::remote_tool::A2aToolset;
use super::update_stream::{A2aStream, UpdateReader};
use agentflow_core::model::Secret;
use agentflow_core::tool::{IntoTools, ToolList, ToolPolicy, ToolsetRef};
use agentflow_tools::__private::HttpAddress;

/// A client of a remote agent that speaks the Agent2Agent (A2A) protocol. It is also a tool: the
/// agent `researcher` is the tool `a2a.researcher`.
///
/// Pass the client to agents with [`Agent::tools`](agentflow_core::Agent::tools) or to a runtime with
/// [`RuntimeBuilder::toolset`](agentflow_core::runtime::RuntimeBuilder::toolset), or send messages with its
/// methods. The card is fetched on first use. Cloning is cheap; all clones share the card.
///
/// ```
/// use agentflow::a2a::{A2aAnswer, A2aClient, A2aMessage};
/// use agentflow::prelude::*;
///
/// # async fn example() -> std::result::Result<(), Box<dyn std::error::Error>> {
/// let researcher = A2aClient::at("researcher", "https://agents.example").bearer("RESEARCHER_KEY").build()?;
/// if let A2aAnswer::Task(task) = researcher.ask(&A2aMessage::user_text("Who sells tea?")).await? {
///     println!("{}", task.text());
/// }
/// let agent = Agent::new("openai/gpt-5-mini").tools(researcher);
/// # drop(agent);
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
/// Dropping the future of a method that only reads, such as [`task`](Self::task),
/// [`tasks`](Self::tasks) or [`card`](Self::card), ends its request. The other methods describe the
/// effect.
#[derive(Clone)]
pub struct A2aClient {
    peer: Arc<Peer>,
    toolset: ToolsetRef,
}

/// Settings of an [`A2aClient`], created by [`A2aClient::at`].
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::a2a::A2aClient;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = A2aClient::at("researcher", "https://agents.example")
///     .bearer("RESEARCHER_KEY")
///     .task_timeout(Duration::from_secs(600))
///     .asks_people()
///     .build()?;
/// assert_eq!(&**client.name(), "researcher");
/// # Ok(())
/// # }
/// ```
#[must_use = "an agent is spoken with after `build()`"]
pub struct A2aClientBuilder {
    name: Arc<str>,
    address: HttpAddress,
    link: Link,
    settings: Settings,
}

impl A2aClient {
    /// Configures a client for the agent at `url`. The URL is either the base URL, such as
    /// `https://agents.example`, below which the card is found at `/.well-known/agent-card.json`,
    /// or the URL of the card itself, which ends with `.json`. Redirects are not followed.
    ///
    /// `name` is the name of the agent in this program: letters, digits, `_` and `-`.
    pub fn at(name: impl Into<Arc<str>>, url: impl Into<String>) -> A2aClientBuilder {
        let address = HttpAddress { url: url.into(), ..HttpAddress::default() };
        A2aClientBuilder {
            name: name.into(),
            address,
            link: Link::Http,
            settings: Settings::default(),
        }
    }

    /// Configures a client for an agent in this process, for tests. The interfaces in `card` are
    /// replaced.
    ///
    /// `respond` receives a JSON-RPC request and returns its responses: a single response, or one
    /// per event for a stream. The connection ends with the last response. If there is no response,
    /// the connection breaks before the answer.
    pub fn in_memory<S: Stream<Item = Value> + Send + 'static>(
        name: impl Into<Arc<str>>,
        card: Value,
        respond: impl Fn(Value) -> S + Send + Sync + 'static,
    ) -> A2aClientBuilder {
        let address = HttpAddress { url: MEMORY.to_owned(), ..HttpAddress::default() };
        let link = Link::memory(card, respond);
        A2aClientBuilder { name: name.into(), address, link, settings: Settings::default() }
    }

    /// Returns the name of the agent in this program.
    pub fn name(&self) -> &Arc<str> {
        &self.peer.name
    }

    /// Returns the agent as a toolset with one tool, `a2a.NAME`.
    pub fn toolset(&self) -> ToolsetRef {
        self.toolset.clone()
    }

    /// Creates a model that forwards the user's messages to the agent. An agent with this model
    /// represents the remote agent in this program: other agents can [hand off to
    /// it](agentflow_core::agent::Team), and it has sessions. Give that agent this client as its only tool.
    ///
    /// ```
    /// use agentflow::a2a::A2aClient;
    /// use agentflow::agent::Team;
    /// use agentflow::prelude::*;
    ///
    /// # fn example(triage: Agent) -> std::result::Result<(), Box<dyn std::error::Error>> {
    /// let billing = A2aClient::at("billing", "https://agents.example").build()?;
    /// let billing = Agent::new(billing.relay()).name("billing").tools(billing);
    /// let desk = Team::new(triage, &["billing"]).agent(billing, &[]).about("billing", "Knows invoices.").build()?;
    /// # drop(desk);
    /// # Ok(())
    /// # }
    /// ```
    pub fn relay(&self) -> A2aRelay {
        A2aRelay::new(self.name())
    }

    /// Returns the agent's card. Fetches it on first use.
    ///
    /// # Errors
    /// [`A2aError`] if the agent cannot be reached, if the card is invalid, or if the agent
    /// supports another version of the protocol.
    ///
    /// # Cancel safety
    /// Dropping the future ends the request.
    pub async fn card(&self) -> Result<Arc<A2aCard>, A2aError> {
        Ok(Arc::clone(&self.peer.chosen().await?.card))
    }

    /// Invalidates the cached card. The next use fetches it again and updates the description of
    /// the tool.
    pub fn refresh(&self) {
        self.peer.version.fetch_add(1, Ordering::SeqCst);
    }

    /// Sends a message, and waits until its task has ended or waits for input. If the agent
    /// supports streaming, the client follows the stream and resumes it after a disconnect;
    /// otherwise it polls the task. The message is sent only once.
    ///
    /// # Errors
    /// [`A2aError`]. A failed task is not an error; see its [`status`](A2aTask::status). After an
    /// error other than [`Refused`](A2aError::Refused), the client cancels the task.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the task, in the background. If the agent has not yet returned
    /// the id of the task, the task cannot be cancelled and may continue.
    pub async fn ask(&self, message: &A2aMessage) -> Result<A2aAnswer, A2aError> {
        asked(&self.peer, message, |_| {}).await
    }

    /// Builds the message that answers a task's question with text, in the form that its server
    /// expects: a function response for google-adk, a value to resume with for LangGraph, text for
    /// other servers. The message is not sent.
    ///
    /// The task is fetched. For LangGraph, its thread is fetched too, because the task does not
    /// show its question a second time. To answer an approval, `text` is `yes` or `no`; to answer
    /// several questions, it is a JSON array with an answer for each.
    ///
    /// # Errors
    /// [`A2aError::Question`] if the question cannot be answered, or not with this text.
    ///
    /// # Cancel safety
    /// Dropping the future ends the requests. They only read the task.
    pub async fn answer(
        &self,
        task: &str,
        text: impl Into<String>,
    ) -> Result<A2aMessage, A2aError> {
        answer_message(&self.peer, task, text.into()).await
    }

    /// Sends a message, and waits only until the agent has received it. The returned task may still
    /// be running.
    ///
    /// # Errors
    /// [`A2aError`]. After [`Lost`](A2aError::Lost) and [`Silent`](A2aError::Silent), it is unknown
    /// if the agent received the message.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel the task.
    pub async fn send(&self, message: &A2aMessage) -> Result<A2aAnswer, A2aError> {
        self.peer.ask(&Operation::send(message, &self.peer.settings.output_modes, true)).await
    }

    /// Sends a message, and returns a stream of the task's updates.
    ///
    /// # Errors
    /// As [`send`](Self::send), from this method or as the last item of the stream.
    ///
    /// # Cancel safety
    /// If the future is dropped, the agent may have received the message, and its task continues.
    pub async fn stream(&self, message: &A2aMessage) -> Result<A2aStream, A2aError> {
        let operation = Operation::stream(message, &self.peer.settings.output_modes);
        let following =
            UpdateReader::open(Arc::clone(&self.peer), operation, message.task_id.as_deref())
                .await?;
        Ok(A2aStream::new(following))
    }

    /// Returns a stream of the updates of a running task. The first item is the current task.
    ///
    /// # Errors
    /// [`A2aError::Refused`] with
    /// [`UnsupportedOperation`](super::super::A2aErrorCode::UnsupportedOperation) if the task has
    /// ended.
    ///
    /// # Cancel safety
    /// Dropping the future or the stream does not affect the task.
    pub async fn subscribe(&self, task: &str) -> Result<A2aStream, A2aError> {
        let following =
            UpdateReader::open(Arc::clone(&self.peer), Operation::subscribe(task), Some(task))
                .await?;
        Ok(A2aStream::new(following))
    }

    /// Returns the current task.
    ///
    /// # Errors
    /// [`A2aError::Refused`] with [`TaskNotFound`](super::super::A2aErrorCode::TaskNotFound) if the
    /// task does not exist.
    pub async fn task(&self, task: &str) -> Result<A2aTask, A2aError> {
        self.peer.ask(&Operation::get(task, None)).await
    }

    /// Returns the current task with its newest messages, at most `messages`.
    ///
    /// # Errors
    /// As [`task`](Self::task).
    pub async fn task_with_history(&self, task: &str, messages: u32) -> Result<A2aTask, A2aError> {
        self.peer.ask(&Operation::get(task, Some(messages))).await
    }

    /// Returns a page of the agent's tasks.
    ///
    /// # Errors
    /// [`A2aError`] if the request fails or the agent refuses it.
    pub async fn tasks(&self, query: &A2aTaskQuery) -> Result<A2aTasks, A2aError> {
        self.peer.ask(&Operation::list(query)).await
    }

    /// Cancels a task, and returns it in its new state.
    ///
    /// # Errors
    /// [`A2aError::Refused`] with
    /// [`TaskNotCancelable`](super::super::A2aErrorCode::TaskNotCancelable) if the task has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped, the task may or may not be cancelled.
    pub async fn cancel(&self, task: &str) -> Result<A2aTask, A2aError> {
        self.peer.ask(&Operation::cancel(task)).await
    }

    /// Registers an address that the agent notifies of the task's changes. Each notification is a
    /// `POST` of one [`A2aUpdate`](super::super::A2aUpdate). Returns the configuration as the agent
    /// stored it, with its id.
    ///
    /// # Errors
    /// [`A2aError::Refused`] with
    /// [`PushNotificationNotSupported`](super::super::A2aErrorCode::PushNotificationNotSupported)
    /// if the agent does not send notifications, and with
    /// [`InvalidParams`](super::super::A2aErrorCode::InvalidParams) if it does not accept the
    /// address.
    ///
    /// # Cancel safety
    /// If the future is dropped, the agent may or may not have stored the configuration.
    pub async fn create_push_config(
        &self,
        task: &str,
        config: &A2aPushConfig,
    ) -> Result<A2aPushConfig, A2aError> {
        self.peer.ask(&Operation::create_push_config(task, config)).await
    }

    /// Returns a push configuration of a task.
    ///
    /// # Errors
    /// As [`create_push_config`](Self::create_push_config), and
    /// [`TaskNotFound`](super::super::A2aErrorCode::TaskNotFound) if the task or the configuration
    /// does not exist.
    pub async fn push_config(&self, task: &str, id: &str) -> Result<A2aPushConfig, A2aError> {
        self.peer.ask(&Operation::push_config(task, id)).await
    }

    /// Returns a page of the push configurations of a task: the first page, or the page with the
    /// token `page`.
    ///
    /// # Errors
    /// As [`push_config`](Self::push_config).
    pub async fn push_configs(
        &self,
        task: &str,
        page: Option<&str>,
    ) -> Result<A2aPushConfigs, A2aError> {
        self.peer.ask(&Operation::push_configs(task, page)).await
    }

    /// Removes a push configuration of a task. Removing an unknown configuration has no effect.
    ///
    /// # Errors
    /// As [`create_push_config`](Self::create_push_config).
    ///
    /// # Cancel safety
    /// If the future is dropped, the configuration may or may not be removed.
    pub async fn delete_push_config(&self, task: &str, id: &str) -> Result<(), A2aError> {
        self.peer.ask::<Value>(&Operation::delete_push_config(task, id)).await.map(drop)
    }

    /// Fetches the extended card, which the agent shows only to authenticated clients. The card is
    /// not cached: [`card`](Self::card) and the tool still use the public card.
    ///
    /// # Errors
    /// [`A2aError::Refused`] with
    /// [`ExtendedAgentCardNotConfigured`](super::super::A2aErrorCode::ExtendedAgentCardNotConfigured)
    /// if the agent has no extended card.
    pub async fn extended_card(&self) -> Result<A2aCard, A2aError> {
        self.peer.ask(&Operation::extended_card()).await
    }
}

impl fmt::Debug for A2aClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("A2aClient").field("name", self.name()).finish_non_exhaustive()
    }
}

impl From<A2aClient> for ToolsetRef {
    fn from(client: A2aClient) -> Self {
        client.toolset
    }
}

#[diagnostic::do_not_recommend]
impl IntoTools for A2aClient {
    fn into_tools(self) -> ToolList {
        self.toolset.into_tools()
    }
}

impl A2aClientBuilder {
    /// Sends `Authorization: Bearer KEY` with each request. The key is masked in all messages of
    /// the agent.
    pub fn bearer(mut self, key: impl Into<String>) -> Self {
        self.address.bearer = Some(Secret::new(key));
        self
    }

    /// Sends a header with each request. Values of at least six bytes are masked in all messages
    /// of the agent, with and without a leading word such as `Bearer`. Values of `accept`,
    /// `accept-language`, `content-type` and `user-agent` are not masked.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.address.headers.insert(name.into(), value.into());
        self
    }

    /// Allows the card to name an interface at another origin, such as `https://api.example:8443`.
    /// Keys and messages are then sent to that origin. Default: only the origin of the card is
    /// allowed.
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.settings.origins.push(origin.into());
        self
    }

    /// Declares that this program supports a protocol extension. Each request names the extension.
    pub fn extension(mut self, uri: impl Into<String>) -> Self {
        self.settings.extensions.push(uri.into());
        self
    }

    /// Requests responses in these media types, such as `text/plain`. Default: the agent chooses.
    pub fn output_modes<S: Into<String>>(mut self, modes: impl IntoIterator<Item = S>) -> Self {
        self.settings.output_modes.extend(modes.into_iter().map(Into::into));
        self
    }

    /// Sets the policy of the agent's tool. Default: [`ToolPolicy::default`], so the tool has side
    /// effects and a call that was interrupted by a crash is not repeated.
    pub fn policy(mut self, policy: ToolPolicy) -> Self {
        self.settings.policy = policy;
        self
    }

    /// Asks a person, instead of the calling model, when the agent asks a question in the middle of
    /// a task. Default: the model reads the question and answers it with another call. A node of a
    /// graph always asks a person.
    ///
    /// The question belongs to the run. [`Runs::questions`](agentflow_core::runtime::Runs::questions)
    /// lists it at a path below the call; its answer is a string. The question survives restarts.
    /// In a run without a store no person can be asked, so the model reads the question.
    pub fn asks_people(mut self) -> Self {
        self.settings.asks_people = true;
        self
    }

    /// Polls tasks even if the card offers streaming. Use this for servers whose streams are broken
    /// or blocked by a proxy. Default: streaming, if the card offers it.
    pub fn without_streams(mut self) -> Self {
        self.settings.streams = false;
        self
    }

    /// Sets the description of the tool for models. Default: the description of the agent and its
    /// skills in the card.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.settings.description = Some(description.into());
        self
    }

    /// Limits the time to establish a connection. Default: 10 seconds.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.settings.connect_timeout = limit;
        self
    }

    /// Limits the time of one response, and the time until a stream begins. Default: 60 seconds.
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.settings.request_timeout = limit;
        self
    }

    /// Limits the time without data on a stream. A stream that is silent for longer counts as
    /// broken. Default: 90 seconds.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.settings.idle_timeout = limit;
        self
    }

    /// Limits the time of one tool call, unless the policy has a time-out. When it has passed, the
    /// task is cancelled. Default: 10 minutes.
    pub fn task_timeout(mut self, limit: Duration) -> Self {
        self.settings.task_timeout = limit;
        self
    }

    /// Limits the bytes of the card, of one response, of one event, and of all events of one
    /// [`ask`](A2aClient::ask). Default: 16 MiB, which is also the upper limit for an event.
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.settings.max_message = bytes;
        self
    }

    /// Builds the client. Sends no request.
    ///
    /// # Errors
    /// [`A2aError::Config`] if the name cannot be part of a tool name, if the address is invalid,
    /// or if a header cannot be sent.
    pub fn build(self) -> Result<A2aClient, A2aError> {
        let Self { name, address, link, settings } = self;
        let unusable = |problem: String| A2aError::Config { agent: Arc::clone(&name), problem };
        // The name becomes part of a tool name.
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || !name.bytes().all(fits) {
            return Err(unusable("its name must be of letters, digits, `_` and `-`".to_owned()));
        }
        address.check().map_err(unusable)?;
        let tool: Arc<str> = format!("a2a.{name}").into();
        let peer = Arc::new(Peer::new((name, tool), address, link, settings));
        let toolset = ToolsetRef::new(A2aToolset { peer: Arc::clone(&peer) });
        Ok(A2aClient { peer, toolset })
    }
}

impl fmt::Debug for A2aClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("A2aClientBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}
