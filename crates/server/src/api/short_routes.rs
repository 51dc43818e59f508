//! The short routes: run a workflow and wait, the names of the workflows, the tools.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use http::StatusCode;
use serde_json::{Map, Value};

use super::catalogue;
use super::start_run::{StartBody, StartOptions, start_workflow};
use super::workflows::{WorkflowResource, workflows};
use crate::api_error::ApiResult;
use crate::extract::{Acting, JsonRequest, JsonResponse, PathParams};
use crate::idempotency_key::IdempotencyKey;
use crate::operation::Operation;
use crate::resources::{StartedRun, ToolResource};
use crate::server_options::ServerState;

/// Time for which the response waits for the end of the run.
const WAIT: Duration = Duration::from_secs(60);

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/api/workflows", "listAllWorkflows", "Lists all workflows by name.")
            .returns::<Vec<WorkflowResource>>(StatusCode::OK, "The workflows.")
            .handler(list),
        Operation::post(
            "/api/workflows/{workflow_id}/run",
            "runWorkflow",
            "Runs a workflow with the inputs of the body, and waits up to a minute for its end.",
        )
        .header("Idempotency-Key", "A key with which the request may be repeated.")
        .body::<Map<String, Value>>()
        .returns::<StartedRun>(StatusCode::OK, "The run has ended.")
        .returns::<StartedRun>(StatusCode::ACCEPTED, "The run has not ended within a minute.")
        .handler(run),
        Operation::get("/api/tools", "listAllTools", "Lists the tools with their schemas.")
            .returns::<Vec<ToolResource>>(StatusCode::OK, "The tools.")
            .handler(catalogue::tools),
    ]
}

async fn list(State(state): State<ServerState>) -> ApiResult<JsonResponse<Vec<WorkflowResource>>> {
    let workflows = workflows(&state)?;
    Ok(JsonResponse(StatusCode::OK, workflows.iter().map(WorkflowResource::from).collect()))
}

async fn run(
    acting: Acting,
    PathParams(name): PathParams<Arc<str>>,
    key: IdempotencyKey,
    JsonRequest(inputs): JsonRequest<Map<String, Value>>,
) -> ApiResult<JsonResponse<StartedRun>> {
    let body = StartBody::new(inputs, StartOptions::wait(WAIT));
    start_workflow(&acting, &name, &key, body).await
}
