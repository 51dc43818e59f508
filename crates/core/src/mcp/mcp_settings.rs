//! What a program says about one server. It starts nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

#[cfg(feature = "mcp-auth")]
use super::authorization::Authorizer;
use super::given_secrets::secrets_of;
#[cfg(feature = "mcp-http")]
use crate::http_address::HttpAddress;
use crate::mask::HiddenTexts;
use crate::tool::ToolPolicy;

/// How a server is reached.
pub(super) enum Origin {
    Process(CommandLine),
    #[cfg(feature = "mcp-http")]
    Http(HttpAddress),
    /// In this process, for tests: each call makes a connection.
    Memory(Box<dyn Fn() -> Streams + Send + Sync>),
}

/// What a server writes, and what it reads.
pub(super) type Streams = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

/// A process and what it is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandLine {
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) folder: Option<PathBuf>,
    /// Whether it gets the whole environment of this program.
    pub(super) inherits: bool,
}

/// Limits, lists and policies.
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
    /// Whether there are tools that list and read its resources.
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
    /// Returns the keys that are sent to the server, without tokens of a login.
    pub(super) fn hidden(&self) -> HiddenTexts {
        match self {
            #[cfg(feature = "mcp-http")]
            Self::Http(address) => HiddenTexts::new(address.secrets()),
            Self::Process(command) => HiddenTexts::new(secrets_of(command)),
            Self::Memory(_) => HiddenTexts::default(),
        }
    }
}

/// A server as the program describes it.
pub(super) struct Described {
    pub(super) name: Arc<str>,
    pub(super) origin: Origin,
    pub(super) settings: Settings,
    /// Keys that are sent to the server, without tokens of a login.
    pub(super) hidden: HiddenTexts,
    #[cfg(feature = "mcp-auth")]
    pub(super) login: Option<Arc<Authorizer>>,
}

impl Described {
    /// A text of the server without the keys and tokens that it was given.
    pub(super) fn masked(&self, text: &str) -> String {
        self.hidden().masked(text).unwrap_or_else(|| text.to_owned())
    }

    /// Returns the keys and tokens that were sent to the server so far.
    pub(super) fn hidden(&self) -> HiddenTexts {
        #[cfg(feature = "mcp-auth")]
        if let Some(login) = &self.login {
            return login.hidden(&self.hidden);
        }
        self.hidden.clone()
    }
}
