//! Extractors of the handlers: the caller's runtime, the JSON body, the query and the path. Each
//! refuses invalid input with a problem document.

use agentflow_core::Caller;
use agentflow_core::runtime::CallerRuntime;
use agentflow_schema::strict;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api_error::ApiError;
use crate::server_options::ServerState;

/// The caller of a request, which the request guard stores in the extensions of the request.
#[derive(Clone, Debug)]
pub(crate) struct RequestCaller(pub(crate) Caller);

/// The runtime, bound to the caller of the request, so that every action is checked.
#[derive(Debug)]
pub(crate) struct Acting {
    pub(crate) caller: Caller,
    pub(crate) runtime: CallerRuntime,
}

impl FromRequestParts<ServerState> for Acting {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &ServerState,
    ) -> Result<Self, Self::Rejection> {
        // Without the guard there is no caller, and the caller with no rights is the safe one.
        let caller = match parts.extensions.get::<RequestCaller>() {
            Some(RequestCaller(caller)) => caller.clone(),
            None => Caller::anonymous(),
        };
        let runtime = state.runtime().for_caller(caller.clone());
        Ok(Self { caller, runtime })
    }
}

/// A JSON body, read strictly: a key that appears twice is an error.
#[derive(Debug)]
pub(crate) struct JsonRequest<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<ServerState> for JsonRequest<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ServerState) -> Result<Self, Self::Rejection> {
        let has_json = has_json_type(&request);
        let body = Bytes::from_request(request, state).await.map_err(|_| {
            ApiError::new(StatusCode::BAD_REQUEST, "unreadable_body", "the body could not be read")
        })?;
        // `curl -X POST` without a body is an empty object, so that options can be left out.
        if body.iter().all(u8::is_ascii_whitespace) {
            return decode("{}").map(Self);
        }
        if !has_json {
            let detail = "the body must be JSON; send the header `Content-Type: application/json`";
            return Err(ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                detail,
            ));
        }
        let text = std::str::from_utf8(&body).map_err(|error| {
            let detail = format!("the body is not UTF-8 text: {error}");
            ApiError::new(StatusCode::BAD_REQUEST, "invalid_json", detail)
        })?;
        decode(text).map(Self)
    }
}

fn has_json_type(request: &Request) -> bool {
    let value = request.headers().get(header::CONTENT_TYPE);
    let value = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media_type == "application/json"
        || media_type.starts_with("application/") && media_type.ends_with("+json")
}

fn decode<T: DeserializeOwned>(text: &str) -> Result<T, ApiError> {
    strict::check(text).map_err(|error| {
        let detail = format!("the body is not valid JSON: {}", strict::message(&error));
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_json", detail)
    })?;
    // serde would read the fields of an object from a list, too.
    if !text.trim_start().starts_with('{') {
        return Err(ApiError::unusable("expected a JSON object").at(String::new()));
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let pointer = json_pointer(error.path());
        ApiError::unusable(strict::message(error.inner())).at(pointer)
    })
}

/// Converts the place of an error to a JSON Pointer (RFC 6901).
fn json_pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;

    let mut pointer = String::new();
    for segment in path {
        let part = match segment {
            Segment::Seq { index } => index.to_string(),
            Segment::Map { key } => key.clone(),
            Segment::Enum { variant } => variant.clone(),
            Segment::Unknown => continue,
        };
        pointer.push('/');
        pointer.push_str(&part.replace('~', "~0").replace('/', "~1"));
    }
    pointer
}

/// The parameters of the query.
#[derive(Debug)]
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<ServerState> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &ServerState,
    ) -> Result<Self, Self::Rejection> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(query)) => Ok(Self(query)),
            Err(rejection) => {
                Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_query", rejection.body_text()))
            }
        }
    }
}

/// The parameters of the path.
#[derive(Debug)]
pub(crate) struct PathParams<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<ServerState> for PathParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &ServerState,
    ) -> Result<Self, Self::Rejection> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(path)) => Ok(Self(path)),
            Err(rejection) => {
                Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_path", rejection.body_text()))
            }
        }
    }
}

/// A response with a status and a JSON body.
#[derive(Debug)]
pub(crate) struct JsonResponse<T>(pub(crate) StatusCode, pub(crate) T);

impl<T: Serialize> IntoResponse for JsonResponse<T> {
    fn into_response(self) -> Response {
        match serde_json::to_string(&self.1) {
            Ok(body) => {
                (self.0, [(header::CONTENT_TYPE, "application/json")], body).into_response()
            }
            Err(error) => {
                tracing::error!(%error, "a response cannot be encoded as JSON");
                let detail = "the response cannot be encoded as JSON; see the log of the server";
                ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "encoding", detail).into_response()
            }
        }
    }
}
