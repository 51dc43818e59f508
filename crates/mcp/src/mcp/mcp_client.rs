//! `McpClient`: the public handle to a server. It offers the server's tools as a toolset, and its
//! resources and prompts to programs. The connection is opened on first use and owned by
//! `server_link.rs`.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

#[cfg(feature = "auth")]
use super::authorization::{Authorizer, McpAuthorization, check_login_address};
use super::mcp_error::McpError;
use super::mcp_prompt::McpPrompt;
use super::mcp_resource::{McpContent, McpResource, McpResourceTemplate};
use super::mcp_settings::{CommandLine, Described, Origin, Settings, Streams};
use super::server_link::{McpHealth, ServerLink};
use super::server_list::{self, Listed};
use super::server_reads::ServerReads;
use super::{mirrored_tool, prompt_tools, resource_tools};
use agentflow_core::__private::extension::wire_name;
use agentflow_core::message::Message;
use agentflow_core::tool::{IntoTools, ToolList, ToolPolicy, ToolRef, Toolset, ToolsetRef};
#[cfg(feature = "http")]
use agentflow_tools::__private::HttpAddress;

/// A client of a server of the Model Context Protocol. Its tools are a [`Toolset`]: the tool `read`
/// of the server `files` has the name `mcp.files.read`.
///
/// Give it to agents with [`Agent::tools`](agentflow_core::Agent::tools) or to a runtime with
/// [`RuntimeBuilder::toolset`](agentflow_core::runtime::RuntimeBuilder::toolset). It connects when its tools
/// are first needed. Cloning is cheap, and all clones share one connection. The connection and the
/// server's process end when the last clone and the last of its tools are dropped.
#[derive(Clone)]
#[doc(alias = "MCPTool")]
#[doc(alias = "MCPClientManager")]
pub struct McpClient {
    link: Arc<ServerLink>,
    reads: Arc<ServerReads>,
    toolset: ToolsetRef,
}

/// Settings of a client before it connects. Created by [`McpClient::stdio`],
/// [`McpClient::in_memory`] or `McpClient::http`.
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::mcp::McpClient;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let files = McpClient::stdio("files", "mcp-server-files")
///     .arg("/srv/shared")
///     .allow_tools(["read", "list"])
///     .call_timeout(Duration::from_secs(30))
///     .build()?;
/// assert_eq!(&**files.name(), "files");
/// # Ok(())
/// # }
/// ```
#[must_use = "a server is connected to by `build()`"]
pub struct McpClientBuilder {
    name: Arc<str>,
    origin: Origin,
    settings: Settings,
    #[cfg(feature = "auth")]
    authorization: Option<McpAuthorization>,
}

impl McpClient {
    /// Configures a server that is a local program. The client speaks with it over its standard
    /// input and output.
    ///
    /// `name` identifies the server in this program: letters, digits, `_` and `-`. The process
    /// starts when it is first needed. Of this program's environment, it inherits only the
    /// variables that programs need to run, such as `PATH` and `HOME`. It ends with the client: its
    /// input is closed, and two seconds later the process and its children are killed.
    pub fn stdio(name: impl Into<Arc<str>>, program: impl Into<String>) -> McpClientBuilder {
        let command = CommandLine { program: program.into(), ..CommandLine::default() };
        McpClientBuilder::new(name.into(), Origin::Process(command))
    }

    #[cfg(feature = "http")]
    /// Configures a server at an address, such as `https://example.com/mcp`, over streamable HTTP.
    /// Redirects are not followed. Needs the feature `mcp-http`.
    pub fn http(name: impl Into<Arc<str>>, url: impl Into<String>) -> McpClientBuilder {
        let address = HttpAddress { url: url.into(), ..HttpAddress::default() };
        McpClientBuilder::new(name.into(), Origin::Http(address))
    }

    /// Configures a server inside this process, for tests. `connect` opens a connection. It is
    /// called again after a connection has ended.
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

    /// Returns the name that this program gave to the server.
    pub fn name(&self) -> &Arc<str> {
        self.link.name()
    }

    /// Returns the server's tools as a toolset with the name `mcp.NAME`. All toolsets of one client
    /// share the fetched list.
    pub fn toolset(&self) -> ToolsetRef {
        self.toolset.clone()
    }

    /// Returns the server's resources, ordered by address. The list is empty if the server offers
    /// no resources. Limits: 1000 resources in 100 pages.
    ///
    /// The list is cached for as long as the server permits. If the server does not give a time,
    /// the list is fetched again after the server has announced a change. If the server announces
    /// no changes, the list is fetched on each call.
    ///
    /// # Errors
    /// Returns a [`McpError`] if the server cannot be reached within the time for connecting, does
    /// not answer within the time for a call, or sends a list that exceeds the limits.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    pub async fn resources(&self) -> Result<Arc<[McpResource]>, McpError> {
        self.reads.resources().await
    }

    /// Returns the server's resource templates, ordered by address. They are cached like
    /// [`resources`](Self::resources).
    ///
    /// # Errors
    /// The same as [`resources`](Self::resources).
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    pub async fn resource_templates(&self) -> Result<Arc<[McpResourceTemplate]>, McpError> {
        self.reads.templates().await
    }

    /// Reads a resource. The result has the text or the bytes of the resource. For a folder it can
    /// have several entries, in the server's order. The result is not cached. If the connection is
    /// lost, the request is repeated once.
    ///
    /// # Errors
    /// [`McpError::Refused`] if the server does not know the address. [`McpError::Asks`] if the
    /// server wants to ask a person first. Other variants for failures within the times for
    /// connecting and for a call.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    pub async fn resource(&self, uri: &str) -> Result<Vec<McpContent>, McpError> {
        self.reads.resource(uri).await
    }

    /// Returns the server's prompts, ordered by name. They are cached like
    /// [`resources`](Self::resources).
    ///
    /// # Errors
    /// The same as [`resources`](Self::resources).
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    pub async fn prompts(&self) -> Result<Arc<[McpPrompt]>, McpError> {
        self.reads.prompts().await
    }

    /// Fetches a prompt with its arguments filled in. The messages are the beginning of a
    /// conversation. The result is not cached.
    ///
    /// # Errors
    /// [`McpError::Refused`] if the server does not know the prompt or an argument is missing.
    /// Otherwise the same as [`resource`](Self::resource).
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    pub async fn prompt(
        &self,
        name: &str,
        arguments: &[(&str, &str)],
    ) -> Result<Vec<Message>, McpError> {
        self.reads.prompt(name, arguments).await
    }

    /// Connects now, unless the client is connected already.
    ///
    /// # Errors
    /// Returns a [`McpError`] if the connection fails or exceeds the time for connecting.
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt to connect.
    pub async fn connect(&self) -> Result<(), McpError> {
        self.link.connection().await.map(drop)
    }

    /// Connects, and lets a person log in if the server wants a login and the stored login is
    /// missing or no longer accepted. [`McpClientBuilder::authorization`] defines how a person logs
    /// in. Returns at once if a login exists that the server has not refused and that has the
    /// configured scopes. Needs the feature `mcp-auth`.
    ///
    /// # Errors
    #[cfg(feature = "auth")]
    /// [`McpError::Unauthorized`] if no person has logged in or a login at the server is
    /// impossible. [`McpError::Config`] without an `authorization`. Otherwise the same as
    /// [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// A login that has begun stays open when the future is dropped. A further call waits for it.
    /// It ends with [`close`](Self::close), with the client, or after its time limit.
    pub async fn login(&self) -> Result<(), McpError> {
        self.link.log_in().await
    }

    /// Deletes the login, also from the store of logins, and revokes it if the authorization server
    /// supports that. Closes the connection like [`close`](Self::close), and ends a login that
    /// waits for a person. Needs the feature `mcp-auth`.
    ///
    /// # Errors
    #[cfg(feature = "auth")]
    /// [`McpError::Unauthorized`] if the login cannot be deleted from the store.
    /// [`McpError::Config`] without an `authorization`.
    ///
    /// # Cancel safety
    /// If the future is dropped, the login is still deleted, but the connection may stay open.
    pub async fn logout(&self) -> Result<(), McpError> {
        self.link.log_out().await
    }

    /// Returns the state of the server, derived from what happened so far. Sends no request.
    pub fn health(&self) -> McpHealth {
        self.link.health_now()
    }

    /// Closes the connection, and waits up to four seconds until the server's process has exited.
    /// Running calls fail with [`McpError::Lost`]. The next call connects again. A login that waits
    /// for a person ends.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connection may or may not be closed. A server process that is
    /// being closed is ended without waiting for it.
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
        Self {
            name,
            origin,
            settings: Settings::default(),
            #[cfg(feature = "auth")]
            authorization: None,
        }
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

    /// Sets an environment variable of the program. A value of six or more bytes is masked in the
    /// program's standard error. If the name suggests a key, such as `API_KEY` or `DB_PASSWORD`,
    /// the value is masked in all messages of the server. So are passwords in addresses, the text
    /// after `Bearer`, and arguments such as `--api-key VALUE`.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Origin::Process(command) = &mut self.origin {
            command.environment.insert(name.into(), value.into());
        }
        self
    }

    /// Passes the whole environment of this program to the server's process, including its keys.
    /// They are masked as described at [`env`](Self::env).
    pub fn inherit_env(mut self) -> Self {
        if let Origin::Process(command) = &mut self.origin {
            command.inherits = true;
        }
        self
    }

    /// Sets the working directory of the program. Default: the directory of this program.
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        if let Origin::Process(command) = &mut self.origin {
            command.folder = Some(folder.into());
        }
        self
    }

    #[cfg(feature = "http")]
    /// Sends a key with each HTTP request, as `Authorization: Bearer KEY`. The key is masked in all
    /// messages of the server. Needs the feature `mcp-http`.
    pub fn bearer(mut self, key: impl Into<String>) -> Self {
        if let Origin::Http(address) = &mut self.origin {
            address.bearer = Some(agentflow_core::model::Secret::new(key));
        }
        self
    }

    #[cfg(feature = "auth")]
    /// Logs in when the server wants a login, and sends the access token with each HTTP request.
    /// Needs the feature `mcp-auth`.
    pub fn authorization(mut self, authorization: McpAuthorization) -> Self {
        self.authorization = Some(authorization);
        self
    }

    #[cfg(feature = "http")]
    /// Sends a header with each HTTP request. A value of six or more bytes is masked in all
    /// messages of the server, with and without a word such as `Bearer` before it. Needs the
    /// feature `mcp-http`.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Origin::Http(address) = &mut self.origin {
            address.headers.insert(name.into(), value.into());
        }
        self
    }

    /// Offers only these tools, given by the server's names. Names that the server does not have
    /// are ignored. Default: all tools.
    pub fn allow_tools<S: Into<String>>(mut self, tools: impl IntoIterator<Item = S>) -> Self {
        self.settings.allow = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Excludes these tools, given by the server's names.
    pub fn deny_tools<S: Into<String>>(mut self, tools: impl IntoIterator<Item = S>) -> Self {
        self.settings.deny.extend(tools.into_iter().map(Into::into));
        self
    }

    /// Sets the policy of all tools. Default: [`ToolPolicy::default`], which treats each tool as
    /// one with side effects. The server's hints can make the policy stricter, but never wider: a
    /// tool that is declared as not read-only counts as writing, regardless of this policy.
    pub fn policy(mut self, policy: ToolPolicy) -> Self {
        self.settings.policy = policy;
        self
    }

    /// Sets the policy of one tool, given by the server's name. The server's hints do not change
    /// it.
    pub fn tool_policy(mut self, tool: impl Into<String>, policy: ToolPolicy) -> Self {
        self.settings.policies.insert(tool.into(), policy);
        self
    }

    /// Trusts the server's hints about its tools. A tool that is declared as read-only then counts
    /// as [`Effects::Read`]. A tool that is declared as idempotent then counts as idempotent, so a
    /// call that a crash interrupted is repeated.
    ///
    /// [`Effects::Read`]: agentflow_core::tool::Effects::Read
    pub fn trust_hints(mut self) -> Self {
        self.settings.trusts_hints = true;
        self
    }

    /// Adds two tools with which a model lists and reads the server's resources: `list_resources`
    /// and `read_resource`. Their names in the catalogue are `mcp.NAME.list_resources` and
    /// `mcp.NAME.read_resource`. Both count as [`Effects::Read`]. The rest of their policy comes
    /// from [`policy`](Self::policy), or from [`tool_policy`](Self::tool_policy) with these names.
    /// If the server has a tool with the same name, the server's tool is used, and
    /// [`McpHealth::left_out`] reports it. Default: no such tools.
    ///
    /// [`Effects::Read`]: agentflow_core::tool::Effects::Read
    pub fn resources_as_tools(mut self) -> Self {
        self.settings.resource_tools = true;
        self
    }

    /// Adds two tools with which a model lists the server's prompts and fetches one: `list_prompts`
    /// and `get_prompt`. Their policies follow the rules of
    /// [`resources_as_tools`](Self::resources_as_tools). A document's node uses a prompt through
    /// `get_prompt`. Default: no such tools.
    pub fn prompts_as_tools(mut self) -> Self {
        self.settings.prompt_tools = true;
        self
    }

    /// Sets the time limit for connecting, including the start of the process. Default: 25 seconds.
    /// A toolset must return its tools within 30 seconds.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.settings.connect_timeout = limit;
        self
    }

    /// Sets the time limit for a list, a resource, a prompt, and a tool call whose policy has no
    /// time-out. A call that takes longer is cancelled. Default: 60 seconds.
    pub fn call_timeout(mut self, limit: Duration) -> Self {
        self.settings.call_timeout = limit;
        self
    }

    /// Sets the maximum size in bytes of one message of the server, and of a list with all its
    /// pages. A larger message ends the connection. Default: 16 MiB.
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.settings.max_message = bytes;
        self
    }

    /// Sets the maximum size in bytes of a tool's schema. A tool with a larger schema is left out;
    /// see [`McpHealth::left_out`]. Default: 64 KiB.
    pub fn max_schema(mut self, bytes: usize) -> Self {
        self.settings.max_schema = bytes;
        self
    }

    /// Sets how often in a row the server is restarted after it ended without answering a call. The
    /// pauses between the attempts grow. After the last attempt, the server is not started for a
    /// minute, and calls fail with [`McpError::Unavailable`]. Default: 5.
    pub fn restarts(mut self, times: u32) -> Self {
        self.settings.restarts = times;
        self
    }

    /// Creates the client. Does not start or contact the server.
    ///
    /// # Errors
    /// [`McpError::Config`] in these cases:
    ///
    /// - The name cannot be a part of a tool's name.
    /// - The address is not valid, or a header cannot be sent.
    /// - The `authorization` is not valid.
    /// - The client has an `authorization`, and also a key, or a user or password in its address.
    /// - The client has an `authorization`, and the address is on another machine and has no TLS.
    pub fn build(self) -> Result<McpClient, McpError> {
        #[cfg(feature = "auth")]
        let login = self.login()?;
        let Self { name, origin, settings, .. } = self;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || !name.bytes().all(fits) {
            let problem = format!("the name `{name}` must be of letters, digits, `_` and `-`");
            return Err(McpError::Config { at: None, problem });
        }
        #[cfg(feature = "http")]
        if let Origin::Http(address) = &origin {
            address.check().map_err(|problem| McpError::Config {
                at: None,
                problem: format!("`{name}`: {problem}"),
            })?;
        }
        let toolset = format!("mcp.{name}");
        let hidden = origin.hidden();
        let link = Arc::new(ServerLink::new(Described {
            name,
            origin,
            settings,
            hidden,
            #[cfg(feature = "auth")]
            login,
        }));
        let reads = Arc::new(ServerReads::new(Arc::clone(&link)));
        let toolset = ToolsetRef::new(ServerTools { name: toolset, reads: Arc::clone(&reads) });
        Ok(McpClient { link, reads, toolset })
    }

    #[cfg(feature = "auth")]
    /// Creates the login handler of a server at an address.
    fn login(&self) -> Result<Option<Arc<Authorizer>>, McpError> {
        let Some(authorization) = &self.authorization else { return Ok(None) };
        let failed = |problem: String| McpError::Config {
            at: None,
            problem: format!("`{}`: {problem}", self.name),
        };
        let Origin::Http(address) = &self.origin else {
            return Err(failed("only a server at an address is logged in to".to_owned()));
        };
        // Both would set the header `Authorization`.
        if address.bearer.is_some()
            || address.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"))
        {
            return Err(failed("it has a key and an `authorization`; give one of them".to_owned()));
        }
        authorization.check().map_err(failed)?;
        let mut url = address.url().map_err(failed)?;
        check_login_address(&url).map_err(failed)?;
        // A fragment is never sent to a server.
        url.set_fragment(None);
        Ok(Some(Arc::new(Authorizer::new(Arc::clone(&self.name), url, authorization.clone()))))
    }
}

impl fmt::Debug for McpClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpClientBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Name of the entry for the unread rest of a list, in [`McpHealth::left_out`].
const FURTHER: &str = "*";

/// The toolset of a server.
struct ServerTools {
    name: String,
    reads: Arc<ServerReads>,
}

#[async_trait]
impl Toolset for ServerTools {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> u64 {
        self.reads.link.version_of_tools()
    }

    async fn check(&self) -> Result<(), Box<dyn StdError + Send + Sync>> {
        Ok(self.reads.link.check().await?)
    }

    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn StdError + Send + Sync>> {
        let link = &self.reads.link;
        let settings = &link.described.settings;
        let connection = link.connection().await?;
        let Listed { entries, fresh_for, cut } = server_list::tools(&connection, settings).await?;
        let (mut tools, mut left_out, mut names) = (Vec::new(), Vec::new(), BTreeMap::new());
        for tool in entries.into_iter().filter(|tool| settings.offers(&tool.name)) {
            let name = tool.name.to_string();
            // The catalogue refuses a whole toolset if two of its tools have the same wire name.
            let wire = wire_name(&format!("{}.{name}", self.name));
            let mirrored = match names.get(&wire) {
                Some(first) => Err(format!(
                    "the tool `{first}`, which is listed before it, has the same name for models"
                )),
                None => mirrored_tool::mirrored(link, tool),
            };
            match mirrored {
                Ok(tool) => {
                    names.insert(wire, name);
                    tools.push(tool);
                }
                Err(reason) => {
                    tracing::warn!(server = %link.name(), tool = name, reason, "a tool of an MCP server is left out");
                    left_out.push((name, reason));
                }
            }
        }
        // Tools of the server have precedence over the tools for its resources and prompts.
        let of_resources = settings.resource_tools.then(|| resource_tools::tools(&self.reads));
        let of_prompts = settings.prompt_tools.then(|| prompt_tools::tools(&self.reads));
        for tool in of_resources.into_iter().chain(of_prompts).flatten() {
            match tools.iter().any(|of: &ToolRef| of.catalogue_name() == tool.catalogue_name()) {
                false => tools.push(tool),
                true => left_out.push((
                    tool.catalogue_name().to_string(),
                    "the server's own tool of this name is there in its place".to_owned(),
                )),
            }
        }
        if let Some(reason) = cut {
            tracing::warn!(server = %link.name(), reason, "the tools of an MCP server are not read to their end");
            left_out.push((FURTHER.to_owned(), reason));
        }
        link.health().left_out = left_out;
        link.keep_tools(fresh_for);
        Ok(tools)
    }
}
