//! Executes tool calls, which are not recorded, and determines the caller and its scopes.
//! `served_run.rs` executes calls to agents and workflows.

use std::pin::pin;
use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;

use super::call_progress::ProgressSender;
use super::offered::Offer;
use super::served_answer;
use super::server_settings::Shared;
use agentflow_core::__private::extension::events_of;
use agentflow_core::Caller;
use agentflow_core::error::Result;
use agentflow_core::message::ToolCall;
use agentflow_core::runtime::CallerRuntime;

/// Asks the access control, and calls a tool. Dropping the future cancels the call.
pub(super) async fn tool(
    shared: &Shared,
    offer: &Offer,
    arguments: String,
    context: &RequestContext<RoleServer>,
    mut shown: ProgressSender,
) -> Result<CallToolResult> {
    runtime(shared, context).check_call(&offer.name).await?;
    let tool = shared.runtime.catalogue().tool(&offer.name).await?;
    let call = ToolCall::new(context.id.to_string(), tool.name(), arguments);
    let cx = shared.runtime.context();
    let grants = grants(shared, context);
    let mut called = pin!(shared.runtime.catalogue().invoke_at(&cx, &tool, &call, &grants));
    if !shown.is_wanted() {
        return Ok(served_answer::of_tool(offer, &called.await?));
    }
    let mut events = events_of(&cx);
    let result = loop {
        tokio::select! {
            biased;
            Some(event) = events.next() => shown.show(&event.kind).await,
            result = &mut called => break result,
        }
    };
    // Sends the events that the tool emitted immediately before it returned.
    while let Some(Some(event)) = events.next().now_or_never() {
        shown.show(&event.kind).await;
    }
    Ok(served_answer::of_tool(offer, &result?))
}

/// Returns the scopes of a call: the server's and the caller's.
pub(super) fn grants(shared: &Shared, context: &RequestContext<RoleServer>) -> Vec<Arc<str>> {
    let of_caller = caller(context).into_iter().flat_map(Caller::scopes);
    shared.settings.grants.iter().chain(of_caller).cloned().collect()
}

/// Returns the authenticated caller of the request. The transport keeps the head of the HTTP
/// request in the extensions of the message.
#[cfg(feature = "server-http")]
pub(super) fn caller(context: &RequestContext<RoleServer>) -> Option<&Caller> {
    context.extensions.get::<http::request::Parts>()?.extensions.get()
}

/// Returns `None`: streams do not authenticate the client.
#[cfg(not(feature = "server-http"))]
pub(super) fn caller(_: &RequestContext<RoleServer>) -> Option<&Caller> {
    None
}

/// Returns the name of the authenticated caller.
pub(super) fn caller_name(context: &RequestContext<RoleServer>) -> Option<String> {
    caller(context).map(|caller| caller.name().to_owned())
}

/// Returns the runtime of the caller, or of the program for a client that is not authenticated.
pub(super) fn runtime(shared: &Shared, context: &RequestContext<RoleServer>) -> CallerRuntime {
    shared.runtime.for_optional_caller(caller(context))
}
