//! A service for a container: a workflow behind the A2A protocol, a health check, and a graceful
//! end on SIGTERM. `Dockerfile` and `compose.yaml` next to this file run it.
//!
//! An address that other machines can reach requires a token, the variable SERVICE_TOKEN.
//!
//! - `service [--listen ADDRESS] [--host NAME] [--store FILE] [--mcp URL]` serves the workflow.
//! - `service --tools ADDRESS` serves the program's tools over MCP, for the sidecar container.
//! - `service --check ADDRESS` requests the health of a service, for a container without other
//!   programs.
//!
//! The address that it listens on goes to standard output.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use agentflow::a2a_server::A2aServer;
use agentflow::front::BearerToken;
use agentflow::mcp::McpClient;
use agentflow::mcp_server::McpServer;
use agentflow::pipeline::Pipeline;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::store::SqliteStore;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

const USAGE: &str = "usage: service [--listen ADDRESS] [--host NAME] [--store FILE] [--mcp URL]
       service --tools ADDRESS [--host NAME]
       service --check ADDRESS
  It listens on 127.0.0.1:8080 if not said otherwise; port 0 takes any free one. NAME is what clients call it by.
  The file, `service.db` if not said otherwise, has the runs; started again, the service continues them.
  With a URL, or with MCP_URL in the environment, it also offers `counted_elsewhere`, by the tools of that MCP server.
  With SERVICE_TOKEN in the environment, clients must send it as a bearer token, and it is sent to that server. Without it the
  service listens on this machine alone.
  --tools serves its tools as such a server.
  --check asks the service at an address for its health and ends with 0 when it is well.";

/// Time for runs to reach a safe state when the service is stopped. It is less than the ten seconds
/// that a container gets.
const REST: Duration = Duration::from_secs(8);
/// Time limit of a health check.
const PATIENCE: Duration = Duration::from_secs(3);

struct ServeOptions {
    listen: SocketAddr,
    hosts: Vec<String>,
    store: PathBuf,
    /// Address of the sidecar's tools.
    mcp: Option<String>,
    /// Token of clients. It is also sent to the sidecar.
    token: Option<String>,
}

enum Arguments {
    Serve(ServeOptions),
    Tools(ServeOptions),
    Check(SocketAddr),
}

fn arguments(mut given: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (listen, store) = (([127, 0, 0, 1], 8080).into(), "service.db".into());
    let mut serving = ServeOptions {
        listen,
        hosts: Vec::new(),
        store,
        mcp: variable("MCP_URL"),
        token: variable("SERVICE_TOKEN"),
    };
    let mut only_tools = false;
    let address = |text: String| {
        text.parse().map_err(|_| format!("`{text}` is not an address such as 127.0.0.1:8080"))
    };
    while let Some(argument) = given.next() {
        let mut value = |what: &str| given.next().ok_or(format!("{argument} needs {what}"));
        match argument.as_str() {
            "--help" | "-h" => return Err(String::new()),
            "--check" => return Ok(Arguments::Check(address(value("an address")?)?)),
            "--tools" => (serving.listen, only_tools) = (address(value("an address")?)?, true),
            "--mcp" => serving.mcp = Some(value("a URL")?),
            "--listen" => serving.listen = address(value("an address")?)?,
            "--host" => serving.hosts.push(value("a name")?),
            "--store" => serving.store = value("a file")?.into(),
            other => return Err(format!("there is no option {other}")),
        }
    }
    if !serving.listen.ip().is_loopback() && serving.token.is_none() {
        let listen = serving.listen;
        return Err(format!(
            "other machines reach {listen}; set SERVICE_TOKEN, which clients must then send"
        ));
    }
    Ok(if only_tools { Arguments::Tools(serving) } else { Arguments::Serve(serving) })
}

/// The number of words of a text, and its longest word.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Digest {
    words: usize,
    longest: String,
}

/// Count the words of a text.
#[tool(effects = "none")]
async fn count_words(text: String, pause_ms: u64) -> usize {
    // Simulates long work, which is not interrupted when the service is stopped.
    tokio::time::sleep(Duration::from_millis(pause_ms.min(5_000))).await;
    text.split_whitespace().count()
}

/// Find the longest word of a text.
#[tool(effects = "none")]
fn longest_word(text: String) -> String {
    text.split_whitespace().max_by_key(|word| word.chars().count()).unwrap_or_default().to_owned()
}

/// Counts the words of a text and finds the longest one.
#[workflow]
async fn digest(text: String, pause_ms: u64) -> Result<Digest> {
    let longest = longest_word(text);
    let words = count_words(text, pause_ms).await;
    Ok(Digest { words, longest })
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match arguments(std::env::args().skip(1)) {
        Ok(Arguments::Serve(serving)) => serve(serving).await,
        Ok(Arguments::Tools(serving)) => serve_tools(serving).await,
        Ok(Arguments::Check(address)) => check(address).await,
        Err(problem) if problem.is_empty() => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("service: {problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("service: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(serving: ServeOptions) -> Result<(), Box<dyn std::error::Error>> {
    // Registered before other work, so that no signal is missed.
    let mut asked_to_end = end_signals()?;
    let mut builder = Runtime::builder().store(SqliteStore::open(&serving.store).await?);
    let mut offered = vec!["digest"];
    if let Some(url) = serving.mcp {
        let count = Pipeline::tool("mcp.sidecar.count_words")
            .with(json!({"text": "{input}", "pause_ms": 0}));
        let sidecar = McpClient::http("sidecar", url);
        let sidecar = serving.token.iter().fold(sidecar, |sidecar, token| sidecar.bearer(token));
        builder = builder.toolset(sidecar.build()?).pipeline("counted_elsewhere", count);
        offered.push("counted_elsewhere");
    }
    let runtime = builder.build();
    for (run, problem) in runtime.recover().await?.left {
        eprintln!("not resumed: {run}: {problem}");
    }
    let agents = A2aServer::from_runtime(&runtime).workflows(offered).hosts(serving.hosts);
    let agents = serving
        .token
        .into_iter()
        .fold(agents, |agents, token| agents.authenticate(BearerToken::new(&token, "token")));
    let agents = agents.router().await?;
    let (draining, is_draining) = watch::channel(false);
    let health = Router::new().route("/healthz", get(healthz)).with_state(is_draining.clone());
    let listener = TcpListener::bind(serving.listen).await?;
    println!("http://{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    let mut stopped = is_draining;
    let stopped = async move {
        let _ = stopped.wait_for(|draining| *draining).await;
    };
    // Includes the addresses of peers, so that limits apply per address.
    let service = health.merge(agents).into_make_service_with_connect_info::<SocketAddr>();
    let server =
        tokio::spawn(axum::serve(listener, service).with_graceful_shutdown(stopped).into_future());
    asked_to_end.recv().await;
    eprintln!("asked to end; runs that are busy have {REST:?}");
    // Refuses new requests. Active requests and runs get time to finish.
    draining.send_replace(true);
    let drained = runtime.drain(REST).await;
    let _ = timeout(Duration::from_secs(1), server).await;
    eprintln!("ended; {} runs are left for the next process", drained.left.len());
    Ok(())
}

/// Serves only the tools of this program, for a second container next to the service.
async fn serve_tools(serving: ServeOptions) -> Result<(), Box<dyn std::error::Error>> {
    let mut asked_to_end = end_signals()?;
    let runtime = Runtime::builder().build();
    let server = McpServer::from_runtime(&runtime)
        .tools(["count_words", "longest_word"])
        .allow_hosts(serving.hosts);
    let server = serving
        .token
        .into_iter()
        .fold(server, |server, token| server.authenticate(BearerToken::new(&token, "token")));
    let listener = TcpListener::bind(serving.listen).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    std::io::stdout().flush()?;
    tokio::select! {
        served = server.serve_http(listener) => Ok(served?),
        _ = asked_to_end.recv() => Ok(()),
    }
}

/// Returns a receiver that gets one message on SIGTERM or Ctrl-C.
fn end_signals() -> std::io::Result<tokio::sync::mpsc::Receiver<()>> {
    let (asked, asks) = tokio::sync::mpsc::channel(1);
    let by_hand = asked.clone();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        let _ = by_hand.send(()).await;
    });
    #[cfg(unix)]
    {
        let mut terminate =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::spawn(async move {
            terminate.recv().await;
            let _ = asked.send(()).await;
        });
    }
    Ok(asks)
}

/// Reports the service as healthy while it accepts requests.
async fn healthz(
    State(draining): State<watch::Receiver<bool>>,
) -> (StatusCode, Json<agentflow::serde_json::Value>) {
    match *draining.borrow() {
        false => (StatusCode::OK, Json(json!({"status": "ok"}))),
        true => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "draining"}))),
    }
}

/// Requests the health of a service.
async fn check(address: SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        let request =
            format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.take(4096).read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = timeout(PATIENCE, asked)
        .await
        .map_err(|_| format!("{address} did not answer in {PATIENCE:?}"))??;
    match answer.starts_with("HTTP/1.1 200 ") {
        true => Ok(()),
        false => {
            Err(format!("{address} is not well: {}", answer.lines().next().unwrap_or("no answer"))
                .into())
        }
    }
}
