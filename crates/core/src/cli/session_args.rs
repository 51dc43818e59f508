//! The commands and options of `agentwf sessions`, as clap types. It only parses; it runs nothing.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::args::{ArtifactArgs, duration, tag};

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(super) struct SessionsArgs {
    /// The file that the sessions are kept in [default: the configured store, or agentflow.db]
    #[arg(long, value_name = "FILE", global = true)]
    pub(super) store: Option<PathBuf>,
    #[command(subcommand)]
    pub(super) command: SessionsCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum SessionsCommand {
    /// List the sessions, the newest first
    List {
        /// Only sessions whose first run was started on behalf of this caller
        #[arg(long, value_name = "NAME", alias = "user")]
        caller: Option<String>,
        /// Only sessions whose first run has this tag; may be given several times, for sessions that have all of them
        #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag)]
        tags: Vec<(String, String)>,
        /// At most so many
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// Print an array of JSON objects
        #[arg(long)]
        json: bool,
    },
    /// Show a session: its runs with what was asked, and where its branches end
    Show {
        /// The session's id
        session: String,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// List the artifacts that the next run of a session finds, or write one to a file
    Artifacts {
        /// The session's id
        session: String,
        #[command(flatten)]
        which: ArtifactArgs,
    },
    /// Print a whole session as JSON: all runs of all branches with what was said in them
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
    /// Remove all sessions in which nothing was recorded for a while
    Expire {
        /// For how long at least, such as 12h or 30d
        #[arg(long, value_name = "TIME", value_parser = duration)]
        idle: Duration,
        /// Only list them
        #[arg(long)]
        dry_run: bool,
    },
}
