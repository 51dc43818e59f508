//! Nodes of a run: the detail of a node, and the answer to its approval.

use std::sync::Arc;

use agentflow_core::Approval;
use agentflow_core::event::RunId;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::controls::summary;
use crate::api_error::{ApiError, ApiResult};
use crate::continue_run::continue_run;
use crate::extract::{Acting, JsonRequest, JsonResponse, PathParams};
use crate::operation::Operation;
use crate::resources::{NodeDetail, RunSummary};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get(
            "/api/v1/runs/{run_id}/nodes/{node_id}/detail",
            "getNode",
            "Returns a node of a run with its attempts and calls.",
        )
        .returns::<NodeDetail>(StatusCode::OK, "The node.")
        .handler(detail),
        Operation::post(
            "/api/v1/runs/{run_id}/nodes/{node_id}/approve",
            "approveNode",
            "Grants or denies the approval that a node waits for.",
        )
        .body::<ApprovalBody>()
        .returns::<RunSummary>(StatusCode::OK, "The answer has taken effect.")
        .handler(approve),
    ]
}

/// Path of a node.
#[derive(Debug, Deserialize)]
pub(super) struct NodePath {
    pub(super) run_id: Arc<str>,
    pub(super) node_id: String,
}

async fn detail(
    acting: Acting,
    PathParams(path): PathParams<NodePath>,
) -> ApiResult<JsonResponse<NodeDetail>> {
    let report = acting.runtime.run(&RunId::new(path.run_id)).inspect().await?;
    match report.nodes.iter().find(|node| node.name == path.node_id) {
        Some(node) => Ok(JsonResponse(StatusCode::OK, NodeDetail::new(&report, node))),
        None => Err(ApiError::not_found(format!("the run has no node `{}`", path.node_id))),
    }
}

/// The answer to an approval.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApprovalBody {
    /// `true` grants the approval, `false` denies it.
    approved: bool,
    /// Comment on the answer.
    #[serde(default)]
    comment: Option<String>,
    /// All arguments of the call. They replace the arguments in the question. Only for a granted
    /// tool call.
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
}

impl ApprovalBody {
    pub(super) fn new(approved: bool, comment: Option<String>) -> Self {
        Self { approved, comment, arguments: None }
    }

    /// Converts the body to an approval.
    ///
    /// # Errors
    /// 422 if the approval is denied and has arguments.
    pub(crate) fn approval(self) -> ApiResult<Approval> {
        let Self { approved, comment, arguments } = self;
        match (approved, arguments) {
            (true, arguments) => {
                Ok(Approval::Granted { comment, arguments: arguments.map(Value::Object) })
            }
            (false, None) => Ok(Approval::Denied { comment }),
            (false, Some(_)) => {
                let detail = "`arguments` need `approved: true`, since a denied call is not made";
                Err(ApiError::unusable(detail).at("/arguments".to_owned()))
            }
        }
    }
}

async fn approve(
    acting: Acting,
    PathParams(path): PathParams<NodePath>,
    JsonRequest(body): JsonRequest<ApprovalBody>,
) -> ApiResult<JsonResponse<RunSummary>> {
    let run = RunId::new(path.run_id);
    let by = acting.caller.name();
    acting.runtime.run(&run).approve(&path.node_id, body.approval()?, by).await?;
    continue_run(&acting.runtime, &run).await?;
    summary(&acting, &run).await
}
