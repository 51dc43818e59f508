//! The tools, agents and workflows of a runtime, and what else its host offers, as a server of the Model Context Protocol. The protocol itself is the crate
//! `rmcp`'s; none of its types is public here. [`mcp`](crate::mcp) is the other side: servers whose tools this program calls.
//!
//! See [the page](crate::mcp#serving-a-runtime) for what is offered and how a call ends.

mod asked_arguments;
mod call_progress;
mod client_answer;
mod client_requests;
mod given_answers;
#[cfg(feature = "mcp-server-http")]
mod http_callers;
#[cfg(feature = "mcp-server-http")]
mod http_listener;
#[cfg(feature = "mcp-server-http")]
mod http_service;
#[cfg(feature = "mcp-server-http")]
mod http_sessions;
mod mcp_server_error;
mod offered;
#[cfg(feature = "mcp-server-http")]
mod over_http;
mod paced_transport;
mod request_kind;
mod resource_updates;
mod served_answer;
mod served_call;
mod served_log;
mod served_prompt;
mod served_question;
mod served_reads;
mod served_resource;
mod served_run;
mod served_subscriptions;
mod served_task;
mod server_settings;
mod service;
mod unread_request;
mod uri_template;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};

pub use self::client_answer::{ClientFolder, ClientFolders, ClientReply};
#[cfg(feature = "mcp-server-http")]
pub use self::http_callers::{McpCaller, McpRefusal};
#[cfg(feature = "cli")]
pub(crate) use self::http_listener::{AcceptedPeer, accept};
#[cfg(feature = "mcp-server-http")]
pub use self::http_service::{McpHttpBody, McpHttpService};
pub use self::mcp_server_error::McpServerError;
use self::paced_transport::PacedTransport;
pub use self::served_prompt::{PromptArguments, ServedPrompt};
pub use self::served_resource::{ResourceRead, ServedContent, ServedResource};
use self::server_settings::{Settings, Shared};
use self::service::{Reach, Service};
use crate::mcp::{BoundedLines, CLOSED, Ending};
use crate::runtime::Runtime;

/// A runtime as a server of the Model Context Protocol: its tools, and those of its agents and workflows that are named
/// here, are tools of the server. Cloning is cheap; all clones share the limits.
///
/// ```
/// use agentflow::mcp::McpClient;
/// use agentflow::mcp_server::McpServer;
/// use agentflow::prelude::*;
/// # use agentflow::message::ToolCall;
///
/// /// Add two integers.
/// #[tool(effects = "none")]
/// fn served_sum(a: i64, b: i64) -> i64 {
///     a + b
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
/// let server = McpServer::from_runtime(&Runtime::builder().tools(tools![served_sum]).build());
/// // In a program of its own this is `server.serve_stdio().await?`.
/// let client = McpClient::in_memory("sums", move || {
///     let (ours, theirs) = tokio::io::duplex(64 * 1024);
///     let (input, output) = tokio::io::split(ours);
///     let server = server.clone();
///     tokio::spawn(async move { server.serve(input, output).await });
///     theirs
/// });
/// let caller = Runtime::builder().toolset(client.build()?).build();
/// let call = ToolCall::new("1", "mcp.sums.served_sum", r#"{"a": 1, "b": 2}"#);
/// let sum = caller.invoke(&call, &[]).await?;
/// assert_eq!(sum.output, r#"{"result":3}"#);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a server serves nobody before `serve`"]
pub struct McpServer {
    runtime: Runtime,
    settings: Settings,
    /// Made by the first connection.
    shared: Arc<std::sync::OnceLock<Arc<Shared>>>,
}

impl McpServer {
    /// A server of everything that is a tool of the runtime, given to it or linked into the program, and of nothing else.
    pub fn from_runtime(runtime: &Runtime) -> Self {
        Self { runtime: runtime.clone(), settings: Settings::default(), shared: Arc::default() }
    }

    /// Offers these tools alone, by the names of the catalogue, such as `files.read`; an empty list offers none. Default: all.
    pub fn tools<S: Into<Arc<str>>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.tools = Some(names.into_iter().map(Into::into).collect()))
    }

    /// Offers these agents, too: a call is a run of the runtime. An `#[agent]` takes its arguments, an agent that the
    /// runtime was given takes a `message`. Default: none.
    pub fn agents<S: Into<Arc<str>>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.agents.extend(names.into_iter().map(Into::into)))
    }

    /// Offers these workflows, too: a call is a run of the runtime. Default: none.
    pub fn workflows<S: Into<Arc<str>>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.workflows.extend(names.into_iter().map(Into::into)))
    }

    /// Offers a resource to read. Default: none. Two of one address are an error before anything is served.
    pub fn resource(self, resource: ServedResource) -> Self {
        self.set(|settings| settings.resources.push(resource))
    }

    /// Offers a prompt. Default: none. Two of one name are an error before anything is served.
    pub fn prompt(self, prompt: ServedPrompt) -> Self {
        self.set(|settings| settings.prompts.push(prompt))
    }

    /// Grants scopes to everything that is called, beside those of the runtime
    /// ([`RuntimeBuilder::grant`](crate::runtime::RuntimeBuilder::grant)): whoever can connect has them. A tool that a person
    /// must agree to needs `approve:NAME`. Default: none.
    pub fn grant<S: Into<Arc<str>>>(self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.grants.extend(scopes.into_iter().map(Into::into)))
    }

    /// Lets every client answer the approvals of the runs that it has begun: at gates, and before calls of tools. Default: no.
    /// A client would approve what it asked for itself, so the call ends with an error that names the run, until which the
    /// host answers with [`Runtime::approve`](crate::Runtime::approve) or `agentwf runs approve`. Other questions are asked
    /// of every client whose person can be asked.
    pub fn clients_approve(self) -> Self {
        self.set(|settings| settings.clients_approve = true)
    }

    /// What the server calls itself. Default: `agentflow`, with the version of this library.
    pub fn name(self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.set(|settings| (settings.name, settings.version) = (name.into(), version.into()))
    }

    /// What a client may show its model of the whole server. Default: nothing.
    pub fn instructions(self, instructions: impl Into<String>) -> Self {
        self.set(|settings| settings.instructions = Some(instructions.into()))
    }

    /// The most calls at once, over all connections, at least 1. Default: 32. A further one waits for its turn.
    pub fn max_calls(self, calls: usize) -> Self {
        self.set(|settings| settings.max_calls = calls.max(1))
    }

    /// The most calls that wait for their turn, over all connections. Default: 256. A further one is refused.
    pub fn max_waiting(self, calls: usize) -> Self {
        self.set(|settings| settings.max_waiting = calls)
    }

    /// The most runs of one caller that calls have begun and that have not ended, at least 1, where the runtime has a store: a
    /// client can leave what a run asks unanswered. Default: 1000. A call that would begin a further one is refused. Calls
    /// that begin at the same moment can exceed it, by [`max_calls`](Self::max_calls) at most.
    pub fn max_open_runs(self, runs: usize) -> Self {
        self.set(|settings| settings.max_open_runs = runs.max(1))
    }

    /// The most bytes of the arguments of a call. Default: 1 MiB. A call with more is an error.
    pub fn max_arguments(self, bytes: usize) -> Self {
        self.set(|settings| settings.max_arguments = bytes)
    }

    /// The most bytes of one message of a client. Default: 4 MiB. A longer one ends the connection; over HTTP it is refused
    /// with the status 413.
    pub fn max_message(self, bytes: usize) -> Self {
        self.set(|settings| settings.max_message = bytes)
    }

    /// How long a client may take until its first request has arrived; over HTTP, how long for the body of each request, and
    /// for its head, which has 10 seconds at most. Default: 60 seconds. A slower one is disconnected.
    pub fn handshake_timeout(self, limit: Duration) -> Self {
        self.set(|settings| settings.handshake = limit)
    }

    /// Notifies the clients that have subscribed to the resource at this address that it has changed, in this process: those
    /// of this server, and of its clones that no setting was changed of since. A client that is slow is notified once of
    /// several changes. An address that nobody has subscribed to is ignored.
    ///
    /// ```
    /// use agentflow::mcp_server::{McpServer, ServedResource};
    /// use agentflow::prelude::*;
    ///
    /// let server = McpServer::from_runtime(&Runtime::builder().build())
    ///     .resource(ServedResource::read("notes://today", |_| async { Ok::<_, String>("Nothing happened yet.") }));
    /// // `server.clone()` serves; this one says what has changed.
    /// server.resource_changed("notes://today");
    /// ```
    pub fn resource_changed(&self, uri: &str) {
        self.shared().subscriptions.changed(uri);
    }

    fn set(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(&mut self.settings);
        self.shared = Arc::default();
        self
    }

    /// Checks that everything is there which this server is to offer by name, and that no two things have one name.
    ///
    /// # Errors
    /// [`McpServerError::Offer`], [`Twice`](McpServerError::Twice) or [`Unusable`](McpServerError::Unusable).
    pub async fn check(&self) -> Result<(), McpServerError> {
        self.shared().check().await
    }

    /// The names of what is offered now, ordered.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub async fn offered(&self) -> Result<BTreeSet<String>, McpServerError> {
        self.check().await?;
        Ok(self.shared().offered().await.iter().map(|offer| offer.tool.name.to_string()).collect())
    }

    /// Serves one client until it goes away. Dropping the future ends the connection, as when the client goes away: calls of
    /// tools and runs in memory are cancelled, runs with a store continue.
    ///
    /// # Errors
    /// As [`check`](Self::check), before anything is read; [`McpServerError::Connection`] when the client does not speak the
    /// protocol, asks for nothing within [`handshake_timeout`](Self::handshake_timeout), or sends a message that is too large. That a client goes away is no error.
    pub async fn serve(
        &self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<(), McpServerError> {
        let shared = Arc::clone(self.shared());
        shared.check().await?;
        let ending = Ending::default();
        let input = BoundedLines::new(input, self.settings.max_message, ending.clone());
        // The reader has the limit.
        let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(usize::MAX);
        let service = Service::new(shared, ending.clone(), Reach::Streams);
        let limit = self.settings.handshake;
        match tokio::time::timeout(limit, rmcp::serve_server(service, PacedTransport::new(transport))).await {
            Ok(Ok(running)) => {
                let _ = running.waiting().await;
            }
            Ok(Err(ServerInitializeError::ConnectionClosed(_))) => {}
            Ok(Err(error)) => ending.because(error.to_string()),
            Err(_) => ending.because(format!("the client did not finish its handshake within {limit:?}")),
        }
        match ending.reason() {
            Some(problem) if problem != CLOSED => Err(McpServerError::Connection { problem }),
            _ => Ok(()),
        }
    }

    /// Serves the program that has started this one, over standard input and output, until it goes away. Nothing else may
    /// be written to standard output meanwhile.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub async fn serve_stdio(&self) -> Result<(), McpServerError> {
        self.serve(tokio::io::stdin(), tokio::io::stdout()).await
    }

    fn shared(&self) -> &Arc<Shared> {
        self.shared.get_or_init(|| Arc::new(Shared::new(self.runtime.clone(), self.settings.clone())))
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer").field("name", &self.settings.name).finish_non_exhaustive()
    }
}
