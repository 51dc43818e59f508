//! Research with a fan-out: search the web, fetch the pages concurrently, make notes with
//! citations, write a report. The workflow is written once in Rust and once as a YAML document over
//! the same tools.
//!
//! Usage: `web_research [--document] [--store FILE] [QUESTION]`. It writes `report.md` to the
//! current folder. The web is simulated by a few pages in this program, so it needs no network.

mod flow;
mod web;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agentflow::document::Document;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::store::SqliteStore;

use crate::web::Web;

const USAGE: &str = "usage: web_research [--document] [--store FILE] [QUESTION]
  With --document the workflow is that of workflows/web_research.yaml, else the one in flow.rs: both give the same report.
  With --store the run is kept in a file.";

const QUESTION: &str = "How do tides work?";

#[derive(Default)]
struct Arguments {
    document: bool,
    store: Option<PathBuf>,
    question: Option<String>,
}

fn arguments(mut given: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--help" | "-h" => return Err(String::new()),
            "--document" => arguments.document = true,
            "--store" => arguments.store = Some(given.next().ok_or("--store needs a file")?.into()),
            option if option.starts_with("--") => {
                return Err(format!("there is no option {option}"));
            }
            _ if arguments.question.is_none() => arguments.question = Some(argument),
            extra => {
                return Err(format!("`{extra}` is too much; put the question in quotation marks"));
            }
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
            eprintln!("web_research: {problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match research(arguments).await {
        Ok((bytes, web)) => {
            println!("report.md has {bytes} bytes");
            eprintln!("{} pages were fetched, up to {} at once", web.fetched(), web.at_once());
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("web_research: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn research(arguments: Arguments) -> Result<(usize, Web), Box<dyn std::error::Error>> {
    let web = Web::default();
    let mut runtime = Runtime::builder().resource(web.clone());
    if let Some(file) = &arguments.store {
        runtime = runtime.store(SqliteStore::open(file).await?);
    }
    let question = arguments.question.unwrap_or_else(|| QUESTION.to_owned());
    let bytes = match arguments.document {
        false => {
            runtime.build().start(flow::web_research::workflow(), question).await?.result().await?
        }
        true => {
            let file = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("src/bin/web_research/workflows/web_research.yaml");
            let document = Document::open(file)?;
            let runtime = runtime.document(document.clone()).build();
            runtime.documents().check(&document).await?;
            let run = runtime.start_named(document.name(), json!({"task": question})).await?;
            agentflow::serde_json::from_str(run.result().await?.as_str())?
        }
    };
    Ok((bytes, web))
}
