//! Clap types for `agentwf documents`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use agentflow_core::store::StoreAddress;

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(super) struct DocumentsArgs {
    /// The store with the documents: a file, or a URL such as postgres://user@host/database
    /// [default: the configured store, or agentflow.db]
    #[arg(long, value_name = "STORE", global = true)]
    pub(super) store: Option<StoreAddress>,
    #[command(subcommand)]
    pub(super) command: DocumentsCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum DocumentsCommand {
    /// List the current versions, ordered by name
    List {
        /// Only names after this one
        #[arg(long, value_name = "NAME")]
        after: Option<String>,
        /// Maximum number of documents, at most 1000
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// Print an array of JSON objects
        #[arg(long)]
        json: bool,
    },
    /// Print the text of a version
    Get {
        /// The document
        name: String,
        /// The version [default: the current one]
        #[arg(value_name = "VERSION")]
        number: Option<u64>,
        /// Print {"document", "text"} as JSON
        #[arg(long)]
        json: bool,
    },
    /// Check a file and save it as the next version of the document with the name of its workflow
    Put(PutArgs),
    /// List the versions of a document, the newest first
    Versions {
        /// The document
        name: String,
        /// Only versions with a smaller number
        #[arg(long, value_name = "VERSION")]
        before: Option<u64>,
        /// Maximum number of versions, at most 1000
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// Print an array of JSON objects
        #[arg(long)]
        json: bool,
    },
    /// Show the differences between two versions; the exit code is 1 if there are any
    Diff {
        /// The document
        name: String,
        /// The old version
        old: u64,
        /// The new version
        new: u64,
        /// Print {"same", "diff"} as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a document; its versions can still be read, and its runs continue
    Remove {
        /// The document
        name: String,
        /// Only if this is the current version
        #[arg(long, value_name = "VERSION")]
        expect_version: Option<u64>,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Check a file as `put` does, and save nothing
    Validate {
        /// The document
        file: PathBuf,
        /// Print {"document", "form", "workflow", "problems"} as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct PutArgs {
    /// The document
    pub(super) file: PathBuf,
    /// Only if this is the current version
    #[arg(long, value_name = "VERSION", conflicts_with = "expect_absent")]
    pub(super) expect_version: Option<u64>,
    /// Only if there is no document with this name
    #[arg(long)]
    pub(super) expect_absent: bool,
    /// The author; recorded [default: the user of this process]
    #[arg(long, value_name = "NAME")]
    pub(super) by: Option<String>,
    /// A comment; recorded
    #[arg(long, value_name = "TEXT")]
    pub(super) comment: Option<String>,
    /// Print a JSON object
    #[arg(long)]
    pub(super) json: bool,
}
