//! `McpClient`: a server's tools as a toolset. It connects when they are first needed; `server_link.rs` keeps the connection.

use std::error::Error as StdError;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

use super::mcp_error::McpError;
use super::mcp_settings::{CommandLine, Described, Origin, Settings, Streams};
use super::server_link::{McpHealth, ServerLink};
use super::{mirrored_tool, server_list};
#[cfg(feature = "mcp-http")]
use crate::model::{HttpAddress, Secret};
use crate::tool::{IntoTools, ToolList, ToolPolicy, ToolRef, Toolset, ToolsetRef};

/// A server of the Model Context Protocol, whose tools are a [`Toolset`]: `read` of the server `files` is `mcp.files.read`.
///
/// Give it to agents with [`Agent::tools`](crate::Agent::tools) or to a runtime with
/// [`RuntimeBuilder::toolset`](crate::runtime::RuntimeBuilder::toolset). It connects when its tools are first needed. Cloning
/// is cheap, and all clones share one connection; with the last of them, and of the tools, the connection and the server's
/// process end.
#[derive(Clone)]
pub struct McpClient {
    link: Arc<ServerLink>,
    toolset: ToolsetRef,
}

/// What is said of a server before it is connected to; made by [`McpClient::stdio`].
#[must_use = "a server is connected to by `build()`"]
pub struct McpClientBuilder {
    name: Arc<str>,
    origin: Origin,
    settings: Settings,
}

impl McpClient {
    /// A server that is a program of this machine, spoken with over its standard input and output.
    ///
    /// `name` is what this program calls it: letters, digits, `_` and `-`. The process is started when it is first needed,
    /// gets of this program's environment only what programs need to run (such as `PATH` and `HOME`), and ends with the
    /// client: its input is closed, and what is left of it and its children is killed two seconds later.
    pub fn stdio(name: impl Into<Arc<str>>, program: impl Into<String>) -> McpClientBuilder {
        let command = CommandLine { program: program.into(), ..CommandLine::default() };
        McpClientBuilder::new(name.into(), Origin::Process(command))
    }

    /// A server at an address, such as `https://example.com/mcp`, spoken with over streamable HTTP. Redirects are not
    /// followed. Needs the feature `mcp-http`.
    #[cfg(feature = "mcp-http")]
    pub fn http(name: impl Into<Arc<str>>, url: impl Into<String>) -> McpClientBuilder {
        let address = HttpAddress { url: url.into(), ..HttpAddress::default() };
        McpClientBuilder::new(name.into(), Origin::Http(address))
    }

    /// A server in this process, for tests: `connect` makes a connection, and is called again when that has ended.
    pub fn in_memory<S: AsyncRead + AsyncWrite + Send + 'static>(
        name: impl Into<Arc<str>>,
        connect: impl Fn() -> S + Send + Sync + 'static,
    ) -> McpClientBuilder {
        let connect = move || -> Streams {
            let (output, input) = tokio::io::split(connect());
            (Box::new(output), Box::new(input))
        };
        McpClientBuilder::new(name.into(), Origin::Memory(Box::new(connect)))
    }

    /// The name that the program gave it.
    pub fn name(&self) -> &Arc<str> {
        self.link.name()
    }

    /// Its tools as a toolset, with the name `mcp.NAME`. All that come from one client share what was fetched.
    pub fn toolset(&self) -> ToolsetRef {
        self.toolset.clone()
    }

    /// Connects now, unless there is a connection.
    ///
    /// # Errors
    /// [`McpError`], within the time for connecting.
    pub async fn connect(&self) -> Result<(), McpError> {
        self.link.connection().await.map(drop)
    }

    /// How the server is, by what happened so far; nothing is asked.
    pub fn health(&self) -> McpHealth {
        self.link.health_now()
    }

    /// Ends the connection, and waits until the server's process is gone, four seconds at most. Calls that run fail with
    /// [`McpError::Lost`]; the next one connects again.
    pub async fn close(&self) {
        self.link.close().await;
    }
}

impl fmt::Debug for McpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpClient").field("name", self.name()).finish_non_exhaustive()
    }
}

impl From<McpClient> for ToolsetRef {
    fn from(client: McpClient) -> Self {
        client.toolset
    }
}

#[diagnostic::do_not_recommend]
impl IntoTools for McpClient {
    fn into_tools(self) -> ToolList {
        self.toolset.into_tools()
    }
}

impl McpClientBuilder {
    fn new(name: Arc<str>, origin: Origin) -> Self {
        Self { name, origin, settings: Settings::default() }
    }

    /// Adds an argument of the program.
    pub fn arg(self, argument: impl Into<String>) -> Self {
        self.args([argument])
    }

    /// Adds arguments of the program.
    pub fn args<S: Into<String>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        if let Origin::Process(command) = &mut self.origin {
            command.arguments.extend(arguments.into_iter().map(Into::into));
        }
        self
    }

    /// Sets a variable of the program's environment. Its value, from six bytes on, is masked in what the program says.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Origin::Process(command) = &mut self.origin {
            command.environment.insert(name.into(), value.into());
        }
        self
    }

    /// Gives the program the whole environment of this one, with all keys in it.
    pub fn inherit_env(mut self) -> Self {
        if let Origin::Process(command) = &mut self.origin {
            command.inherits = true;
        }
        self
    }

    /// Sets the program's folder. Default: that of this program.
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        if let Origin::Process(command) = &mut self.origin {
            command.folder = Some(folder.into());
        }
        self
    }

    /// Sends a key with each HTTP request, as `Authorization: Bearer KEY`. It is masked in errors. Needs the feature
    /// `mcp-http`.
    #[cfg(feature = "mcp-http")]
    pub fn bearer(mut self, key: impl Into<String>) -> Self {
        if let Origin::Http(address) = &mut self.origin {
            address.bearer = Some(Secret::new(key));
        }
        self
    }

    /// Sends a header with each HTTP request. Its value is masked in errors. Needs the feature `mcp-http`.
    #[cfg(feature = "mcp-http")]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Origin::Http(address) = &mut self.origin {
            address.headers.insert(name.into(), value.into());
        }
        self
    }

    /// Offers these tools alone, by the server's names; a name that the server does not have is ignored. Default: all.
    pub fn allow_tools<S: Into<String>>(mut self, tools: impl IntoIterator<Item = S>) -> Self {
        self.settings.allow = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Leaves these tools out, by the server's names.
    pub fn deny_tools<S: Into<String>>(mut self, tools: impl IntoIterator<Item = S>) -> Self {
        self.settings.deny.extend(tools.into_iter().map(Into::into));
        self
    }

    /// The policy of all its tools. Default: [`ToolPolicy::default`], so each is one that writes. What the server says of a
    /// tool makes the policy stricter and never wider: one that says it is not read-only writes, whatever stands here.
    pub fn policy(mut self, policy: ToolPolicy) -> Self {
        self.settings.policy = policy;
        self
    }

    /// The policy of one tool, by the server's name; of it nothing counts that the server says.
    pub fn tool_policy(mut self, tool: impl Into<String>, policy: ToolPolicy) -> Self {
        self.settings.policies.insert(tool.into(), policy);
        self
    }

    /// Believes what the server says of its tools: one that says it is read-only counts as [`Effects::Read`], one that says
    /// it is idempotent as that, so that a call which a crash interrupted is repeated.
    ///
    /// [`Effects::Read`]: crate::tool::Effects::Read
    pub fn trust_hints(mut self) -> Self {
        self.settings.trusts_hints = true;
        self
    }

    /// The longest that connecting may take, the start of the process included. Default: 25 seconds, of the 30 in which the
    /// tools of a toolset must be there.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.settings.connect_timeout = limit;
        self
    }

    /// The longest that a list may take, and a call whose policy has no time-out. Default: 60 seconds. A call that takes
    /// longer is cancelled.
    pub fn call_timeout(mut self, limit: Duration) -> Self {
        self.settings.call_timeout = limit;
        self
    }

    /// The most bytes of one message of the server. Default: 16 MiB. A longer one ends the connection.
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.settings.max_message = bytes;
        self
    }

    /// The most bytes of a tool's schema. Default: 64 KiB. A tool with a larger one is left out; see
    /// [`McpHealth::left_out`].
    pub fn max_schema(mut self, bytes: usize) -> Self {
        self.settings.max_schema = bytes;
        self
    }

    /// How often in a row the server is started again, with growing pauses, when it ends without having answered a call.
    /// Default: 5. After that it rests for a minute, and calls fail with [`McpError::Unavailable`].
    pub fn restarts(mut self, times: u32) -> Self {
        self.settings.restarts = times;
        self
    }

    /// The client. Nothing is started.
    ///
    /// # Errors
    /// [`McpError::Config`] for a name that cannot be a part of a tool's name, for an address that is not one, and for a
    /// header that cannot be sent.
    pub fn build(self) -> Result<McpClient, McpError> {
        let Self { name, origin, settings } = self;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || !name.bytes().all(fits) {
            let problem = format!("the name `{name}` must be of letters, digits, `_` and `-`");
            return Err(McpError::Config { at: None, problem });
        }
        #[cfg(feature = "mcp-http")]
        if let Origin::Http(address) = &origin {
            address
                .check()
                .map_err(|problem| McpError::Config { at: None, problem: format!("`{name}`: {problem}") })?;
        }
        let toolset = format!("mcp.{name}");
        let link = Arc::new(ServerLink::new(Described { name, origin, settings }));
        let toolset = ToolsetRef::new(ServerTools { name: toolset, link: Arc::clone(&link) });
        Ok(McpClient { link, toolset })
    }
}

impl fmt::Debug for McpClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpClientBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The tools of a server.
struct ServerTools {
    name: String,
    link: Arc<ServerLink>,
}

#[async_trait]
impl Toolset for ServerTools {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> u64 {
        self.link.version.load(Ordering::SeqCst)
    }

    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn StdError + Send + Sync>> {
        let settings = &self.link.described.settings;
        let connection = self.link.connection().await?;
        let listed = server_list::tools(&connection, settings.call_timeout).await?;
        let (mut tools, mut left_out) = (Vec::new(), Vec::new());
        for tool in listed.into_iter().filter(|tool| settings.offers(&tool.name)) {
            let name = tool.name.to_string();
            match mirrored_tool::mirrored(&self.link, tool) {
                Ok(tool) => tools.push(tool),
                Err(reason) => {
                    tracing::warn!(server = %self.link.name(), tool = name, reason, "a tool of an MCP server is left out");
                    left_out.push((name, reason));
                }
            }
        }
        self.link.health().left_out = left_out;
        Ok(tools)
    }
}
