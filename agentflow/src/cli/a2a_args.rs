//! The options of `agentwf a2a`, as clap types. It only parses; it runs nothing.

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
