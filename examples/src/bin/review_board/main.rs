//! A board that reviews a proposal. A planner divides it, and specialists work on the parts
//! concurrently. A reviewer checks their opinions against acceptance criteria and sends rejected
//! ones back. An arbiter decides, or hands off to the owner if a criterion is not met.
//!
//! Usage: `review_board [--store FILE] [PROPOSAL]`. It works offline: scripted stand-ins replace
//! the models, unless `AGENTFLOW_MODEL` names a real one. The report goes to standard output.

mod board;
mod stand_in;

use std::path::PathBuf;
use std::process::ExitCode;

use agentflow::prelude::*;
use agentflow::store::{RunFilter, SqliteStore};

use crate::board::{Report, last_word, review_board};

const USAGE: &str = "usage: review_board [--store FILE] [PROPOSAL]
  With --store the review survives this process: called again, it continues.
  AGENTFLOW_MODEL names a model, such as openai-chat/gpt-5-mini; without it stand-ins by rules answer.";

const PROPOSAL: &str = "Cache the price list for an hour.";

fn arguments(
    mut given: impl Iterator<Item = String>,
) -> Result<(Option<PathBuf>, Option<String>), String> {
    let (mut store, mut proposal) = (None, None);
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--help" | "-h" => return Err(String::new()),
            "--store" => store = Some(given.next().ok_or("--store needs a file")?.into()),
            option if option.starts_with("--") => {
                return Err(format!("there is no option {option}"));
            }
            _ if proposal.is_none() => proposal = Some(argument),
            extra => return Err(format!("`{extra}` is too much; put the proposal into quotes")),
        }
    }
    Ok((store, proposal))
}

#[tokio::main]
async fn main() -> ExitCode {
    let (store, proposal) = match arguments(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) if problem.is_empty() => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("review_board: {problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match review(store, proposal.unwrap_or_else(|| PROPOSAL.to_owned())).await {
        Ok((report, text)) => {
            print!("{text}");
            report
                .unmet
                .iter()
                .for_each(|unmet| println!("not met by {:?}: {}", unmet.by, unmet.criterion));
            println!("made of: {}", report.artifacts.join(", "));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("review_board: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the report and its text.
async fn review(store: Option<PathBuf>, proposal: String) -> Result<(Report, String)> {
    let mut runtime = Runtime::builder();
    runtime = match std::env::var("AGENTFLOW_MODEL") {
        Ok(model) if !model.is_empty() => {
            runtime.resource(last_word(model.as_str(), model.as_str())?).model(model)
        }
        _ => {
            eprintln!("no model is configured (AGENTFLOW_MODEL), so stand-ins by rules answer");
            stand_in::scripted(runtime)
        }
    };
    // The text of the report is an artifact. It is read from the store after the run.
    runtime = match store {
        Some(file) => runtime.store(SqliteStore::open(&file).await?),
        None => runtime.store(agentflow::store::MemoryStore::new()),
    };
    let runtime = runtime.build();
    let workflow = review_board::workflow();
    let earlier = runtime
        .runs()
        .list(RunFilter::unfinished().name(workflow.name()))
        .await?
        .into_iter()
        .next();
    let run = match earlier {
        Some(earlier) => {
            eprintln!("continuing with the review {}; what is done stays done", earlier.run_id);
            runtime.run(&earlier.run_id).resume_as(&workflow).await?
        }
        None => runtime.start(workflow, proposal).await?,
    };
    let report = run.result().await?;
    let text = runtime.run(run.run_id()).artifact("report.md", None).await?;
    let text =
        text.map_or_else(String::new, |text| String::from_utf8_lossy(&text.bytes).into_owned());
    Ok((report, text))
}
