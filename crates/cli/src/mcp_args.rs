//! Clap types for `agentwf mcp`.

use std::net::{Ipv4Addr, SocketAddr};

use clap::{Args, Subcommand};

use super::document_args::DocumentArgs;
use agentflow_core::store::StoreAddress;

/// Subcommands of `agentwf mcp`.
#[derive(Debug, Subcommand)]
pub(super) enum McpCommand {
    /// Serve tools of this program over standard input and output, until the client disconnects, or
    /// over HTTP
    Serve(McpServeArgs),
    /// Log in to a server with a browser on this machine; the login is stored for this user's other
    /// commands
    Login(McpLoginArgs),
    /// Remove the login of a server
    Logout {
        /// The server's address
        #[arg(long, value_name = "URL")]
        url: String,
    },
    /// List the tools of a server
    Tools {
        /// Print an array of objects as JSON, schemas included
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: McpServerArgs,
    },
    /// Call a tool of a server; its answer goes to standard output
    Call {
        /// The name of the tool on the server
        name: String,
        /// The arguments as one JSON object, such as '{"a": 1}'
        #[arg(long, value_name = "JSON", default_value = "{}")]
        input: String,
        /// Print the whole result as a JSON object, including files and links, even if the call
        /// failed
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: McpServerArgs,
    },
    /// List the resources of a server, or read one
    Resources {
        /// The URI of the resource to read; its contents go to standard output
        uri: Option<String>,
        /// Print an array of objects as JSON: the resources and the templates of their URIs, or the
        /// contents of the resource, with bytes as base64 under `blob`
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: McpServerArgs,
    },
    /// List the prompts of a server, or get one
    Prompts {
        /// The name of the prompt to get; its messages go to standard output
        name: Option<String>,
        /// The arguments as one JSON object, such as '{"city": "Oslo"}'; values of other types than
        /// text are sent as JSON
        #[arg(long, value_name = "JSON", default_value = "{}", requires = "name")]
        input: String,
        /// Print an array of objects as JSON: the prompts, or the messages of the prompt
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: McpServerArgs,
    },
}

/// Options of a login to a server.
#[derive(Debug, Args)]
pub(super) struct McpLoginArgs {
    /// The server's address, such as https://example.com/mcp
    #[arg(long, value_name = "URL")]
    pub(super) url: String,
    /// The scopes to request [default: the scopes that the server requests]
    #[arg(long = "scope", value_name = "A,B", value_delimiter = ',')]
    pub(super) scopes: Vec<String>,
    /// The id of a client that is already registered at the authorization server of --issuer;
    /// otherwise a client is registered
    #[arg(long, value_name = "ID", requires = "issuer")]
    pub(super) client_id: Option<String>,
    /// The authorization server of the client: its issuer identifier
    #[arg(long, value_name = "URL", requires = "client_id")]
    pub(super) issuer: Option<String>,
    /// The port of 127.0.0.1 for the redirect of the browser [default: a free port]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(super) port: u16,
}

#[derive(Debug, Args)]
pub(super) struct McpServeArgs {
    /// Offer only these tools [default: all tools of the program]
    #[arg(long = "tool", value_name = "A,B", value_delimiter = ',')]
    pub(super) tools: Option<Vec<String>>,
    /// Also offer these agents
    #[arg(long = "agent", value_name = "A,B", value_delimiter = ',')]
    pub(super) agents: Vec<String>,
    /// Also offer these workflows
    #[arg(long = "workflow", value_name = "A,B", value_delimiter = ',')]
    pub(super) workflows: Vec<String>,
    /// Scopes to grant to calls, and approve:NAME to approve a tool
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(super) grant: Vec<String>,
    /// Let clients answer the approvals of the runs that they start; without it an operator
    /// answers, with `runs approve`
    #[arg(long)]
    pub(super) clients_approve: bool,
    #[command(flatten)]
    pub(super) documents: DocumentArgs,
    /// The store to keep runs of agents and workflows in: a file, or a URL such as
    /// postgres://user@host/database; without it, a run that asks a person is cancelled
    #[arg(long, value_name = "STORE")]
    pub(super) store: Option<StoreAddress>,
    /// Serve over HTTP at this port of 127.0.0.1, or at this address, such as 0.0.0.0:8080; the
    /// path is /mcp
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(super) http: Option<SocketAddr>,
    /// Also accept requests to these hosts, in addition to localhost
    #[arg(long = "host", value_name = "A,B", value_delimiter = ',', requires = "http")]
    pub(super) hosts: Vec<String>,
    /// Accept requests from pages of these origins, such as https://app.example.com:443 [default:
    /// none]
    #[arg(long = "origin", value_name = "A,B", value_delimiter = ',', requires = "http")]
    pub(super) origins: Vec<String>,
    /// The environment variable with the key that clients must send as a bearer token; required if
    /// other machines can connect
    #[arg(long, value_name = "VARIABLE", requires = "http")]
    pub(super) key_from: Option<String>,
    /// Maximum number of sessions of clients with earlier protocol revisions, 0 for none [default:
    /// 256]; further clients are served without a session
    #[arg(long, value_name = "N", requires = "http")]
    pub(super) max_sessions: Option<usize>,
}

/// Parses a port of this machine, or an address with a port.
fn address(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        Err(_) => text.parse().map_err(|_| {
            "give a port, such as 8080, or an address, such as 127.0.0.1:8080".to_owned()
        }),
    }
}

/// A server, given by its URL or its program.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct McpServerArgs {
    /// The server's address, such as https://example.com/mcp
    #[arg(long, value_name = "URL")]
    pub(super) url: Option<String>,
    /// The server's program with its arguments, after `--`
    #[arg(last = true, value_name = "PROGRAM")]
    pub(super) program: Vec<String>,
}
