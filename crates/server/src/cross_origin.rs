//! Cross-origin requests: the headers with which a browser lets a page of a permitted origin read the
//! responses (<https://fetch.spec.whatwg.org/#http-cors-protocol>).
//!
//! The front has refused every other origin before. Without these headers a browser would hide the
//! responses also from the pages of permitted origins.

use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PUT, DELETE");
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, idempotency-key, if-match, last-event-id, range",
);
const RESPONSE_HEADERS: HeaderValue =
    HeaderValue::from_static("content-range, etag, retry-after, www-authenticate");
/// Time in seconds for which a browser may reuse the response to a preflight request.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// Returns the response to a preflight request, which a browser sends before a request that a plain
/// link or form could not make. It has no token, so it is answered before authentication.
pub(crate) fn preflight(parts: &Parts) -> Option<Response> {
    let is_preflight = parts.method == Method::OPTIONS
        && parts.headers.contains_key(header::ORIGIN)
        && parts.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    is_preflight.then(|| {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        (StatusCode::NO_CONTENT, headers).into_response()
    })
}

/// Adds the headers for the origin of the request to a response.
pub(crate) fn permit(origin: Option<HeaderValue>, response: &mut Response) {
    let Some(origin) = origin else { return };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, RESPONSE_HEADERS);
    // A cache must not give the response to a page of another origin.
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}
