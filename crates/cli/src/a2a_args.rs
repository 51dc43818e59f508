//! Clap types for `agentwf a2a`.

use clap::{Args, Subcommand};

use super::document_args::DocumentArgs;
use agentflow_core::store::StoreAddress;

/// Subcommands of `agentwf a2a`.
#[derive(Debug, Subcommand)]
pub(super) enum A2aCommand {
    /// Show the card of an agent
    Card {
        #[command(flatten)]
        agent: A2aAgentArgs,
        /// Print the card as JSON
        #[arg(long)]
        json: bool,
    },
    /// Send a message to an agent, and wait until its task has ended or waits for input
    Send(A2aSendArgs),
    /// Show a task of an agent
    Task(A2aTaskArgs),
    /// Cancel a task of an agent, and show it
    Cancel(A2aTaskArgs),
    /// List tasks of an agent, most recently changed first
    Tasks(A2aTasksArgs),
    /// Serve agents and workflows of this program until it is stopped; prints its address to
    /// standard output
    Serve(A2aServeArgs),
}

#[derive(Debug, Args)]
pub(super) struct A2aServeArgs {
    /// Offer these agents
    #[arg(long = "agent", value_name = "A,B", value_delimiter = ',')]
    pub(super) agents: Vec<String>,
    /// Offer these workflows
    #[arg(long = "workflow", value_name = "A,B", value_delimiter = ',')]
    pub(super) workflows: Vec<String>,
    /// Scopes to grant to tasks, and approve:NAME to approve a tool
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(super) grant: Vec<String>,
    /// Let clients answer approvals in their tasks; without it an operator answers, with
    /// `runs approve`
    #[arg(long)]
    pub(super) clients_approve: bool,
    #[command(flatten)]
    pub(super) documents: DocumentArgs,
    /// The store to keep tasks in: a file, or a URL such as postgres://user@host/database;
    /// unfinished tasks of an earlier process continue [default: the configured store]
    #[arg(long, value_name = "STORE")]
    pub(super) store: Option<StoreAddress>,
    /// The address and port to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3200")]
    pub(super) listen: String,
    /// The public address for the card, if it differs from the listening address, such as
    /// https://agents.example
    #[arg(long, value_name = "URL")]
    pub(super) public_url: Option<String>,
    /// The environment variable with the token that clients must send; required beyond this machine
    #[arg(long, value_name = "VARIABLE")]
    pub(super) token_from: Option<String>,
    /// Send push notifications to addresses of the public internet that clients choose
    #[arg(long)]
    pub(super) push: bool,
    /// Also send push notifications to these addresses, such as 10.1.0.0/16; with --push
    #[arg(long, value_name = "ADDRESS/BITS", value_delimiter = ',', requires = "push")]
    pub(super) push_allow: Vec<String>,
    /// Accept files of these media types for agents, such as image/*
    #[arg(long, value_name = "TYPE,..", value_delimiter = ',')]
    pub(super) input_files: Vec<String>,
    /// Return files that tasks saved under these names, such as *.png
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub(super) output_files: Vec<String>,
    /// Maximum number of connections at once; further ones wait
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(super) max_connections: usize,
    /// Time limit for the head of a request, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(super) head_timeout: u64,
}

#[derive(Debug, Args)]
pub(super) struct A2aTaskArgs {
    #[command(flatten)]
    pub(super) agent: A2aAgentArgs,
    /// The id of the task
    pub(super) id: String,
    /// Also show the newest messages, at most N
    #[arg(long, value_name = "N")]
    pub(super) history: Option<u32>,
    /// Print the task as a JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct A2aTasksArgs {
    #[command(flatten)]
    pub(super) agent: A2aAgentArgs,
    /// Only tasks of this conversation
    #[arg(long, value_name = "ID")]
    pub(super) context: Option<String>,
    /// The page with this token, from the page before it
    #[arg(long, value_name = "TOKEN")]
    pub(super) page: Option<String>,
    /// Print the page as a JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct A2aSendArgs {
    #[command(flatten)]
    pub(super) agent: A2aAgentArgs,
    /// The text of the message
    #[arg(required_unless_present = "data")]
    pub(super) text: Option<String>,
    /// Send a JSON value instead of a text
    #[arg(long, value_name = "JSON", conflicts_with = "text")]
    pub(super) data: Option<String>,
    /// The task to continue, which waits for input
    #[arg(long, value_name = "ID")]
    pub(super) task: Option<String>,
    /// The conversation to continue
    #[arg(long, value_name = "ID")]
    pub(super) context: Option<String>,
    /// Print each update as a JSON object, until the task has ended or waits for input
    #[arg(long, conflicts_with = "json")]
    pub(super) stream: bool,
    /// Print the whole answer, a task or a message, as a JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// A remote agent.
#[derive(Debug, Args)]
pub(super) struct A2aAgentArgs {
    /// The address of the agent, such as https://agents.example, or of its card
    pub(super) url: String,
    /// The environment variable with the key for the agent
    #[arg(long, value_name = "VARIABLE")]
    pub(super) key_from: Option<String>,
}
