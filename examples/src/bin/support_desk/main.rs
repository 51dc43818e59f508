//! A support desk as a small HTTP service with a session for each customer. An agent investigates
//! each letter with a workflow, pays small refunds itself and asks a person about large ones. Its
//! runs survive the end of the process.
//!
//! `support_desk [--port N] [--store FOLDER]` works offline: scripted stand-ins replace the models,
//! unless `AGENTFLOW_MODEL` names a real one. The address that it listens on goes to standard
//! output.

mod desk;
mod service;
mod shop;
mod stand_in;

use std::io::Write;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use agentflow::prelude::*;
use agentflow::store::SqliteStore;
use agentflow_testing::ScriptedModel;
use tokio::net::TcpListener;
use tokio::sync::watch;

const USAGE: &str = "usage: support_desk [--port N] [--store FOLDER]
  Listens on 127.0.0.1, on port 8080 if not said otherwise; 0 takes any free one.
  The folder, `desk` if not said otherwise, has the runs and the payments; started again, the desk continues.
  AGENTFLOW_MODEL names a model, such as openai-chat/gpt-5-mini; without it stand-ins by rules answer.";

/// Time for runs to reach a safe state when the desk is stopped.
const REST: Duration = Duration::from_secs(10);

struct Arguments {
    port: u16,
    store: PathBuf,
}

fn arguments(mut given: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments { port: 8080, store: "desk".into() };
    while let Some(argument) = given.next() {
        let mut value = |what: &str| given.next().ok_or(format!("{argument} needs {what}"));
        match argument.as_str() {
            "--help" | "-h" => return Err(String::new()),
            "--port" => {
                arguments.port =
                    value("a number")?.parse().map_err(|_| "a port is a number up to 65535")?;
            }
            "--store" => arguments.store = value("a folder")?.into(),
            other => return Err(format!("there is no option {other}")),
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
            eprintln!("support_desk: {problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match serve(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("support_desk: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    // Registered before other work, so that no signal is missed.
    let asked_to_end = end_signal()?;
    let shop = shop::Shop::open(&arguments.store.join("payments"))?;
    let mut runtime = Runtime::builder()
        .store(SqliteStore::open(arguments.store.join("runs.db")).await?)
        .resource(shop);
    let support = match std::env::var("AGENTFLOW_MODEL") {
        Ok(model) if !model.is_empty() => {
            runtime = runtime.model(model.as_str());
            desk::support(model)
        }
        _ => {
            eprintln!("no model is configured (AGENTFLOW_MODEL), so stand-ins by rules answer");
            runtime = runtime
                .agent_model("sort", ScriptedModel::from_fn(stand_in::sort))
                .agent_model("draft", ScriptedModel::from_fn(stand_in::draft));
            desk::support(ScriptedModel::from_fn(stand_in::support))
        }
    };
    let runtime = runtime.agent(&support).build();
    // Resumes the runs of an earlier process, however it ended.
    for (run, problem) in runtime.recover().await?.left {
        eprintln!("not resumed: {run}: {problem}");
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port)).await?;
    println!("http://{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    // Event streams of runs that wait for a person do not end on their own, so shutdown has a time
    // limit.
    let (draining, is_draining) = watch::channel(false);
    let mut stopped = is_draining;
    let stopped = async move {
        let _ = stopped.wait_for(|draining| *draining).await;
    };
    let server =
        axum::serve(listener, service::service(runtime.clone())).with_graceful_shutdown(stopped);
    let server = tokio::spawn(server.into_future());
    asked_to_end.await;
    draining.send_replace(true);
    let drained = runtime.drain(REST).await;
    let _ = tokio::time::timeout(Duration::from_secs(1), server).await;
    eprintln!("ended; {} runs are left for the next process", drained.left.len());
    Ok(())
}

/// Completes on Ctrl-C and on SIGTERM, with which containers and service managers end a program.
/// Signals are caught from the time of the call.
#[cfg(unix)]
fn end_signal() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Completes on Ctrl-C.
#[cfg(not(unix))]
fn end_signal() -> std::io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}
