//! `McpClient`: a server's tools as a toolset, its resources and prompts for programs. It connects when they are first needed; `server_link.rs` keeps the connection.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

#[cfg(feature = "mcp-auth")]
use super::authorization::{Authorizer, McpAuthorization, can_be_logged_in_to};
use super::mcp_error::McpError;
use super::mcp_prompt::McpPrompt;
use super::mcp_resource::{McpContent, McpResource, McpResourceTemplate};
use super::mcp_settings::{CommandLine, Described, Origin, Settings, Streams};
use super::server_link::{McpHealth, ServerLink};
use super::server_list::{self, Listed};
use super::server_reads::ServerReads;
use super::{mirrored_tool, prompt_tools, resource_tools};
#[cfg(feature = "mcp-http")]
use crate::http_address::HttpAddress;
use crate::message::Message;
use crate::tool::{IntoTools, ToolList, ToolPolicy, ToolRef, Toolset, ToolsetRef, wire_name};

/// A server of the Model Context Protocol, whose tools are a [`Toolset`]: `read` of the server `files` is `mcp.files.read`.
///
/// Give it to agents with [`Agent::tools`](crate::Agent::tools) or to a runtime with
/// [`RuntimeBuilder::toolset`](crate::runtime::RuntimeBuilder::toolset). It connects when its tools are first needed. Cloning
/// is cheap, and all clones share one connection; with the last of them, and of the tools, the connection and the server's
/// process end.
#[derive(Clone)]
#[doc(alias = "MCPTool")]
#[doc(alias = "MCPClientManager")]
pub struct McpClient {
    link: Arc<ServerLink>,
    reads: Arc<ServerReads>,
    toolset: ToolsetRef,
}

/// What is said of a server before it is connected to; made by [`McpClient::stdio`].
#[must_use = "a server is connected to by `build()`"]
pub struct McpClientBuilder {
    name: Arc<str>,
    origin: Origin,
    settings: Settings,
    #[cfg(feature = "mcp-auth")]
    authorization: Option<McpAuthorization>,
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

    /// The resources of the server, ordered by address; none of a server that has no resources. At most 1000 in 100 pages.
    ///
    /// The list is kept as long as the server says. A server that says no time is asked again when it says that its
    /// resources have changed; one that says neither is asked each time. Dropping the future cancels the request.
    ///
    /// # Errors
    /// [`McpError`], within the times for connecting and for a call; of a list without an end, too.
    pub async fn resources(&self) -> Result<Arc<[McpResource]>, McpError> {
        self.reads.resources().await
    }

    /// The templates of resources, ordered by address, kept as [`resources`](Self::resources) are.
    ///
    /// # Errors
    /// As [`resources`](Self::resources).
    pub async fn resource_templates(&self) -> Result<Arc<[McpResourceTemplate]>, McpError> {
        self.reads.templates().await
    }

    /// Reads a resource: its text or its bytes, of a folder several of them, in the server's order. Nothing is kept. Once
    /// more is asked where the connection was lost. Dropping the future cancels the request.
    ///
    /// # Errors
    /// [`McpError::Refused`] for an address that the server does not know; [`McpError::Asks`] when the server asks a person
    /// first; any other one within the times for connecting and for a call.
    pub async fn resource(&self, uri: &str) -> Result<Vec<McpContent>, McpError> {
        self.reads.resource(uri).await
    }

    /// The prompts of the server, ordered by name, kept as [`resources`](Self::resources) are.
    ///
    /// # Errors
    /// As [`resources`](Self::resources).
    pub async fn prompts(&self) -> Result<Arc<[McpPrompt]>, McpError> {
        self.reads.prompts().await
    }

    /// A prompt with its arguments filled in, as the messages that a conversation begins with. Nothing is kept.
    ///
    /// # Errors
    /// [`McpError::Refused`] for a name that the server does not know and for arguments that are missing; else as
    /// [`resource`](Self::resource).
    pub async fn prompt(&self, name: &str, arguments: &[(&str, &str)]) -> Result<Vec<Message>, McpError> {
        self.reads.prompt(name, arguments).await
    }

    /// Connects now, unless there is a connection.
    ///
    /// # Errors
    /// [`McpError`], within the time for connecting.
    pub async fn connect(&self) -> Result<(), McpError> {
        self.link.connection().await.map(drop)
    }

    /// Connects, and has a person log in if the server wants it and the login that is kept no longer does, as
    /// [`McpClientBuilder::authorization`] says. Returns at once where there is a login that the server has not refused and
    /// that has the scopes which the program says. Dropping the future leaves a login that has begun open, which ends with
    /// [`close`](Self::close), with the client or after its time; a further call waits for it.
    /// Needs the feature `mcp-auth`.
    ///
    /// # Errors
    /// [`McpError::Unauthorized`] when nobody has logged in, or the server cannot be logged in to; [`McpError::Config`]
    /// without an `authorization`; else as [`connect`](Self::connect).
    #[cfg(feature = "mcp-auth")]
    pub async fn login(&self) -> Result<(), McpError> {
        self.link.log_in().await
    }

    /// Removes the login, also where it is kept, has it revoked where the authorization server does that, and closes the
    /// connection as [`close`](Self::close) does; a login that waits for a person ends. Needs the feature `mcp-auth`.
    ///
    /// # Errors
    /// [`McpError::Unauthorized`] when it cannot be removed where it is kept; [`McpError::Config`] without an `authorization`.
    #[cfg(feature = "mcp-auth")]
    pub async fn logout(&self) -> Result<(), McpError> {
        self.link.log_out().await
    }

    /// How the server is, by what happened so far; nothing is asked.
    pub fn health(&self) -> McpHealth {
        self.link.health_now()
    }

    /// Ends the connection, and waits until the server's process is gone, four seconds at most. Calls that run fail with
    /// [`McpError::Lost`]; the next one connects again. A login that waits for a person ends.
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
            #[cfg(feature = "mcp-auth")]
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

    /// Sets a variable of the program's environment. Its value, from six bytes on, is masked in the program's standard error. The
    /// value of a name such as `API_KEY` or `DB_PASSWORD` is masked in all messages of the server; so are passwords in
    /// addresses, the text after `Bearer`, and arguments such as `--api-key VALUE`.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Origin::Process(command) = &mut self.origin {
            command.environment.insert(name.into(), value.into());
        }
        self
    }

    /// Gives the program the whole environment of this one, with all keys in it. They are masked as those of
    /// [`env`](Self::env).
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

    /// Sends a key with each HTTP request, as `Authorization: Bearer KEY`. It is masked in all messages of the server. Needs the
    /// feature `mcp-http`.
    #[cfg(feature = "mcp-http")]
    pub fn bearer(mut self, key: impl Into<String>) -> Self {
        if let Origin::Http(address) = &mut self.origin {
            address.bearer = Some(crate::model::Secret::new(key));
        }
        self
    }

    /// Logs in to the server when it wants that, and sends the token of the login with each HTTP request. Needs the feature
    /// `mcp-auth`.
    #[cfg(feature = "mcp-auth")]
    pub fn authorization(mut self, authorization: McpAuthorization) -> Self {
        self.authorization = Some(authorization);
        self
    }

    /// Sends a header with each HTTP request. Its value, from six bytes on, is masked in all messages of the server,
    /// with and without a word such as `Bearer` before it. Needs the feature `mcp-http`.
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

    /// Adds two tools, by which a model sees the server's resources and reads them: `list_resources` and `read_resource`, in
    /// the catalogue `mcp.NAME.list_resources` and so on. Both count as [`Effects::Read`]; the rest of their policy is that
    /// of [`policy`](Self::policy), or of [`tool_policy`](Self::tool_policy) by these names. Where the server itself has a
    /// tool of such a name, that one stays, and [`McpHealth::left_out`] says so. Default: no such tools.
    ///
    /// [`Effects::Read`]: crate::tool::Effects::Read
    pub fn resources_as_tools(mut self) -> Self {
        self.settings.resource_tools = true;
        self
    }

    /// Adds two tools, by which a model sees the server's prompts and gets one filled in: `list_prompts` and `get_prompt`, with
    /// the policies of [`resources_as_tools`](Self::resources_as_tools). A node of a document is bound to a prompt by the second.
    /// Default: no such tools.
    pub fn prompts_as_tools(mut self) -> Self {
        self.settings.prompt_tools = true;
        self
    }

    /// The longest that connecting may take, the start of the process included. Default: 25 seconds, of the 30 in which the
    /// tools of a toolset must be there.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.settings.connect_timeout = limit;
        self
    }

    /// The longest that a list may take, a resource, a prompt, and a call whose policy has no time-out. Default: 60 seconds. A call that takes
    /// longer is cancelled.
    pub fn call_timeout(mut self, limit: Duration) -> Self {
        self.settings.call_timeout = limit;
        self
    }

    /// The most bytes of one message of the server, and of a list with all of its pages. Default: 16 MiB. A longer one ends the connection.
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
    /// [`McpError::Config`] for a name that cannot be a part of a tool's name, for an address that is not one, for a
    /// header that cannot be sent, and for an `authorization` that cannot be used, has a key or a password in the address beside
    /// it, or is for an address on another machine without TLS.
    pub fn build(self) -> Result<McpClient, McpError> {
        #[cfg(feature = "mcp-auth")]
        let login = self.login()?;
        let Self { name, origin, settings, .. } = self;
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
        let hidden = origin.hidden();
        let link = Arc::new(ServerLink::new(Described {
            name,
            origin,
            settings,
            hidden,
            #[cfg(feature = "mcp-auth")]
            login,
        }));
        let reads = Arc::new(ServerReads::new(Arc::clone(&link)));
        let toolset = ToolsetRef::new(ServerTools { name: toolset, reads: Arc::clone(&reads) });
        Ok(McpClient { link, reads, toolset })
    }

    /// The login of a server at an address.
    #[cfg(feature = "mcp-auth")]
    fn login(&self) -> Result<Option<Arc<Authorizer>>, McpError> {
        let Some(authorization) = &self.authorization else { return Ok(None) };
        let failed = |problem: String| McpError::Config { at: None, problem: format!("`{}`: {problem}", self.name) };
        let Origin::Http(address) = &self.origin else {
            return Err(failed("only a server at an address is logged in to".to_owned()));
        };
        if address.bearer.is_some() || address.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
            return Err(failed("it has a key and an `authorization`; give one of them".to_owned()));
        }
        authorization.check().map_err(failed)?;
        let mut url = address.url().map_err(failed)?;
        can_be_logged_in_to(&url).map_err(failed)?;
        url.set_fragment(None);
        Ok(Some(Arc::new(Authorizer::new(Arc::clone(&self.name), url, authorization.clone()))))
    }
}

impl fmt::Debug for McpClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpClientBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Entry for all tools that were not read, in [`McpHealth::left_out`].
const FURTHER: &str = "*";

/// The tools of a server.
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
            // A toolset with two tools of the same wire name is refused as a whole.
            let wire = wire_name(&format!("{}.{name}", self.name));
            let mirrored = match names.get(&wire) {
                Some(first) => {
                    Err(format!("the tool `{first}`, which is listed before it, has the same name for models"))
                }
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
