//! A code review as a workflow: a linter, three agents, a step for each file, and a person's
//! approval at the end.
//!
//! Usage: `code_review [--approve | --deny COMMENT] [--store FILE] [DIFF]`, or `--graph` for a
//! diagram. It works offline: scripted stand-ins replace the models, unless `AGENTFLOW_MODEL` names
//! a real one. The verdict goes to standard output.

mod flow;
mod models;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use agentflow::event::{EventKind, PauseReason};
use agentflow::prelude::*;
use agentflow::store::{RunFilter, SqliteStore};
use agentflow::{Event, RunHandle};
use futures_util::StreamExt;

use crate::flow::{PullRequest, Verdict, review};

const USAGE: &str = "usage: code_review [--approve | --deny COMMENT] [--store FILE] [DIFF]
       code_review --graph
  DIFF is a file that `git diff` wrote; without one a small change is reviewed that is part of the example.
  Without --approve and --deny it asks. With --store the review survives this process: called again, it continues.
  AGENTFLOW_MODEL names a model, such as openai-chat/gpt-5-mini; without it stand-ins by rules answer.";

const DIFF: &str = "--- a/src/payment.rs
+++ b/src/payment.rs
@@ -1,3 +1,4 @@
-    amount.round()
+    let amount = rounded(amount).unwrap();
+    amount.max(0)
--- a/tests/payment.rs
+++ b/tests/payment.rs
@@ -1,2 +1,3 @@
+    assert_eq!(pay(1.005), 1);
";

/// Command-line arguments.
#[derive(Default)]
struct Arguments {
    graph: bool,
    decision: Option<Approval>,
    store: Option<PathBuf>,
    diff: Option<PathBuf>,
}

fn arguments(mut given: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--help" | "-h" => return Err(String::new()),
            "--graph" => arguments.graph = true,
            "--approve" => arguments.decision = Some(Approval::granted()),
            "--deny" => {
                arguments.decision =
                    Some(Approval::denied(given.next().ok_or("--deny needs a comment")?));
            }
            "--store" => arguments.store = Some(given.next().ok_or("--store needs a file")?.into()),
            option if option.starts_with("--") => {
                return Err(format!("there is no option {option}"));
            }
            file if arguments.diff.is_none() => arguments.diff = Some(file.into()),
            extra => return Err(format!("`{extra}` is too much; one diff is reviewed at a time")),
        }
    }
    Ok(arguments)
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = match arguments(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) if problem.is_empty() => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("code_review: {problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if arguments.graph {
        print!("{}", review::workflow().graph().to_mermaid());
        return ExitCode::SUCCESS;
    }
    match reviewed(arguments).await {
        Ok(Some(verdict)) => {
            println!("{}", verdict.outcome);
            verdict.notes.iter().for_each(|note| println!("- {note}"));
            ExitCode::SUCCESS
        }
        Ok(None) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("code_review: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the verdict, or `None` if the run waits in its store for an approval.
async fn reviewed(arguments: Arguments) -> Result<Option<Verdict>, String> {
    let pr = match &arguments.diff {
        Some(file) => {
            std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?
        }
        None => DIFF.to_owned(),
    };
    let pr = pull_request(pr);
    if pr.files.is_empty() {
        return Err("there is no file in the diff; give what `git diff` writes".to_owned());
    }
    follow(arguments, pr).await.map_err(|error| error.to_string())
}

fn pull_request(diff: String) -> PullRequest {
    let files: Vec<String> = diff
        .lines()
        .filter_map(|line| line.strip_prefix("+++ b/"))
        .map(ToOwned::to_owned)
        .collect();
    PullRequest { title: format!("{} files changed", files.len()), diff, files }
}

async fn runtime(store: Option<&PathBuf>) -> Result<Runtime> {
    let mut runtime = Runtime::builder();
    runtime = match std::env::var("AGENTFLOW_MODEL") {
        Ok(model) if !model.is_empty() => runtime.model(model),
        _ => {
            eprintln!("no model is configured (AGENTFLOW_MODEL), so stand-ins by rules answer");
            models::scripted(runtime)
        }
    };
    if let Some(file) = store {
        runtime = runtime.store(SqliteStore::open(file).await?);
    }
    Ok(runtime.build())
}

/// Resumes the review in the store or starts one, and prints its progress until it ends or waits
/// for an answer.
async fn follow(arguments: Arguments, pr: PullRequest) -> Result<Option<Verdict>> {
    let workflow = review::workflow();
    let runtime = runtime(arguments.store.as_ref()).await?;
    let earlier = match &arguments.store {
        Some(_) => runtime
            .runs()
            .list(RunFilter::unfinished().name(workflow.name()))
            .await?
            .into_iter()
            .next(),
        None => None,
    };
    let (run, seen) = match &earlier {
        Some(earlier) => {
            eprintln!("continuing with the review {}; what is done stays done", earlier.run_id);
            (runtime.run(&earlier.run_id).resume_as(&workflow).await?, earlier.events)
        }
        None => (runtime.start(workflow, pr).await?, 0),
    };
    let (mut unanswered, mut waits) = (false, false);
    if let Some(earlier) = earlier {
        let nodes = runtime.run(&earlier.run_id).inspect().await?.nodes;
        if let Some((node, question)) =
            nodes.into_iter().find_map(|node| Some((node.name, node.question?)))
        {
            unanswered = !answer(&run, &arguments, &node, &question).await?;
            waits = unanswered && earlier.pause_reason == Some(PauseReason::Approval);
        }
    }
    let mut events = run.events();
    while !waits && let Some(event) = events.next().await {
        if event.seq <= seen {
            continue;
        }
        show(&event);
        match &event.kind {
            EventKind::ApprovalRequested(request) => {
                let question = format!("{} {}", request.message, request.payload);
                unanswered = !answer(&run, &arguments, &event.path.to_string(), &question).await?;
            }
            // The run is paused for an approval, so no other step is running.
            EventKind::RunPaused { reason: PauseReason::Approval, .. } => waits = unanswered,
            _ => {}
        }
    }
    let Some(store) = arguments.store.filter(|_| waits) else {
        return run.result().await.map(Some);
    };
    eprintln!(
        "the review waits in {}; call again with --store and --approve or --deny",
        store.display()
    );
    run.abandon();
    Ok(None)
}

/// Answers with the decision of the command line or of the terminal. Returns `false` without a
/// decision.
async fn answer(
    run: &RunHandle<Verdict>,
    arguments: &Arguments,
    node: &str,
    question: &str,
) -> Result<bool> {
    let decision = match arguments.decision.clone() {
        Some(decision) => Some(decision),
        None => ask(question).await,
    };
    match decision {
        Some(decision) => run.approve(node, decision, "code_review").await?,
        None if arguments.store.is_some() => return Ok(false),
        None => {
            run.cancel("nobody answered; use --approve or --deny, or keep the review with --store")
                .await?;
        }
    }
    Ok(true)
}

/// Asks on the terminal. An empty line, or the end of the input, is no answer.
async fn ask(question: &str) -> Option<Approval> {
    eprint!("? {question}\n  yes, or why not: ");
    let _ = std::io::stderr().flush();
    let line = tokio::task::spawn_blocking(|| std::io::stdin().lines().next()).await;
    let line = line.ok().flatten().and_then(std::io::Result::ok)?;
    match line.trim() {
        "" => None,
        "y" | "yes" => Some(Approval::granted()),
        comment => Some(Approval::denied(comment)),
    }
}

/// Prints the progress of the workflow.
fn show(event: &Event) {
    match &event.kind {
        EventKind::NodeStarted { .. } => eprintln!("  {} ...", event.path),
        EventKind::NodeCompleted { output, .. } => eprintln!("  {}: {output}", event.path),
        EventKind::NodeFailed { error, .. } => {
            eprintln!("  {} failed: {}", event.path, error.message);
        }
        EventKind::ToolStarted { call, .. } => {
            eprintln!("  {} calls {} {}", event.path, call.name, call.arguments);
        }
        EventKind::ApprovalResolved { answer, by } => {
            eprintln!("  {}: {answer} by {by}", event.path);
        }
        _ => {}
    }
}
