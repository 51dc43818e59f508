//! The catalogue: tools, servers and agents that the runtime knows, and the start of an agent.

use std::sync::Arc;

use agentflow_core::runtime::{CatalogueEntry, EntryKind};
use axum::extract::State;
use http::StatusCode;

use super::start_run::{StartAgentBody, start_agent};
use crate::api_error::ApiResult;
use crate::extract::{Acting, JsonRequest, JsonResponse, PathParams};
use crate::idempotency_key::IdempotencyKey;
use crate::operation::Operation;
use crate::resources::{AgentResource, StartedRun, ToolResource, ToolsetResource};
use crate::server_options::ServerState;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/api/v1/tools", "listTools", "Lists the tools with their schemas.")
            .returns::<Vec<ToolResource>>(StatusCode::OK, "The tools.")
            .handler(tools),
        Operation::get(
            "/api/v1/servers",
            "listServers",
            "Lists the toolsets of the runtime, such as the MCP servers.",
        )
        .returns::<Vec<ToolsetResource>>(StatusCode::OK, "The toolsets.")
        .handler(servers),
        Operation::get("/api/v1/agents", "listAgents", "Lists the agents of the runtime.")
            .returns::<Vec<AgentResource>>(StatusCode::OK, "The agents.")
            .handler(agents),
        Operation::post(
            "/api/v1/agents/{agent_id}/runs",
            "startAgent",
            "Starts a run of an agent and returns at once, or waits for its end.",
        )
        .header("Idempotency-Key", "A key with which the request may be repeated.")
        .body::<StartAgentBody>()
        .returns::<StartedRun>(StatusCode::ACCEPTED, "The run was started.")
        .returns::<StartedRun>(StatusCode::OK, "The run has ended, and the request waited for it.")
        .handler(start),
    ]
}

/// Lists the entries of a kind. Servers that do not answer are left out, and logged.
async fn entries<R: for<'e> From<&'e CatalogueEntry>>(
    state: &ServerState,
    kind: EntryKind,
) -> JsonResponse<Vec<R>> {
    let catalogue = state.runtime().catalogue().snapshot().await;
    for error in catalogue.problems() {
        tracing::warn!(%error, "a part of the catalogue is missing");
    }
    JsonResponse(StatusCode::OK, catalogue.of_kind(kind).map(R::from).collect())
}

pub(super) async fn tools(State(state): State<ServerState>) -> JsonResponse<Vec<ToolResource>> {
    entries(&state, EntryKind::Tool).await
}

async fn servers(State(state): State<ServerState>) -> JsonResponse<Vec<ToolsetResource>> {
    entries(&state, EntryKind::Toolset).await
}

async fn agents(State(state): State<ServerState>) -> JsonResponse<Vec<AgentResource>> {
    entries(&state, EntryKind::Agent).await
}

async fn start(
    acting: Acting,
    PathParams(name): PathParams<Arc<str>>,
    key: IdempotencyKey,
    JsonRequest(body): JsonRequest<StartAgentBody>,
) -> ApiResult<JsonResponse<StartedRun>> {
    start_agent(&acting, &name, &key, body).await
}
