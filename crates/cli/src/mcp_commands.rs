//! `agentwf mcp`: serves this program over the Model Context Protocol, and calls other servers.

use std::sync::Arc;

use agentflow_schema::text::OneLine;

use super::ctrl_c;
use super::mcp_args::{McpCommand, McpLoginArgs, McpServeArgs, McpServerArgs};
use super::print::{Stop, note, print_json};
use super::tools::{answered, list_of, report};
use super::workflows::store_argument;
use super::{mcp_reads, runs, validate};
use agentflow_core::message::ToolCall;
use agentflow_core::runtime::{EntryKind, Origin, Runtime};
use agentflow_mcp::mcp::{
    McpAuthorization, McpClient, McpClientBuilder, McpError, McpLoginFolder, check_login_address,
};
use agentflow_mcp::mcp_server::{McpCaller, McpRefusal, McpServer, McpServerError};

/// Name of the remote server in this program.
const SERVER: &str = "server";

pub(super) async fn mcp(host: &Runtime, command: McpCommand) -> Result<(), Stop> {
    match command {
        McpCommand::Serve(args) => serve(host, args).await,
        McpCommand::Login(args) => login(args).await,
        McpCommand::Logout { url } => logout(url).await,
        McpCommand::Tools { json, server } => tools(&server, json).await,
        McpCommand::Call { name, input, json, server } => call(&server, &name, input, json).await,
        McpCommand::Resources { uri: None, json, server } => {
            mcp_reads::resources(client_of(&server)?, json).await
        }
        McpCommand::Resources { uri: Some(uri), json, server } => {
            mcp_reads::resource(client_of(&server)?, &uri, json).await
        }
        McpCommand::Prompts { name: None, json, server, .. } => {
            mcp_reads::prompts(client_of(&server)?, json).await
        }
        McpCommand::Prompts { name: Some(name), input, json, server } => {
            mcp_reads::prompt(client_of(&server)?, &name, &input, json).await
        }
    }
}

async fn serve(host: &Runtime, args: McpServeArgs) -> Result<(), Stop> {
    let McpServeArgs { tools, agents, workflows, grant, clients_approve, store, http, .. } = args;
    let McpServeArgs { hosts, origins, key_from, max_sessions, documents, .. } = args;
    let with_documents = validate::with(host, &documents)?;
    with_documents.note_mistakes();
    let named_store = store_argument(store.as_ref());
    let host = match store {
        Some(address) => runs::with_store(&with_documents.host, Some(&address)).await?,
        None => with_documents.host,
    };
    let is_kept = host.store().is_some();
    let server = McpServer::from_runtime(&host).agents(agents).workflows(workflows).grant(grant);
    let server = if clients_approve { server.clients_approve() } else { server };
    let server = tools.into_iter().fold(server, McpServer::tools);
    let Some(address) = http else {
        server.check().await?;
        recover(&host, is_kept, &named_store).await?;
        return ctrl_c::or_stop(async { server.serve_stdio().await.map_err(Stop::from) }).await;
    };
    let server = server.allow_hosts(hosts).allow_origins(origins);
    let server = max_sessions.into_iter().fold(server, McpServer::max_sessions);
    let server = match key_from {
        Some(variable) => with_key(server, &variable)?,
        // Only this machine can connect, so no key is required.
        None if address.ip().is_loopback() => server,
        None => {
            let problem = format!(
                "others of the network can connect to {address}; say `--key-from VARIABLE`, too"
            );
            return Err(Stop::failed("mcp", problem));
        }
    };
    let failed =
        |error: std::io::Error| Stop::failed("mcp", format!("cannot listen on {address}: {error}"));
    let listener = tokio::net::TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    server.check().await?;
    recover(&host, is_kept, &named_store).await?;
    note(format_args!("listening on http://{address}/mcp"));
    ctrl_c::or_stop(async { server.serve_http(listener).await.map_err(Stop::from) }).await
}

/// Continues the unfinished runs of an earlier process. Their tasks would never end otherwise.
async fn recover(host: &Runtime, is_kept: bool, store: &str) -> Result<(), Stop> {
    if is_kept {
        let recovered = host.recover().await?;
        for (run, error) in &recovered.left {
            note(format_args!("the run `{run}` does not continue: {error}"));
        }
        runs::note_waiting(&recovered, store);
    }
    Ok(())
}

/// Requires the key from an environment variable in every request.
fn with_key(server: McpServer, variable: &str) -> Result<McpServer, Stop> {
    let key = std::env::var(variable).ok().filter(|key| !key.is_empty()).ok_or_else(|| {
        Stop::failed(
            "mcp",
            format!(
                "the environment has no key under `{variable}`; set it, or leave `--key-from` out"
            ),
        )
    })?;
    let expected: Arc<str> = format!("Bearer {key}").into();
    // All clients are one caller, so limits for a caller would apply to all of them.
    let server = server.max_sessions_of_caller(usize::MAX).max_calls_of_caller(usize::MAX);
    Ok(server.authenticate(move |headers| {
        let expected = Arc::clone(&expected);
        async move {
            let sent = headers.get("authorization").map_or(&b""[..], |value| value.as_bytes());
            match is_same(sent, expected.as_bytes()) {
                true => Ok(McpCaller::new("key")),
                false => Err(McpRefusal::unknown("send the key of this server as a bearer token")),
            }
        }
    }))
}

/// Compares two byte strings in constant time, apart from their length.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
}

async fn login(args: McpLoginArgs) -> Result<(), Stop> {
    let McpLoginArgs { url, scopes, client_id, issuer, port } = args;
    let show = |url: &str| note(format_args!("log in at {url}"));
    let authorization =
        McpAuthorization::loopback(show).logins(logins()?).scopes(scopes).redirect_port(port);
    let authorization = match (issuer, client_id) {
        (Some(issuer), Some(id)) => authorization.client(issuer, id, None),
        _ => authorization,
    };
    let client = McpClient::http(SERVER, url).authorization(authorization).build()?;
    ctrl_c::or_stop(async { Ok(client.login().await?) }).await?;
    note("there is a login, which the server takes");
    Ok(())
}

async fn logout(url: String) -> Result<(), Stop> {
    let client =
        McpClient::http(SERVER, url).authorization(McpAuthorization::stored(logins()?)).build()?;
    ctrl_c::or_stop(async { Ok(client.logout().await?) }).await
}

/// Returns the folder with this user's logins.
fn logins() -> Result<McpLoginFolder, Stop> {
    McpLoginFolder::of_user().ok_or_else(|| {
        Stop::failed(
            "mcp",
            "the environment names no folder for logins; set `HOME` or `XDG_DATA_HOME`".to_owned(),
        )
    })
}

async fn tools(server: &McpServerArgs, json: bool) -> Result<(), Stop> {
    let client = client_of(server)?;
    let runtime = Runtime::builder().toolset(client.clone()).build();
    let catalogue = ctrl_c::or_stop(async { Ok(runtime.catalogue().snapshot().await) }).await?;
    let is_its = |origin: &Origin| matches!(origin, Origin::Toolset { name, .. } if **name == *format!("mcp.{SERVER}"));
    let tools = catalogue.of_kind(EntryKind::Tool).filter(|entry| is_its(&entry.origin));
    if tools.clone().next().is_none() {
        // Without tools, a failed catalogue is an error.
        catalogue.clone().check()?;
        report(&catalogue);
    }
    for entry in tools.clone() {
        for problem in &entry.unchecked {
            note(format_args!(
                "the arguments of `{}` are not wholly checked: {}",
                OneLine(&entry.name),
                OneLine(problem)
            ));
        }
    }
    for (name, reason) in &client.health().left_out {
        note(format_args!("the tool `{}` is left out: {}", OneLine(name), OneLine(reason)));
    }
    list_of(tools, json, "the server has no tools")
}

async fn call(server: &McpServerArgs, name: &str, input: String, json: bool) -> Result<(), Stop> {
    let runtime = runtime_of(server)?;
    let call = ToolCall::new("call", format!("mcp.{SERVER}.{name}"), input);
    let result = ctrl_c::or_stop(async { Ok(runtime.invoke(&call, &[]).await?) }).await?;
    match json {
        true => {
            print_json(&result)?;
            if result.status.is_success() { Ok(()) } else { Err(Stop::Said) }
        }
        false => answered(&result),
    }
}

fn runtime_of(server: &McpServerArgs) -> Result<Runtime, Stop> {
    Ok(Runtime::builder().toolset(client_of(server)?).build())
}

fn client_of(server: &McpServerArgs) -> Result<McpClient, Stop> {
    let client = match (&server.url, &server.program[..]) {
        (Some(url), _) => {
            let client = McpClient::http(SERVER, url.clone());
            // A server that never receives tokens is used without a login, or with the key in its
            // URL.
            let can_be = url.parse().is_ok_and(|url| check_login_address(&url).is_ok());
            let stored = McpLoginFolder::of_user().filter(|_| can_be).map(McpAuthorization::stored);
            stored.into_iter().fold(client, McpClientBuilder::authorization)
        }
        (None, [program, arguments @ ..]) => {
            McpClient::stdio(SERVER, program.clone()).args(arguments.to_vec())
        }
        (None, []) => {
            return Err(Stop::failed(
                "mcp",
                "name the server: `--url URL` or `-- PROGRAM ARG..`".to_owned(),
            ));
        }
    };
    Ok(client.build()?)
}

impl From<McpError> for Stop {
    fn from(error: McpError) -> Self {
        Self::failed("mcp", error.to_string())
    }
}

impl From<McpServerError> for Stop {
    fn from(error: McpServerError) -> Self {
        Self::failed("mcp", error.to_string())
    }
}
