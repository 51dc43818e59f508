//! `A2aClient`: an agent of another program. It fetches the card when that is first needed; `peer.rs` speaks with the agent.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::Stream;
use serde_json::Value;

use super::super::{A2aAnswer, A2aCard, A2aMessage, A2aPushConfig, A2aPushConfigs, A2aTask, A2aTasks};
use super::a2a_error::A2aError;
use super::asked::{answer_message, asked};
use super::memory_link::{Link, MEMORY};
use super::operation::{A2aTaskQuery, Operation};
use super::peer::{Peer, Settings};
use super::relay_model::A2aRelay;
use super::remote_tool::AgentTools;
use super::update_stream::{A2aStream, Following};
use crate::http_address::HttpAddress;
use crate::model::Secret;
use crate::tool::{IntoTools, ToolList, ToolPolicy, ToolsetRef};

/// An agent of another program, spoken with over the Agent2Agent protocol. As a tool of this program the agent `researcher`
/// is `a2a.researcher`.
///
/// Give it to agents with [`Agent::tools`](crate::Agent::tools) or to a runtime with
/// [`RuntimeBuilder::toolset`](crate::runtime::RuntimeBuilder::toolset), or speak with it yourself. Its card is fetched when
/// that is first needed. Cloning is cheap, and all clones share the card.
#[derive(Clone)]
pub struct A2aClient {
    peer: Arc<Peer>,
    toolset: ToolsetRef,
}

/// What is said of an agent before it is spoken with; made by [`A2aClient::at`].
#[must_use = "an agent is spoken with after `build()`"]
pub struct A2aClientBuilder {
    name: Arc<str>,
    address: HttpAddress,
    link: Link,
    settings: Settings,
}

impl A2aClient {
    /// An agent at an address: where its `/.well-known/agent-card.json` is, such as `https://agents.example`, or the address
    /// of its card, which ends with `.json`. Redirects are not followed.
    ///
    /// `name` is what this program calls it: letters, digits, `_` and `-`.
    pub fn at(name: impl Into<Arc<str>>, url: impl Into<String>) -> A2aClientBuilder {
        let address = HttpAddress { url: url.into(), ..HttpAddress::default() };
        A2aClientBuilder { name: name.into(), address, link: Link::Http, settings: Settings::default() }
    }

    /// An agent in this process, for tests: the card that it has, and what answers each request. `respond` is given a request
    /// of JSON-RPC and gives the responses to it, one, or of a stream one for each event; then the connection ends. Without
    /// any it breaks before there is an answer. What the card says of interfaces is replaced.
    pub fn in_memory<S: Stream<Item = Value> + Send + 'static>(
        name: impl Into<Arc<str>>,
        card: Value,
        respond: impl Fn(Value) -> S + Send + Sync + 'static,
    ) -> A2aClientBuilder {
        let address = HttpAddress { url: MEMORY.to_owned(), ..HttpAddress::default() };
        let link = Link::memory(card, respond);
        A2aClientBuilder { name: name.into(), address, link, settings: Settings::default() }
    }

    /// The name that the program gave it.
    pub fn name(&self) -> &Arc<str> {
        &self.peer.name
    }

    /// The agent as a toolset of one tool, `a2a.NAME`.
    pub fn toolset(&self) -> ToolsetRef {
        self.toolset.clone()
    }

    /// A model that passes on what the user says to the agent, for an agent of this program that stands for it: one that others
    /// [transfer to](crate::agent::Team), or that has sessions of its own. Give that agent the client as its only tool.
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

    /// Its card, fetched unless that was done.
    ///
    /// # Errors
    /// [`A2aError`]: it cannot be reached, its card is not one, or it speaks another version of the protocol.
    pub async fn card(&self) -> Result<Arc<A2aCard>, A2aError> {
        Ok(Arc::clone(&self.peer.chosen().await?.card))
    }

    /// Forgets the card; it is fetched again when it is next needed, and the tool is described anew.
    pub fn refresh(&self) {
        self.peer.version.fetch_add(1, Ordering::SeqCst);
    }

    /// Sends a message, and waits until its task has ended or waits for another message of it. Where the agent streams, a
    /// stream that breaks is resumed; else the task is polled. The message is sent once. Dropping the
    /// future cancels the task.
    ///
    /// # Errors
    /// [`A2aError`]. That a task failed is in its [`status`](A2aTask::status).
    pub async fn ask(&self, message: &A2aMessage) -> Result<A2aAnswer, A2aError> {
        asked(&self.peer, message, |_| {}).await
    }

    /// Builds the message that answers the question of a task with a text, in the form that its server expects: a function response
    /// for google-adk, a value to resume with for LangGraph, text for others. The task is fetched, of LangGraph also the thread
    /// with its question, which the task does not show again. The message is not sent
    /// yet. For an approval, the text is `yes` or `no`; of several questions it is a JSON array of answers.
    ///
    /// # Errors
    /// [`A2aError::Question`] when the question cannot be answered, or not with this text.
    pub async fn answer(&self, task: &str, text: impl Into<String>) -> Result<A2aMessage, A2aError> {
        answer_message(&self.peer, task, text.into()).await
    }

    /// Sends a message, and waits until the agent has it: the task may still be worked on. Dropping the future cancels
    /// nothing.
    ///
    /// # Errors
    /// [`A2aError`]; after [`Lost`](A2aError::Lost) and [`Silent`](A2aError::Silent) nobody knows whether the agent has it.
    pub async fn send(&self, message: &A2aMessage) -> Result<A2aAnswer, A2aError> {
        self.peer.ask(&Operation::send(message, &self.peer.settings.output_modes, true)).await
    }

    /// Sends a message, and streams what follows from it.
    ///
    /// # Errors
    /// As [`send`](Self::send), here and as the last item.
    pub async fn stream(&self, message: &A2aMessage) -> Result<A2aStream, A2aError> {
        let operation = Operation::stream(message, &self.peer.settings.output_modes);
        let following = Following::open(Arc::clone(&self.peer), operation, message.task_id.as_deref()).await?;
        Ok(A2aStream::new(following))
    }

    /// Streams the changes of a task that has not ended; the first item is the task as it is.
    ///
    /// # Errors
    /// [`A2aError::Refused`] with [`UnsupportedOperation`](super::super::A2aErrorCode::UnsupportedOperation) of a task that
    /// has ended.
    pub async fn subscribe(&self, task: &str) -> Result<A2aStream, A2aError> {
        let following = Following::open(Arc::clone(&self.peer), Operation::subscribe(task), Some(task)).await?;
        Ok(A2aStream::new(following))
    }

    /// A task as it is now.
    ///
    /// # Errors
    /// [`A2aError::Refused`] with [`TaskNotFound`](super::super::A2aErrorCode::TaskNotFound) when there is no such task.
    pub async fn task(&self, task: &str) -> Result<A2aTask, A2aError> {
        self.peer.ask(&Operation::get(task, None)).await
    }

    /// A task as it is now, with its newest messages, so many at most.
    ///
    /// # Errors
    /// As [`task`](Self::task).
    pub async fn task_with_history(&self, task: &str, messages: u32) -> Result<A2aTask, A2aError> {
        self.peer.ask(&Operation::get(task, Some(messages))).await
    }

    /// A page of the agent's tasks.
    ///
    /// # Errors
    /// [`A2aError`].
    pub async fn tasks(&self, query: &A2aTaskQuery) -> Result<A2aTasks, A2aError> {
        self.peer.ask(&Operation::list(query)).await
    }

    /// Cancels a task: the task as it is then.
    ///
    /// # Errors
    /// [`A2aError::Refused`] with [`TaskNotCancelable`](super::super::A2aErrorCode::TaskNotCancelable) of a task that has
    /// ended.
    pub async fn cancel(&self, task: &str) -> Result<A2aTask, A2aError> {
        self.peer.ask(&Operation::cancel(task)).await
    }

    /// Has the agent notify an address of what changes in a task: each change is a `POST` of one
    /// [`A2aUpdate`](super::super::A2aUpdate). The configuration as the agent has it, with its id.
    ///
    /// # Errors
    /// [`A2aError::Refused`] with
    /// [`PushNotificationNotSupported`](super::super::A2aErrorCode::PushNotificationNotSupported) when the agent notifies
    /// nobody, and with [`InvalidParams`](super::super::A2aErrorCode::InvalidParams) for an address that it does not notify.
    pub async fn create_push_config(&self, task: &str, config: &A2aPushConfig) -> Result<A2aPushConfig, A2aError> {
        self.peer.ask(&Operation::create_push_config(task, config)).await
    }

    /// A push configuration of a task by its id.
    ///
    /// # Errors
    /// As [`create_push_config`](Self::create_push_config), and
    /// [`TaskNotFound`](super::super::A2aErrorCode::TaskNotFound) when there is no such task or configuration.
    pub async fn push_config(&self, task: &str, id: &str) -> Result<A2aPushConfig, A2aError> {
        self.peer.ask(&Operation::push_config(task, id)).await
    }

    /// A page of the push configurations of a task: the first one, or that of a token.
    ///
    /// # Errors
    /// As [`push_config`](Self::push_config).
    pub async fn push_configs(&self, task: &str, page: Option<&str>) -> Result<A2aPushConfigs, A2aError> {
        self.peer.ask(&Operation::push_configs(task, page)).await
    }

    /// Removes a push configuration of a task. Removing one that is not there changes nothing.
    ///
    /// # Errors
    /// As [`create_push_config`](Self::create_push_config).
    pub async fn delete_push_config(&self, task: &str, id: &str) -> Result<(), A2aError> {
        self.peer.ask::<Value>(&Operation::delete_push_config(task, id)).await.map(drop)
    }

    /// The card that the agent has for clients which it knows. It is not kept: [`card`](Self::card) and the tool stay those of
    /// the card for everybody.
    ///
    /// # Errors
    /// [`A2aError::Refused`] with
    /// [`ExtendedAgentCardNotConfigured`](super::super::A2aErrorCode::ExtendedAgentCardNotConfigured) when the agent has no such card.
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
    /// Sends a key with each request, as `Authorization: Bearer KEY`. It is masked in all messages of the agent.
    pub fn bearer(mut self, key: impl Into<String>) -> Self {
        self.address.bearer = Some(Secret::new(key));
        self
    }

    /// Sends a header with each request. Its value, from six bytes on, is masked in all messages of the agent, with and
    /// without a word such as `Bearer` before it.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.address.headers.insert(name.into(), value.into());
        self
    }

    /// Lets the card name an interface at another origin, such as `https://api.example:8443`, to which keys and messages then
    /// go. Default: that of the card alone.
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.settings.origins.push(origin.into());
        self
    }

    /// Says that this program knows an extension of the protocol; each request says so.
    pub fn extension(mut self, uri: impl Into<String>) -> Self {
        self.settings.extensions.push(uri.into());
        self
    }

    /// Asks for answers of these media types, such as `text/plain`. Default: whatever the agent writes.
    pub fn output_modes<S: Into<String>>(mut self, modes: impl IntoIterator<Item = S>) -> Self {
        self.settings.output_modes.extend(modes.into_iter().map(Into::into));
        self
    }

    /// The policy of its tool. Default: [`ToolPolicy::default`], so it is one that writes, and a call that a crash
    /// interrupted is not repeated.
    pub fn policy(mut self, policy: ToolPolicy) -> Self {
        self.settings.policy = policy;
        self
    }

    /// Asks a person what the agent asks in the middle of a task, and not the model that has called its tool. Default: the
    /// model reads the question, and answers it by another call. A node of a graph always asks a person.
    ///
    /// The question is one of the run, listed by [`Runtime::approvals`](crate::Runtime::approvals) at a path below the call,
    /// and answered with a text; it waits over restarts. A run without a store asks nobody: there the model reads it.
    pub fn asks_people(mut self) -> Self {
        self.settings.asks_people = true;
        self
    }

    /// Follows a task by asking for its state, also if the card offers streams. For a server whose streams are broken or
    /// blocked on their way. Default: a stream, if the card offers one.
    pub fn without_streams(mut self) -> Self {
        self.settings.streams = false;
        self
    }

    /// What a model reads of its tool. Default: what the card says of the agent and its skills.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.settings.description = Some(description.into());
        self
    }

    /// The longest that a connection may take. Default: 10 seconds.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.settings.connect_timeout = limit;
        self
    }

    /// The longest that one answer may take, and the beginning of a stream. Default: 60 seconds.
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.settings.request_timeout = limit;
        self
    }

    /// The longest that a stream may be silent before it counts as broken. Default: 90 seconds.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.settings.idle_timeout = limit;
        self
    }

    /// The longest that a call of its tool may take, unless its policy says another time-out. Default: 10 minutes. The task
    /// is cancelled then.
    pub fn task_timeout(mut self, limit: Duration) -> Self {
        self.settings.task_timeout = limit;
        self
    }

    /// The most bytes of its card, of one answer, of one event, and of all events of one [`ask`](A2aClient::ask). Default and
    /// at most for events: 16 MiB.
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.settings.max_message = bytes;
        self
    }

    /// The client. Nothing is sent.
    ///
    /// # Errors
    /// [`A2aError::Config`] for a name that cannot be a part of a tool's name, for an address that is not one, and for a
    /// header that cannot be sent.
    pub fn build(self) -> Result<A2aClient, A2aError> {
        let Self { name, address, link, settings } = self;
        let unusable = |problem: String| A2aError::Config { agent: Arc::clone(&name), problem };
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || !name.bytes().all(fits) {
            return Err(unusable("its name must be of letters, digits, `_` and `-`".to_owned()));
        }
        address.check().map_err(unusable)?;
        let tool: Arc<str> = format!("a2a.{name}").into();
        let peer = Arc::new(Peer::new((name, tool), address, link, settings));
        let toolset = ToolsetRef::new(AgentTools { peer: Arc::clone(&peer) });
        Ok(A2aClient { peer, toolset })
    }
}

impl fmt::Debug for A2aClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("A2aClientBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}
