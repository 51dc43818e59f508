//! A client for the tests. It checks every response against the OpenAPI document.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use agentflow::prelude::*;
use agentflow::serde_json::{self, Value, json};
use agentflow::server::Server;
use agentflow_testing::within;
use futures_util::StreamExt;
use reqwest::{Method, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A served runtime. Dropping it stops the server.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    ended: Option<tokio::task::JoinHandle<()>>,
}

impl Served {
    pub(crate) async fn new(server: Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(async move {
            let stop = async { drop(stopped.await) };
            server.serve_listener(listener, stop).await.unwrap();
        });
        Self { address, stop: Some(stop), ended: Some(ended) }
    }

    pub(crate) async fn runtime(runtime: &Runtime) -> Self {
        Self::new(Server::new(runtime)).await
    }

    /// Stops the server and waits for its end.
    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        within("the server to stop", self.ended.take().unwrap()).await.unwrap();
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.address)
    }
}

/// A response: its status, its headers and its body as JSON or text.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) json: Value,
    pub(crate) bytes: Vec<u8>,
}

impl Response {
    /// Returns the body of a successful response.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{}: {}", self.status, self.json);
        self.json
    }

    /// Returns the status and the code of a problem.
    #[track_caller]
    pub(crate) fn problem(&self) -> (u16, &str) {
        assert!(self.status >= 400, "{}: {}", self.status, self.json);
        (self.status, self.json["code"].as_str().unwrap())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    headers: Vec<(&'static str, String)>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        // The client of the tests installs no provider of TLS by itself.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { http, base: format!("http://{address}"), headers: Vec::new() }
    }

    /// Returns a client that sends this header, too.
    pub(crate) fn with(&self, name: &'static str, value: impl Into<String>) -> Self {
        let mut client = self.clone();
        client.headers.push((name, value.into()));
        client
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        request
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Response {
        self.send(Method::DELETE, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Response {
        self.send(Method::POST, path, Some(body.to_string())).await
    }

    /// Sends a request, and checks the response against the document.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<String>) -> Response {
        let mut request = self.request(method.clone(), path);
        if let Some(body) = body {
            if !self.headers.iter().any(|(name, _)| *name == "content-type") {
                request = request.header("content-type", "application/json");
            }
            request = request.body(body);
        }
        let response = within("a response", request.send()).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = within("the body", response.bytes()).await.unwrap().to_vec();
        let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let media_type = headers.get("content-type").map(|value| value.to_str().unwrap());
        check_documented(&method, path, status, media_type.unwrap_or_default(), &json);
        Response { status: status.as_u16(), headers, json, bytes }
    }

    /// Starts a run of a workflow and returns its id.
    pub(crate) async fn start(&self, workflow: &str, input: Value) -> String {
        let path = format!("/api/v1/workflows/{workflow}/runs");
        let started = self.post(&path, json!({"input_data": input})).await.ok();
        started["run_id"].as_str().unwrap().to_owned()
    }

    /// Waits until a run has a status.
    #[track_caller]
    pub(crate) fn until(&self, run: &str, status: &'static str) -> impl Future<Output = Value> {
        let (client, path) = (self.clone(), format!("/api/v1/runs/{run}"));
        within(status, async move {
            loop {
                let found = client.get(&path).await.ok();
                if found["status"] == status {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
    }

    /// Opens an event stream.
    pub(crate) async fn stream(&self, path: &str, last: Option<u64>) -> Frames {
        let mut request = self.request(Method::GET, path);
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        let response = within("the stream", request.send()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Frames { body: Box::pin(response.bytes_stream()), read: String::new() }
    }

    /// Opens an event stream; `None` if it is refused.
    pub(crate) async fn try_stream(&self, path: &str) -> Option<Frames> {
        let response = within("the stream", self.request(Method::GET, path).send()).await.unwrap();
        let is_open = response.status() == StatusCode::OK;
        is_open.then(|| Frames { body: Box::pin(response.bytes_stream()), read: String::new() })
    }
}

/// A frame of an event stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: Option<u64>,
    /// `None` for a comment.
    pub(crate) data: Option<Value>,
}

type Body =
    std::pin::Pin<Box<dyn futures_util::Stream<Item = reqwest::Result<axum::body::Bytes>> + Send>>;

/// The frames of an event stream.
pub(crate) struct Frames {
    body: Body,
    read: String,
}

impl Frames {
    /// Returns the next frame, or `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(end) = self.read.find("\n\n") {
                let text: String = self.read.drain(..end + 2).collect();
                return Some(parse(&text));
            }
            match within("a frame", self.body.next()).await {
                Some(Ok(bytes)) => self.read.push_str(std::str::from_utf8(&bytes).unwrap()),
                Some(Err(_)) | None => {
                    assert_eq!(self.read, "", "the stream ended within a frame");
                    return None;
                }
            }
        }
    }

    /// Returns all frames with data until the end of the stream.
    pub(crate) async fn rest(mut self) -> Vec<Frame> {
        let mut all = Vec::new();
        while let Some(frame) = self.next().await {
            if frame.data.is_some() {
                all.push(frame);
            }
        }
        all
    }
}

fn parse(text: &str) -> Frame {
    let mut frame = Frame { id: None, data: None };
    for line in text.lines() {
        if let Some(id) = line.strip_prefix("id: ") {
            frame.id = Some(id.parse().unwrap());
        } else if let Some(data) = line.strip_prefix("data: ") {
            frame.data = Some(serde_json::from_str(data).unwrap());
        } else {
            assert!(line.is_empty() || line.starts_with(": "), "{line}");
        }
    }
    frame
}

static DOCUMENT: LazyLock<Arc<Value>> = LazyLock::new(|| Arc::new(Server::open_api()));

/// Checks that the document has the operation of a request, the status of its response, and a schema
/// that the body fits.
fn check_documented(
    method: &Method,
    path: &str,
    status: StatusCode,
    media_type: &str,
    body: &Value,
) {
    let path = path.split('?').next().unwrap();
    // The page is not a part of the API.
    if !path.starts_with("/api/") && path != "/health" {
        return;
    }
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let matches = |template: &str| {
        let (template, path): (Vec<_>, Vec<_>) =
            (template.split('/').collect(), path.split('/').collect());
        template.len() == path.len()
            && template.iter().zip(&path).all(|(one, other)| one == other || one.starts_with('{'))
    };
    let found = paths.iter().find(|(template, _)| matches(template));
    let operation = found.and_then(|(_, item)| item.get(method.as_str().to_lowercase()));
    if method == Method::OPTIONS {
        return;
    }
    let Some(operation) = operation else {
        // Only problems may come from paths and methods that the document does not have.
        assert!(matches!(status.as_u16(), 400..=499), "{method} {path}: {status}");
        return;
    };
    let responses = &operation["responses"];
    let response = match responses.get(status.as_str()) {
        Some(response) => response,
        None => {
            assert!(status.as_u16() >= 400, "{method} {path}: {status} is not documented");
            &responses["default"]
        }
    };
    let Some(content) = response.get("content") else {
        assert_eq!(media_type, "", "{method} {path}: {status} has no documented body");
        return;
    };
    let schema = content.get(media_type).unwrap_or_else(|| {
        panic!("{method} {path}: {status} with the undocumented media type `{media_type}`")
    });
    if media_type.ends_with("json") && !body.is_null() {
        let mut schema = schema["schema"].clone();
        if schema["type"] == "string" {
            return;
        }
        schema["components"] = DOCUMENT["components"].clone();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let problems: Vec<String> =
            validator.iter_errors(body).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{method} {path}: {status} {body}\n{problems:#?}");
    }
}
