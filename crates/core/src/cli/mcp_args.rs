//! The options of `agentwf mcp`, as clap types. It only parses; it runs nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::document_args::DocumentArgs;

/// What is done with the Model Context Protocol.
#[derive(Debug, Subcommand)]
pub(super) enum McpCommand {
    /// Serve tools of this program: over standard input and output, until the client goes away, or over HTTP
    Serve(McpServeArgs),
    /// Log in to a server at an address, in a browser of this machine; the login is kept for this user's other commands
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
        /// The tool, by the server's name of it
        name: String,
        /// The arguments as one JSON object, such as '{"a": 1}'
        #[arg(long, value_name = "JSON", default_value = "{}")]
        input: String,
        /// Print the whole result as a JSON object, files and links included, also when the call failed
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: McpServerArgs,
    },
    /// List the resources of a server, or read one
    Resources {
        /// The address of the one to read; its contents go to standard output
        uri: Option<String>,
        /// Print an array of objects as JSON: of a list the resources and the templates of their addresses, of one that is
        /// read its contents, whose bytes are base64 under `blob`
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: McpServerArgs,
    },
    /// List the prompts of a server, or get one
    Prompts {
        /// The name of the one to get; its messages go to standard output
        name: Option<String>,
        /// Its arguments as one JSON object, such as '{"city": "Oslo"}'; a value that is not a text is given as its JSON
        #[arg(long, value_name = "JSON", default_value = "{}", requires = "name")]
        input: String,
        /// Print an array of objects as JSON: of a list the prompts, of one that is got its messages
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: McpServerArgs,
    },
}

/// A login to a server at an address.
#[derive(Debug, Args)]
pub(super) struct McpLoginArgs {
    /// The server's address, such as https://example.com/mcp
    #[arg(long, value_name = "URL")]
    pub(super) url: String,
    /// Ask for these scopes; for those that the server wants when not given
    #[arg(long = "scope", value_name = "A,B", value_delimiter = ',')]
    pub(super) scopes: Vec<String>,
    /// The client that was registered by hand, at the authorization server of --issuer; else one is registered
    #[arg(long, value_name = "ID", requires = "issuer")]
    pub(super) client_id: Option<String>,
    /// The authorization server of the client, as it names itself
    #[arg(long, value_name = "URL", requires = "client_id")]
    pub(super) issuer: Option<String>,
    /// The port of 127.0.0.1 that the browser is sent back to; any that is free when not given
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(super) port: u16,
}

#[derive(Debug, Args)]
pub(super) struct McpServeArgs {
    /// Offer these tools alone, by name; all of the program when not given
    #[arg(long = "tool", value_name = "A,B", value_delimiter = ',')]
    pub(super) tools: Option<Vec<String>>,
    /// Offer these agents, too
    #[arg(long = "agent", value_name = "A,B", value_delimiter = ',')]
    pub(super) agents: Vec<String>,
    /// Offer these workflows, too
    #[arg(long = "workflow", value_name = "A,B", value_delimiter = ',')]
    pub(super) workflows: Vec<String>,
    /// The scopes that calls are granted, and approve:NAME for a tool that a person must agree to
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(super) grant: Vec<String>,
    /// Let clients answer the approvals of the runs that they begin; without it an operator does, with `runs approve`
    #[arg(long)]
    pub(super) clients_approve: bool,
    #[command(flatten)]
    pub(super) documents: DocumentArgs,
    /// The file that runs of agents and workflows are kept in; without it, one that asks a person is cancelled
    #[arg(long, value_name = "FILE")]
    pub(super) store: Option<PathBuf>,
    /// Serve over HTTP at this port of 127.0.0.1, or at this address, such as 0.0.0.0:8080; the path is /mcp
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(super) http: Option<SocketAddr>,
    /// Accept requests to these hosts, too, beside localhost
    #[arg(long = "host", value_name = "A,B", value_delimiter = ',', requires = "http")]
    pub(super) hosts: Vec<String>,
    /// Accept requests of pages of these origins, such as https://app.example.com:443; of none when not given
    #[arg(long = "origin", value_name = "A,B", value_delimiter = ',', requires = "http")]
    pub(super) origins: Vec<String>,
    /// The variable of the environment with the key that clients must send as a bearer token; needed where others of the
    /// network can connect
    #[arg(long, value_name = "VARIABLE", requires = "http")]
    pub(super) key_from: Option<String>,
    /// The most sessions of clients of earlier revisions at once, 0 for none; 256 when not given. A further client is served
    /// without one
    #[arg(long, value_name = "N", requires = "http")]
    pub(super) max_sessions: Option<usize>,
}

/// A port of this machine alone, or an address with its port.
fn address(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        Err(_) => {
            text.parse().map_err(|_| "give a port, such as 8080, or an address, such as 127.0.0.1:8080".to_owned())
        }
    }
}

/// A server: an address or a program.
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
