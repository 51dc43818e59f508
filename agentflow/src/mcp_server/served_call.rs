//! One call of a client: of a tool, which records nothing, or of an agent or a workflow, which is a run of the runtime. It
//! decides nothing about who may call.

use std::pin::pin;
use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;

use super::call_progress::ShownProgress;
#[cfg(feature = "mcp-server-http")]
use super::http_callers::McpCaller;
use super::offered::Offer;
use super::served_answer;
use super::server_settings::Shared;
use crate::agent::RunRequest;
use crate::error::{Error, Result};
use crate::event::{ApprovalRequest, EventKind, PauseReason};
use crate::message::ToolCall;
use crate::path::StepPath;
use crate::run::{Events, RunHandle};
use crate::runtime::{EntryKind, StartRun};
use crate::value::Encoded;

/// The tag of a run that a client of a server has begun: the server's name.
const TAG: &str = "mcp.server";

/// Calls a tool. Dropping the future cancels it.
pub(super) async fn tool(
    shared: &Shared,
    offer: &Offer,
    arguments: String,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult> {
    let tool = shared.runtime.tool(&offer.name).await?;
    let call = ToolCall::new(context.id.to_string(), tool.name(), arguments);
    let mut progress = ShownProgress::of(context);
    let cx = shared.runtime.context();
    let grants = grants(shared, context);
    let mut called = pin!(shared.runtime.invoke_at(&cx, &tool, &call, &grants));
    if !progress.is_wanted() {
        return Ok(served_answer::of_tool(offer, &called.await?));
    }
    let mut events = Events::new(Arc::clone(cx.run()), 0);
    let result = loop {
        tokio::select! {
            biased;
            Some(event) = events.next() => progress.show(&event.kind).await,
            result = &mut called => break result,
        }
    };
    while let Some(Some(event)) = events.next().now_or_never() {
        progress.show(&event.kind).await;
    }
    Ok(served_answer::of_tool(offer, &result?))
}

/// Starts the run of an agent or a workflow.
pub(super) async fn start(
    shared: &Shared,
    offer: &Offer,
    arguments: String,
    context: &RequestContext<RoleServer>,
) -> Result<RunHandle<Encoded>> {
    let (runtime, grants) = (&shared.runtime, grants(shared, context));
    let server = &*shared.settings.name;
    let caller = caller(context);
    match offer.kind {
        EntryKind::Agent => {
            let request = RunRequest::default().grant(grants).tag(TAG, server);
            let request = caller.into_iter().fold(request, RunRequest::caller);
            runtime.start_agent_with(&offer.name, &arguments, request).await
        }
        _ => {
            let input = Encoded::from_json(arguments).map_err(|error| Error::value(&offer.name, &error))?;
            let run = runtime.start_named(&offer.name, input).grant(grants).tag(TAG, server);
            caller.into_iter().fold(run, StartRun::caller).await
        }
    }
}

/// The scopes of a call: those of the server, and of its caller.
#[cfg(feature = "mcp-server-http")]
fn grants(shared: &Shared, context: &RequestContext<RoleServer>) -> Vec<Arc<str>> {
    let of_caller = http_caller(context).into_iter().flat_map(McpCaller::scopes);
    shared.settings.grants.iter().chain(of_caller).cloned().collect()
}

/// The scopes of a call: those of the server, since the streams of a process say nothing about who is at their other end.
#[cfg(not(feature = "mcp-server-http"))]
fn grants(shared: &Shared, _: &RequestContext<RoleServer>) -> Vec<Arc<str>> {
    shared.settings.grants.clone()
}

#[cfg(feature = "mcp-server-http")]
fn caller(context: &RequestContext<RoleServer>) -> Option<String> {
    http_caller(context).map(|caller| caller.name().to_owned())
}

#[cfg(not(feature = "mcp-server-http"))]
fn caller(_: &RequestContext<RoleServer>) -> Option<String> {
    None
}

/// Whom the head of the request belongs to, which the transport keeps beside the message.
#[cfg(feature = "mcp-server-http")]
fn http_caller(context: &RequestContext<RoleServer>) -> Option<&McpCaller> {
    context.extensions.get::<http::request::Parts>()?.extensions.get()
}

/// Waits for the end of a run, or until it asks a person. Dropping the future cancels nothing.
pub(super) async fn follow(
    shared: &Shared,
    offer: &Offer,
    run: &RunHandle<Encoded>,
    context: &RequestContext<RoleServer>,
) -> CallToolResult {
    let mut progress = ShownProgress::of(context);
    let mut events = run.events();
    while let Some(event) = events.next().await {
        match &event.kind {
            EventKind::ApprovalRequested(request) => {
                return served_answer::of(run.run_id(), asks(shared, run, &event.path, request));
            }
            EventKind::RunPaused { reason: PauseReason::Interrupted } => {
                let problem = format!(
                    "the run `{}` was interrupted in a step that may have had its effect; it continues when that step is \
                     retried where this server runs; do not call again, which would begin another run",
                    run.run_id()
                );
                return served_answer::of(run.run_id(), served_answer::error(problem));
            }
            kind => progress.show(kind).await,
        }
    }
    match run.result().await {
        Ok(output) => served_answer::of_run(offer, run.run_id(), &output),
        Err(error) => served_answer::of(run.run_id(), served_answer::error(error.to_string())),
    }
}

/// What the client reads of a run that asks a person.
fn asks(shared: &Shared, run: &RunHandle<Encoded>, path: &StepPath, request: &ApprovalRequest) -> CallToolResult {
    let id = run.run_id();
    let what_next = match shared.runtime.store() {
        Some(_) => format!(
            "it continues when its question at `{path}` is answered where this server runs; do not call again, which would \
             begin another run"
        ),
        None => "nobody can answer it, since this server keeps no runs, so it was cancelled".to_owned(),
    };
    served_answer::error(format!("the run `{id}` waits for a person: {}\n{what_next}", request.message))
}
