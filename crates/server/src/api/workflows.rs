//! Workflows: the list, one workflow, its graph, and the start of a run.

use std::sync::Arc;

use agentflow_core::workflow::Graph;
use agentflow_views::workflow_diagram;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::drawing::{DrawingQuery, draw};
use super::start_run::{StartBody, start_workflow};
use crate::api_error::{ApiError, ApiResult};
use crate::extract::{Acting, JsonRequest, JsonResponse, PathParams, QueryParams};
use crate::idempotency_key::IdempotencyKey;
use crate::operation::Operation;
use crate::resources::{GraphResource, ListPage, PageParams, StartedRun};
use crate::server_options::ServerState;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/api/v1/workflows", "listWorkflows", "Lists the workflows by name.")
            .query::<WorkflowsQuery>()
            .returns::<ListPage<WorkflowResource>>(StatusCode::OK, "A page of the workflows.")
            .handler(list),
        Operation::get("/api/v1/workflows/{workflow_id}", "getWorkflow", "Returns a workflow.")
            .returns::<WorkflowResource>(StatusCode::OK, "The workflow.")
            .handler(get),
        Operation::get(
            "/api/v1/workflows/{workflow_id}/graph",
            "getWorkflowGraph",
            "Returns the nodes and edges of a workflow.",
        )
        .returns::<GraphResource>(StatusCode::OK, "The graph.")
        .handler(graph),
        Operation::get(
            "/api/v1/workflows/{workflow_id}/graph.svg",
            "drawWorkflowGraph",
            "Draws the graph of a workflow.",
        )
        .query::<DrawingQuery>()
        .returns_other(StatusCode::OK, "The drawing.", "image/svg+xml")
        .handler(drawing),
        Operation::post(
            "/api/v1/workflows/{workflow_id}/runs",
            "startWorkflow",
            "Starts a run of a workflow and returns at once, or waits for its end.",
        )
        .header("Idempotency-Key", "A key with which the request may be repeated.")
        .body::<StartBody>()
        .returns::<StartedRun>(StatusCode::ACCEPTED, "The run was started.")
        .returns::<StartedRun>(StatusCode::OK, "The run has ended, and the request waited for it.")
        .handler(start),
    ]
}

/// Parameters of the list of workflows.
#[derive(Debug, Deserialize, JsonSchema)]
struct WorkflowsQuery {
    /// Selects workflows whose name contains this text.
    name: Option<String>,
    /// Number of the page, starting at 1. Default: 1.
    page: Option<usize>,
    /// Maximum number of entries of a page, at most 500. Default: 50.
    limit: Option<usize>,
}

/// A workflow.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Workflow")]
pub(super) struct WorkflowResource {
    /// Name of the workflow.
    pub(super) workflow_id: String,
    /// Purpose of the workflow.
    pub(super) description: String,
    /// SHA-256 of the definition.
    pub(super) definition: String,
    /// JSON Schema of the inputs, an object with a property for each input.
    pub(super) input_schema: Value,
    /// JSON Schema of the output.
    pub(super) output_schema: Value,
}

impl From<&Graph> for WorkflowResource {
    fn from(graph: &Graph) -> Self {
        Self {
            workflow_id: graph.name.clone(),
            description: graph.description.clone(),
            definition: graph.hash(),
            input_schema: graph.input_schema(),
            output_schema: graph.output_schema(),
        }
    }
}

/// Returns the workflows by name.
pub(super) fn workflows(state: &ServerState) -> ApiResult<Vec<Graph>> {
    let mut graphs = state.runtime().catalogue().workflows()?;
    graphs.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(graphs)
}

fn workflow(state: &ServerState, name: &str) -> ApiResult<Graph> {
    let found = workflows(state)?.into_iter().find(|graph| graph.name == name);
    found.ok_or_else(|| ApiError::not_found(format!("no workflow has the name `{name}`")))
}

async fn list(
    State(state): State<ServerState>,
    QueryParams(query): QueryParams<WorkflowsQuery>,
) -> ApiResult<JsonResponse<ListPage<WorkflowResource>>> {
    let paging = PageParams { page: query.page, limit: query.limit };
    let name = query.name.unwrap_or_default();
    let mut found = Vec::new();
    for graph in workflows(&state)? {
        if graph.name.contains(&name) {
            found.push(graph);
        }
    }
    let ListPage { items, page, limit, total, next } = paging.select(found)?;
    let items = items.iter().map(WorkflowResource::from).collect();
    Ok(JsonResponse(StatusCode::OK, ListPage { items, page, limit, total, next }))
}

async fn get(
    State(state): State<ServerState>,
    PathParams(name): PathParams<Arc<str>>,
) -> ApiResult<JsonResponse<WorkflowResource>> {
    Ok(JsonResponse(StatusCode::OK, (&workflow(&state, &name)?).into()))
}

async fn graph(
    State(state): State<ServerState>,
    PathParams(name): PathParams<Arc<str>>,
) -> ApiResult<JsonResponse<GraphResource>> {
    Ok(JsonResponse(StatusCode::OK, (&workflow(&state, &name)?).into()))
}

async fn drawing(
    State(state): State<ServerState>,
    PathParams(name): PathParams<Arc<str>>,
    QueryParams(query): QueryParams<DrawingQuery>,
) -> ApiResult<Response> {
    let graph = workflow(&state, &name)?;
    draw(graph.nodes.len(), query, move || workflow_diagram(&graph)).await
}

async fn start(
    acting: Acting,
    PathParams(name): PathParams<Arc<str>>,
    key: IdempotencyKey,
    JsonRequest(body): JsonRequest<StartBody>,
) -> ApiResult<JsonResponse<StartedRun>> {
    start_workflow(&acting, &name, &key, body).await
}
