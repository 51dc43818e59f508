//! `agentwf serve`: serves the API, the web page and, on request, A2A and MCP from one process.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::{any_service, post_service};
use tokio::net::TcpListener;

use super::print::{Stop, line, note};
use super::serve_args::ServeArgs;
use super::stop_signal::{Signal, StopSignals};
use super::workflows::store_argument;
use super::{ctrl_c, runs, validate, worker};
use agentflow_a2a::a2a_server::A2aServer;
use agentflow_core::runtime::{EntryKind, Runtime};
use agentflow_front::BearerToken;
use agentflow_mcp::mcp_server::McpServer;
use agentflow_server::Server;

/// Caller name of all clients that send the token.
const HOLDER: &str = "token";

pub(super) async fn serve(host: &Runtime, args: ServeArgs) -> Result<(), Stop> {
    let address: SocketAddr = args.listen.parse().map_err(|_| {
        let listen = &args.listen;
        failed(format!("`{listen}` is not an address and a port, such as 127.0.0.1:3000"))
    })?;
    let token = match &args.token_from {
        None => None,
        Some(variable) => match std::env::var(variable) {
            Ok(token) if !token.is_empty() => Some(token),
            _ => return Err(failed(format!("the variable `{variable}` is not set"))),
        },
    };
    if !address.ip().is_loopback() && token.is_none() {
        let problem = "other machines reach this address; name the variable with the token of \
                       clients with --token-from";
        return Err(failed(problem));
    }
    let with_documents = validate::with(host, &args.documents)?;
    with_documents.note_mistakes();
    let named_store = store_argument(args.store.as_ref());
    let runtime = runs::with_store(&with_documents.host, args.store.as_ref()).await?;
    // Before the first line, after which a program may send a signal.
    let mut signals = StopSignals::watch();
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| failed(format!("cannot listen on {address}: {error}")))?;
    let server = server(&runtime, &args, token.as_deref()).await?;
    // Continues the unfinished runs of an earlier process.
    let recovered = runtime.recover().await?;
    for (run, error) in &recovered.left {
        note(format_args!("the run `{run}` does not continue: {error}"));
    }
    runs::note_waiting(&recovered, &named_store);
    let address = listener.local_addr().map_err(|error| failed(error.to_string()))?;
    line(format_args!("http://{address}"))?;
    let mut signal = Signal::CtrlC;
    let stop = async { signal = signals.received().await };
    server.serve_listener(listener, stop).await.map_err(|error| failed(error.to_string()))?;
    // A second Ctrl-C exits at once.
    note("takes no more requests, and waits for running steps");
    worker::note_left(&runtime.drain(args.drain_timeout).await, &named_store);
    match signal {
        Signal::CtrlC => Err(ctrl_c::stopped()),
        Signal::Terminate => Ok(()),
    }
}

fn failed(problem: impl Into<String>) -> Stop {
    Stop::failed("serve", problem)
}

/// Creates the server with the protocols that the arguments name.
async fn server(runtime: &Runtime, args: &ServeArgs, token: Option<&str>) -> Result<Server, Stop> {
    let mut server = Server::new(runtime)
        .hosts(args.hosts.clone())
        .origins(args.origins.clone())
        .page(!args.no_page);
    if let Some(token) = token {
        server = server.authenticate(BearerToken::new(token, HOLDER));
    }
    if args.a2a {
        server = server.with_routes(a2a_routes(runtime, args, token).await?);
    }
    if args.mcp {
        server = server.with_routes(mcp_routes(runtime, args, token).await?);
    }
    Ok(server)
}

/// Returns the names of all items of a kind.
async fn names(runtime: &Runtime, kind: EntryKind) -> Vec<Arc<str>> {
    let catalogue = runtime.catalogue().snapshot().await;
    catalogue.of_kind(kind).map(|entry| Arc::clone(&entry.name)).collect()
}

async fn a2a_routes(
    runtime: &Runtime,
    args: &ServeArgs,
    token: Option<&str>,
) -> Result<Router, Stop> {
    let mut a2a = A2aServer::from_runtime(runtime)
        .agents(names(runtime, EntryKind::Agent).await)
        .workflows(names(runtime, EntryKind::Workflow).await)
        .hosts(args.hosts.clone())
        .origins(args.origins.clone());
    if let Some(token) = token {
        a2a = a2a.authenticate(BearerToken::new(token, HOLDER));
    }
    let service = a2a.router().await?;
    // The paths of both bindings of the protocol; all other paths belong to the API and the page.
    let mut routes = Router::new().route("/", post_service(service.clone()));
    for path in [
        "/.well-known/agent-card.json",
        "/a2a/{*rest}",
        "/extendedAgentCard",
        "/message:send",
        "/message:stream",
        "/tasks",
        "/tasks/{*rest}",
    ] {
        routes = routes.route(path, any_service(service.clone()));
    }
    Ok(routes)
}

async fn mcp_routes(
    runtime: &Runtime,
    args: &ServeArgs,
    token: Option<&str>,
) -> Result<Router, Stop> {
    let mut mcp = McpServer::from_runtime(runtime)
        .agents(names(runtime, EntryKind::Agent).await)
        .workflows(names(runtime, EntryKind::Workflow).await)
        .allow_hosts(args.hosts.clone())
        .allow_origins(args.origins.clone());
    if let Some(token) = token {
        mcp = mcp.authenticate(BearerToken::new(token, HOLDER));
    }
    Ok(Router::new().route_service("/mcp", mcp.http_service().await?))
}
