//! Server of the Model Context Protocol (MCP). It offers the tools, agents and workflows of a
//! runtime, and resources and prompts of the program, to MCP clients. The counterpart is
//! [`mcp`](crate::mcp), the client of other servers.
//!
//! [`McpServer`] has the settings and serves one client over streams, or many over HTTP. The crate
//! `rmcp` parses and sends the messages. A request waits for an execution permit. Then it calls a
//! tool, starts or continues a run of an agent or a workflow, or reads a resource or a prompt.
//! Questions of a run are sent to the client's person, to its model, or back as part of the result.
//! No type of `rmcp` is part of the public interface.
//!
//! See [the page](crate::mcp#serving-a-runtime) for the offered items and the outcome of calls.

mod asked_arguments;
mod call_progress;
mod client_answer;
mod client_requests;
mod given_answers;
#[cfg(feature = "server-http")]
mod http_service;
#[cfg(feature = "server-http")]
mod http_sessions;
mod mcp_server_error;
mod offered;
#[cfg(feature = "server-http")]
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
#[cfg(feature = "server-http")]
pub use self::http_service::{McpHttpBody, McpHttpService};
pub use self::mcp_server_error::McpServerError;
use self::paced_transport::PacedTransport;
pub use self::served_prompt::{PromptArguments, ServedPrompt};
pub use self::served_resource::{ResourceRead, ServedContent, ServedResource};
use self::server_settings::{Settings, Shared};
use self::service::{ClientChannel, Service};
use crate::mcp::{BoundedLines, CLOSED, Ending};
use agentflow_core::runtime::Runtime;

/// A server of the Model Context Protocol for a runtime. It offers the runtime's tools, and the
/// named agents and workflows as further tools. Cloning is cheap, and all clones share the limits.
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
/// // A separate server program calls `server.serve_stdio().await?` instead.
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
    /// Created by the first connection.
    shared: Arc<std::sync::OnceLock<Arc<Shared>>>,
}

impl McpServer {
    /// Creates a server that offers all tools of the runtime, configured or linked into the
    /// program.
    pub fn from_runtime(runtime: &Runtime) -> Self {
        Self { runtime: runtime.clone(), settings: Settings::default(), shared: Arc::default() }
    }

    /// Offers only these tools, given by their names in the catalogue, such as `files.read`. An
    /// empty list offers none. Default: all tools.
    pub fn tools<S: Into<Arc<str>>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.tools = Some(names.into_iter().map(Into::into).collect()))
    }

    /// Also offers these agents. A call starts a run of the runtime. An `#[agent]` function takes
    /// its own arguments. An agent that was added to the runtime takes one argument `message`.
    /// Default: none.
    pub fn agents<S: Into<Arc<str>>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.agents.extend(names.into_iter().map(Into::into)))
    }

    /// Also offers these workflows. A call starts a run of the runtime. Default: none.
    pub fn workflows<S: Into<Arc<str>>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.workflows.extend(names.into_iter().map(Into::into)))
    }

    /// Offers a resource. Two resources with the same address are an error when the server starts.
    /// Default: none.
    pub fn resource(self, resource: ServedResource) -> Self {
        self.set(|settings| settings.resources.push(resource))
    }

    /// Offers a prompt. Two prompts with the same name are an error when the server starts.
    /// Default: none.
    pub fn prompt(self, prompt: ServedPrompt) -> Self {
        self.set(|settings| settings.prompts.push(prompt))
    }

    /// Grants scopes to all calls, in addition to the scopes of the runtime
    /// ([`RuntimeBuilder::grant`](agentflow_core::runtime::RuntimeBuilder::grant)). Each client that can
    /// connect has them. A tool that requires an approval needs the scope `approve:NAME`. Default:
    /// none.
    pub fn grant<S: Into<Arc<str>>>(self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.grants.extend(scopes.into_iter().map(Into::into)))
    }

    /// Allows each client to answer the approvals of the runs that it has started: at gates, and
    /// before tool calls. Default: not allowed, because a client would approve its own request. The
    /// call then ends with an error that contains the run's id. The run waits until the host
    /// answers with [`RunRef::approve`](agentflow_core::runtime::RunRef::approve) or `agentwf runs approve`. Other
    /// questions are sent to all clients that support questions to their person.
    pub fn clients_approve(self) -> Self {
        self.set(|settings| settings.clients_approve = true)
    }

    /// Sets the name and version that the server reports. Default: `agentflow`, with the version of
    /// this library.
    pub fn name(self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.set(|settings| (settings.name, settings.version) = (name.into(), version.into()))
    }

    /// Sets a description of the whole server that clients may give to their model. Default: none.
    pub fn instructions(self, instructions: impl Into<String>) -> Self {
        self.set(|settings| settings.instructions = Some(instructions.into()))
    }

    /// Sets the maximum number of concurrent calls of all connections, at least 1. Further calls
    /// wait. Default: 32.
    pub fn max_calls(self, calls: usize) -> Self {
        self.set(|settings| settings.max_calls = calls.max(1))
    }

    /// Sets the maximum number of waiting calls of all connections. Further calls are refused.
    /// Default: 256.
    pub fn max_waiting(self, calls: usize) -> Self {
        self.set(|settings| settings.max_waiting = calls)
    }

    /// Sets the maximum number of unfinished runs that calls of one caller have started; 0 counts
    /// as 1. Applies to runtimes with a store, where a client can leave the questions of a run
    /// unanswered. A call that would start another run is refused. Default: 1000. Calls that start
    /// at the same moment can exceed the limit by at most [`max_calls`](Self::max_calls).
    pub fn max_open_runs(self, runs: usize) -> Self {
        self.set(|settings| settings.max_open_runs = runs.max(1))
    }

    /// Sets the maximum size in bytes of the arguments of a call. A call with larger arguments
    /// fails. Default: 1 MiB.
    pub fn max_arguments(self, bytes: usize) -> Self {
        self.set(|settings| settings.max_arguments = bytes)
    }

    /// Sets the maximum size in bytes of one message of a client. A larger message ends the
    /// connection; over HTTP it is refused with status 413. Default: 4 MiB.
    pub fn max_message(self, bytes: usize) -> Self {
        self.set(|settings| settings.max_message = bytes)
    }

    /// Sets the time limit for a client's first request. Over HTTP, it is the limit for the body of
    /// each request, and for its head, which is also limited to 10 seconds. A slower client is
    /// disconnected. Default: 60 seconds.
    pub fn handshake_timeout(self, limit: Duration) -> Self {
        self.set(|settings| settings.handshake = limit)
    }

    /// Notifies subscribed clients that the resource at this address has changed. Reaches the
    /// clients that this process serves through this server, or through clones whose settings were
    /// not changed afterwards. If a client is slow, several changes become one notification. An
    /// address without subscribers is ignored.
    ///
    /// ```
    /// use agentflow::mcp_server::{McpServer, ServedResource};
    /// use agentflow::prelude::*;
    ///
    /// let server = McpServer::from_runtime(&Runtime::builder().build())
    ///     .resource(ServedResource::read("notes://today", |_| async { Ok::<_, String>("Nothing happened yet.") }));
    /// // `server.clone()` serves the clients, and this handle reports changes.
    /// server.resource_changed("notes://today");
    /// ```
    pub fn resource_changed(&self, uri: &str) {
        self.shared().subscriptions.changed(uri);
    }

    fn set(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(&mut self.settings);
        // The shared state was built from the old settings.
        self.shared = Arc::default();
        self
    }

    /// Checks that all configured tools, agents and workflows exist, and that no two offered items
    /// have the same name.
    ///
    /// # Errors
    /// [`McpServerError::Offer`], [`Twice`](McpServerError::Twice) or
    /// [`Unusable`](McpServerError::Unusable).
    pub async fn check(&self) -> Result<(), McpServerError> {
        self.shared().check().await
    }

    /// Returns the names of the tools that the server offers now, in alphabetical order.
    ///
    /// # Errors
    /// The same as [`check`](Self::check).
    pub async fn offered(&self) -> Result<BTreeSet<String>, McpServerError> {
        self.check().await?;
        Ok(self.shared().offered().await.iter().map(|offer| offer.tool.name.to_string()).collect())
    }

    /// Serves one client until it disconnects.
    ///
    /// # Errors
    /// The same as [`check`](Self::check), before anything is read. [`McpServerError::Connection`]
    /// if the client does not speak the protocol, sends no request within
    /// [`handshake_timeout`](Self::handshake_timeout), or sends a message that is too large. A
    /// disconnect by the client is not an error.
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection as if the client had disconnected: tool calls and
    /// runs in memory are cancelled, and runs with a store continue.
    pub async fn serve(
        &self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<(), McpServerError> {
        let shared = Arc::clone(self.shared());
        shared.check().await?;
        let ending = Ending::default();
        let input = BoundedLines::new(input, self.settings.max_message, ending.clone());
        // `BoundedLines` enforces the limit.
        let transport =
            AsyncRwTransport::new_server(input, output).with_max_line_length(usize::MAX);
        let service = Service::new(shared, ending.clone(), ClientChannel::Streams);
        let limit = self.settings.handshake;
        match tokio::time::timeout(
            limit,
            rmcp::serve_server(service, PacedTransport::new(transport)),
        )
        .await
        {
            Ok(Ok(running)) => {
                let _ = running.waiting().await;
            }
            // The client disconnected before its first request, which is not an error.
            Ok(Err(ServerInitializeError::ConnectionClosed(_))) => {}
            Ok(Err(error)) => ending.because(error.to_string()),
            Err(_) => {
                ending.because(format!("the client did not finish its handshake within {limit:?}"));
            }
        }
        match ending.reason() {
            // `CLOSED` is the normal end of a connection.
            Some(problem) if problem != CLOSED => Err(McpServerError::Connection { problem }),
            _ => Ok(()),
        }
    }

    /// Serves the parent process over standard input and output, until it disconnects. Other output
    /// of the program on standard output would break the protocol.
    ///
    /// # Errors
    /// The same as [`serve`](Self::serve).
    ///
    /// # Cancel safety
    /// As for [`serve`](Self::serve).
    pub async fn serve_stdio(&self) -> Result<(), McpServerError> {
        self.serve(tokio::io::stdin(), tokio::io::stdout()).await
    }

    fn shared(&self) -> &Arc<Shared> {
        self.shared
            .get_or_init(|| Arc::new(Shared::new(self.runtime.clone(), self.settings.clone())))
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer").field("name", &self.settings.name).finish_non_exhaustive()
    }
}
