//! MCP servers and A2A agents in a configuration.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;

use crate::entry_problem::EntryProblem;
use agentflow_core::model::SecretProvider;
use agentflow_core::tool::{ToolRef, Toolset, ToolsetRef};

/// Settings of an MCP server, by its name in
/// [`RuntimeConfig::mcp_servers`](crate::RuntimeConfig::mcp_servers): a local program with
/// `command`, or a remote server with `url`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct McpServerSettings {
    /// Program of a local server.
    pub command: Option<String>,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Environment variables of the program, in addition to the few that every program needs.
    pub env: BTreeMap<String, String>,
    /// Working directory of the process. Default: the current directory.
    pub cwd: Option<PathBuf>,
    /// Address of a server that uses streamable HTTP.
    pub url: Option<String>,
    /// Key that is sent as a bearer token to the address.
    pub key: Option<String>,
    /// Headers of each request to the address.
    pub headers: BTreeMap<String, String>,
    /// Uses the login that `agentwf mcp login` has stored for the address.
    pub login: bool,
    /// Disables the server.
    pub disabled: bool,
    /// The only tools that are offered, by the names of the server. Default: all.
    pub allow_tools: Option<Vec<String>>,
    /// Tools that are not offered.
    pub deny_tools: Vec<String>,
    /// Adds the tools `list_resources` and `read_resource`. Nodes with a resource call them.
    pub resources_as_tools: bool,
    /// Adds the tools `list_prompts` and `get_prompt`. Nodes with a prompt call them.
    pub prompts_as_tools: bool,
    /// Trusts the server's hints about which of its tools are read-only.
    pub trust_hints: bool,
    /// Requires approval for each call of its tools.
    pub approve: bool,
    /// Maximum duration of connecting, in milliseconds. Default: 25,000.
    pub connect_timeout_ms: Option<u64>,
    /// Maximum duration of a call, in milliseconds. Default: 60,000.
    pub call_timeout_ms: Option<u64>,
}

/// Settings of a remote A2A agent, by its name in
/// [`RuntimeConfig::a2a_agents`](crate::RuntimeConfig::a2a_agents).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct A2aAgentSettings {
    /// Address of the agent card, or the base address below which the card is found.
    pub url: String,
    /// Key that is sent as a bearer token.
    pub key: Option<String>,
    /// Headers of each request.
    pub headers: BTreeMap<String, String>,
    /// Further origins that the card may refer to.
    pub allow_origins: Vec<String>,
    /// Description for models. Default: the description of the card.
    pub description: Option<String>,
    /// Forwards questions of the agent to a person. Default: the calling model answers them.
    pub asks_people: bool,
    /// Polls for results, even if the card offers streaming.
    pub without_streams: bool,
    /// Maximum duration of a call, in milliseconds. Default: 600,000.
    pub timeout_ms: Option<u64>,
}

/// A server or an agent whose entry cannot be used. Fetching its tools fails with the reason.
struct Unusable {
    name: String,
    problem: String,
}

#[async_trait]
impl Toolset for Unusable {
    fn name(&self) -> &str {
        &self.name
    }

    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn StdError + Send + Sync>> {
        Err(format!("its entry in the configuration cannot be used: {}", self.problem).into())
    }
}

impl McpServerSettings {
    /// Creates the toolset `mcp.NAME`. If the entry cannot be used, fetching the tools fails with
    /// the reason.
    pub(super) async fn toolset(self, name: &str, secrets: &Arc<dyn SecretProvider>) -> ToolsetRef {
        let made = self.client(name, secrets).await;
        made.unwrap_or_else(|EntryProblem(problem)| {
            ToolsetRef::new(Unusable { name: format!("mcp.{name}"), problem })
        })
    }

    #[cfg(feature = "mcp")]
    async fn client(
        mut self,
        name: &str,
        secrets: &Arc<dyn SecretProvider>,
    ) -> Result<ToolsetRef, EntryProblem> {
        use std::time::Duration;

        use crate::entry_problem::fill;
        use agentflow_core::tool::ToolPolicy;
        use agentflow_mcp::mcp::{McpClientBuilder, McpError};

        let one = self.command.iter_mut().chain(&mut self.url).chain(&mut self.key);
        let many =
            self.args.iter_mut().chain(self.env.values_mut()).chain(self.headers.values_mut());
        fill(one.chain(many).collect(), secrets).await?;
        let mut client = self.reached(name)?.deny_tools(self.deny_tools);
        client = self.allow_tools.into_iter().fold(client, McpClientBuilder::allow_tools);
        let policy = ToolPolicy::default();
        for (is_set, set) in [
            (self.resources_as_tools, McpClientBuilder::resources_as_tools as fn(_) -> _),
            (self.prompts_as_tools, McpClientBuilder::prompts_as_tools),
            (self.trust_hints, McpClientBuilder::trust_hints),
        ] {
            client = if is_set { set(client) } else { client };
        }
        client = if self.approve { client.policy(policy.approve()) } else { client };
        let limit = self.connect_timeout_ms.map(Duration::from_millis);
        client = limit.into_iter().fold(client, McpClientBuilder::connect_timeout);
        let limit = self.call_timeout_ms.map(Duration::from_millis);
        client = limit.into_iter().fold(client, McpClientBuilder::call_timeout);
        let built = client.build().map_err(|error| match error {
            McpError::Config { problem, .. } => problem,
            other => other.to_string(),
        });
        Ok(built?.toolset())
    }

    #[cfg(not(feature = "mcp"))]
    #[allow(clippy::unused_async, reason = "the same with the feature")]
    async fn client(
        self,
        _: &str,
        _: &Arc<dyn SecretProvider>,
    ) -> Result<ToolsetRef, EntryProblem> {
        Err("MCP servers need the feature `mcp`, without which this program is built".into())
    }

    /// Creates the client for the program or the address.
    #[cfg(feature = "mcp")]
    fn reached(&self, name: &str) -> Result<agentflow_mcp::mcp::McpClientBuilder, EntryProblem> {
        use agentflow_mcp::mcp::{McpClient, McpClientBuilder};

        match (&self.command, &self.url) {
            (Some(command), None) => {
                if self.key.is_some() || !self.headers.is_empty() || self.login {
                    return Err(
                        "`key`, `headers` and `login` belong to a `url`; give a program its keys in `env`".into()
                    );
                }
                let client = McpClient::stdio(name, command).args(self.args.iter().cloned());
                let client =
                    self.env.iter().fold(client, |client, (name, value)| client.env(name, value));
                Ok(self.cwd.iter().cloned().fold(client, McpClientBuilder::current_dir))
            }
            (None, Some(url)) => {
                if !self.args.is_empty() || !self.env.is_empty() || self.cwd.is_some() {
                    return Err("`args`, `env` and `cwd` belong to a `command`".into());
                }
                self.at_address(name, url)
            }
            _ => Err("it needs either a `command` or a `url`".into()),
        }
    }

    #[cfg(feature = "mcp-http")]
    fn at_address(
        &self,
        name: &str,
        url: &str,
    ) -> Result<agentflow_mcp::mcp::McpClientBuilder, EntryProblem> {
        use agentflow_mcp::mcp::{McpClient, McpClientBuilder};

        let client = McpClient::http(name, url);
        let client =
            self.headers.iter().fold(client, |client, (name, value)| client.header(name, value));
        let client = self.key.iter().fold(client, McpClientBuilder::bearer);
        if !self.login {
            return Ok(client);
        }
        #[cfg(feature = "mcp-auth")]
        {
            let logins = agentflow_mcp::mcp::McpLoginFolder::of_user();
            let logins = logins
                .ok_or("there is no folder for the logins of this user; set `XDG_DATA_HOME`")?;
            Ok(client.authorization(agentflow_mcp::mcp::McpAuthorization::stored(logins)))
        }
        #[cfg(not(feature = "mcp-auth"))]
        Err("`login` needs the feature `mcp-auth`, without which this program is built".into())
    }

    #[cfg(all(feature = "mcp", not(feature = "mcp-http")))]
    #[allow(clippy::unused_self, reason = "the same with the feature")]
    fn at_address(
        &self,
        _: &str,
        _: &str,
    ) -> Result<agentflow_mcp::mcp::McpClientBuilder, EntryProblem> {
        Err("a `url` needs the feature `mcp-http`, without which this program is built".into())
    }
}

impl A2aAgentSettings {
    /// Creates the toolset `a2a.NAME`. If the entry cannot be used, fetching the tools fails with
    /// the reason.
    pub(super) async fn toolset(self, name: &str, secrets: &Arc<dyn SecretProvider>) -> ToolsetRef {
        let made = self.client(name, secrets).await;
        made.unwrap_or_else(|EntryProblem(problem)| {
            ToolsetRef::new(Unusable { name: format!("a2a.{name}"), problem })
        })
    }

    #[cfg(feature = "a2a-client")]
    async fn client(
        mut self,
        name: &str,
        secrets: &Arc<dyn SecretProvider>,
    ) -> Result<ToolsetRef, EntryProblem> {
        use std::time::Duration;

        use crate::entry_problem::fill;
        use agentflow_a2a::a2a::{A2aClient, A2aClientBuilder, A2aError};

        let headers = self.headers.values_mut();
        fill([&mut self.url].into_iter().chain(&mut self.key).chain(headers).collect(), secrets)
            .await?;
        if self.url.is_empty() {
            return Err("it needs a `url`".into());
        }
        let mut client = A2aClient::at(name, self.url);
        client = self
            .headers
            .into_iter()
            .fold(client, |client, (name, value)| client.header(name, value));
        client = self.key.into_iter().fold(client, A2aClientBuilder::bearer);
        client = self.allow_origins.into_iter().fold(client, A2aClientBuilder::allow_origin);
        client = self.description.into_iter().fold(client, A2aClientBuilder::description);
        client = if self.asks_people { client.asks_people() } else { client };
        client = if self.without_streams { client.without_streams() } else { client };
        let limit = self.timeout_ms.map(Duration::from_millis);
        client = limit.into_iter().fold(client, A2aClientBuilder::task_timeout);
        let built = client.build().map_err(|error| match error {
            A2aError::Config { problem, .. } => problem,
            other => other.to_string(),
        });
        Ok(built?.toolset())
    }

    #[cfg(not(feature = "a2a-client"))]
    #[allow(clippy::unused_async, reason = "the same with the feature")]
    async fn client(
        self,
        _: &str,
        _: &Arc<dyn SecretProvider>,
    ) -> Result<ToolsetRef, EntryProblem> {
        Err("agents of other programs need the feature `a2a-client`, without which this program is built".into())
    }
}
