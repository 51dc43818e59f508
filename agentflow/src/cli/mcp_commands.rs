//! `agentwf mcp`: this program as a server of the Model Context Protocol, and a look at the servers of others.

use super::ctrl_c;
use super::mcp_args::{McpCommand, McpServeArgs, McpServerArgs};
use super::print::{Stop, json_line};
use super::tools::{answered, list_of, report};
use crate::mcp::{McpClient, McpError};
use crate::mcp_server::{McpServer, McpServerError};
use crate::message::ToolCall;
use crate::runtime::{EntryKind, Origin, Runtime};
use crate::store::SqliteStore;

/// The name of a server that is tried.
const SERVER: &str = "server";

pub(super) async fn mcp(host: &Runtime, command: McpCommand) -> Result<(), Stop> {
    match command {
        McpCommand::Serve(args) => serve(host, args).await,
        McpCommand::Tools { json, server } => tools(&server, json).await,
        McpCommand::Call { name, input, json, server } => call(&server, &name, input, json).await,
    }
}

async fn serve(host: &Runtime, args: McpServeArgs) -> Result<(), Stop> {
    let McpServeArgs { tools, agents, workflows, grant, store } = args;
    let host = match store {
        Some(file) => host.with_store(SqliteStore::open(file).await?),
        None => host.clone(),
    };
    let server = McpServer::from_runtime(&host).agents(agents).workflows(workflows).grant(grant);
    let server = tools.into_iter().fold(server, McpServer::tools);
    ctrl_c::or_stop(async { server.serve_stdio().await.map_err(Stop::from) }).await
}

async fn tools(server: &McpServerArgs, json: bool) -> Result<(), Stop> {
    let runtime = runtime_of(server)?;
    let catalogue = ctrl_c::or_stop(async { Ok(runtime.catalogue().await) }).await?;
    let is_its = |origin: &Origin| matches!(origin, Origin::Toolset { name } if **name == *format!("mcp.{SERVER}"));
    let tools = catalogue.of_kind(EntryKind::Tool).filter(|entry| is_its(&entry.origin));
    if tools.clone().next().is_none() {
        report(&catalogue);
        // Without a list there is nothing to print.
        catalogue.clone().check()?;
    }
    list_of(tools, json, "the server has no tools")
}

async fn call(server: &McpServerArgs, name: &str, input: String, json: bool) -> Result<(), Stop> {
    let runtime = runtime_of(server)?;
    let call = ToolCall::new("call", format!("mcp.{SERVER}.{name}"), input);
    let result = ctrl_c::or_stop(async { Ok(runtime.invoke(&call, &[]).await?) }).await?;
    match json {
        true => {
            json_line(&result)?;
            if result.status.is_success() { Ok(()) } else { Err(Stop::Said) }
        }
        false => answered(&result),
    }
}

fn runtime_of(server: &McpServerArgs) -> Result<Runtime, Stop> {
    let client = match (&server.url, &server.program[..]) {
        (Some(url), _) => McpClient::http(SERVER, url.clone()),
        (None, [program, arguments @ ..]) => McpClient::stdio(SERVER, program.clone()).args(arguments.to_vec()),
        (None, []) => {
            return Err(Stop::failed("mcp", "say which server: `--url URL` or `-- PROGRAM ARG..`".to_owned()));
        }
    };
    Ok(Runtime::builder().toolset(client.build()?).build())
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
