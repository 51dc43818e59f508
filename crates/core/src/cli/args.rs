//! The commands, options and help texts of the command line, as clap types. It only parses; it runs nothing.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::a2a_args::{A2aCommand, A2aServeArgs};
use super::document_args::{DiffArgs, DocumentArgs, DryRunArgs, ExportArgs, ValidateArgs};
use super::logging::LogArgs;
use super::mcp_args::McpCommand;
use super::run_args::{ModelArgs, RunArgs};
use super::session_args::SessionsArgs;
use crate::document::DocumentForm;
use crate::runtime::Changes;
use crate::store::RunStatus;

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
    /// Read the settings of this program from a YAML or JSON file; default: the file that AGENTFLOW_CONFIG names
    #[arg(long, value_name = "FILE", global = true)]
    pub(super) config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) logs: LogArgs,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// See and call the tools of this program
    #[command(subcommand, arg_required_else_help = true)]
    Tools(ToolsCommand),
    /// See the agents of this program
    #[command(subcommand, arg_required_else_help = true)]
    Agents(AgentsCommand),
    /// See where models can come from and whether their keys are there
    Models(ModelsArgs),
    /// Call a model, without an agent
    Call(CallArgs),
    /// Run an agent over tools of this program, or a workflow
    Run(RunArgs),
    /// Talk with an agent of this program in a session that is remembered
    Chat(ChatArgs),
    /// See and run the workflows of this program
    #[command(subcommand, visible_alias = "workflows", arg_required_else_help = true)]
    Workflow(WorkflowCommand),
    #[command(flatten)]
    OfWorkflows(WorkflowViewCommand),
    /// Look whether all that this program needs is there: its store, toolsets, documents and names
    Health {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// See and control the runs of a store file
    Runs(RunsArgs),
    /// See, copy and remove the sessions of a store file
    Sessions(SessionsArgs),
    /// Serve this program's tools to clients of the Model Context Protocol, and call the tools of servers
    #[command(subcommand, arg_required_else_help = true)]
    Mcp(McpCommand),
    /// See agents of other programs and send them messages, over the Agent2Agent protocol
    #[command(subcommand, arg_required_else_help = true)]
    A2a(A2aCommand),
    /// Serve agents and workflows of this program; the same as `a2a serve`
    Serve(A2aServeArgs),
}

#[derive(Debug, Args)]
pub(super) struct ChatArgs {
    /// The agent
    #[arg(long, value_name = "NAME")]
    pub(super) agent: String,
    /// The session; it begins when no session has this id. What no longer fits its window is summed up by the agent's model
    #[arg(long, value_name = "ID")]
    pub(super) session: String,
    /// The file that sessions are kept in; it is made when it does not exist [default: the configured store, or
    /// agentflow.db]
    #[arg(long, value_name = "FILE")]
    pub(super) store: Option<PathBuf>,
    /// On whose behalf the agent runs, and who answers its questions; recorded
    #[arg(long, value_name = "NAME")]
    pub(super) caller: Option<String>,
    /// How many of the questions before are shown
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

/// What is seen of workflows without running one; each also stands without `workflow` before it.
#[derive(Debug, Subcommand)]
pub(super) enum WorkflowViewCommand {
    /// List the workflows, ordered by name
    List {
        /// Print an array of their graphs as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        documents: DocumentArgs,
    },
    /// Show what a workflow consists of
    Show {
        /// The workflow, by its name or by the file of its document
        name: String,
        #[command(flatten)]
        documents: DocumentArgs,
        /// Print a picture in this language, or the whole graph as JSON
        #[arg(long)]
        format: Option<GraphFormat>,
    },
    /// Check documents, YAML or JSON, and print every mistake with its place
    Validate(ValidateArgs),
    /// Show what a run would do, step by step; nothing is done
    DryRun(DryRunArgs),
    /// Show what differs between two versions of a workflow; the exit code is 1 when something does
    Diff(DiffArgs),
    /// Print a workflow as a document of a form; what the form cannot say is an error
    Export(ExportArgs),
    /// Print the JSON Schema of documents, for editors that complete and underline
    Schema {
        /// Of one form alone
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
    /// The whole graph, schemas included
    Json,
    /// What a run would do, step by step; nothing is done
    DryRun,
}

#[derive(Debug, Subcommand)]
pub(super) enum AgentsCommand {
    /// List them, ordered by name, each with where it comes from
    List {
        /// Print an array of objects as JSON, schemas included
        #[arg(long)]
        json: bool,
    },
    /// Show all of one
    Show {
        /// The name
        name: String,
        /// Print a JSON object
        #[arg(long, conflicts_with = "format")]
        json: bool,
        /// Print a picture of its model, its tools and the agents among them, or what a run would do
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
    /// What a run would do; nothing is done
    DryRun,
}

#[derive(Debug, Args)]
pub(super) struct WorkflowRunArgs {
    /// The workflow, by its name or by the file of its document
    pub(super) name: String,
    /// The inputs by their names, such as '{"n": 3}'
    #[arg(long, value_name = "JSON")]
    pub(super) input: Option<String>,
    /// Keep the run in this file, so that it survives this process; it is made if it does not exist [default: the configured store]
    #[arg(long, value_name = "FILE")]
    pub(super) store: Option<PathBuf>,
    /// The run's id, so that the same request is not started twice; needs a store
    #[arg(long, value_name = "ID")]
    pub(super) run_id: Option<String>,
    #[command(flatten)]
    pub(super) documents: DocumentArgs,
    #[command(flatten)]
    pub(super) began: BeganArgs,
    /// Print all events to standard output instead of the output
    #[arg(long, value_name = "FORMAT")]
    pub(super) events: Option<EventFormat>,
}

/// What a run is started with, of a workflow or an agent.
#[derive(Debug, Args)]
pub(super) struct BeganArgs {
    /// On whose behalf it runs; recorded
    #[arg(long, value_name = "NAME")]
    pub(super) caller: Option<String>,
    /// A tag by which the run is found; recorded; may be given several times
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag)]
    pub(super) tags: Vec<(String, String)>,
    /// The longest that the run may be executed, such as 90s or 2h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) run_timeout: Option<Duration>,
    /// The most model calls of the run
    #[arg(long, value_name = "N")]
    pub(super) max_llm_calls: Option<u32>,
}

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(super) struct RunsArgs {
    /// The file that the runs are kept in [default: the configured store, or agentflow.db]
    #[arg(long, value_name = "FILE", global = true)]
    pub(super) store: Option<PathBuf>,
    #[command(subcommand)]
    pub(super) command: RunsCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum RunsCommand {
    /// List the runs, the newest first
    List {
        /// Only runs of this status; may be given several times
        #[arg(long)]
        status: Vec<RunStatus>,
        /// Only runs of this agent or workflow
        #[arg(long)]
        name: Option<String>,
        /// Only runs that have this tag; may be given several times, for runs that have all of them
        #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag)]
        tags: Vec<(String, String)>,
        /// Only runs that were started on behalf of this caller
        #[arg(long, value_name = "NAME")]
        caller: Option<String>,
        /// At most so many
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// Print an array of JSON objects
        #[arg(long)]
        json: bool,
    },
    /// Show where a run is, and which steps would run again if it were resumed, and why
    Show {
        /// The run's id
        run: String,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Resume a run that has not ended, with the workflows of this program
    Resume {
        /// The run's id
        run: String,
        /// What to do when its workflow or agent has changed since it began. Default: what the program's runtime says
        #[arg(long, value_name = "RULE", value_enum)]
        changes: Option<Changes>,
        /// Print all events to standard output instead of the output
        #[arg(long, value_name = "FORMAT")]
        events: Option<EventFormat>,
    },
    /// Cancel a run
    Cancel {
        /// The run's id
        run: String,
        /// Why; recorded
        #[arg(long, default_value = "cancelled from the command line")]
        reason: String,
    },
    /// Pause a run: nothing new is started
    Pause {
        /// The run's id
        run: String,
    },
    /// Let a paused run continue where it is being executed
    Unpause {
        /// The run's id
        run: String,
    },
    /// Send the agent of an unfinished run a message; its model sees it at its next call
    Send {
        /// The run's id
        run: String,
        /// The message
        text: String,
    },
    /// Close a live run: it answers the messages that it has, and ends
    Close {
        /// The run's id
        run: String,
    },
    /// Let a failed or interrupted node run again, and resume the run when this program has what it runs
    Retry {
        /// The run's id
        run: String,
        /// The node's name, or the model call of an agent's run, such as model#2
        node: String,
        /// Print all events to standard output instead of the output
        #[arg(long, value_name = "FORMAT")]
        events: Option<EventFormat>,
    },
    /// Remove a run with its journal: one that has ended, still has to undo what it did, or cannot be read
    Delete {
        /// The run's id
        run: String,
    },
    /// Remove all runs that ended a while ago, with their journals
    Purge {
        /// How long ago they ended at least, such as 12h or 30d
        #[arg(long, value_name = "TIME", value_parser = duration)]
        older_than: Duration,
        /// Only runs of this workflow or agent
        #[arg(long)]
        name: Option<String>,
        /// Only list them
        #[arg(long)]
        dry_run: bool,
    },
    /// List the questions that runs wait for, the oldest first
    Questions {
        /// Only of runs of this agent or workflow
        #[arg(long)]
        name: Option<String>,
        /// Only of runs that have this tag; may be given several times, for runs that have all of them
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
        /// The node's name, the path of the call that asks, or the question as `runs questions` names it
        node: String,
        /// The answer: a text as it is, a choice by its text or its number, all else as JSON
        answer: String,
        /// Who answers; recorded [default: the user's name]
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
    /// Answer the question of a node
    Approve {
        /// The run's id
        run: String,
        /// The node's name, or the question as `runs questions` names it
        node: String,
        /// Say no
        #[arg(long)]
        deny: bool,
        /// What to say with it
        #[arg(long, value_name = "TEXT")]
        comment: Option<String>,
        /// All arguments of the call that is asked about, in the place of those it has
        #[arg(long, value_name = "JSON", conflicts_with = "deny")]
        arguments: Option<String>,
        /// The answer itself, for a node that asks for another type than yes or no
        #[arg(long, value_name = "JSON", conflicts_with_all = ["deny", "comment", "arguments"])]
        answer: Option<String>,
        /// Who answers; recorded [default: the user's name]
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
        /// Go on until the run ends
        #[arg(long)]
        follow: bool,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
}

/// What is done with the tools of a program.
#[derive(Debug, Subcommand)]
pub(super) enum ToolsCommand {
    #[command(flatten)]
    Entries(EntriesCommand),
    /// Call one, without an agent; its answer goes to standard output
    Call {
        /// The name
        name: String,
        /// The arguments as one JSON object, such as '{"a": 1}'
        #[arg(long, value_name = "JSON", default_value = "{}")]
        input: String,
        /// The scopes it is granted, and approve:NAME for a tool that a person must agree to
        #[arg(long, value_name = "A,B", value_delimiter = ',')]
        grant: Vec<String>,
        /// Print all events to standard output instead of the answer
        #[arg(long, value_name = "FORMAT")]
        events: Option<EventFormat>,
    },
}

/// What is done with the tools or the agents of a program.
#[derive(Debug, Subcommand)]
pub(super) enum EntriesCommand {
    /// List them, ordered by name, each with where it comes from
    List {
        /// Print an array of objects as JSON, schemas included
        #[arg(long)]
        json: bool,
    },
    /// Show all of one
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
    /// List the providers, ordered by name; the same as without a command
    List,
}

#[derive(Debug, Args)]
pub(super) struct CallArgs {
    /// What the model is asked
    pub(super) prompt: String,
    /// The model and its wire format, such as openai-chat/gpt-5-mini
    #[arg(long = "model", value_name = "REF")]
    pub(super) reference: String,
    #[command(flatten)]
    pub(super) model: ModelArgs,
    /// Print the answer as it comes
    #[arg(long)]
    pub(super) stream: bool,
    /// Print one JSON object a turn
    #[arg(long)]
    pub(super) json: bool,
    /// Offer the tool that a JSON file describes: {"name", "description", "parameters"}
    #[arg(long = "tool", value_name = "FILE.json")]
    pub(super) tools: Vec<PathBuf>,
    /// Make at most N model calls, each tool call being answered with "ok"
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) turns: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum EventFormat {
    /// One JSON object a line
    Jsonl,
}

pub(super) fn tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE, such as tenant=acme".to_owned()),
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

/// Which artifact is written where.
#[derive(Debug, Args)]
pub(super) struct ArtifactArgs {
    /// The artifact to write; without it they are listed
    #[arg(long, requires = "out")]
    pub(super) name: Option<String>,
    /// Its version [default: the newest]
    #[arg(long, value_name = "VERSION", requires = "name")]
    pub(super) number: Option<u32>,
    /// The file to write it to, which must not be there yet; `-` is standard output
    #[arg(long, value_name = "FILE", requires = "name")]
    pub(super) out: Option<PathBuf>,
    /// Print one JSON array
    #[arg(long, conflicts_with = "name")]
    pub(super) json: bool,
}
