//! Runs: the list, one run, its graph, events and artifacts, and its deletion.

use std::sync::Arc;

use agentflow_core::event::RunId;
use agentflow_core::runtime::CallerRuntime;
use agentflow_core::store::{RunFilter, RunOrder, RunRecord, RunStatus};
use agentflow_core::time::Timestamp;
use agentflow_views::run_diagram;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::drawing::{DrawingQuery, draw};
use super::start_run::output;
use crate::api_error::{ApiError, ApiResult};
use crate::extract::{Acting, JsonResponse, PathParams, QueryParams};
use crate::operation::Operation;
use crate::resources::{ListPage, PageParams, RunDetail, RunGraphResource, RunSummary};
use crate::server_options::ServerState;
use crate::stream::{StreamQuery, follow_live, follow_run};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/api/v1/runs", "listRuns", "Lists runs, newest first.")
            .query::<RunsQuery>()
            .returns::<ListPage<RunSummary>>(StatusCode::OK, "A page of the runs.")
            .handler(list),
        Operation::get("/api/v1/runs/{run_id}", "getRun", "Returns a run with its nodes.")
            .returns::<RunDetail>(StatusCode::OK, "The run.")
            .handler(get),
        Operation::delete("/api/v1/runs/{run_id}", "deleteRun", "Deletes a run that has ended.")
            .returns_other(StatusCode::NO_CONTENT, "The run was deleted.", "")
            .handler(delete),
        Operation::get(
            "/api/v1/runs/{run_id}/graph",
            "getRunGraph",
            "Returns the graph of a run with the status of its nodes.",
        )
        .returns::<RunGraphResource>(StatusCode::OK, "The graph.")
        .handler(graph),
        Operation::get(
            "/api/v1/runs/{run_id}/graph.svg",
            "drawRunGraph",
            "Draws the graph of a run with the status of its nodes.",
        )
        .query::<DrawingQuery>()
        .returns_other(StatusCode::OK, "The drawing.", "image/svg+xml")
        .handler(drawing),
        Operation::get(
            "/api/v1/runs/{run_id}/stream",
            "streamRun",
            "Follows the events of a run as server-sent events, from its start or after an event.",
        )
        .query::<StreamQuery>()
        .header("Last-Event-ID", "Number of the last event that the client has received.")
        .returns_other(StatusCode::OK, "The events.", "text/event-stream")
        .returns_other(StatusCode::NO_CONTENT, "The client has received all events.", "")
        .handler(follow_run),
        Operation::get(
            "/api/v1/runs/{run_id}/live",
            "followRunLive",
            "Opens a WebSocket that sends the progress of a run and receives answers and messages.",
        )
        .returns_other(StatusCode::SWITCHING_PROTOCOLS, "The WebSocket is open.", "")
        .handler(follow_live),
        Operation::get(
            "/api/v1/runs/{run_id}/artifacts",
            "listArtifacts",
            "Lists the artifacts that the completed steps of a run have saved.",
        )
        .returns::<Vec<ArtifactResource>>(StatusCode::OK, "The artifacts.")
        .handler(artifacts),
        Operation::get(
            "/api/v1/runs/{run_id}/artifacts/{name}",
            "getArtifact",
            "Returns the bytes of an artifact.",
        )
        .query::<ArtifactQuery>()
        .header("Range", "A range of bytes, such as `bytes=0-1023`.")
        .returns_other(StatusCode::OK, "All bytes.", "application/octet-stream")
        .returns_other(StatusCode::PARTIAL_CONTENT, "The range.", "application/octet-stream")
        .handler(artifact),
    ]
}

/// Parameters of the list of runs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
struct RunsQuery {
    /// Name of the workflow or agent.
    workflow_id: Option<String>,
    /// Status, or several statuses separated by commas.
    status: Option<String>,
    /// Caller on whose behalf the runs were started.
    caller: Option<String>,
    /// Session of the runs.
    session_id: Option<String>,
    /// A tag as `key:value`.
    tag: Option<String>,
    /// Earliest start, in milliseconds since 1970.
    since_ms: Option<u64>,
    /// Time before which the runs must have started, in milliseconds since 1970.
    until_ms: Option<u64>,
    /// Order of the list: `created` (newest first) or `changed` (last change first). Default:
    /// `created`.
    #[serde(default)]
    order: ListOrder,
    /// Value of `next` of the page before. Excludes `page`.
    after: Option<String>,
    /// Number of the page, starting at 1. Default: 1.
    page: Option<usize>,
    /// Maximum number of entries of a page, at most 500. Default: 50.
    limit: Option<usize>,
}

/// Order of a list of runs.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ListOrder {
    #[default]
    Created,
    Changed,
}

impl RunsQuery {
    fn filter(&self) -> ApiResult<RunFilter> {
        let mut filter = RunFilter::new().order(match self.order {
            ListOrder::Created => RunOrder::Created,
            ListOrder::Changed => RunOrder::Changed,
        });
        if let Some(name) = &self.workflow_id {
            filter = filter.name(name.as_str());
        }
        for status in self.status.iter().flat_map(|statuses| statuses.split(',')) {
            filter = filter.status(parse_status(status.trim())?);
        }
        if let Some(caller) = &self.caller {
            filter = filter.caller(caller.as_str());
        }
        if let Some(session) = &self.session_id {
            filter = filter.session(session.as_str());
        }
        if let Some(tag) = &self.tag {
            let Some((key, value)) = tag.split_once(':') else {
                return Err(invalid_query("`tag` must have the form `key:value`"));
            };
            filter = filter.tag(key, value);
        }
        if let Some(since) = self.since_ms {
            filter = filter.since(Timestamp::from_millis(since));
        }
        if let Some(until) = self.until_ms {
            filter = filter.until(Timestamp::from_millis(until));
        }
        Ok(filter)
    }
}

fn parse_status(text: &str) -> ApiResult<RunStatus> {
    text.parse().map_err(|error| invalid_query(format!("`status`: {error}")))
}

fn invalid_query(detail: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "invalid_query", detail)
}

async fn list(
    acting: Acting,
    QueryParams(query): QueryParams<RunsQuery>,
) -> ApiResult<JsonResponse<ListPage<RunSummary>>> {
    let paging = PageParams { page: query.page, limit: query.limit };
    let limit = paging.limit()?;
    let filter = query.filter()?;
    let page = match &query.after {
        Some(after) => {
            if query.page.is_some() {
                return Err(invalid_query("expected either `after` or `page`"));
            }
            let last = acting.runtime.run(&RunId::new(after.as_str())).record().await?;
            after_run(&acting.runtime, filter.after(&last), limit).await?
        }
        None => numbered(&acting.runtime, &filter, &paging).await?,
    };
    Ok(JsonResponse(StatusCode::OK, page))
}

/// Returns the page that follows a run.
async fn after_run(
    runtime: &CallerRuntime,
    filter: RunFilter,
    limit: usize,
) -> ApiResult<ListPage<RunSummary>> {
    let runs = runtime.runs().list(filter.limit(limit + 1)).await?;
    Ok(page_of(runs, 0, limit, 1, None))
}

/// Returns a page by its number, with the number of all runs of the list.
async fn numbered(
    runtime: &CallerRuntime,
    filter: &RunFilter,
    paging: &PageParams,
) -> ApiResult<ListPage<RunSummary>> {
    let (skipped, limit) = (paging.skipped()?, paging.limit()?);
    let runs = runtime.runs().list(filter.clone().limit(skipped + limit + 1)).await?;
    let total = match runs.len() > skipped + limit {
        false => runs.len(),
        true => usize::try_from(runtime.runs().count(filter.clone()).await?).unwrap_or(usize::MAX),
    };
    Ok(page_of(runs, skipped, limit, paging.number(), Some(total)))
}

fn page_of(
    runs: Vec<RunRecord>,
    skipped: usize,
    limit: usize,
    page: usize,
    total: Option<usize>,
) -> ListPage<RunSummary> {
    let has_more = runs.len() > skipped + limit;
    let items: Vec<RunSummary> =
        runs.into_iter().skip(skipped).take(limit).map(RunSummary::from).collect();
    let next = items.last().filter(|_| has_more).map(|last| last.run_id.clone());
    ListPage { items, page, limit, total, next }
}

async fn get(
    acting: Acting,
    PathParams(run): PathParams<Arc<str>>,
) -> ApiResult<JsonResponse<RunDetail>> {
    let run = RunId::new(run);
    let found = acting.runtime.run(&run);
    let report = found.inspect().await?;
    let state = found.state().await?;
    let output = match report.run.status {
        RunStatus::Success => output(found).await,
        _ => None,
    };
    Ok(JsonResponse(StatusCode::OK, RunDetail::new(&report, &state, output)))
}

async fn delete(acting: Acting, PathParams(run): PathParams<Arc<str>>) -> ApiResult<StatusCode> {
    acting.runtime.run(&RunId::new(run)).delete().await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn graph(
    acting: Acting,
    PathParams(run): PathParams<Arc<str>>,
) -> ApiResult<JsonResponse<RunGraphResource>> {
    let graph = acting.runtime.run(&RunId::new(run)).graph().await?;
    Ok(JsonResponse(StatusCode::OK, graph.into()))
}

async fn drawing(
    acting: Acting,
    PathParams(run): PathParams<Arc<str>>,
    QueryParams(query): QueryParams<DrawingQuery>,
) -> ApiResult<Response> {
    let graph = acting.runtime.run(&RunId::new(run)).graph().await?;
    draw(graph.nodes.len(), query, move || run_diagram(&graph, None)).await
}

/// An artifact without its bytes.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Artifact")]
struct ArtifactResource {
    /// Name, such as `report.md`.
    name: String,
    /// Version, starting at 1.
    version: u32,
    /// Media type, such as `text/markdown`.
    media_type: String,
    /// Size in bytes.
    size: u64,
    /// SHA-256 of the bytes, as 64 hexadecimal digits.
    sha256: String,
}

async fn artifacts(
    acting: Acting,
    PathParams(run): PathParams<Arc<str>>,
) -> ApiResult<JsonResponse<Vec<ArtifactResource>>> {
    let mut all = Vec::new();
    for artifact in acting.runtime.run(&RunId::new(run)).artifacts().await? {
        all.push(ArtifactResource {
            name: artifact.name.to_string(),
            version: artifact.version,
            media_type: artifact.media_type.to_string(),
            size: artifact.size,
            sha256: artifact.sha256.to_string(),
        });
    }
    Ok(JsonResponse(StatusCode::OK, all))
}

/// Parameters of an artifact.
#[derive(Debug, Deserialize, JsonSchema)]
struct ArtifactQuery {
    /// Version of the artifact. Default: the newest one.
    version: Option<u32>,
}

/// Path of an artifact.
#[derive(Debug, Deserialize)]
struct ArtifactPath {
    run_id: Arc<str>,
    name: String,
}

async fn artifact(
    acting: Acting,
    State(_state): State<ServerState>,
    PathParams(path): PathParams<ArtifactPath>,
    QueryParams(query): QueryParams<ArtifactQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let run = RunId::new(path.run_id);
    let found = acting.runtime.run(&run).artifact(&path.name, query.version).await?;
    let Some(found) = found else {
        let detail = format!("the run has no artifact `{}` of this version", path.name);
        return Err(ApiError::not_found(detail));
    };
    let bytes = bytes::Bytes::copy_from_slice(&found.bytes);
    let size = bytes.len();
    // A browser must not run an artifact as a page of this origin.
    let mut head = HeaderMap::new();
    let download = HeaderValue::from_static("attachment");
    head.insert(header::CONTENT_DISPOSITION, download);
    head.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    head.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    head.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let Some(range) = headers.get(header::RANGE) else {
        return Ok((StatusCode::OK, head, bytes).into_response());
    };
    let unsatisfiable = || {
        let detail = format!("the range is outside of the {size} bytes");
        ApiError::new(StatusCode::RANGE_NOT_SATISFIABLE, "range_not_satisfiable", detail)
    };
    let (first, last) = byte_range(range, size).ok_or_else(unsatisfiable)?;
    let content_range = format!("bytes {first}-{last}/{size}");
    let content_range = HeaderValue::from_str(&content_range).map_err(|_| unsatisfiable())?;
    head.insert(header::CONTENT_RANGE, content_range);
    Ok((StatusCode::PARTIAL_CONTENT, head, bytes.slice(first..=last)).into_response())
}

/// Reads a single range of RFC 9110, section 14.1.2, as the positions of its first and last byte.
fn byte_range(range: &HeaderValue, size: usize) -> Option<(usize, usize)> {
    let (first, last) = range.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
    let end = size.checked_sub(1)?;
    match (first.trim(), last.trim()) {
        ("", suffix) => {
            let suffix: usize = suffix.parse().ok()?;
            (suffix > 0).then(|| (size.saturating_sub(suffix), end))
        }
        (first, "") => first.parse().ok().filter(|first| *first <= end).map(|first| (first, end)),
        (first, last) => {
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last && first <= end).then(|| (first, last.min(end)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_bytes_are_read() {
        let read = |text: &'static str| byte_range(&HeaderValue::from_static(text), 10);
        assert_eq!(read("bytes=0-3"), Some((0, 3)));
        assert_eq!(read("bytes=8-"), Some((8, 9)));
        assert_eq!(read("bytes=-4"), Some((6, 9)));
        assert_eq!(read("bytes=-40"), Some((0, 9)));
        assert_eq!(read("bytes=5-400"), Some((5, 9)));
        for refused in
            ["bytes=10-", "bytes=4-2", "bytes=-0", "bytes=", "items=0-1", "bytes=0-1,3-4"]
        {
            assert_eq!(read(refused), None, "{refused}");
        }
        assert_eq!(byte_range(&HeaderValue::from_static("bytes=0-"), 0), None);
    }
}
