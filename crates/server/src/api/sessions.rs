//! Sessions: the list, one session, its history, and its deletion. A run of an agent starts or
//! continues a session (`startAgent` with `session_id`).

use std::collections::BTreeMap;
use std::sync::Arc;

use agentflow_core::session::SessionRun;
use agentflow_core::store::{SessionFilter, SessionRecord};
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api_error::ApiResult;
use crate::extract::{Acting, JsonResponse, PathParams, QueryParams};
use crate::operation::Operation;
use crate::resources::{ListPage, PageParams, time_text};

/// Number of runs of a history, if the request has no `runs`.
const DEFAULT_RUNS: usize = 50;
/// Maximum number of runs of a history.
const MAX_RUNS: usize = 1000;
/// Maximum number of sessions that are read for a list.
const MAX_LISTED: usize = 10_000;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/api/v1/sessions", "listSessions", "Lists the sessions, newest first.")
            .query::<SessionsQuery>()
            .returns::<ListPage<SessionResource>>(StatusCode::OK, "A page of the sessions.")
            .handler(list),
        Operation::get("/api/v1/sessions/{session_id}", "getSession", "Returns a session.")
            .returns::<SessionResource>(StatusCode::OK, "The session.")
            .handler(get),
        Operation::get(
            "/api/v1/sessions/{session_id}/history",
            "getHistory",
            "Returns the messages of the completed runs of a session, oldest run first.",
        )
        .query::<HistoryQuery>()
        .returns::<Vec<SessionRunResource>>(StatusCode::OK, "The runs with their messages.")
        .handler(history),
        Operation::delete(
            "/api/v1/sessions/{session_id}",
            "deleteSession",
            "Deletes a session with its runs, which must have ended.",
        )
        .returns_other(StatusCode::NO_CONTENT, "The session was deleted.", "")
        .handler(delete),
    ]
}

/// Parameters of the list of sessions.
#[derive(Debug, Deserialize, JsonSchema)]
struct SessionsQuery {
    /// Caller on whose behalf the sessions were started.
    caller: Option<String>,
    /// Number of the page, starting at 1. Default: 1.
    page: Option<usize>,
    /// Maximum number of entries of a page, at most 500. Default: 50.
    limit: Option<usize>,
}

/// Parameters of a history.
#[derive(Debug, Deserialize, JsonSchema)]
struct HistoryQuery {
    /// Maximum number of runs, the newest ones, at most 1,000. Default: 50.
    runs: Option<usize>,
}

/// A session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Session")]
struct SessionResource {
    /// Id of the session.
    session_id: String,
    /// Agent of the last run.
    agent_id: String,
    /// Caller on whose behalf the first run was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    triggered_by: Option<String>,
    /// Tags of the first run.
    tags: BTreeMap<String, String>,
    /// Time at which the session started.
    started_at: String,
    /// Time of the last recorded event.
    updated_at: String,
    /// Number of runs.
    runs: u64,
    /// Run that has not ended. The next run cannot start before it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    unfinished_run_id: Option<String>,
}

impl From<SessionRecord> for SessionResource {
    fn from(session: SessionRecord) -> Self {
        Self {
            session_id: session.id.to_string(),
            agent_id: session.agent.to_string(),
            triggered_by: session.caller.as_deref().map(str::to_owned),
            tags: session.tags,
            started_at: time_text(session.created),
            updated_at: time_text(session.updated),
            runs: session.runs,
            unfinished_run_id: session.unfinished.map(|run| run.to_string()),
        }
    }
}

/// A completed run of a session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionRun")]
struct SessionRunResource {
    /// Id of the run.
    run_id: String,
    /// Number of the run in the session, starting at 1.
    number: u64,
    /// Time at which the run started.
    started_at: String,
    /// Messages that the run added.
    messages: Vec<Value>,
}

impl From<SessionRun> for SessionRunResource {
    fn from(run: SessionRun) -> Self {
        let messages = run.messages.iter();
        Self {
            run_id: run.run_id.to_string(),
            number: run.number,
            started_at: time_text(run.created),
            messages: messages
                .map(|message| serde_json::to_value(message).unwrap_or_default())
                .collect(),
        }
    }
}

async fn list(
    acting: Acting,
    QueryParams(query): QueryParams<SessionsQuery>,
) -> ApiResult<JsonResponse<ListPage<SessionResource>>> {
    let paging = PageParams { page: query.page, limit: query.limit };
    let most = paging.skipped()?.saturating_add(paging.limit()?).min(MAX_LISTED);
    // A further session shows that the list is longer than the page.
    let mut filter = SessionFilter::new().limit(most + 1);
    if let Some(caller) = query.caller {
        filter = filter.caller(caller);
    }
    let sessions = acting.runtime.sessions().list(filter).await?;
    let total = (sessions.len() <= most).then_some(sessions.len());
    let ListPage { items, page, limit, next, .. } = paging.select(sessions)?;
    let items = items.into_iter().map(SessionResource::from).collect();
    Ok(JsonResponse(StatusCode::OK, ListPage { items, page, limit, total, next }))
}

async fn get(
    acting: Acting,
    PathParams(session): PathParams<Arc<str>>,
) -> ApiResult<JsonResponse<SessionResource>> {
    let session = acting.runtime.sessions().get(&session).await?;
    Ok(JsonResponse(StatusCode::OK, session.into()))
}

async fn history(
    acting: Acting,
    PathParams(session): PathParams<Arc<str>>,
    QueryParams(query): QueryParams<HistoryQuery>,
) -> ApiResult<JsonResponse<Vec<SessionRunResource>>> {
    let newest = query.runs.unwrap_or(DEFAULT_RUNS).min(MAX_RUNS);
    let runs = acting.runtime.sessions().history(&session, newest).await?;
    Ok(JsonResponse(StatusCode::OK, runs.into_iter().map(SessionRunResource::from).collect()))
}

async fn delete(
    acting: Acting,
    PathParams(session): PathParams<Arc<str>>,
) -> ApiResult<StatusCode> {
    acting.runtime.sessions().delete(&session).await?;
    Ok(StatusCode::NO_CONTENT)
}
