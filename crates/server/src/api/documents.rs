//! Documents: workflows that clients create, replace and remove while the server runs, with their
//! versions.

use std::fmt::Display;
use std::sync::Arc;

use agentflow_core::document::{Document, DocumentError};
use agentflow_core::runtime::DocumentsError;
use agentflow_core::store::{DocumentRecord, ExpectedVersion};
use axum::body::Bytes;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api_error::{ApiError, ApiResult};
use crate::extract::{Acting, JsonResponse, PathParams, QueryParams};
use crate::operation::Operation;
use crate::problem::MistakeResource;
use crate::resources::{ListPage, PageParams, time_text};
use crate::server_options::ServerState;

/// Number of a document's versions that are read to find out how many there are.
const MAX_VERSIONS: usize = 1000;

pub(super) fn operations() -> Vec<Operation> {
    let write = "The document is the body: YAML or JSON.";
    vec![
        Operation::post(
            "/api/v1/workflows",
            "createWorkflow",
            "Saves a document as the first version of a new workflow.",
        )
        .query::<CommentQuery>()
        .text_body(write)
        .returns::<VersionResource>(StatusCode::CREATED, "The document was saved.")
        .handler(create),
        Operation::put(
            "/api/v1/workflows/{workflow_id}",
            "replaceWorkflow",
            "Saves a document as the next version of a workflow.",
        )
        .query::<CommentQuery>()
        .header("If-Match", "The `ETag` of the version that is replaced.")
        .text_body(write)
        .returns::<VersionResource>(StatusCode::OK, "The document was saved.")
        .handler(replace),
        Operation::delete(
            "/api/v1/workflows/{workflow_id}",
            "removeWorkflow",
            "Removes a workflow that was saved. Its versions can still be read.",
        )
        .header("If-Match", "The `ETag` of the version that is removed.")
        .returns_other(StatusCode::NO_CONTENT, "The workflow was removed.", "")
        .handler(remove),
        Operation::get(
            "/api/v1/workflows/{workflow_id}/versions",
            "listVersions",
            "Lists the versions of a saved workflow, newest first.",
        )
        .query::<PageQuery>()
        .returns::<ListPage<VersionResource>>(StatusCode::OK, "A page of the versions.")
        .handler(versions),
        Operation::get(
            "/api/v1/workflows/{workflow_id}/document",
            "getDocument",
            "Returns the text of a saved workflow, with its version as the `ETag`.",
        )
        .query::<VersionQuery>()
        .returns_other(StatusCode::OK, "The text.", "text/plain; charset=utf-8")
        .handler(text),
        Operation::get(
            "/api/v1/workflows/{workflow_id}/diff",
            "compareVersions",
            "Compares two versions of a saved workflow, as a unified diff.",
        )
        .query::<DiffQuery>()
        .returns_other(StatusCode::OK, "The differences.", "text/plain; charset=utf-8")
        .handler(diff),
        Operation::post(
            "/api/v1/documents/validate",
            "validateDocument",
            "Checks a document and saves nothing.",
        )
        .text_body(write)
        .returns::<ValidationResource>(StatusCode::OK, "The document was checked.")
        .handler(validate),
    ]
}

/// A version of a saved workflow.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Version")]
struct VersionResource {
    /// Name of the workflow.
    workflow_id: String,
    /// Number of the version, starting at 1.
    version: u64,
    /// SHA-256 of the text, as 64 hexadecimal digits.
    checksum: String,
    /// Form of the document.
    form: String,
    /// Size of the text in bytes.
    size: u64,
    /// Time at which the version was saved.
    created_at: String,
    /// Caller that saved the version.
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    /// Comment on the version.
    #[serde(skip_serializing_if = "Option::is_none")]
    comment: Option<String>,
}

impl From<&DocumentRecord> for VersionResource {
    fn from(record: &DocumentRecord) -> Self {
        Self {
            workflow_id: record.name.to_string(),
            version: record.version,
            checksum: record.checksum.to_string(),
            form: record.form.to_string(),
            size: record.bytes,
            created_at: time_text(record.created),
            author: record.author.as_deref().map(str::to_owned),
            comment: record.comment.as_deref().map(str::to_owned),
        }
    }
}

/// The result of a check.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Validation")]
struct ValidationResource {
    /// `true` if the document can be saved.
    valid: bool,
    /// Name of the workflow, if the document is valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_id: Option<String>,
    /// Mistakes, in the order of the text.
    problems: Vec<MistakeResource>,
}

/// Parameters of a write.
#[derive(Debug, Deserialize, JsonSchema)]
struct CommentQuery {
    /// Comment on the version.
    comment: Option<String>,
}

/// Parameters of a list.
#[derive(Debug, Deserialize, JsonSchema)]
struct PageQuery {
    /// Number of the page, starting at 1. Default: 1.
    page: Option<usize>,
    /// Maximum number of entries of a page, at most 500. Default: 50.
    limit: Option<usize>,
}

/// Parameters of a text.
#[derive(Debug, Deserialize, JsonSchema)]
struct VersionQuery {
    /// Number of the version. Default: the current one.
    version: Option<u64>,
}

/// Parameters of a comparison.
#[derive(Debug, Deserialize, JsonSchema)]
struct DiffQuery {
    /// Number of the old version.
    from: u64,
    /// Number of the new version.
    to: u64,
}

/// The header `If-Match` of a write: the version that is expected to be the current one.
#[derive(Debug)]
struct IfMatch(Option<u64>);

impl FromRequestParts<ServerState> for IfMatch {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut Parts,
        _state: &ServerState,
    ) -> Result<Self, Self::Rejection> {
        let Some(value) = parts.headers.get(header::IF_MATCH) else { return Ok(Self(None)) };
        let text = value.to_str().unwrap_or_default();
        let version = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        match version.and_then(|version| version.parse().ok()) {
            Some(version) => Ok(Self(Some(version))),
            None => Err(ApiError::new(
                StatusCode::BAD_REQUEST,
                "invalid_if_match",
                "`If-Match` must be the `ETag` of a version, such as `\"3\"`",
            )),
        }
    }
}

fn etag(version: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    // A number is always a valid header.
    if let Ok(value) = HeaderValue::from_str(&format!("\"{version}\"")) {
        headers.insert(header::ETAG, value);
    }
    headers
}

fn saved(status: StatusCode, record: &DocumentRecord) -> Response {
    let body = JsonResponse(status, VersionResource::from(record));
    (etag(record.version), body).into_response()
}

/// Reads the body as the text of a document.
fn document_text(body: &Bytes) -> ApiResult<Arc<str>> {
    match std::str::from_utf8(body) {
        Ok(text) => Ok(text.into()),
        Err(error) => Err(ApiError::new(
            StatusCode::BAD_REQUEST,
            "invalid_text",
            format!("the document is not UTF-8 text: {error}"),
        )),
    }
}

async fn create(
    acting: Acting,
    QueryParams(query): QueryParams<CommentQuery>,
    body: Bytes,
) -> ApiResult<Response> {
    let text = document_text(&body)?;
    // The name is in the text. A text that cannot be read is checked again below for all mistakes.
    let documents = acting.runtime.documents();
    let name = match Document::read("document", Arc::clone(&text)) {
        Ok(document) => document.name().to_owned(),
        Err(_) => return Err(invalid(documents.validate(text).await)),
    };
    let mut put = documents.put(name, text).expect_absent();
    if let Some(comment) = query.comment {
        put = put.comment(comment);
    }
    match put.await {
        Ok(record) => Ok(saved(StatusCode::CREATED, &record)),
        Err(error) => Err(error.into()),
    }
}

/// Returns the mistakes of a text that cannot be read.
fn invalid(checked: Result<Document, DocumentsError>) -> ApiError {
    match checked {
        Err(error) => error.into(),
        Ok(_) => ApiError::unusable("the document cannot be read"),
    }
}

async fn replace(
    acting: Acting,
    PathParams(name): PathParams<Arc<str>>,
    QueryParams(query): QueryParams<CommentQuery>,
    IfMatch(expected): IfMatch,
    body: Bytes,
) -> ApiResult<Response> {
    let mut put = acting.runtime.documents().put(name, document_text(&body)?);
    if let Some(version) = expected {
        put = put.expect_version(version);
    }
    if let Some(comment) = query.comment {
        put = put.comment(comment);
    }
    let record = put.await?;
    Ok(saved(StatusCode::OK, &record))
}

async fn remove(
    acting: Acting,
    PathParams(name): PathParams<Arc<str>>,
    IfMatch(expected): IfMatch,
) -> ApiResult<StatusCode> {
    let mut remove = acting.runtime.documents().remove(name);
    if let Some(version) = expected {
        remove = remove.expect_version(version);
    }
    remove.await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn versions(
    acting: Acting,
    PathParams(name): PathParams<Arc<str>>,
    QueryParams(query): QueryParams<PageQuery>,
) -> ApiResult<JsonResponse<ListPage<VersionResource>>> {
    let all = acting.runtime.documents().versions(&name, None, MAX_VERSIONS).await?;
    let paging = PageParams { page: query.page, limit: query.limit };
    let ListPage { items, page, limit, total, next } = paging.select(all)?;
    let items = items.iter().map(VersionResource::from).collect();
    Ok(JsonResponse(StatusCode::OK, ListPage { items, page, limit, total, next }))
}

async fn text(
    acting: Acting,
    PathParams(name): PathParams<Arc<str>>,
    QueryParams(query): QueryParams<VersionQuery>,
) -> ApiResult<Response> {
    let stored = acting.runtime.documents().get(&name, query.version).await?;
    Ok(plain(etag(stored.record.version), stored.text.as_ref()))
}

async fn diff(
    acting: Acting,
    PathParams(name): PathParams<Arc<str>>,
    QueryParams(query): QueryParams<DiffQuery>,
) -> ApiResult<Response> {
    let diff = acting.runtime.documents().diff(&name, query.from, query.to).await?;
    Ok(plain(HeaderMap::new(), &diff))
}

fn plain(mut headers: HeaderMap, text: &str) -> Response {
    let media_type = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, media_type);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    (headers, text.to_owned()).into_response()
}

async fn validate(acting: Acting, body: Bytes) -> ApiResult<JsonResponse<ValidationResource>> {
    let text = document_text(&body)?;
    let checked = match acting.runtime.documents().validate(text).await {
        Ok(document) => ValidationResource {
            valid: true,
            workflow_id: Some(document.name().to_owned()),
            problems: Vec::new(),
        },
        Err(DocumentsError::Invalid(error)) => {
            ValidationResource { valid: false, workflow_id: None, problems: mistakes(&error) }
        }
        Err(error) => return Err(error.into()),
    };
    Ok(JsonResponse(StatusCode::OK, checked))
}

fn mistakes(error: &DocumentError) -> Vec<MistakeResource> {
    error.problems().iter().map(MistakeResource::from).collect()
}

impl From<DocumentsError> for ApiError {
    fn from(error: DocumentsError) -> Self {
        let respond =
            |status, code, error: &dyn Display| Self::new(status, code, error.to_string());
        match &error {
            DocumentsError::Invalid(mistake) => {
                let found = respond(
                    StatusCode::UNPROCESSABLE_ENTITY,
                    "invalid_document",
                    &"the document has mistakes",
                );
                found.with_mistakes(mistakes(mistake))
            }
            DocumentsError::OtherName { .. } => {
                respond(StatusCode::UNPROCESSABLE_ENTITY, "other_name", &error)
            }
            DocumentsError::NameTaken { .. } => respond(StatusCode::CONFLICT, "name_taken", &error),
            // The client sent `If-Match` (RFC 9110, section 13.1.1).
            DocumentsError::Conflict { expected: ExpectedVersion::Current(_), .. } => {
                respond(StatusCode::PRECONDITION_FAILED, "version_conflict", &error)
            }
            DocumentsError::Conflict { .. } => {
                respond(StatusCode::CONFLICT, "already_exists", &error)
            }
            DocumentsError::NotFound { .. } => respond(StatusCode::NOT_FOUND, "not_found", &error),
            DocumentsError::Limit(_) => {
                respond(StatusCode::UNPROCESSABLE_ENTITY, "limit_exceeded", &error)
            }
            DocumentsError::Store(store) => agentflow_core::Error::from(store.clone()).into(),
            DocumentsError::Denied(denied) => Self::from((**denied).clone()),
            other => {
                tracing::error!(error = %other, "a request failed");
                respond(StatusCode::INTERNAL_SERVER_ERROR, "internal", &error)
            }
        }
    }
}
