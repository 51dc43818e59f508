//! The call of a tool, which records nothing, and who makes a call. A call of an agent or a workflow is in `served_run.rs`.

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
use crate::error::Result;
use crate::message::ToolCall;
use crate::run::Events;

/// Calls a tool. Dropping the future cancels it.
pub(super) async fn tool(
    shared: &Shared,
    offer: &Offer,
    arguments: String,
    context: &RequestContext<RoleServer>,
    mut shown: ShownProgress,
) -> Result<CallToolResult> {
    let tool = shared.runtime.tool(&offer.name).await?;
    let call = ToolCall::new(context.id.to_string(), tool.name(), arguments);
    let cx = shared.runtime.context();
    let grants = grants(shared, context);
    let mut called = pin!(shared.runtime.invoke_at(&cx, &tool, &call, &grants));
    if !shown.is_wanted() {
        return Ok(served_answer::of_tool(offer, &called.await?));
    }
    let mut events = Events::new(Arc::clone(cx.run()), 0);
    let result = loop {
        tokio::select! {
            biased;
            Some(event) = events.next() => shown.show(&event.kind).await,
            result = &mut called => break result,
        }
    };
    while let Some(Some(event)) = events.next().now_or_never() {
        shown.show(&event.kind).await;
    }
    Ok(served_answer::of_tool(offer, &result?))
}

/// The scopes of a call: those of the server, and of its caller.
#[cfg(feature = "mcp-server-http")]
pub(super) fn grants(shared: &Shared, context: &RequestContext<RoleServer>) -> Vec<Arc<str>> {
    let of_caller = http_caller(context).into_iter().flat_map(McpCaller::scopes);
    shared.settings.grants.iter().chain(of_caller).cloned().collect()
}

/// The scopes of a call: those of the server, since the streams of a process say nothing about who is at their other end.
#[cfg(not(feature = "mcp-server-http"))]
pub(super) fn grants(shared: &Shared, _: &RequestContext<RoleServer>) -> Vec<Arc<str>> {
    shared.settings.grants.clone()
}

#[cfg(feature = "mcp-server-http")]
pub(super) fn caller(context: &RequestContext<RoleServer>) -> Option<String> {
    http_caller(context).map(|caller| caller.name().to_owned())
}

#[cfg(not(feature = "mcp-server-http"))]
pub(super) fn caller(_: &RequestContext<RoleServer>) -> Option<String> {
    None
}

/// Whom the head of the request belongs to, which the transport keeps beside the message.
#[cfg(feature = "mcp-server-http")]
pub(super) fn http_caller(context: &RequestContext<RoleServer>) -> Option<&McpCaller> {
    context.extensions.get::<http::request::Parts>()?.extensions.get()
}
