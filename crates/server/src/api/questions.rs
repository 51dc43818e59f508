//! The inbox: open questions of all runs, and answers to them.

use std::sync::Arc;

use agentflow_core::event::RunId;
use agentflow_core::store::RunFilter;
use agentflow_core::value::Encoded;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::controls::summary;
use crate::api_error::{ApiError, ApiResult};
use crate::continue_run::continue_run;
use crate::extract::{Acting, JsonRequest, JsonResponse, PathParams, QueryParams};
use crate::operation::Operation;
use crate::resources::{ListPage, PageParams, QuestionResource, RunSummary};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get(
            "/api/v1/questions",
            "listQuestions",
            "Lists the open questions of all runs, oldest first.",
        )
        .query::<QuestionsQuery>()
        .returns::<ListPage<QuestionResource>>(StatusCode::OK, "A page of the questions.")
        .handler(list),
        Operation::get(
            "/api/v1/runs/{run_id}/questions",
            "listQuestionsOfRun",
            "Lists the open questions of a run, oldest first.",
        )
        .returns::<Vec<QuestionResource>>(StatusCode::OK, "The questions.")
        .handler(list_of_run),
        Operation::post(
            "/api/v1/runs/{run_id}/questions/{question_id}/answer",
            "answerQuestion",
            "Answers an open question. The first answer is final.",
        )
        .body::<AnswerBody>()
        .returns::<RunSummary>(StatusCode::OK, "The answer has taken effect.")
        .handler(answer),
    ]
}

/// Parameters of the list of questions.
#[derive(Debug, Deserialize, JsonSchema)]
struct QuestionsQuery {
    /// Name of the workflow or agent.
    workflow_id: Option<String>,
    /// Caller on whose behalf the runs were started.
    caller: Option<String>,
    /// Session of the runs.
    session_id: Option<String>,
    /// Number of the page, starting at 1. Default: 1.
    page: Option<usize>,
    /// Maximum number of entries of a page, at most 500. Default: 50.
    limit: Option<usize>,
}

async fn list(
    acting: Acting,
    QueryParams(query): QueryParams<QuestionsQuery>,
) -> ApiResult<JsonResponse<ListPage<QuestionResource>>> {
    let mut filter = RunFilter::new();
    if let Some(name) = query.workflow_id {
        filter = filter.name(name);
    }
    if let Some(caller) = query.caller {
        filter = filter.caller(caller);
    }
    if let Some(session) = query.session_id {
        filter = filter.session(session);
    }
    let questions = acting.runtime.runs().questions(filter).await?;
    let paging = PageParams { page: query.page, limit: query.limit };
    let ListPage { items, page, limit, total, next } = paging.select(questions)?;
    let items = items.into_iter().map(QuestionResource::from).collect();
    Ok(JsonResponse(StatusCode::OK, ListPage { items, page, limit, total, next }))
}

async fn list_of_run(
    acting: Acting,
    PathParams(run): PathParams<Arc<str>>,
) -> ApiResult<JsonResponse<Vec<QuestionResource>>> {
    let questions = acting.runtime.run(&RunId::new(run)).questions().await?;
    let questions = questions.into_iter().map(QuestionResource::from).collect();
    Ok(JsonResponse(StatusCode::OK, questions))
}

/// Path of a question.
#[derive(Debug, Deserialize)]
struct QuestionPath {
    run_id: Arc<str>,
    question_id: String,
}

/// The answer to a question.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AnswerBody {
    /// A value that fits the `answer_schema` of the question. For an approval
    /// `{"decision": "granted"}` or `{"decision": "denied", "comment": ".."}`.
    answer: Value,
}

async fn answer(
    acting: Acting,
    PathParams(path): PathParams<QuestionPath>,
    JsonRequest(body): JsonRequest<AnswerBody>,
) -> ApiResult<JsonResponse<RunSummary>> {
    let answer = Encoded::new(&body.answer).map_err(|error| {
        ApiError::unusable(format!("the answer cannot be used: {error}")).at("/answer".to_owned())
    })?;
    let run = RunId::new(path.run_id);
    let by = acting.caller.name();
    acting.runtime.run(&run).answer_encoded(&path.question_id, answer, by).await?;
    continue_run(&acting.runtime, &run).await?;
    summary(&acting, &run).await
}
