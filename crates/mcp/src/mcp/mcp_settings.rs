//! Settings of a client: the address of the server, limits, and policies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

#[cfg(feature = "auth")]
use super::authorization::Authorizer;
use super::given_secrets::secrets_of;
use agentflow_core::__private::extension::SecretMasker;
use agentflow_core::tool::ToolPolicy;
#[cfg(feature = "http")]
use agentflow_tools::__private::HttpAddress;

/// Way to reach a server.
pub(super) enum Origin {
    Process(CommandLine),
    #[cfg(feature = "http")]
    Http(HttpAddress),
    /// A server in this process, for tests. Each call opens a connection.
    Memory(Box<dyn Fn() -> Streams + Send + Sync>),
}

/// The output of a server, and its input.
pub(super) type Streams = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

/// Command line and environment of a server's process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandLine {
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) folder: Option<PathBuf>,
    /// `true` if the process inherits the whole environment of this program.
    pub(super) inherits: bool,
}

/// Limits, tool filters and policies of a client.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) connect_timeout: Duration,
    pub(super) call_timeout: Duration,
    pub(super) max_message: usize,
    pub(super) max_schema: usize,
    pub(super) allow: Option<BTreeSet<String>>,
    pub(super) deny: BTreeSet<String>,
    pub(super) policy: ToolPolicy,
    pub(super) policies: BTreeMap<String, ToolPolicy>,
    pub(super) trusts_hints: bool,
    /// Enables the tools that list and read the server's resources.
    pub(super) resource_tools: bool,
    pub(super) prompt_tools: bool,
    pub(super) restarts: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(25),
            call_timeout: Duration::from_secs(60),
            max_message: 16 << 20,
            max_schema: 64 << 10,
            allow: None,
            deny: BTreeSet::new(),
            policy: ToolPolicy::default(),
            policies: BTreeMap::new(),
            trusts_hints: false,
            resource_tools: false,
            prompt_tools: false,
            restarts: 5,
        }
    }
}

impl Settings {
    pub(super) fn offers(&self, tool: &str) -> bool {
        self.allow.as_ref().is_none_or(|allow| allow.contains(tool)) && !self.deny.contains(tool)
    }
}

impl Origin {
    /// Returns the keys that the client sends to the server. Tokens of a login are not included.
    pub(super) fn hidden(&self) -> SecretMasker {
        match self {
            #[cfg(feature = "http")]
            Self::Http(address) => SecretMasker::new(address.secrets()),
            Self::Process(command) => SecretMasker::new(secrets_of(command)),
            Self::Memory(_) => SecretMasker::default(),
        }
    }
}

/// A server with its settings, as the program has configured it.
pub(super) struct Described {
    pub(super) name: Arc<str>,
    pub(super) origin: Origin,
    pub(super) settings: Settings,
    /// Keys that the client sends to the server. Tokens of a login are not included.
    pub(super) hidden: SecretMasker,
    #[cfg(feature = "auth")]
    pub(super) login: Option<Arc<Authorizer>>,
}

impl Described {
    /// Masks the keys and tokens of the client in a string from the server.
    pub(super) fn masked(&self, text: &str) -> String {
        self.hidden().masked(text).unwrap_or_else(|| text.to_owned())
    }

    /// Returns all keys and tokens that the client has sent to the server so far.
    pub(super) fn hidden(&self) -> SecretMasker {
        #[cfg(feature = "auth")]
        if let Some(login) = &self.login {
            return login.hidden(&self.hidden);
        }
        self.hidden.clone()
    }
}
