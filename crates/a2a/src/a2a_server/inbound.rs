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
use futures_util::StreamExt;
use serde_json::{Map, Value, json};

use super::a2a_caller::{A2aCaller, A2aRefusal};
use super::asked_operation::{Asked, PushMethod, task};
use super::event_body::event_body;
use super::fault::Fault;
use super::operations::{Done, execute};
use super::served_card::{FOLDER, card};
use super::served_settings::Shared;
use super::task_updates::TaskUpdates;
use crate::a2a::{A2A_VERSION, A2aErrorCode, VERSION_HEADER};
use agentflow_http::{named_host, without_port};

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
    caller: A2aCaller,
    /// Key under which requests and streams of this caller are counted.
    share: Option<Arc<str>>,
    skill: Option<&'a str>,
    base: String,
}

/// A response to a request that is refused before its binding is known. Boxed, because it is large.
type Early = Box<Response>;

pub(super) async fn entry(State(served): State<Served>, request: Request) -> Response {
    let shared = served.shared;
    // The permit is released when the response begins; streams have a separate limit.
    let Ok(permit) = Arc::clone(&shared.requests).try_acquire_owned() else {
        return *busy(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many requests at once; try again later",
        );
    };
    let response = answer(&shared, request).await.unwrap_or_else(|early| *early);
    drop(permit);
    response
}

async fn answer(shared: &Arc<Shared>, request: Request) -> Result<Response, Early> {
    let (parts, body) = request.into_parts();
    let host = checked_host(shared, &parts)?;
    checked_origin(shared, &parts.headers)?;
    let path = decoded(parts.uri.path())
        .ok_or_else(|| early(StatusCode::BAD_REQUEST, "the path is not one"))?;
    let path = path.trim_end_matches('/');
    let (only, path) = match path
        .strip_prefix('/')
        .and_then(|path| path.strip_prefix(FOLDER)?.strip_prefix('/'))
    {
        None => (None, path),
        Some(rest) => {
            let end = rest.find('/').unwrap_or(rest.len());
            // Skills of the extended card do not exist for clients that are not authenticated.
            let is_shown = |name: &Arc<str>| {
                !shared.settings.extended.contains(name)
                    || caller_of(shared, &parts.headers).is_ok()
            };
            let Some(offer) = shared.offer(&rest[..end]).filter(|offer| is_shown(&offer.name))
            else {
                return Err(no_agent(&parts));
            };
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
    let caller = caller_of(shared, &parts.headers)?;
    // The limit applies after authentication, so that one caller cannot use the requests of
    // another.
    let share = limit_key(shared, &caller, &parts);
    let _slot = match &share {
        Some(share) => Some(shared.requests_of.take(share).ok_or_else(|| {
            busy(
                StatusCode::TOO_MANY_REQUESTS,
                "too many requests of this caller at once; try again later",
            )
        })?),
        None => None,
    };
    let at = At { caller, share, skill: only.as_ref().map(|offer| &*offer.name), base };
    if path.is_empty() {
        if parts.method != Method::POST {
            return Err(wrong_method("POST"));
        }
        return rpc(shared, &at, &parts, body).await;
    }
    rest(shared, &at, path, &parts, body).await
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
        Ok(Done::Stream(updates)) => stream(shared, at, updates, Some(id)),
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
        Ok(Done::Stream(updates)) => stream(shared, at, updates, None),
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
    updates: TaskUpdates,
    id: Option<Value>,
) -> Result<Response, Early> {
    let slot = match &at.share {
        Some(share) => Some(shared.streams_of.take(share).ok_or_else(|| {
            busy(
                StatusCode::TOO_MANY_REQUESTS,
                "too many streams of this caller at once; get the task instead",
            )
        })?),
        None => None,
    };
    let Ok(permit) = Arc::clone(&shared.streams).try_acquire_owned() else {
        return Err(busy(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many streams at once; get the task instead",
        ));
    };
    let body = event_body(updates, id, shared.settings.max_stream, (permit, slot));
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, body).into_response())
}

/// Returns the host that a request names, if it is a host of this server. This prevents DNS
/// rebinding: a web page cannot reach the server under its own host name.
fn checked_host(shared: &Shared, parts: &Parts) -> Result<String, Early> {
    let named = named_host(parts).ok_or_else(|| {
        early(StatusCode::FORBIDDEN, "the request does not name one host, which `Host` does")
    })?;
    let name = without_port(&named);
    let settings = &shared.settings;
    let is_public = settings.public_url.as_ref().is_some_and(|url| {
        url.split('/').nth(2).is_some_and(|host| {
            host.eq_ignore_ascii_case(&named) || host.eq_ignore_ascii_case(name)
        })
    });
    let is_known = matches!(name, "localhost" | "127.0.0.1" | "[::1]")
        || settings.hosts.contains(name)
        || settings.hosts.contains(&named)
        || is_public;
    match is_known {
        true => Ok(named),
        false => {
            Err(early(StatusCode::FORBIDDEN, "the header `Host` names none of this server's hosts"))
        }
    }
}

fn checked_origin(shared: &Shared, headers: &HeaderMap) -> Result<(), Early> {
    match headers.get(header::ORIGIN) {
        Some(origin)
            if !origin.to_str().is_ok_and(|origin| shared.settings.origins.contains(origin)) =>
        {
            Err(early(StatusCode::FORBIDDEN, "pages of this origin may not send requests here"))
        }
        _ => Ok(()),
    }
}

fn caller_of(shared: &Shared, headers: &HeaderMap) -> Result<A2aCaller, Early> {
    let caller = match &shared.settings.auth {
        Some(auth) => auth.caller(headers),
        None => Ok(Shared::anonymous_caller()),
    };
    let allowed = |caller: A2aCaller| {
        if shared.settings.clients_approve { caller.approves() } else { caller }
    };
    caller.map(allowed).map_err(|refusal| match refusal {
        A2aRefusal::Forbidden => early(StatusCode::FORBIDDEN, "this caller may not use the agent"),
        A2aRefusal::Unknown { challenge } => {
            let mut response = early(StatusCode::UNAUTHORIZED, "the request is not authenticated");
            if let Ok(challenge) = HeaderValue::from_str(&challenge) {
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            }
            response
        }
    })
}

/// Returns the key under which requests and streams are counted: the name of the caller, or,
/// without authentication, the address of the peer. Returns `None` if neither is known.
fn limit_key(shared: &Shared, caller: &A2aCaller, parts: &Parts) -> Option<Arc<str>> {
    match &shared.settings.auth {
        Some(_) => Some(Arc::clone(&caller.name)),
        None => {
            let ConnectInfo(peer) = parts.extensions.get::<ConnectInfo<SocketAddr>>()?;
            Some(peer.ip().to_canonical().to_string().into())
        }
    }
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
async fn read_body(shared: &Shared, parts: &Parts, body: Body) -> Result<Vec<u8>, Early> {
    let most = shared.settings.max_body;
    let too_large =
        || early(StatusCode::PAYLOAD_TOO_LARGE, &format!("a body has {most} bytes at most"));
    // A declared length that is too large is refused early. The loop below counts the actual bytes.
    let said = parts
        .headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if said.is_some_and(|length| length > most as u64) {
        return Err(too_large());
    }
    let read = async {
        let (mut bytes, mut pieces) = (Vec::new(), body.into_data_stream());
        while let Some(piece) = pieces.next().await {
            let piece: Bytes =
                piece.map_err(|_| early(StatusCode::BAD_REQUEST, "the body broke off"))?;
            if bytes.len() + piece.len() > most {
                return Err(too_large());
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    };
    match tokio::time::timeout(shared.settings.body_timeout, read).await {
        Ok(read) => read,
        Err(_) => Err(early(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time")),
    }
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

fn plain(status: StatusCode, problem: &str) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], problem.to_owned())
        .into_response()
}

/// Responds to a request that may succeed later.
fn busy(status: StatusCode, problem: &str) -> Early {
    let mut response = early(status, problem);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn early(status: StatusCode, problem: &str) -> Early {
    Box::new(plain(status, problem))
}
