//! Clap types for `agentwf sessions`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::args::{ArtifactArgs, duration, tag};
use agentflow_core::store::StoreAddress;

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(super) struct SessionsArgs {
    /// The store with the sessions: a file, or a URL such as postgres://user@host/database
    /// [default: the configured store, or agentflow.db]
    #[arg(long, value_name = "STORE", global = true)]
    pub(super) store: Option<StoreAddress>,
    #[command(subcommand)]
    pub(super) command: SessionsCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum SessionsCommand {
    /// List the sessions, the newest first
    List {
        /// Only sessions whose first run has this caller
        #[arg(long, value_name = "NAME", alias = "user")]
        caller: Option<String>,
        /// Only sessions whose first run has this tag; if given several times, it must have all of
        /// them
        #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag)]
        tags: Vec<(String, String)>,
        /// Maximum number of sessions
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// Print an array of JSON objects
        #[arg(long)]
        json: bool,
    },
    /// Show a session: its runs with their questions, and the ends of its branches
    Show {
        /// The session's id
        session: String,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// List the artifacts that are visible to the session's next run, or write one to a file
    Artifacts {
        /// The session's id
        session: String,
        #[command(flatten)]
        which: ArtifactArgs,
    },
    /// Print a whole session as JSON: all runs of all branches with their messages
    Export {
        /// The session's id
        session: String,
    },
    /// Remove a session with all of its runs
    Delete {
        /// The session's id
        session: String,
        /// Only list its runs
        #[arg(long)]
        dry_run: bool,
    },
    /// Remove all sessions that have been idle for some time
    Expire {
        /// Minimum idle time, such as 12h or 30d
        #[arg(long, value_name = "TIME", value_parser = duration)]
        idle: Duration,
        /// Only list the sessions
        #[arg(long)]
        dry_run: bool,
    },
}
