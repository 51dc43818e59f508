//! The options of `agentwf a2a`, as clap types. It only parses; it runs nothing.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::document_args::DocumentArgs;

/// What is done with the Agent2Agent protocol.
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
    /// Send a message to an agent, and wait until its task has ended or waits for another message
    Send(A2aSendArgs),
    /// Show a task of an agent
    Task(A2aTaskArgs),
    /// Cancel a task of an agent, and show it
    Cancel(A2aTaskArgs),
    /// Show tasks of an agent, the one that changed last first
    Tasks(A2aTasksArgs),
    /// Serve agents and workflows of this program, until it is stopped; its address goes to standard output
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
    /// The scopes that tasks are granted, and approve:NAME for a tool that a person must agree to
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(super) grant: Vec<String>,
    /// Let clients answer the approvals of their own tasks; without it an operator does, with `runs approve`
    #[arg(long)]
    pub(super) clients_approve: bool,
    #[command(flatten)]
    pub(super) documents: DocumentArgs,
    /// The file that tasks are kept in; those that an earlier process left continue [default: the configured store]
    #[arg(long, value_name = "FILE")]
    pub(super) store: Option<PathBuf>,
    /// The address and the port; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3200")]
    pub(super) listen: String,
    /// The address that the card says, where that is another one, such as https://agents.example
    #[arg(long, value_name = "URL")]
    pub(super) public_url: Option<String>,
    /// The variable of the environment that has the token which clients must send; needed beyond this machine
    #[arg(long, value_name = "VARIABLE")]
    pub(super) token_from: Option<String>,
    /// Notify clients of their tasks at addresses of the public internet that they give
    #[arg(long)]
    pub(super) push: bool,
    /// Notify them also at these addresses, such as 10.1.0.0/16; with --push
    #[arg(long, value_name = "ADDRESS/BITS", value_delimiter = ',', requires = "push")]
    pub(super) push_allow: Vec<String>,
    /// Give agents files of these media types, such as image/*
    #[arg(long, value_name = "TYPE,..", value_delimiter = ',')]
    pub(super) input_files: Vec<String>,
    /// Give clients the files of these names that their tasks saved, such as *.png
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub(super) output_files: Vec<String>,
    /// The most connections at once; further ones wait
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(super) max_connections: usize,
    /// How many seconds the head of a request may take
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(super) head_timeout: u64,
}

#[derive(Debug, Args)]
pub(super) struct A2aTaskArgs {
    #[command(flatten)]
    pub(super) agent: A2aAgentArgs,
    /// The id of the task
    pub(super) id: String,
    /// Also show the newest messages, so many at most
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
    /// Only those of a conversation
    #[arg(long, value_name = "ID")]
    pub(super) context: Option<String>,
    /// A further page, by what the page before it says
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
    /// The text
    #[arg(required_unless_present = "data")]
    pub(super) text: Option<String>,
    /// Send a JSON value in place of a text
    #[arg(long, value_name = "JSON", conflicts_with = "text")]
    pub(super) data: Option<String>,
    /// The task that it continues, of one that waits for input
    #[arg(long, value_name = "ID")]
    pub(super) task: Option<String>,
    /// The conversation that it continues
    #[arg(long, value_name = "ID")]
    pub(super) context: Option<String>,
    /// Print what happens meanwhile, each change as a JSON object, until the task has ended or waits for another message
    #[arg(long, conflicts_with = "json")]
    pub(super) stream: bool,
    /// Print the whole answer, a task or a message, as a JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// An agent of another program.
#[derive(Debug, Args)]
pub(super) struct A2aAgentArgs {
    /// Its address, such as https://agents.example, or that of its card
    pub(super) url: String,
    /// The variable of the environment that has the key for it
    #[arg(long, value_name = "VARIABLE")]
    pub(super) key_from: Option<String>,
}
