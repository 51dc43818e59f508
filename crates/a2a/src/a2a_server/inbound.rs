//! HTTP layer of the server: checks the host and the origin, identifies the caller, reads bodies
//! within limits, and maps the URLs of both bindings to operations. `operations.rs` executes them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;

use agentflow_schema::strict;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::asked_operation::{Asked, PushMethod, task};
use super::event_body::event_body;
use super::fault::Fault;
use super::operations::{Done, execute};
use super::served_card::{FOLDER, card};
use super::served_settings::Shared;
use super::task_updates::TaskUpdates;
use crate::a2a::{A2A_VERSION, A2aErrorCode, VERSION_HEADER};
use agentflow_core::Caller;
use agentflow_front::{PeerAddress, Rejection, rejection};

/// Path of the card.
const CARD: &str = "/.well-known/agent-card.json";
const RPC_TYPE: &str = "application/json";
const REST_TYPE: &str = "application/a2a+json";
/// Time for which a client may use a card without revalidation.
const CARD_AGE: &str = "max-age=60";

/// State of the router. Dropping it stops the push notifications of the server.
#[derive(Clone)]
pub(super) struct Served {
    pub(super) shared: Arc<Shared>,
    #[cfg(feature = "push")]
    #[expect(dead_code, reason = "it ends with the router")]
    pub(super) notifier: Option<Arc<super::push::Notifier>>,
}

/// Context of a request: the caller, the skill if its URL was requested, and the base URL of the
/// server.
struct At<'a> {
    caller: Caller,
    skill: Option<&'a str>,
    base: String,
}

/// A response to a request that is refused before its binding is known. Boxed, because it is large.
type Early = Box<Response>;

pub(super) async fn entry(State(served): State<Served>, request: Request) -> Response {
    let shared = served.shared;
    // The slot is released when the response begins; streams have a separate limit.
    let _slot = match shared.front.request_slot() {
        Ok(slot) => slot,
        Err(rejection) => return rejection.map(Body::from),
    };
    answer(&shared, request).await.unwrap_or_else(|early| *early)
}

async fn answer(shared: &Arc<Shared>, request: Request) -> Result<Response, Early> {
    let (mut parts, body) = request.into_parts();
    if let Some(ConnectInfo(peer)) = parts.extensions.get::<ConnectInfo<SocketAddr>>() {
        let peer = PeerAddress(*peer);
        parts.extensions.insert(peer);
    }
    let host = shared.front.check_address(&parts).map_err(response)?;
    let path = decoded(parts.uri.path())
        .ok_or_else(|| early(StatusCode::BAD_REQUEST, "the path is not one"))?;
    let path = path.trim_end_matches('/');
    let mut known = None;
    let (only, path) = match path
        .strip_prefix('/')
        .and_then(|path| path.strip_prefix(FOLDER)?.strip_prefix('/'))
    {
        None => (None, path),
        Some(rest) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let Some(offer) = shared.offer(&rest[..end]) else { return Err(no_agent(&parts)) };
            // Skills of the extended card do not exist for clients that are not authenticated.
            if shared.settings.extended.contains(&offer.name) {
                match caller_of(shared, &parts).await {
                    Ok(caller) if shared.is_shown(offer, &caller) => known = Some(caller),
                    _ => return Err(no_agent(&parts)),
                }
            }
            (Some(Arc::clone(offer)), &rest[end..])
        }
    };
    // The host of the request was checked above, so it can be used in the card.
    let base = shared.settings.public_url.clone().unwrap_or_else(|| format!("http://{host}"));
    // Cards are public, so they are served before authentication.
    if path == CARD {
        if parts.method != Method::GET && parts.method != Method::HEAD {
            return Err(wrong_method("GET, HEAD"));
        }
        return Ok(card_response(&parts, &json!(card(shared, &base, only.as_deref(), false))));
    }
    let caller = match known {
        Some(caller) => caller,
        None => caller_of(shared, &parts).await?,
    };
    let _slot = shared.front.caller_slot(&parts, Some(&caller)).map_err(response)?;
    let at = At { caller, skill: only.as_ref().map(|offer| &*offer.name), base };
    if path.is_empty() {
        if parts.method != Method::POST {
            return Err(wrong_method("POST"));
        }
        return rpc(shared, &at, &parts, body).await;
    }
    rest(shared, &at, path, &parts, body).await
}

/// Returns the caller of a request: `anonymous` if the server does not authenticate callers.
async fn caller_of(shared: &Shared, parts: &Parts) -> Result<Caller, Early> {
    let caller = shared.front.caller(parts).await.map_err(response)?;
    let caller = caller.unwrap_or_else(Caller::anonymous);
    Ok(if shared.settings.clients_approve { caller.approves() } else { caller })
}

/// Handles a JSON-RPC request.
async fn rpc(
    shared: &Arc<Shared>,
    at: &At<'_>,
    parts: &Parts,
    body: Body,
) -> Result<Response, Early> {
    if !is_json(&parts.headers) {
        return Err(early(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body is `application/json`"));
    }
    let text = read_body(shared, parts, body).await?;
    let answered =
        |id: &Value, fault: Fault| Ok(json_response(StatusCode::OK, RPC_TYPE, &fault.to_rpc(id)));
    let request = match parsed(&text) {
        Ok(request) => request,
        Err(fault) => return answered(&Value::Null, fault),
    };
    let (id, method, params) = match rpc_request(request) {
        Ok(request) => request,
        Err((id, fault)) => return answered(&id, fault),
    };
    // The version is checked after the id is known, so that the error response has this id.
    let done = async {
        checked_version(parts)?;
        execute(shared, &at.caller, at.skill, &at.base, Asked::of_method(&method, params)?).await
    };
    match done.await {
        Ok(Done::Value(result)) => {
            let response = json!({"jsonrpc": "2.0", "id": id, "result": result});
            Ok(json_response(StatusCode::OK, RPC_TYPE, &response))
        }
        Ok(Done::Stream(updates)) => stream(shared, at, parts, *updates, Some(id)),
        Err(fault) => answered(&id, fault),
    }
}

/// Extracts the id, the method and the parameters of a JSON-RPC request.
fn rpc_request(request: Value) -> Result<(Value, String, Value), (Value, Fault)> {
    let invalid =
        |id: Value, problem: &str| Err((id, Fault::new(A2aErrorCode::InvalidRequest, problem)));
    let Value::Object(mut request) = request else {
        return invalid(Value::Null, "a request is one JSON object; several at once are not read");
    };
    let id = match request.remove("id") {
        Some(id @ (Value::String(_) | Value::Number(_))) => id,
        Some(_) => return invalid(Value::Null, "`id` is a text or a number"),
        None => return invalid(Value::Null, "a request has an `id`, since it has an answer"),
    };
    if request.get("jsonrpc").is_none_or(|version| version != "2.0") {
        return invalid(id, "`jsonrpc` is \"2.0\"");
    }
    let Some(Value::String(method)) = request.remove("method") else {
        return invalid(id, "`method` is a text");
    };
    Ok((id, method, request.remove("params").unwrap_or_else(|| Map::new().into())))
}

/// Handles an HTTP+JSON request.
async fn rest(
    shared: &Arc<Shared>,
    at: &At<'_>,
    path: &str,
    parts: &Parts,
    body: Body,
) -> Result<Response, Early> {
    let is = |method: &Method| parts.method == *method;
    let fault = |fault: Fault| {
        let status = StatusCode::from_u16(fault.code.http_status())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        json_response(status, REST_TYPE, &fault.to_rest())
    };
    if let Err(problem) = checked_version(parts) {
        return Ok(fault(problem));
    }
    let named = |id: &str| -> Result<Value, Fault> {
        let mut params = query(parts)?;
        params.insert("id".to_owned(), id.into());
        Ok(params.into())
    };
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let asked = match segments.as_slice() {
        ["message:send" | "message:stream"] => {
            if !is(&Method::POST) {
                return Err(wrong_method("POST"));
            }
            if !is_json(&parts.headers) {
                return Err(early(
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    "the body is `application/a2a+json`",
                ));
            }
            let text = read_body(shared, parts, body).await?;
            parsed(&text).and_then(|params| Asked::send(params, path.ends_with("stream")))
        }
        ["tasks"] if is(&Method::GET) => query(parts).and_then(|params| Asked::list(params.into())),
        ["tasks"] => return Err(wrong_method("GET")),
        ["extendedAgentCard"] if is(&Method::GET) => Ok(Asked::ExtendedCard),
        ["extendedAgentCard"] => return Err(wrong_method("GET")),
        ["tasks", task, "pushNotificationConfigs"] if is(&Method::POST) => {
            if !is_json(&parts.headers) {
                return Err(early(
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    "the body is `application/a2a+json`",
                ));
            }
            let text = read_body(shared, parts, body).await?;
            parsed(&text)
                .and_then(|params| with_task_id(params, task))
                .map(|params| Asked::Push(PushMethod::Create, params))
        }
        ["tasks", task, "pushNotificationConfigs"] if is(&Method::GET) => query(parts)
            .and_then(|params| with_task_id(params.into(), task))
            .map(|of| Asked::Push(PushMethod::List, of)),
        ["tasks", _, "pushNotificationConfigs"] => return Err(wrong_method("GET, POST")),
        ["tasks", task, "pushNotificationConfigs", id]
            if is(&Method::GET) || is(&Method::DELETE) =>
        {
            let method = if is(&Method::GET) { PushMethod::Get } else { PushMethod::Delete };
            named(id)
                .and_then(|params| with_task_id(params, task))
                .map(|of| Asked::Push(method, of))
        }
        ["tasks", _, "pushNotificationConfigs", _] => return Err(wrong_method("GET, DELETE")),
        // Methods such as `:cancel` are a suffix. The task id itself may contain colons.
        ["tasks", of] => match of.rsplit_once(':') {
            Some((id, "cancel")) if is(&Method::POST) => {
                // The body is not used, but its limits apply to every request.
                read_body(shared, parts, body).await?;
                named(id).and_then(task).map(Asked::Cancel)
            }
            Some((_, "cancel")) => return Err(wrong_method("POST")),
            Some((id, "subscribe")) if is(&Method::GET) || is(&Method::POST) => {
                read_body(shared, parts, body).await?;
                named(id).and_then(task).map(Asked::Subscribe)
            }
            Some((_, "subscribe")) => return Err(wrong_method("GET, POST")),
            _ if is(&Method::GET) => named(of).and_then(task).map(Asked::Get),
            _ => return Err(wrong_method("GET")),
        },
        _ => Err(Fault::new(
            A2aErrorCode::MethodNotFound,
            "version 1.0 of the protocol has nothing at this address",
        )),
    };
    let done = match asked {
        Ok(asked) => execute(shared, &at.caller, at.skill, &at.base, asked).await,
        Err(problem) => Err(problem),
    };
    match done {
        Ok(Done::Value(value)) => Ok(json_response(StatusCode::OK, REST_TYPE, &value)),
        Ok(Done::Stream(updates)) => stream(shared, at, parts, *updates, None),
        Err(problem) => Ok(fault(problem)),
    }
}

/// Adds the task id of the URL to the parameters. The body may repeat the same id.
fn with_task_id(params: Value, task: &str) -> Result<Value, Fault> {
    let Value::Object(mut params) = params else {
        return Err(Fault::params("the parameters are a JSON object"));
    };
    match params.insert("taskId".to_owned(), task.into()) {
        Some(named) if named != task && named != "" => {
            Err(Fault::params("taskId: the address names another task"))
        }
        _ => Ok(params.into()),
    }
}

fn stream(
    shared: &Shared,
    at: &At<'_>,
    parts: &Parts,
    updates: TaskUpdates,
    id: Option<Value>,
) -> Result<Response, Early> {
    let remedy = "get the task instead";
    let slot = shared.front.stream_slot(parts, Some(&at.caller), remedy).map_err(response)?;
    let body = event_body(updates, id, shared.settings.max_stream, slot);
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, body).into_response())
}

/// Checks the protocol version of a request, given by its header or its query. The patch number is
/// ignored (A2A 1.0, section 3.6). A request without a version has version 0.3.
fn checked_version(parts: &Parts) -> Result<(), Fault> {
    let header = parts.headers.get(VERSION_HEADER).and_then(|version| version.to_str().ok());
    let in_query = || pairs(parts).find_map(|(key, value)| is_version_key(key).then_some(value));
    let version = header.or_else(in_query).unwrap_or_default().trim();
    let without_patch = match version.match_indices('.').nth(1) {
        Some((at, _)) => &version[..at],
        None => version,
    };
    if without_patch == A2A_VERSION {
        return Ok(());
    }
    let version =
        if version.is_empty() { "0.3" } else { agentflow_schema::text::head(version, 32) };
    let problem = format!(
        "the request has version {version} of the protocol, and this server supports {A2A_VERSION}; send the header \
         `A2A-Version: {A2A_VERSION}`"
    );
    Err(Fault::new(A2aErrorCode::VersionNotSupported, problem))
}

/// Returns `true` if a key of the query names the protocol version.
fn is_version_key(key: &str) -> bool {
    key.eq_ignore_ascii_case(VERSION_HEADER)
}

/// Returns the key-value pairs of the query without decoding them.
fn pairs(parts: &Parts) -> impl Iterator<Item = (&str, &str)> {
    let pairs = parts.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind =
        headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == RPC_TYPE || kind == REST_TYPE
}

/// Reads the whole body, within the limits of size and time.
async fn read_body(shared: &Shared, parts: &Parts, body: Body) -> Result<Bytes, Early> {
    shared.front.body(parts, body).await.map_err(response)
}

/// Parses a body as JSON. Duplicate keys are an error.
fn parsed(bytes: &[u8]) -> Result<Value, Fault> {
    let problem = |problem: String| {
        Fault::new(A2aErrorCode::Parse, format!("the body is not JSON: {problem}"))
    };
    let text = std::str::from_utf8(bytes).map_err(|error| problem(error.to_string()))?;
    strict::check(text).map_err(|error| problem(strict::message(&error)))?;
    serde_json::from_str(text).map_err(|error| problem(error.to_string()))
}

/// Parses the query into parameters. Every parameter may occur only once.
fn query(parts: &Parts) -> Result<Map<String, Value>, Fault> {
    let mut params = Map::new();
    for (key, value) in pairs(parts).filter(|(key, _)| !is_version_key(key)) {
        let text = |part: &str| decoded(&part.replace('+', " "));
        let (Some(key), Some(value)) = (text(key), text(value)) else {
            return Err(Fault::params("the query of the address is not one"));
        };
        // Query values are text. Fields of other types are parsed here.
        let read = match key.as_str() {
            "pageSize" | "historyLength" => value.parse::<u32>().ok().map(Value::from),
            "includeArtifacts" => value.parse::<bool>().ok().map(Value::from),
            _ => Some(Value::from(value)),
        };
        let Some(read) = read else {
            return Err(Fault::params(format!("{key}: it is not a value of this field")));
        };
        if params.insert(key.clone(), read).is_some() {
            return Err(Fault::params(format!("{key}: it is there twice")));
        }
    }
    Ok(params)
}

/// Decodes percent-encoding.
fn decoded(part: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(part.len()), part.as_bytes());
    while let Some((byte, more)) = rest.split_first() {
        rest = more;
        match byte {
            b'%' => {
                let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                // `from_str_radix` accepts a sign, which percent-encoding does not.
                bytes.push(
                    u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?,
                );
                rest = &rest[2..];
            }
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).ok()
}

fn wrong_method(allowed: &'static str) -> Early {
    let mut response =
        early(StatusCode::METHOD_NOT_ALLOWED, &format!("this address takes {allowed}"));
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

fn json_response(status: StatusCode, kind: &'static str, value: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, kind)], value.to_string()).into_response()
}

/// Responds with a card, or with 304 if the client already has it. The entity tag is a hash of the
/// card's JSON.
fn card_response(parts: &Parts, card: &Value) -> Response {
    let text = card.to_string();
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let tag = format!("\"{:016x}\"", hasher.finish());
    let known = parts
        .headers
        .get(header::IF_NONE_MATCH)
        .and_then(|tags| tags.to_str().ok())
        .unwrap_or_default();
    let is_known = known
        .split(',')
        .map(|tag| tag.trim().trim_start_matches("W/"))
        .any(|known| known == tag || known == "*");
    let caching = [(header::CACHE_CONTROL, CARD_AGE.to_owned()), (header::ETAG, tag)];
    match is_known {
        true => (StatusCode::NOT_MODIFIED, caching).into_response(),
        false => {
            (StatusCode::OK, caching, [(header::CONTENT_TYPE, RPC_TYPE)], text).into_response()
        }
    }
}

/// Responds to a request for an unknown agent. A JSON-RPC request gets a JSON-RPC error with a null
/// id, because its body is not read.
fn no_agent(parts: &Parts) -> Early {
    let problem = "no agent of this name is served here";
    match parts.method == Method::POST && is_json(&parts.headers) {
        true => {
            let error = Fault::new(A2aErrorCode::InvalidRequest, problem).to_rpc(&Value::Null);
            Box::new(json_response(StatusCode::NOT_FOUND, RPC_TYPE, &error))
        }
        false => early(StatusCode::NOT_FOUND, problem),
    }
}

fn early(status: StatusCode, problem: &str) -> Early {
    response(rejection(status, problem.to_owned()))
}

#[expect(clippy::boxed_local, reason = "a rejection of the front is a box")]
fn response(rejection: Rejection) -> Early {
    Box::new(rejection.map(Body::from))
}
