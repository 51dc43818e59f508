//! The options of `agentwf a2a`, as clap types. It only parses; it runs nothing.

use std::path::PathBuf;

use clap::{Args, Subcommand};

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
    /// The file that tasks are kept in; those that an earlier process left continue
    #[arg(long, value_name = "FILE")]
    pub(super) store: PathBuf,
    /// The address and the port; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3200")]
    pub(super) listen: String,
    /// The address that the card says, where that is another one, such as https://agents.example
    #[arg(long, value_name = "URL")]
    pub(super) public_url: Option<String>,
    /// The variable of the environment that has the token which clients must send; needed beyond this machine
    #[arg(long, value_name = "VARIABLE")]
    pub(super) token_from: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct A2aSendArgs {
    #[command(flatten)]
    pub(super) agent: A2aAgentArgs,
    /// The text
    pub(super) text: String,
    /// The task that it continues, of one that waits for input
    #[arg(long, value_name = "ID")]
    pub(super) task: Option<String>,
    /// The conversation that it continues
    #[arg(long, value_name = "ID")]
    pub(super) context: Option<String>,
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
