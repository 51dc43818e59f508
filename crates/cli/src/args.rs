//! Clap types for the command line: commands, options and help texts.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::a2a_args::A2aCommand;
use super::changes_arg::ChangesArg;
use super::document_args::{DiffArgs, DocumentArgs, DryRunArgs, ExportArgs, ValidateArgs};
use super::logging::LogArgs;
use super::mcp_args::McpCommand;
use super::run_args::{ModelArgs, RunArgs};
use super::serve_args::ServeArgs;
use super::session_args::SessionsArgs;
use super::stored_document_args::DocumentsArgs;
use agentflow_core::document::DocumentForm;
use agentflow_core::store::{RunOrder, RunStatus, StoreAddress};

/// Call models and run agents over the tools linked into this program.
#[derive(Debug, Parser)]
#[command(
    name = "agentwf",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(super) struct Cli {
    /// The YAML or JSON file with the settings of this program [default: the file in
    /// AGENTFLOW_CONFIG]
    #[arg(long, value_name = "FILE", global = true)]
    pub(super) config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) logs: LogArgs,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List, show and call the tools of this program
    #[command(subcommand, arg_required_else_help = true)]
    Tools(ToolsCommand),
    /// List and show the agents of this program
    #[command(subcommand, arg_required_else_help = true)]
    Agents(AgentsCommand),
    /// List the model providers, and where their keys come from
    Models(ModelsArgs),
    /// Call a model, without an agent
    Call(CallArgs),
    /// Run an agent over tools of this program, or a workflow
    Run(RunArgs),
    /// Chat with an agent of this program in a persistent session
    Chat(ChatArgs),
    /// List, show and run the workflows of this program
    #[command(subcommand, visible_alias = "workflows", arg_required_else_help = true)]
    Workflow(WorkflowCommand),
    #[command(flatten)]
    OfWorkflows(WorkflowViewCommand),
    /// Check that everything this program needs is available: store, toolsets, documents and names
    Health {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List and control the runs of a store
    Runs(RunsArgs),
    /// Execute queued runs of a store, and runs whose process has ended, until stopped
    Worker(WorkerArgs),
    /// List, copy and remove the sessions of a store
    Sessions(SessionsArgs),
    /// Save, list, compare and remove the documents of a store
    Documents(DocumentsArgs),
    /// Serve this program's tools over the Model Context Protocol, and call the tools of servers
    #[command(subcommand, arg_required_else_help = true)]
    Mcp(McpCommand),
    /// Call agents of other programs over the Agent2Agent protocol, and serve agents
    #[command(subcommand, arg_required_else_help = true)]
    A2a(A2aCommand),
    /// Serve the agents and workflows of this program: a REST API with event streams, a web page,
    /// and on request A2A and MCP
    Serve(ServeArgs),
}

#[derive(Debug, Args)]
pub(super) struct ChatArgs {
    /// The agent
    #[arg(long, value_name = "NAME")]
    pub(super) agent: String,
    /// The session; created if it does not exist. The agent's model summarizes old turns that no
    /// longer fit
    #[arg(long, value_name = "ID")]
    pub(super) session: String,
    /// The store to keep sessions in: a file, which is created if it does not exist, or a URL such
    /// as postgres://user@host/database [default: the configured store, or agentflow.db]
    #[arg(long, value_name = "STORE")]
    pub(super) store: Option<StoreAddress>,
    /// The caller of the runs, who also answers their questions; recorded
    #[arg(long, value_name = "NAME")]
    pub(super) caller: Option<String>,
    /// Number of earlier questions to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(super) history: usize,
}

#[derive(Debug, Subcommand)]
pub(super) enum WorkflowCommand {
    #[command(flatten)]
    View(WorkflowViewCommand),
    /// Run a workflow to its end
    Run(WorkflowRunArgs),
}

/// Read-only workflow commands. They are also available without `workflow`.
#[derive(Debug, Subcommand)]
pub(super) enum WorkflowViewCommand {
    /// List the workflows, ordered by name
    List {
        /// Print an array of graphs as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        documents: DocumentArgs,
    },
    /// Show the structure of a workflow
    Show {
        /// The workflow: its name, or the file of its document
        name: String,
        #[command(flatten)]
        documents: DocumentArgs,
        /// Print a diagram in this format, or the whole graph as JSON
        #[arg(long)]
        format: Option<GraphFormat>,
    },
    /// Check YAML and JSON documents, and print every mistake with its line
    Validate(ValidateArgs),
    /// Show the steps of a run without running it
    DryRun(DryRunArgs),
    /// Show the differences between two versions of a workflow; the exit code is 1 if there are any
    Diff(DiffArgs),
    /// Print a workflow as a document in another form; parts that the form cannot express are an
    /// error
    Export(ExportArgs),
    /// Print the JSON Schema of documents, for completion and checks in editors
    Schema {
        /// Only the schema of this form
        #[arg(long)]
        form: Option<DocumentForm>,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum GraphFormat {
    /// A Mermaid flowchart
    Mermaid,
    /// Graphviz
    Dot,
    /// An SVG picture, for a browser or a document
    Svg,
    /// The whole graph, schemas included
    Json,
    /// The steps of a run, without running it
    DryRun,
}

#[derive(Debug, Subcommand)]
pub(super) enum AgentsCommand {
    /// List all, ordered by name, with their origin
    List {
        /// Print an array of objects as JSON, schemas included
        #[arg(long)]
        json: bool,
    },
    /// Show one in full
    Show {
        /// The name
        name: String,
        /// Print a JSON object
        #[arg(long, conflicts_with = "format")]
        json: bool,
        /// Print a diagram of its model, its tools and the agents among them, or the steps of a run
        #[arg(long)]
        format: Option<AgentFormat>,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum AgentFormat {
    /// A Mermaid flowchart
    Mermaid,
    /// Graphviz
    Dot,
    /// The steps of a run, without running it
    DryRun,
}

#[derive(Debug, Args)]
pub(super) struct WorkflowRunArgs {
    /// The workflow: its name, or the file of its document
    pub(super) name: String,
    /// The inputs by name, such as '{"n": 3}'
    #[arg(long, value_name = "JSON")]
    pub(super) input: Option<String>,
    /// Keep the run in this store, so that it survives this process: a file, which is created if it
    /// does not exist, or a URL such as postgres://user@host/database [default: the configured
    /// store]
    #[arg(long, value_name = "STORE")]
    pub(super) store: Option<StoreAddress>,
    /// The run's id, so that the same request is not started twice; needs a store
    #[arg(long, value_name = "ID")]
    pub(super) run_id: Option<String>,
    /// The version of a document of the store [default: the current one]
    #[arg(long, value_name = "VERSION")]
    pub(super) document_version: Option<u64>,
    #[command(flatten)]
    pub(super) documents: DocumentArgs,
    #[command(flatten)]
    pub(super) began: RunStartArgs,
    /// Only queue the run, for a `worker`, and print its id; needs a store
    #[arg(long, conflicts_with = "events")]
    pub(super) queue: bool,
    /// Print all events to standard output instead of the output
    #[arg(long, value_name = "FORMAT")]
    pub(super) events: Option<EventFormat>,
}

#[derive(Debug, Args)]
pub(super) struct WorkerArgs {
    /// The store with the runs: a file, which is created if it does not exist, or a URL such as
    /// postgres://user@host/database [default: the configured store]
    #[arg(long, value_name = "STORE")]
    pub(super) store: Option<StoreAddress>,
    /// Number of runs to execute at the same time, without those that wait for a person
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = at_least_one)]
    pub(super) concurrency: usize,
    /// Only runs of these workflows and agents
    #[arg(long = "name", value_name = "NAME,..", value_delimiter = ',')]
    pub(super) names: Vec<String>,
    /// Time that running steps get after SIGTERM or Ctrl-C, such as 30s or 2m
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "20s")]
    pub(super) drain_timeout: Duration,
    #[command(flatten)]
    pub(super) documents: DocumentArgs,
}

/// Options of a new run of a workflow or an agent.
#[derive(Debug, Args)]
pub(super) struct RunStartArgs {
    /// The caller of the run; recorded
    #[arg(long, value_name = "NAME")]
    pub(super) caller: Option<String>,
    /// A tag to find the run by; recorded; may be given several times
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag)]
    pub(super) tags: Vec<(String, String)>,
    /// Time limit of the run, such as 90s or 2h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) run_timeout: Option<Duration>,
    /// Maximum number of model calls of the run
    #[arg(long, value_name = "N")]
    pub(super) max_llm_calls: Option<u32>,
}

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(super) struct RunsArgs {
    /// The store with the runs: a file, or a URL such as postgres://user@host/database [default:
    /// the configured store, or agentflow.db]
    #[arg(long, value_name = "STORE", global = true)]
    pub(super) store: Option<StoreAddress>,
    #[command(subcommand)]
    pub(super) command: RunsCommand,
}

/// Orders of `runs list`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum RunSort {
    /// By the time of the start
    Created,
    /// By the time of the last event
    Changed,
}

impl From<RunSort> for RunOrder {
    fn from(sort: RunSort) -> Self {
        match sort {
            RunSort::Created => Self::Created,
            RunSort::Changed => Self::Changed,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum RunsCommand {
    /// List the runs, the newest first, or count them
    List {
        /// Only runs with this status; may be given several times
        #[arg(long)]
        status: Vec<RunStatus>,
        /// Only runs of this agent or workflow
        #[arg(long)]
        name: Option<String>,
        /// Only runs with this tag; if given several times, runs must have all of them
        #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag)]
        tags: Vec<(String, String)>,
        /// Only runs of this caller
        #[arg(long, value_name = "NAME")]
        caller: Option<String>,
        /// Maximum number of runs
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// The order: the newest run first, or the run that changed last
        #[arg(long, value_enum, default_value_t = RunSort::Created)]
        sort: RunSort,
        /// Print only the number of the runs, regardless of the limit
        #[arg(long)]
        count: bool,
        /// Print an array of JSON objects; with --count, an object with the number
        #[arg(long)]
        json: bool,
    },
    /// Show the state of a run, and which steps would run again on resume, and why
    Show {
        /// The run's id
        run: String,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Resume an unfinished run with the workflows and agents of this program
    Resume {
        /// The run's id
        run: String,
        /// Handling of a workflow or agent that has changed since the run began [default: the
        /// setting of the program's runtime]
        #[arg(long, value_name = "RULE", value_enum)]
        changes: Option<ChangesArg>,
        /// Print all events to standard output instead of the output
        #[arg(long, value_name = "FORMAT")]
        events: Option<EventFormat>,
    },
    /// Cancel a run
    Cancel {
        /// The run's id
        run: String,
        /// The reason; recorded
        #[arg(long, default_value = "cancelled from the command line")]
        reason: String,
    },
    /// Pause a run: no further steps are started
    Pause {
        /// The run's id
        run: String,
    },
    /// Continue a paused run in the process that executes it
    Unpause {
        /// The run's id
        run: String,
    },
    /// Send a message to the agent of an unfinished run; the next model call contains it
    Send {
        /// The run's id
        run: String,
        /// The message
        text: String,
    },
    /// Close a live run: it answers its pending messages and ends
    Close {
        /// The run's id
        run: String,
    },
    /// Run a failed or interrupted node again, and resume the run if this program has its workflow
    /// or agent
    Retry {
        /// The run's id
        run: String,
        /// The name of the node, or the model call of an agent's run, such as model#2
        node: String,
        /// Print all events to standard output instead of the output
        #[arg(long, value_name = "FORMAT")]
        events: Option<EventFormat>,
    },
    /// Remove a run with its journal: a run that has ended, waits to compensate, or cannot be read
    Delete {
        /// The run's id
        run: String,
    },
    /// Remove all runs that ended some time ago, with their journals
    Purge {
        /// Minimum time since the end of a run, such as 12h or 30d
        #[arg(long, value_name = "TIME", value_parser = duration)]
        older_than: Duration,
        /// Only runs of this workflow or agent
        #[arg(long)]
        name: Option<String>,
        /// Only list the runs
        #[arg(long)]
        dry_run: bool,
    },
    /// List the questions that runs wait for, the oldest first
    Questions {
        /// Only questions of runs of this agent or workflow
        #[arg(long)]
        name: Option<String>,
        /// Only questions of runs with this tag; if given several times, runs must have all of them
        #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag)]
        tags: Vec<(String, String)>,
        /// Print an array of JSON objects
        #[arg(long)]
        json: bool,
    },
    /// Answer a question that asks for a text, a choice or another value
    Answer {
        /// The run's id
        run: String,
        /// The name of the node, the path of the call, or the question as shown by `runs questions`
        node: String,
        /// The answer: a text, a choice by its text or number, or JSON for other types
        answer: String,
        /// The person who answers; recorded [default: the user's name]
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
    /// Approve or deny the question of a node
    Approve {
        /// The run's id
        run: String,
        /// The name of the node, or the question as shown by `runs questions`
        node: String,
        /// Deny it
        #[arg(long)]
        deny: bool,
        /// A comment on the answer
        #[arg(long, value_name = "TEXT")]
        comment: Option<String>,
        /// Replace all arguments of the call
        #[arg(long, value_name = "JSON", conflicts_with = "deny")]
        arguments: Option<String>,
        /// The answer itself, for a node that asks for another type than an approval
        #[arg(long, value_name = "JSON", conflicts_with_all = ["deny", "comment", "arguments"])]
        answer: Option<String>,
        /// The person who answers; recorded [default: the user's name]
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
    /// List the artifacts of a run, or write one to a file
    Artifacts {
        /// The run's id
        run: String,
        #[command(flatten)]
        which: ArtifactArgs,
    },
    /// Print the journal of a run
    Events {
        /// The run's id
        run: String,
        /// Continue until the run ends
        #[arg(long)]
        follow: bool,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
}

/// Subcommands of `agentwf tools`.
#[derive(Debug, Subcommand)]
pub(super) enum ToolsCommand {
    #[command(flatten)]
    Entries(EntriesCommand),
    /// Call one without an agent; its answer goes to standard output
    Call {
        /// The name
        name: String,
        /// The arguments as one JSON object, such as '{"a": 1}'
        #[arg(long, value_name = "JSON", default_value = "{}")]
        input: String,
        /// Scopes to grant to the call, and approve:NAME to approve a tool
        #[arg(long, value_name = "A,B", value_delimiter = ',')]
        grant: Vec<String>,
        /// Print all events to standard output instead of the answer
        #[arg(long, value_name = "FORMAT")]
        events: Option<EventFormat>,
    },
}

/// Subcommands for the tools or the agents of a program.
#[derive(Debug, Subcommand)]
pub(super) enum EntriesCommand {
    /// List all, ordered by name, with their origin
    List {
        /// Print an array of objects as JSON, schemas included
        #[arg(long)]
        json: bool,
    },
    /// Show one in full
    Show {
        /// The name
        name: String,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct ModelsArgs {
    #[command(subcommand)]
    pub(super) command: Option<ModelsCommand>,
    /// Print an array of objects as JSON
    #[arg(long, global = true)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum ModelsCommand {
    /// List the providers, ordered by name; the default
    List,
}

#[derive(Debug, Args)]
pub(super) struct CallArgs {
    /// The prompt
    pub(super) prompt: String,
    /// The model and its wire format, such as openai-chat/gpt-5-mini
    #[arg(long = "model", value_name = "REF")]
    pub(super) reference: String,
    #[command(flatten)]
    pub(super) model: ModelArgs,
    /// Print the answer while it is being generated
    #[arg(long)]
    pub(super) stream: bool,
    /// Print one JSON object per turn
    #[arg(long)]
    pub(super) json: bool,
    /// Offer the tool that a JSON file describes: {"name", "description", "parameters"}
    #[arg(long = "tool", value_name = "FILE.json")]
    pub(super) tools: Vec<PathBuf>,
    /// Make at most N model calls; each tool call is answered with "ok"
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) turns: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum EventFormat {
    /// A JSON object per line
    Jsonl,
}

pub(super) fn tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE, such as tenant=acme".to_owned()),
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err(format!("`{text}` is not a number")),
    }
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let seconds = match unit.trim() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => f64::NAN,
    } * number.parse::<f64>().unwrap_or(f64::NAN);
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "write a number with its unit, such as 90s, 2m or 500ms".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("30d"), Ok(Duration::from_secs(30 * 86_400)));
        for wrong in ["", "s", "0", "-1s", "5 parsecs", "1e400", "1.2.3"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn tags() {
        assert_eq!(tag("tenant=acme"), Ok(("tenant".to_owned(), "acme".to_owned())));
        assert_eq!(tag("of=a=b"), Ok(("of".to_owned(), "a=b".to_owned())));
        assert!(tag("tenant").is_err() && tag("=acme").is_err());
    }
}

/// Selects an artifact and a file to write it to.
#[derive(Debug, Args)]
pub(super) struct ArtifactArgs {
    /// The artifact to write; without it, all are listed
    #[arg(long, requires = "out")]
    pub(super) name: Option<String>,
    /// Its version [default: the newest]
    #[arg(long, value_name = "VERSION", requires = "name")]
    pub(super) number: Option<u32>,
    /// The file to write, which must not exist; `-` is standard output
    #[arg(long, value_name = "FILE", requires = "name")]
    pub(super) out: Option<PathBuf>,
    /// Print one JSON array
    #[arg(long, conflicts_with = "name")]
    pub(super) json: bool,
}
