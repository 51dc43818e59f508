//! The command line: try a model, run agents and workflows of a program, see and control their runs.
//!
//! `agentwf` is this module and three [tools](mod@crate::tools) that change nothing, for documents: `condition`, `transform` and
//! `http_request` (GET and HEAD, of the public internet). A configuration (page `agentflow::configuration`) gives it MCP servers, agents
//! of other programs, providers of models and further tools. Your own tools are linked into a program: its `main`
//! calls [`run`], and it has the same commands over its tools.
//!
//! ```no_run
//! use agentflow::prelude::*;
//!
//! /// Add two integers.
//! #[tool]
//! fn add(a: i64, b: i64) -> i64 { a + b }
//!
//! fn main() -> std::process::ExitCode {
//!     agentflow::cli::run()
//! }
//! ```
//!
//! # Commands
//!
//! - `tools list [--json]`, `tools show NAME [--json]`: the tools, linked, given to the runtime or of its toolsets,
//!   ordered by name, each with where it comes from; in JSON an object is `{"kind", "name", "wire_name", "description",
//!   "origin", "parameters_schema", "required_permissions", "supports_streaming", "policy"}`.
//! - `tools call NAME [--input JSON] [--grant A,B] [--events jsonl]`: calls one, with its time-out, its checks and everything
//!   else that its policy says, and prints its answer, or with `--events` the events of the call.
//! - `agents list [--json]`, `agents show NAME [--json] [--format mermaid|dot|dry-run]`: the same of agents,
//!   with the schemas of what they take and answer, `{"kind", "name", "description", "origin", "input", "output"}`, or
//!   drawn.
//! - `models [list] [--json]`: the providers that models can be named by, where each is called and which variable its key
//!   comes from; never the key. With `--json` an array of `{"name", "origin", "host", "base_url", "base_url_variable",
//!   "key_names", "key_from", "problem"}`.
//! - `call --model REF "prompt"`: plain model calls without an agent. `--stream` asks for the pieces and prints them as
//!   they come, `--tool FILE.json` offers a tool, `--turns N` answers each tool call with `"ok"` and continues until an
//!   answer asks for no tool or N answers were given. With `--json` one object a turn:
//!   `{"text", "reasoning", "tool_calls": [{"id", "name", "arguments"}], "stop_reason", "usage": {"input_tokens",
//!   "output_tokens", "cached_tokens", "reasoning_tokens"}}`, or `{"error": {"kind", "status", "provider_code",
//!   "message", "retryable"}}`.
//! - `run --model REF --task "…" [--tools a,b]`: an agent over the named tools. The answer goes to standard output, the
//!   progress to standard error; with `--events jsonl` all events, deltas included, go to standard output instead.
//! - `run WORKFLOW --task "…"`, or `run --workflow WORKFLOW ..`: a workflow in the place of an agent, by its name or by the file of a
//!   document. The task is its input `task`, or the only one that it has; `--input JSON` gives all of them. Otherwise it is
//!   `workflow run`.
//! - `chat --agent NAME --session ID [--store FILE]`: a person and an agent of the program talk, a line each; the session
//!   remembers ([`session`](crate::session)). On return it shows what was said and continues a run that was stopped. The
//!   answer goes to standard output as it comes, calls of tools and questions to standard error. A question is answered
//!   with `yes`, `no`, a reason why not, or JSON. The end of the input ends it.
//! - `workflow list [--json]`, `workflow show NAME [--format mermaid|dot|json|dry-run]`: the workflows of the program, each with
//!   where it comes from. `workflows` is the same command.
//! - `workflow run NAME --input JSON [--store FILE] [--run-id ID]`: runs one to its end; the output goes to standard
//!   output, the progress, a live tree on a terminal, to standard error. With a store, Ctrl-C leaves the run so that it
//!   can be resumed; without one, it cancels the run. A run without a store ends when it asks a person and sets no time
//!   for it, since no answer could reach the run. `--run-id` needs a store, by `--store` or in the settings.
//! - `--document PATH`, with the three of them: also the workflows of a document, or of all documents of a folder
//!   ([`document`](crate::document)).
//! - `workflow dry-run NAME [--document PATH] [--json]`: what a run would do, step by step. `workflow diff OLD NEW [--json]`:
//!   what differs between two versions, each the file of a document or the name of a workflow; the exit code is 0 when
//!   nothing does, and 1 when something does or they cannot be compared, which standard error then says.
//! - `workflow validate PATH.. [--without-names] [--json]`: checks documents and prints every mistake with its line; one
//!   with mistakes makes the exit code 1. `workflow schema [--form FORM]` prints the JSON Schema of documents, for editors.
//! - `list`, `show`, `validate`, `dry-run`, `diff`, `export` and `schema` are those of `workflow`, in a word.
//! - `health [--json]`: reads the folders of documents of the host and says of each phase of
//!   [`Runtime::health`](crate::Runtime::health) whether it is well; the exit code is 1 when one is not.
//! - `runs --store FILE ..`: `list`, `show ID` (which steps would run again if it were resumed, and why), `resume ID [--changes RULE]`,
//!   `cancel ID`, `pause ID`, `unpause ID`, `retry ID NODE`, `delete ID`, `purge --older-than TIME [--dry-run]`, `questions`
//!   (what persons are asked, of all runs), `answer ID NODE TEXT`, `approve ID NODE [--deny] [--comment TEXT] [--arguments JSON] [--answer JSON]`,
//!   `events ID [--follow] [--json]`. `resume` shows what is new, `events` the whole journal. The requests
//!   reach a run that another process executes through the store. `resume` needs the run's workflow or agent to be
//!   linked into the program, and where it is, `retry` resumes the run too; everything else works with any `agentwf`.
//! - `sessions --store FILE ..`: `list [--caller NAME] [--tag KEY=VALUE]`, `show ID` (its runs, and where its branches end),
//!   `export ID` (all of it as JSON), `delete ID [--dry-run]`, `expire --idle TIME [--dry-run]`.
//! - `mcp serve [--tool A,B] [--agent A,B] [--workflow A,B] [--grant A,B] [--store FILE]`: the tools of the program, and
//!   the agents and workflows that are named, as a server of the Model Context Protocol over standard input and output
//!   ([`mcp_server`](crate::mcp_server)), or with `--http PORT|ADDR [--host A,B] [--origin A,B] [--key-from VARIABLE]` over
//!   HTTP at the path `/mcp`; an address that others can reach needs a key. `mcp tools [--json]` and `mcp call NAME [--input JSON] [--json]`, each with
//!   `--url URL` or `-- PROGRAM ARG..`: the other side, for trying a server. `mcp login --url URL [--scope A,B]
//!   [--client-id ID --issuer URL] [--port PORT]` prints an address to log in at and keeps the login in the user's files
//!   ([`McpLoginFolder`](crate::mcp::McpLoginFolder)), where the other commands find it; `mcp logout --url URL` removes it.
//! - `a2a card URL [--json]` and `a2a send URL TEXT [--task ID] [--context ID] [--json]`, each with `--key-from VARIABLE`: an
//!   agent of another program, over the Agent2Agent protocol ([`a2a`](crate::a2a)). A task that did not end well, or waits
//!   for another message, makes the exit code 1.
//! - `a2a serve [--agent A,B] [--workflow A,B] --store FILE [--listen ADDRESS] [--public-url URL] [--token-from VARIABLE]
//!   [--grant A,B] [--clients-approve]`: the agents and workflows that are named, as a server of the Agent2Agent protocol
//!   ([`a2a_server`](crate::a2a_server)), on this machine alone unless clients send a token. Approvals are given with
//!   `runs approve`, or with `--clients-approve` by clients. `serve` is the same command.
//!
//! `--model` is a [`ModelRef`](crate::model::ModelRef), such as `openai-chat/gpt-5-mini`; `--base-url` is what the
//! provider's official SDK takes (`http://127.0.0.1:8080/v1` for a server on this machine). The key comes from the
//! environment; `models` says from which variable. A host with providers or keys of its own passes its runtime to
//! [`run_with`].
//!
//! # Settings
//!
//! `--config FILE`, or the variable `AGENTFLOW_CONFIG`, names a file of [`RuntimeConfig`]: the store, folders of documents, models
//! and their providers, MCP servers, agents, tools, scopes and limits. An entry that cannot be used is reported and left out. The other variables of that type, such as `AGENTFLOW_STORE`, take the place of its fields, and options
//! of the command line take the place of both. They apply to `agentwf`, [`run`] and [`run_from`].
//!
//! # Logs
//!
//! Logs go to standard error: with `-v` warnings, with `-vv` also information, with `-vvv` also details of this library.
//! `RUST_LOG`, as of [tracing-subscriber](https://docs.rs/tracing-subscriber), takes the place of these options.
//! `--log-format json` prints a JSON object in a line, with the spans around it, which have the run's id. `--log-run ID` shows
//! what one run logs alone.
//!
//! # Exit codes
//!
//! | code | |
//! | --- | --- |
//! | 0 | done |
//! | 1 | failed; one sentence on standard error, or the error object with `call --json` |
//! | 2 | the command line is wrong |
//! | 130 | stopped by Ctrl-C, also where the parent ignores it (`nohup`, a shell's background job); `run` says what was done until then. A second Ctrl-C does not wait for the end |
//! | 141 | standard output was closed by its reader; a run is cancelled, one with a store left to be resumed |
//!
//! Whatever models, tools, servers and other operators wrote is shown in lines that cannot move the cursor, end early
//! or turn the writing around: such characters are escapes, `\u{1b}`, and `\u001b` in JSON. The answer of `call` and
//! `run` and the output of a workflow are as they came when standard output is a pipe; on a terminal their line feeds
//! and tabs stay.
//!
//! This module reads the command line, prints, and calls what every program can call; it decides nothing about a run.

mod a2a_args;
mod a2a_commands;
mod a2a_listener;
mod a2a_serve;
mod a2a_tasks;
mod args;
mod artifacts;
mod call_model;
mod chat;
mod ctrl_c;
mod document_args;
mod health_command;
mod logging;
mod mcp_args;
mod mcp_commands;
mod mcp_reads;
mod model;
mod models;
mod print;
mod progress;
mod run;
mod run_args;
mod runs;
mod session_args;
mod sessions;
mod tools;
mod tree;
mod typed_answer;
mod typed_lines;
mod validate;
mod workflow_as_task;
mod workflow_diff;
mod workflows;

use std::path::Path;
use std::process::ExitCode;

use agentflow_schema::text::OneLine;
use clap::Parser;

use self::args::{Cli, Command, ModelsArgs, WorkflowCommand};
use self::print::{Stop, note};
use crate::runtime::{ConfigError, Runtime, RuntimeBuilder, RuntimeConfig};

/// Executes the program's command line and returns the exit code for `main`; the [module's documentation](self) has the
/// commands and the codes. The tools are those linked into the calling program; settings come from a file and the
/// environment ([`RuntimeConfig`]). Tools, agents and models that a program gives to its own runtime are not known here: such a
/// program calls [`run_with`]`(&runtime)`, or [`run_from`] with the builder.
///
/// It makes a tokio runtime of its own, so it is not for async code.
///
/// # Panics
/// Inside of a tokio runtime.
pub fn run() -> ExitCode {
    run_from(Runtime::builder().linked_alone())
}

/// Executes the command line over a runtime that is still being built. The settings of `--config FILE`, or of the file that
/// `AGENTFLOW_CONFIG` names, and of the other variables of [`RuntimeConfig`] are applied to the builder, and the documents of
/// its folders are read. A document with mistakes is reported and left out.
///
/// # Panics
/// Inside of a tokio runtime.
pub fn run_from(builder: RuntimeBuilder) -> ExitCode {
    execute(ProgramHost::Builder(Box::new(builder)))
}

/// Executes the command line over a host's own [`Runtime`]: its model providers, keys, resources and sinks. The runtime has its
/// settings already, so `--config` is refused; [`run_from`] takes it.
///
/// # Panics
/// Inside of a tokio runtime.
pub fn run_with(host: &Runtime) -> ExitCode {
    execute(ProgramHost::Runtime(host.clone()))
}

/// The program's runtime, complete or as a builder without its settings.
enum ProgramHost {
    Builder(Box<RuntimeBuilder>),
    Runtime(Runtime),
}

impl ProgramHost {
    /// Applies the settings and reads the documents of folders.
    async fn runtime(self, config: Option<&Path>, reads_documents: bool) -> Result<Runtime, Stop> {
        let builder = match self {
            Self::Builder(builder) => builder,
            Self::Runtime(_) if config.is_some() => {
                let problem = "this program has its settings from its own code; it takes no --config";
                return Err(Stop::failed("config", problem));
            }
            Self::Runtime(runtime) => return Ok(runtime),
        };
        let config = match config {
            Some(file) => RuntimeConfig::open(file).and_then(|config| config.with_environment()),
            None => RuntimeConfig::from_env(),
        };
        let failed = |error: ConfigError| {
            let report = error.to_string();
            // Of a file it begins with the word that the command line writes, too.
            Stop::failed("config", report.strip_prefix("error: ").unwrap_or(&report))
        };
        let runtime = builder.config(config.map_err(failed)?).await.map_err(failed)?.build();
        if reads_documents {
            for problem in runtime.problems_of_configuration() {
                note(OneLine(problem));
            }
            match runtime.reload_documents().await {
                Ok(reloaded) => reloaded.errors.iter().for_each(|error| note(format_args!("{error}\n"))),
                Err(error) => note(format_args!("{error}\n")),
            }
        }
        Ok(runtime)
    }
}

fn execute(host: ProgramHost) -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help for somebody who closed the pipe is no failure worth a word.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Stop::failed("runtime", format!("no threads could be started: {error}")).report(),
    };
    let done = runtime.block_on(async {
        logging::install(&cli.logs)?;
        // `health` reads them itself and reports their mistakes as part of its answer.
        let reads_documents = !matches!(cli.command, Command::Health { .. });
        let host = &host.runtime(cli.config.as_deref(), reads_documents).await?;
        match cli.command {
            Command::Tools(command) => tools::tools(host, command).await,
            Command::Agents(command) => tools::agents(host, command).await,
            // Its only command does the same as none.
            Command::Models(ModelsArgs { command: _, json }) => models::list(host, json).await,
            Command::Call(args) => call_model::call(host, args).await,
            Command::Run(args) => run::run(host, args).await,
            Command::Chat(args) => chat::chat(host, args).await,
            Command::Workflow(WorkflowCommand::View(command)) | Command::OfWorkflows(command) => {
                workflows::view(host, command).await
            }
            Command::Workflow(WorkflowCommand::Run(args)) => workflows::run(host, args).await,
            Command::Health { json } => health_command::health(host, json).await,
            Command::Runs(args) => runs::runs(host, args).await,
            Command::Sessions(args) => sessions::sessions(host, args).await,
            Command::A2a(command) => a2a_commands::a2a(host, command).await,
            Command::Serve(args) => a2a_serve::serve(host, args).await,
            Command::Mcp(command) => mcp_commands::mcp(host, command).await,
        }
    });
    // A tool on a thread of its own may still be at work; the process does not wait for it.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => stop.report(),
    }
}
