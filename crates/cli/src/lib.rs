//! The command line: calls models, runs agents and workflows of a program, and controls their runs.
//!
//! The command `agentwf` is this module with three read-only [tools](mod@agentflow_tools) for
//! documents: `condition`, `transform` and `http_request` (GET and HEAD requests to the public
//! internet). A configuration (page `agentflow::configuration`) adds MCP servers, remote agents,
//! model providers and further tools. To use your own tools, link them into a program whose `main`
//! calls [`run`]; it has the same commands.
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
//! - `tools list [--json]`, `tools show NAME [--json]`: the tools of the program, ordered by name,
//!   with their origin: linked into the program, added to the runtime, or part of a toolset. JSON
//!   objects have the form `{"kind", "name", "wire_name", "description", "origin",
//!   "parameters_schema", "required_permissions", "supports_streaming", "policy"}`.
//! - `tools call NAME [--input JSON] [--grant A,B] [--events jsonl]`: calls a tool under its
//!   policy, including its time-out and checks. Prints the answer, or with `--events` the events of
//!   the call.
//! - `agents list [--json]`, `agents show NAME [--json] [--format mermaid|dot|dry-run]`: the agents
//!   of the program, with the schemas of input and output,
//!   `{"kind", "name", "description", "origin", "input", "output"}`, or as a diagram.
//! - `models [list] [--json]`: the model providers, with the URL of each and the environment
//!   variable of its key. The key itself is never shown. With `--json` an array of `{"name",
//!   "origin", "host", "base_url", "base_url_variable", "key_names", "key_from", "problem"}`.
//! - `call --model REF "prompt"`: model calls without an agent. `--stream` prints the answer while
//!   it is generated. `--tool FILE.json` offers a tool. `--turns N` answers each tool call with
//!   `"ok"` and continues until an answer has no tool call, at most N answers. `--json` prints one
//!   object per turn: `{"text", "reasoning", "tool_calls": [{"id", "name", "arguments"}],
//!   "stop_reason", "usage": {"input_tokens", "output_tokens", "cached_tokens",
//!   "reasoning_tokens"}}`, or `{"error": {"kind", "status", "provider_code", "message",
//!   "retryable"}}`.
//! - `run --model REF --task "…" [--tools a,b]`: runs an agent with the named tools. The answer
//!   goes to standard output, the progress to standard error. With `--events jsonl`, all events
//!   including deltas go to standard output instead.
//! - `run WORKFLOW --task "…"`, or `run --workflow WORKFLOW ..`: runs a workflow instead of an
//!   agent, given by its name or the file of a document. The task becomes the input `task`, or the
//!   only input. `--input JSON` sets all inputs. Otherwise the command is the same as
//!   `workflow run`.
//! - `chat --agent NAME --session ID [--store STORE]`: a conversation between a person and an agent,
//!   one line each, in a persistent [`session`](agentflow_core::session). If the session exists, its
//!   messages are shown and an interrupted run continues. The answer goes to standard output while
//!   it is generated; tool calls and questions go to standard error. Answer a question with `yes`,
//!   `no`, a reason for a denial, or JSON. The end of the input ends the chat.
//! - `workflow list [--json]`, `workflow show NAME [--format mermaid|dot|svg|json|dry-run]`: the
//!   workflows of the program, with their origin. `workflows` is the same command.
//! - `workflow run NAME --input JSON [--store STORE] [--run-id ID] [--queue]`: runs a workflow to its
//!   end. The output goes to standard output, the progress (on a terminal a live tree) to standard
//!   error. On Ctrl-C a run with a store is detached and can be resumed; a run without a store is
//!   cancelled. A run without a store also ends when it asks a person without a time-out, because
//!   no answer could reach it. `--run-id` needs a store, from `--store` or the settings. `--queue`
//!   stores the run for a `worker` and prints its id.
//! - `--document PATH`, with these three commands: adds the workflows of a document, or of all
//!   documents in a folder ([`document`](agentflow_core::document)).
//! - `workflow dry-run NAME [--document PATH] [--json]`: the steps of a run, without running it.
//!   `workflow diff OLD NEW [--json]`: the differences between two versions, each given as the file
//!   of a document or the name of a workflow. The exit code is 0 if there are no differences, and 1
//!   if there are some or the versions cannot be compared (with a message on standard error).
//! - `workflow validate PATH.. [--without-names] [--json]`: checks documents and prints every
//!   mistake with its line. The exit code is 1 if there are mistakes.
//!   `workflow schema [--form FORM]` prints the JSON Schema of documents, for editors.
//! - `list`, `show`, `validate`, `dry-run`, `diff`, `export` and `schema` are short forms of the
//!   `workflow` commands.
//! - `health [--json]`: reads the document folders of the host and reports each phase of
//!   [`Runtime::health`](agentflow_core::Runtime::health). The exit code is 1 if a phase failed.
//! - `runs --store STORE ..`: `list`, `show ID` (with the steps that would run again on resume, and
//!   why), `resume ID [--changes RULE]`, `cancel ID`, `pause ID`, `unpause ID`, `retry ID NODE`,
//!   `delete ID`, `purge --older-than TIME [--dry-run]`, `questions` (questions of all runs to
//!   people), `answer ID NODE TEXT`,
//!   `approve ID NODE [--deny] [--comment TEXT] [--arguments JSON] [--answer JSON]`,
//!   `events ID [--follow] [--json]`. `resume` shows new events, `events` the whole journal.
//!   Requests to a run in another process are sent through the store. `resume` requires the run's
//!   workflow or agent to be linked into the program; with it, `retry` also resumes the run. All
//!   other commands work with any `agentwf`.
//! - `worker --store STORE [--concurrency N] [--name A,B] [--drain-timeout TIME]`: executes
//!   [queued](agentflow_core::runtime::StartRun::queued) runs, and runs whose process has ended, of the
//!   workflows and agents of this program. Several workers may share a store. On SIGTERM or Ctrl-C
//!   it takes no more runs and lets running steps finish until the time-out; another worker
//!   continues the rest.
//! - `sessions --store STORE ..`: `list [--caller NAME] [--tag KEY=VALUE]`, `show ID` (its runs, and
//!   the ends of its branches), `export ID` (the whole session as JSON), `delete ID [--dry-run]`,
//!   `expire --idle TIME [--dry-run]`.
//! - `documents --store STORE ..`: the documents that the store keeps with numbered versions:
//!   `list`, `get NAME [VERSION]`, `put FILE [--expect-version N | --expect-absent]
//!   [--comment TEXT] [--by NAME]`, `versions NAME`, `diff NAME OLD NEW` (a unified diff; the exit
//!   code is 1 if the texts differ), `remove NAME [--expect-version N]` and `validate FILE`, each
//!   with `--json`. `put` and `validate` print every mistake with its line. `workflow run NAME`
//!   with the same store starts the current version, and with `--document-version N` an earlier one.
//! - `mcp serve [--tool A,B] [--agent A,B] [--workflow A,B] [--grant A,B] [--store STORE]`: serves
//!   the tools of the program, and the named agents and workflows, over the Model Context Protocol
//!   ([`mcp_server`](agentflow_mcp::mcp_server)): over standard input and output, or with
//!   `--http PORT|ADDR [--host A,B] [--origin A,B] [--key-from VARIABLE]` over HTTP at the path
//!   `/mcp`. An address that other machines can reach requires a key. `mcp tools [--json]` and
//!   `mcp call NAME [--input JSON] [--json]`, each with `--url URL` or `-- PROGRAM ARG..`, are a
//!   client for trying a server.
//!   `mcp login --url URL [--scope A,B] [--client-id ID --issuer URL] [--port PORT]` prints the
//!   address of the login page and stores the login in the user's files
//!   ([`McpLoginFolder`](agentflow_mcp::mcp::McpLoginFolder)), where the other commands find it.
//!   `mcp logout --url URL` removes it.
//! - `a2a card URL [--json]` and `a2a send URL TEXT [--task ID] [--context ID] [--json]`, each with
//!   `--key-from VARIABLE`: shows the card of a remote agent, and sends it a message over the
//!   Agent2Agent protocol ([`a2a`](agentflow_a2a::a2a)). The exit code is 1 if the task did not complete,
//!   or waits for input.
//! - `a2a serve [--agent A,B] [--workflow A,B] --store STORE [--listen ADDRESS] [--public-url URL]
//!   [--token-from VARIABLE] [--grant A,B] [--clients-approve]`: serves the named agents and
//!   workflows over the Agent2Agent protocol ([`a2a_server`](agentflow_a2a::a2a_server)), only on this
//!   machine unless clients send a token. An operator answers approvals with `runs approve`; with
//!   `--clients-approve`, clients do.
//! - `serve [--document PATH] [--store STORE] [--listen ADDRESS] [--token-from VARIABLE] [--host A,B]
//!   [--origin A,B] [--no-page] [--a2a] [--mcp] [--drain-timeout TIME]`: serves all agents and
//!   workflows of the program: a REST API with event streams, a web page, and on request A2A and MCP
//!   ([`agentflow_server`]). Only on this machine unless clients send a token. On SIGTERM or Ctrl-C
//!   it lets open requests and running steps finish until the time-out.
//!
//! `--store` is a [`StoreAddress`](agentflow_core::store::StoreAddress): a file, `postgres://..`
//! (feature `postgres`) or `memory:`. Other users of the machine can read the arguments of a
//! process, so a URL with a password belongs in the variable `AGENTFLOW_STORE`.
//!
//! `--model` is a [`ModelRef`](agentflow_core::model::ModelRef), such as `openai-chat/gpt-5-mini`.
//! `--base-url` has the form that the provider's official SDK uses (`http://127.0.0.1:8080/v1` for
//! a server on this machine). The key comes from an environment variable, which `models` shows. A
//! host with its own providers or keys passes its runtime to [`run_with`].
//!
//! # Settings
//!
//! `--config FILE`, or the variable `AGENTFLOW_CONFIG`, names a file with a [`RuntimeConfig`]: the
//! store, document folders, models and their providers, MCP servers, agents, tools, scopes and
//! limits. An entry that cannot be used is reported and left out. Other variables of that type,
//! such as `AGENTFLOW_STORE`, override its fields, and command-line options override both. Settings
//! apply to `agentwf`, [`run`] and [`run_from`].
//!
//! # Logs
//!
//! Logs go to standard error: warnings with `-v`, also information with `-vv`, also details of this
//! library with `-vvv`. `RUST_LOG`, as in [tracing-subscriber](https://docs.rs/tracing-subscriber),
//! overrides these options. `--log-format json` prints one JSON object per line, with the enclosing
//! spans, which contain the run id. `--log-run ID` shows only the logs of one run.
//!
//! # Exit codes
//!
//! | code | |
//! | --- | --- |
//! | 0 | success |
//! | 1 | failure, with a message on standard error, or the error object of `call --json` |
//! | 2 | the command line is wrong |
//! | 130 | stopped by Ctrl-C, even if the parent process ignores the signal (`nohup`, a background job of a shell); `run` prints a summary of the work done. A second Ctrl-C exits at once |
//! | 141 | the reader closed standard output; a run without a store is cancelled, a run with a store can be resumed |
//!
//! Text from models, tools, servers and other operators is printed so that it cannot move the
//! cursor, end the line early or reverse the writing direction: such characters are escaped, as
//! `\u{1b}`, or `\u001b` in JSON. The answers of `call` and `run` and the output of a workflow are
//! printed unchanged if standard output is a pipe; on a terminal they keep their line feeds and
//! tabs.

mod a2a_args;
mod a2a_commands;
mod a2a_listener;
mod a2a_serve;
mod a2a_tasks;
mod args;
mod artifacts;
mod call_model;
mod changes_arg;
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
mod serve;
mod serve_args;
mod session_args;
mod sessions;
mod stop_signal;
mod stored_document_args;
mod stored_documents;
mod tools;
mod tree;
mod typed_answer;
mod typed_lines;
mod validate;
mod worker;
mod workflow_as_task;
mod workflow_diff;
mod workflows;

use std::path::Path;
use std::process::ExitCode;

use agentflow_schema::text::OneLine;
use clap::Parser;

use self::args::{Cli, Command, ModelsArgs, WorkflowCommand};
use self::print::{Stop, note};
use agentflow_config::{ConfigError, ConfigureRuntime, RuntimeConfig};
use agentflow_core::runtime::{Runtime, RuntimeBuilder};

/// Executes the command line of the program and returns the exit code for `main`; see the [module
/// documentation](self) for commands and exit codes. The tools are those linked into the program.
/// Settings come from a file and the environment ([`RuntimeConfig`]).
///
/// Tools, agents and models that a program adds to its own runtime are not available here. Such a
/// program calls [`run_with`]`(&runtime)`, or [`run_from`] with the builder.
///
/// This function creates its own tokio runtime, so it cannot be called from async code.
///
/// # Panics
/// If called within a tokio runtime.
pub fn run() -> ExitCode {
    run_from(Runtime::builder().linked_alone())
}

/// Executes the command line with a runtime that is still being built. Settings are applied to the
/// builder: those of `--config FILE` or of the file in `AGENTFLOW_CONFIG`, and the other variables
/// of [`RuntimeConfig`]. The documents of its folders are loaded; a document with mistakes is
/// reported and left out.
///
/// # Panics
/// If called within a tokio runtime.
pub fn run_from(builder: RuntimeBuilder) -> ExitCode {
    execute(ProgramHost::Builder(Box::new(builder)))
}

/// Executes the command line with a host's own [`Runtime`], including its model providers, keys,
/// resources and sinks. The runtime already has its settings, so `--config` is an error; use
/// [`run_from`] to support it.
///
/// # Panics
/// If called within a tokio runtime.
pub fn run_with(host: &Runtime) -> ExitCode {
    execute(ProgramHost::Runtime(host.clone()))
}

/// The program's runtime: complete, or a builder without settings.
enum ProgramHost {
    Builder(Box<RuntimeBuilder>),
    Runtime(Runtime),
}

impl ProgramHost {
    /// Applies the settings and loads the documents of folders.
    async fn runtime(self, config: Option<&Path>, reads_documents: bool) -> Result<Runtime, Stop> {
        let builder = match self {
            Self::Builder(builder) => builder,
            Self::Runtime(_) if config.is_some() => {
                let problem =
                    "this program has its settings from its own code; it takes no --config";
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
            // A report about a file already begins with `error: `, which the command line also
            // prints.
            Stop::failed("config", report.strip_prefix("error: ").unwrap_or(&report))
        };
        let runtime = builder.config(config.map_err(failed)?).await.map_err(failed)?.build();
        if reads_documents {
            for problem in runtime.problems_of_configuration() {
                note(OneLine(problem));
            }
            match runtime.documents().reload().await {
                Ok(reloaded) => {
                    reloaded.errors.iter().for_each(|error| note(format_args!("{error}\n")));
                }
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
            // Failing to print help to a closed pipe is not reported.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return Stop::failed("runtime", format!("no threads could be started: {error}"))
                .report();
        }
    };
    let done = runtime.block_on(async {
        logging::install(&cli.logs)?;
        // `health` reads the documents itself and reports their mistakes as part of its result.
        let reads_documents = !matches!(cli.command, Command::Health { .. });
        let host = &host.runtime(cli.config.as_deref(), reads_documents).await?;
        match cli.command {
            Command::Tools(command) => tools::tools(host, command).await,
            Command::Agents(command) => tools::agents(host, command).await,
            // `models` has only one subcommand, which is also the default.
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
            Command::Worker(args) => worker::worker(host, args).await,
            Command::Sessions(args) => sessions::sessions(host, args).await,
            Command::Documents(args) => stored_documents::documents(host, args).await,
            Command::A2a(command) => a2a_commands::a2a(host, command).await,
            Command::Serve(args) => serve::serve(host, args).await,
            Command::Mcp(command) => mcp_commands::mcp(host, command).await,
        }
    });
    // A tool may still run on a blocking thread; the process does not wait for it.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => stop.report(),
    }
}
