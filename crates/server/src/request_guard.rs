//! The checks that each request passes before its handler: slots, host and origin, caller, body.

use std::net::SocketAddr;

use agentflow_core::Caller;
use agentflow_front::{PeerAddress, Rejection};
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header;

use crate::cross_origin::{permit, preflight};
use crate::extract::RequestCaller;
use crate::page::FOLDER;
use crate::problem::ProblemDocument;
use crate::server_options::ServerState;

/// Returns true for paths that need no caller: the files of the page, which contain no data, and
/// the health of the process, which a load balancer asks without a token.
fn is_public(path: &str) -> bool {
    matches!(path, "/" | "/health") || path.starts_with(FOLDER)
}

/// Checks a request, and stores its caller in its extensions.
pub(crate) async fn guard(
    State(state): State<ServerState>,
    request: Request,
    next: Next,
) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    match checked(&state, request).await {
        Ok(CheckedRequest::Request(request, _slots)) => {
            let mut response = next.run(*request).await;
            permit(origin, &mut response);
            response
        }
        Ok(CheckedRequest::Preflight(mut response)) => {
            permit(origin, &mut response);
            *response
        }
        Err(Refused { rejection, is_permitted_origin }) => {
            let mut response = problem(*rejection);
            permit(origin.filter(|_| is_permitted_origin), &mut response);
            response
        }
    }
}

/// A request that has passed the checks.
enum CheckedRequest {
    Request(Box<Request>, Slots),
    /// The response to a preflight request.
    Preflight(Box<Response>),
}

/// A request that was refused.
struct Refused {
    rejection: Rejection,
    /// `true` if the host and the origin were checked before.
    is_permitted_origin: bool,
}

/// The slots that a request holds until its response begins. Streams have other slots.
type Slots = (agentflow_front::RequestSlot, Option<agentflow_front::CallerSlot>);

async fn checked(state: &ServerState, request: Request) -> Result<CheckedRequest, Refused> {
    let front = state.front();
    let early = |rejection| Refused { rejection, is_permitted_origin: false };
    let late = |rejection| Refused { rejection, is_permitted_origin: true };
    // First, so that the limit also holds for authentication.
    let slot = front.request_slot().map_err(early)?;
    let (mut parts, body) = request.into_parts();
    if let Some(ConnectInfo(peer)) = parts.extensions.get::<ConnectInfo<SocketAddr>>() {
        let peer = PeerAddress(*peer);
        parts.extensions.insert(peer);
    }
    front.check_address(&parts).map_err(early)?;
    if let Some(response) = preflight(&parts) {
        return Ok(CheckedRequest::Preflight(Box::new(response)));
    }
    let caller = match is_public(parts.uri.path()) {
        true => Caller::anonymous(),
        false => front.caller(&parts).await.map_err(late)?.unwrap_or_else(Caller::anonymous),
    };
    let own = front.caller_slot(&parts, Some(&caller)).map_err(late)?;
    let body = front.body(&parts, body).await.map_err(late)?;
    parts.extensions.insert(RequestCaller(caller));
    let request = Box::new(Request::from_parts(parts, Body::from(body)));
    Ok(CheckedRequest::Request(request, (slot, own)))
}

/// Converts the rejection of the front to a problem document, and keeps its headers.
fn problem(rejection: http::Response<bytes::Bytes>) -> Response {
    let (mut parts, text) = rejection.into_parts();
    let detail = String::from_utf8_lossy(&text).into_owned();
    let code = match parts.status.as_u16() {
        400 => "bad_request",
        401 => "not_authenticated",
        403 => "forbidden",
        408 => "body_timeout",
        413 => "too_large",
        429 => "too_many_requests",
        _ => "unavailable",
    };
    let mut response = ProblemDocument::new(parts.status, code, detail).into_response();
    parts.headers.remove(header::CONTENT_TYPE);
    response.headers_mut().extend(parts.headers);
    response
}
