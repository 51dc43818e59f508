//! An agent that answers a question about a folder of documents and cites files and lines.
//!
//! Usage: `research [--base-url URL] QUESTION [FOLDER OR FILE]`. `AGENTFLOW_MODEL` names the model.
//! The answer goes to standard output, and all other output to standard error.

mod library;
mod stand_in;
mod text;
mod tools;

use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::task::Poll;

use agentflow::event::EventKind;
use agentflow::model::openai_chat::OpenAiChat;
use agentflow::model::{ModelRef, ModelSource};
use agentflow::prelude::*;
use agentflow::serde_json::{self, Value};
use agentflow::{Error, Event};
use futures_util::StreamExt;

use crate::library::Library;
use crate::stand_in::StandIn;

const USAGE: &str = "usage: research [--base-url URL] QUESTION [FOLDER OR FILE]
  The folder is this one when none is named.
  AGENTFLOW_MODEL names a model, such as openai-chat/gpt-5-mini; without it a small stand-in by rules answers.";

const INSTRUCTIONS: &str = "You answer questions about a folder of documents, from the documents alone. Search first, with \
    the words the documents would use; read the lines around the best places; search again with other words when \
    they do not answer the question. Answer in a few sentences. After each statement give its source as path:line. If \
    the documents do not answer the question, say so.";

/// Command-line arguments.
struct Arguments {
    question: String,
    place: PathBuf,
    base_url: Option<String>,
}

fn arguments(mut given: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let (mut words, mut base_url) = (Vec::new(), None);
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--help" | "-h" => return Err(String::new()),
            "--base-url" => base_url = Some(given.next().ok_or("--base-url needs an address")?),
            option if option.starts_with("--") => {
                return Err(format!("there is no option {option}"));
            }
            _ => words.push(argument),
        }
    }
    let mut words = words.into_iter();
    let question = words
        .next()
        .filter(|question| !question.trim().is_empty())
        .ok_or("there is no question")?;
    let place = words.next().unwrap_or_else(|| ".".to_owned()).into();
    match words.next() {
        Some(extra) => Err(format!("`{extra}` is too much; put the question in quotation marks")),
        None => Ok(Arguments { question, place, base_url }),
    }
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
            eprintln!("research: {problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match research(&arguments).await {
        Ok(answer) => {
            println!("{}", answer.trim_end());
            ExitCode::SUCCESS
        }
        Err(Failure::Cancelled) => ExitCode::from(130),
        Err(Failure::Other(problem)) => {
            eprintln!("research: {problem}");
            ExitCode::FAILURE
        }
    }
}

enum Failure {
    Cancelled,
    Other(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Cancelled { .. } => Self::Cancelled,
            other => Self::Other(other.to_string()),
        }
    }
}

async fn research(arguments: &Arguments) -> Result<String, Failure> {
    let library = open(&arguments.place).map_err(Failure::Other)?;
    eprintln!("{} documents in {}", library.documents().count(), arguments.place.display());
    let agent = Agent::new(model(arguments.base_url.as_deref())?)
        .name("research")
        .instruct(INSTRUCTIONS)
        .tools(tools::all())
        .resource(library);
    let mut interrupt = pin!(tokio::signal::ctrl_c());
    // Polled once before the run starts, so that no Ctrl-C is missed.
    let mut interrupted = poll_fn(|cx| Poll::Ready(interrupt.as_mut().poll(cx).is_ready())).await;
    let mut run = agent.stream(&arguments.question)?;
    let mut done = 0;
    loop {
        tokio::select! {
            biased;
            _ = &mut interrupt, if !interrupted => {
                interrupted = true;
                // The run may have ended meanwhile, so a refusal is fine.
                let _ = run.handle().cancel("Ctrl-C").await;
                eprintln!("cancelled after {done} tool calls; nothing was changed");
            }
            event = run.next() => match event {
                Some(event) => {
                    done += usize::from(matches!(event.kind, EventKind::ToolCompleted { .. }));
                    show(&event);
                }
                None => break,
            },
        }
    }
    Ok(run.result().await?.output().to_owned())
}

fn open(place: &Path) -> Result<Library, String> {
    let library = Library::open(place).map_err(|error| format!("{}: {error}", place.display()))?;
    if library.documents().next().is_none() {
        return Err(format!(
            "there is no text to read in {}; {} files were skipped (too large, no text, or made by programs)",
            place.display(),
            library.skipped()
        ));
    }
    Ok(library)
}

/// Returns the model that the environment names, or the stand-in.
fn model(base_url: Option<&str>) -> Result<ModelSource, Failure> {
    match std::env::var("AGENTFLOW_MODEL") {
        Ok(name) if !name.is_empty() => named(&name, base_url),
        _ => {
            eprintln!(
                "no model is configured (AGENTFLOW_MODEL), so a stand-in by rules answers with quotations"
            );
            Ok(StandIn::new().into())
        }
    }
}

fn named(name: &str, base_url: Option<&str>) -> Result<ModelSource, Failure> {
    let Some(base_url) = base_url else { return Ok(name.into()) };
    let model: ModelRef = name.parse().map_err(Error::from)?;
    if model.provider() != "openai-chat" {
        return Err(Failure::Other(format!(
            "--base-url goes with openai-chat/NAME, not with {model}"
        )));
    }
    Ok(OpenAiChat::builder(model.model()).base_url(base_url).build().map_err(Error::from)?.into())
}

/// Prints the actions of the agent.
fn show(event: &Event) {
    match &event.kind {
        EventKind::ToolStarted { call, .. } => {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
            match (&*call.name, &arguments["path"], &arguments["from"], &arguments["to"]) {
                ("read_lines", Value::String(path), from, to) => {
                    eprintln!("  read {path}:{from}-{to}");
                }
                (name, ..) => eprintln!("  {name} {}", call.arguments),
            }
        }
        EventKind::ToolFailed { result, .. } => {
            eprintln!("  {} failed ({}): {}", result.name, result.status, result.output);
        }
        _ => {}
    }
}
