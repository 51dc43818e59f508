//! Clap types for `agentwf serve`.

use std::time::Duration;

use clap::Args;

use super::args::duration;
use super::document_args::DocumentArgs;
use agentflow_core::store::StoreAddress;

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    pub(super) documents: DocumentArgs,
    /// The store to keep runs in: a file, which is created if it does not exist, or a URL such as
    /// postgres://user@host/database; unfinished runs of an earlier process continue [default: the
    /// configured store, or agentflow.db]
    #[arg(long, value_name = "STORE")]
    pub(super) store: Option<StoreAddress>,
    /// The address and port to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3000")]
    pub(super) listen: String,
    /// The environment variable with the token that clients must send; required beyond this machine
    #[arg(long, value_name = "VARIABLE")]
    pub(super) token_from: Option<String>,
    /// Accept requests to these hosts in addition to this machine, such as flows.example
    #[arg(long = "host", value_name = "A,B", value_delimiter = ',')]
    pub(super) hosts: Vec<String>,
    /// Accept requests from web pages of these origins, such as https://console.example
    #[arg(long = "origin", value_name = "A,B", value_delimiter = ',')]
    pub(super) origins: Vec<String>,
    /// Serve the API without the web page
    #[arg(long)]
    pub(super) no_page: bool,
    /// Also offer all agents and workflows over the Agent2Agent protocol
    #[arg(long)]
    pub(super) a2a: bool,
    /// Also offer all tools, agents and workflows over the Model Context Protocol, at /mcp
    #[arg(long)]
    pub(super) mcp: bool,
    /// Time that running steps get to end after Ctrl-C or SIGTERM
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(super) drain_timeout: Duration,
}
