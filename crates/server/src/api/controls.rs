//! Requests of operators to a run: pause, resume, cancel, close, message, retry.

use std::sync::Arc;

use agentflow_core::error::{ControlErrorKind, Error};
use agentflow_core::event::{PauseReason, RunId};
use agentflow_core::store::RunStatus;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use super::nodes::{ApprovalBody, NodePath};
use crate::api_error::{ApiError, ApiResult};
use crate::continue_run::continue_run;
use crate::extract::{Acting, JsonRequest, JsonResponse, PathParams};
use crate::operation::Operation;
use crate::resources::RunSummary;

pub(super) fn operations() -> Vec<Operation> {
    let control = |path, id, summary| {
        Operation::post(path, id, summary)
            .returns::<RunSummary>(StatusCode::OK, "The request has taken effect.")
    };
    vec![
        control("/api/v1/runs/{run_id}/pause", "pauseRun", "Pauses a run before its next step.")
            .handler(pause),
        control(
            "/api/v1/runs/{run_id}/resume",
            "resumeRun",
            "Continues a paused run or a run whose process ended, or answers an approval.",
        )
        .body::<ResumeBody>()
        .handler(resume),
        control("/api/v1/runs/{run_id}/cancel", "cancelRun", "Cancels a run.")
            .body::<CancelBody>()
            .handler(cancel),
        control("/api/v1/runs/{run_id}/close", "closeRun", "Closes a live run of an agent.")
            .handler(close),
        control(
            "/api/v1/runs/{run_id}/messages",
            "sendMessage",
            "Sends a message to the agent of a run.",
        )
        .body::<MessageBody>()
        .handler(message),
        control(
            "/api/v1/runs/{run_id}/nodes/{node_id}/retry",
            "retryNode",
            "Retries a failed node together with the nodes that depend on it.",
        )
        .handler(retry),
    ]
}

/// Returns the run after a request.
pub(super) async fn summary(acting: &Acting, run: &RunId) -> ApiResult<JsonResponse<RunSummary>> {
    let record = acting.runtime.run(run).record().await?;
    Ok(JsonResponse(StatusCode::OK, record.into()))
}

async fn pause(
    acting: Acting,
    PathParams(run): PathParams<Arc<str>>,
) -> ApiResult<JsonResponse<RunSummary>> {
    let run = RunId::new(run);
    acting.runtime.run(&run).pause().await?;
    summary(&acting, &run).await
}

/// The body of a request that continues a run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ResumeBody {
    /// Node whose approval is answered. Default: the only node that waits, if `approved` is given.
    node_id: Option<String>,
    /// Answer to the approval.
    approved: Option<bool>,
    /// Comment on the answer.
    comment: Option<String>,
}

async fn resume(
    acting: Acting,
    PathParams(run): PathParams<Arc<str>>,
    JsonRequest(body): JsonRequest<ResumeBody>,
) -> ApiResult<JsonResponse<RunSummary>> {
    let run = RunId::new(run);
    let found = acting.runtime.run(&run);
    match (body.approved, body.node_id) {
        (Some(approved), node) => {
            let node = match node {
                Some(node) => node,
                None => only_question(&acting, &run).await?,
            };
            let approval = ApprovalBody::new(approved, body.comment).approval()?;
            found.approve(&node, approval, acting.caller.name()).await?;
        }
        (None, Some(_)) => {
            let detail = "`node_id` needs `approved`, the answer to the approval of this node";
            return Err(ApiError::unusable(detail));
        }
        (None, None) => {
            let record = found.record().await?;
            let is_paused = record.status == RunStatus::Paused;
            match record.pause_reason {
                Some(PauseReason::Operator) | None if is_paused => found.unpause().await?,
                _ if is_paused => {
                    // The error explains the reason of the pause.
                    found.unpause().await?;
                }
                _ if record.status.has_ended() => {
                    let detail =
                        format!("the run cannot be resumed: it is over ({})", record.status);
                    let kind = ControlErrorKind::WrongState.as_str();
                    return Err(ApiError::new(StatusCode::CONFLICT, kind, detail));
                }
                _ if found.is_executed_here() => {}
                _ => match found.resume().await {
                    Ok(_) => {}
                    // Another process executes the run, so it continues already.
                    Err(Error::Store(error))
                        if error.kind() == agentflow_core::store::StoreErrorKind::Busy => {}
                    Err(error) => return Err(error.into()),
                },
            }
        }
    }
    continue_run(&acting.runtime, &run).await?;
    summary(&acting, &run).await
}

/// Returns the id of the only open question of a run.
async fn only_question(acting: &Acting, run: &RunId) -> ApiResult<String> {
    let mut questions = acting.runtime.run(run).questions().await?;
    match (questions.pop(), questions.len()) {
        (Some(question), 0) => Ok(question.id),
        (None, _) => Err(ApiError::new(
            StatusCode::CONFLICT,
            ControlErrorKind::WrongState.as_str(),
            "the run waits for no approval",
        )),
        (Some(_), _) => {
            Err(ApiError::unusable("the run waits for several approvals; name one with `node_id`"))
        }
    }
}

/// The body of a request that cancels a run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CancelBody {
    /// Reason, for people. Default: `cancelled by` and the caller.
    reason: Option<String>,
}

async fn cancel(
    acting: Acting,
    PathParams(run): PathParams<Arc<str>>,
    JsonRequest(body): JsonRequest<CancelBody>,
) -> ApiResult<JsonResponse<RunSummary>> {
    let run = RunId::new(run);
    let reason = body.reason.unwrap_or_else(|| format!("cancelled by {}", acting.caller.name()));
    acting.runtime.run(&run).cancel(&reason).await?;
    summary(&acting, &run).await
}

async fn close(
    acting: Acting,
    PathParams(run): PathParams<Arc<str>>,
) -> ApiResult<JsonResponse<RunSummary>> {
    let run = RunId::new(run);
    acting.runtime.run(&run).close().await?;
    continue_run(&acting.runtime, &run).await?;
    summary(&acting, &run).await
}

/// The body of a request that sends a message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MessageBody {
    /// Text of the message.
    text: String,
}

async fn message(
    acting: Acting,
    PathParams(run): PathParams<Arc<str>>,
    JsonRequest(body): JsonRequest<MessageBody>,
) -> ApiResult<JsonResponse<RunSummary>> {
    let run = RunId::new(run);
    acting.runtime.run(&run).send_message(body.text).await?;
    continue_run(&acting.runtime, &run).await?;
    summary(&acting, &run).await
}

async fn retry(
    acting: Acting,
    PathParams(path): PathParams<NodePath>,
) -> ApiResult<JsonResponse<RunSummary>> {
    let run = RunId::new(path.run_id);
    acting.runtime.run(&run).retry(&path.node_id, acting.caller.name()).await?;
    continue_run(&acting.runtime, &run).await?;
    summary(&acting, &run).await
}
