//! `Peer`: a remote agent with its card. It exchanges single requests, within limits of time and
//! size, and never repeats one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentflow_schema::text::head;
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use reqwest::{RequestBuilder, Response, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::super::{A2A_VERSION, A2aErrorCode, A2aTask, A2aTaskState, VERSION_HEADER};
use super::a2a_error::A2aError;
use super::card_choice::{Chosen, chosen};
use super::memory_link::Link;
use super::operation::{Binding, Operation};
use super::task_question::Unanswerable;
use agentflow_core::__private::extension::SecretMasker;
use agentflow_core::tool::ToolPolicy;
use agentflow_tools::__private::HttpAddress;
use agentflow_tools::__private::guarded_client;

/// Maximum number of bytes of the agent's own text in an error.
const MOST_WORDS: usize = 4 << 10;
/// Maximum number of tasks whose questions are cached, and maximum number of bytes of each.
const MOST_ASKING: (usize, usize) = (64, 64 << 10);
/// The remedy for an endpoint that the guard refuses.
const NOT_ALLOWED: &str = "it is not allowed; add its network to `a2a_networks` in the configuration or to \
                           `RuntimeBuilder::a2a_guard`, or name the agent in `a2a_agents` and bind it by `agent_id`";
const WELL_KNOWN: &str = "/.well-known/agent-card.json";

/// Limits of requests, and settings of the tool.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) connect_timeout: Duration,
    pub(super) request_timeout: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) task_timeout: Duration,
    pub(super) max_message: usize,
    pub(super) origins: Vec<String>,
    pub(super) extensions: Vec<String>,
    pub(super) output_modes: Vec<String>,
    pub(super) policy: ToolPolicy,
    pub(super) description: Option<String>,
    /// Uses streams to follow tasks if the card offers them.
    pub(super) streams: bool,
    /// Asks people the agent's questions, even if a model could answer them.
    pub(super) asks_people: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(90),
            task_timeout: Duration::from_secs(600),
            max_message: 16 << 20,
            origins: Vec::new(),
            extensions: Vec::new(),
            output_modes: Vec::new(),
            policy: ToolPolicy::default(),
            description: None,
            streams: true,
            asks_people: false,
        }
    }
}

/// A remote agent.
pub(super) struct Peer {
    pub(super) name: Arc<str>,
    /// Name of the tool, such as `a2a.researcher`.
    tool: Arc<str>,
    pub(super) address: HttpAddress,
    /// Keys that are sent to the agent. They are masked in all its messages.
    hidden: SecretMasker,
    pub(super) settings: Settings,
    link: Link,
    /// Version of the toolset. Incrementing it invalidates the cached card.
    pub(super) version: AtomicU64,
    card: tokio::sync::Mutex<Option<(u64, Arc<Chosen>)>>,
    requests: AtomicU64,
    /// Tasks with questions that the server may not show again, oldest first.
    asking: Mutex<VecDeque<A2aTask>>,
}

impl Peer {
    pub(super) fn new(
        (name, tool): (Arc<str>, Arc<str>),
        address: HttpAddress,
        link: Link,
        settings: Settings,
    ) -> Self {
        Self {
            name,
            tool,
            hidden: SecretMasker::new(address.secrets()),
            address,
            settings,
            link,
            version: AtomicU64::new(0),
            card: tokio::sync::Mutex::default(),
            requests: AtomicU64::new(0),
            asking: Mutex::default(),
        }
    }

    /// Returns the name of the agent's tool and toolset in a catalogue.
    pub(super) fn tool_name(&self) -> &str {
        &self.tool
    }

    /// Caches the question of a task that waits for input.
    pub(super) fn remember(&self, task: &A2aTask) {
        let size = || serde_json::to_string(task).map_or(usize::MAX, |json| json.len());
        if task.status.state != A2aTaskState::InputRequired || size() > MOST_ASKING.1 {
            return;
        }
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        asking.retain(|other| other.id != task.id);
        asking.push_back(task.clone());
        if asking.len() > MOST_ASKING.0 {
            asking.pop_front();
        }
    }

    /// Returns the task with its newest question, if it is cached.
    pub(super) fn remembered(&self, task: &str) -> Option<A2aTask> {
        let asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        asking.iter().find(|asking| asking.id == task).cloned()
    }

    /// Returns the card with the selected interface. Fetches it on first use; concurrent callers
    /// wait for the same fetch.
    pub(super) async fn chosen(&self) -> Result<Arc<Chosen>, A2aError> {
        // The lock is held during the fetch, so that concurrent callers share one request.
        let mut kept = self.card.lock().await;
        // The version is read before the fetch, so a refresh during the fetch is not lost.
        let version = self.version.load(Ordering::SeqCst);
        if let Some((_, chosen)) = kept.as_ref().filter(|(of, _)| *of == version) {
            return Ok(Arc::clone(chosen));
        }
        let fetched = Arc::new(self.fetch().await?);
        *kept = Some((version, Arc::clone(&fetched)));
        Ok(fetched)
    }

    /// Checks that the agent can be reached, by fetching its card. The result is not cached.
    pub(super) async fn check(&self) -> Result<(), A2aError> {
        self.fetch().await.map(drop)
    }

    async fn fetch(&self) -> Result<Chosen, A2aError> {
        const REQUEST: &str = "agent card";
        let mut url = self.address.url().map_err(|problem| self.unusable(problem))?;
        if !url.path().ends_with(".json") {
            url.set_path(&format!("{}{WELL_KNOWN}", url.path().trim_end_matches('/')));
        }
        // The card's interfaces must be at this origin, or at an allowed origin.
        let home = url.origin();
        let request = self.client(&url).await?.get(url).header(ACCEPT, "application/json");
        let (response, deadline) = self.exchange(request, REQUEST).await?;
        let (status, location) = (response.status(), location_of(&response));
        let body = self.body(response, deadline, REQUEST).await?;
        if !status.is_success() {
            return Err(self.refused(REQUEST, status.as_u16(), location, &body));
        }
        let body = self.without_keys(body);
        let allowed = |url: &Url| {
            url.origin() == home
                || self.settings.origins.contains(&url.origin().ascii_serialization())
        };
        chosen(&self.name, &body, allowed, &self.settings.extensions)
            .map_err(|error| self.masked(error))
    }

    /// Masks keys in a card, except in its interfaces, whose URLs are used to connect.
    fn without_keys(&self, card: Vec<u8>) -> Vec<u8> {
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(&card) else { return card };
        // A card without keys keeps its exact bytes.
        let mut found = false;
        for (name, value) in &mut fields {
            found |= name != "supportedInterfaces" && self.hidden.mask_value(value);
        }
        if found { Value::Object(fields).to_string().into_bytes() } else { card }
    }

    /// Sends a request and parses its single response.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        operation: &Operation,
    ) -> Result<T, A2aError> {
        let (response, binding, id, deadline) = self.request(operation).await?;
        let (status, location) = (response.status(), location_of(&response));
        let body = self.body(response, deadline, operation.name).await?;
        if !status.is_success() {
            return Err(self.refused(operation.name, status.as_u16(), location, &body));
        }
        self.read(operation.name, binding, Some(id), &body)
    }

    /// Sends a request and returns the response, whose events are read by the caller.
    pub(super) async fn open(
        &self,
        operation: &Operation,
    ) -> Result<(Response, Binding), A2aError> {
        let (response, binding, id, deadline) = self.request(operation).await?;
        let kind = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .unwrap_or_default();
        if response.status().is_success()
            && kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
        {
            return Ok((response, binding));
        }
        let (kind, status, location) = (kind.to_owned(), response.status(), location_of(&response));
        let body = self.body(response, deadline, operation.name).await?;
        if !status.is_success() {
            return Err(self.refused(operation.name, status.as_u16(), location, &body));
        }
        // A server may refuse a streaming request with a JSON-RPC error in a plain document.
        match self.read::<Value>(operation.name, binding, Some(id), &body) {
            Err(refused @ A2aError::Refused { .. }) => Err(refused),
            _ => {
                Err(self
                    .wrong(operation.name, format!("it is `{kind}` and not a stream of events")))
            }
        }
    }

    /// Fetches a JSON document of the agent's server that is not part of the protocol.
    pub(super) async fn document(&self, url: Url, name: &'static str) -> Result<Value, A2aError> {
        let request = self.client(&url).await?.get(url).header(ACCEPT, "application/json");
        let (response, deadline) = self.exchange(request, name).await?;
        let (status, location) = (response.status(), location_of(&response));
        let body = self.body(response, deadline, name).await?;
        if !status.is_success() {
            return Err(self.refused(name, status.as_u16(), location, &body));
        }
        let read = serde_json::from_slice(&body);
        let mut value: Value =
            read.map_err(|error| self.wrong(name, format!("it is not JSON: {error}")))?;
        self.hidden.mask_value(&mut value);
        Ok(value)
    }

    async fn request(
        &self,
        operation: &Operation,
    ) -> Result<(Response, Binding, u64, Instant), A2aError> {
        let chosen = self.chosen().await?;
        let id = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let wire = operation
            .wire(chosen.binding, &chosen.url, chosen.tenant.as_deref(), id)
            .map_err(|problem| self.unusable(problem))?;
        // A refused streaming request is answered with a JSON document.
        let accept = if operation.is_stream {
            "text/event-stream, application/json"
        } else {
            "application/json"
        };
        let accept = match chosen.binding {
            Binding::HttpJson => format!("application/a2a+json, {accept}"),
            Binding::JsonRpc => accept.to_owned(),
        };
        let mut request =
            self.client(&wire.url).await?.request(wire.method, wire.url).header(ACCEPT, accept);
        if let Some(body) = wire.body {
            request = request.header(CONTENT_TYPE, wire.media_type).body(body.to_string());
        }
        let (response, deadline) = self.exchange(request, operation.name).await?;
        Ok((response, chosen.binding, id, deadline))
    }

    async fn client(&self, url: &Url) -> Result<reqwest::Client, A2aError> {
        let limit = self.settings.connect_timeout;
        let Link::Guarded(guard) = &self.link else {
            return agentflow_http::client(url, limit)
                .map_err(|error| self.unreachable(error.to_string()));
        };
        match timeout_at(Instant::now() + limit, guarded_client(guard, url, limit, NOT_ALLOWED))
            .await
        {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(error)) => Err(self.unreachable(error.message().to_owned())),
            Err(_) => Err(self.unreachable(format!("its host was not resolved within {limit:?}"))),
        }
    }

    /// Sends a request with the version, keys and extensions, and waits for the head of the
    /// response. The returned deadline also applies to the body.
    async fn exchange(
        &self,
        request: RequestBuilder,
        name: &'static str,
    ) -> Result<(Response, Instant), A2aError> {
        let mut request = request.header(VERSION_HEADER, A2A_VERSION);
        for (name, value) in self.address.header_map().map_err(|problem| self.unusable(problem))? {
            request = request.header(name, value);
        }
        if let Some(key) = &self.address.bearer {
            request = request.bearer_auth(key.expose());
        }
        if !self.settings.extensions.is_empty() {
            request = request.header("a2a-extensions", self.settings.extensions.join(","));
        }
        // One deadline covers the connection, the head and the body of the response.
        let deadline = Instant::now() + self.settings.request_timeout;
        match timeout_at(deadline, self.link.send(request)).await {
            Ok(Ok(response)) => Ok((response, deadline)),
            Ok(Err(error)) if error.is_connect() => Err(self.unreachable(causes(&error))),
            Ok(Err(error)) => Err(self.lost(name, causes(&error))),
            Err(_) => Err(self.silent(name, self.settings.request_timeout)),
        }
    }

    /// Reads the whole body, within the limits of time and size.
    async fn body(
        &self,
        mut response: Response,
        deadline: Instant,
        name: &'static str,
    ) -> Result<Vec<u8>, A2aError> {
        let mut body = Vec::new();
        loop {
            match timeout_at(deadline, response.chunk()).await {
                Ok(Ok(Some(piece))) => body.extend_from_slice(&piece),
                Ok(Ok(None)) => return Ok(body),
                Ok(Err(error)) => return Err(self.lost(name, causes(&error))),
                Err(_) => return Err(self.silent(name, self.settings.request_timeout)),
            }
            let most = self.settings.max_message;
            // Checked after each piece, so memory is bounded without a declared length.
            if body.len() > most {
                return Err(self.wrong(
                    name,
                    format!("it has more than {most} bytes, the limit `max_message`"),
                ));
            }
        }
    }

    /// Extracts the result from a response document. With `id`, a JSON-RPC response must have this
    /// id.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        name: &'static str,
        binding: Binding,
        id: Option<u64>,
        json: &[u8],
    ) -> Result<T, A2aError> {
        // Over HTTP+JSON, a response without a result, for example to a deletion, may have no body.
        let json =
            if json.is_empty() && binding == Binding::HttpJson { &b"null"[..] } else { json };
        let mut value: Value = serde_json::from_slice(json)
            .map_err(|error| self.wrong(name, format!("it is not JSON: {error}")))?;
        self.hidden.mask_value(&mut value);
        if value.get("error").is_some_and(|error| !error.is_null()) {
            return Err(self.said(name, 200, &value["error"]));
        }
        if binding == Binding::JsonRpc {
            if value["jsonrpc"] != "2.0" {
                return Err(self.wrong(name, "it is not one of JSON-RPC 2.0".to_owned()));
            }
            if id.is_some_and(|id| value["id"] != id) {
                return Err(self.wrong(name, "it is the answer to another request".to_owned()));
            }
            value = value.get_mut("result").map(Value::take).unwrap_or_default();
        }
        serde_path_to_error::deserialize(value).map_err(|error| self.wrong(name, error.to_string()))
    }

    /// Returns the error for a response with an unsuccessful status.
    fn refused(
        &self,
        name: &'static str,
        status: u16,
        location: Option<String>,
        body: &[u8],
    ) -> A2aError {
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        match value.get("error") {
            Some(error) if error.is_object() => self.said(name, status, error),
            _ => {
                let words = String::from_utf8_lossy(body);
                let message = match (status, location) {
                    (300..=399, Some(location)) => self.words(&format!(
                        "it redirects to `{location}`, which is not followed; give the client that address"
                    )),
                    _ if !words.trim().is_empty() => self.words(words.trim()),
                    (401 | 403, _) => "it asks for another key; give it one with `bearer` or `header`".to_owned(),
                    _ => "the answer of HTTP says no more".to_owned(),
                };
                let agent = Arc::clone(&self.name);
                A2aError::Refused {
                    agent,
                    request: name,
                    code: status.into(),
                    error: None,
                    message,
                }
            }
        }
    }

    /// Returns the error for an error object in either binding. JSON-RPC identifies the error by
    /// its code, HTTP+JSON by the `reason` in its details.
    fn said(&self, name: &'static str, status: u16, error: &Value) -> A2aError {
        // HTTP+JSON calls the list of details `details`, JSON-RPC calls it `data`.
        let details = ["details", "data"].iter().find_map(|key| error[*key].as_array());
        let reason = details.into_iter().flatten().find_map(|detail| detail["reason"].as_str());
        let code = error["code"].as_i64().unwrap_or(status.into());
        let known =
            reason.and_then(A2aErrorCode::from_reason).or_else(|| A2aErrorCode::from_code(code));
        let message = self.words(error["message"].as_str().unwrap_or("it does not say why"));
        let code = known.map_or(code, |known| known.code().into());
        A2aError::Refused {
            agent: Arc::clone(&self.name),
            request: name,
            code,
            error: known,
            message,
        }
    }

    fn words(&self, text: &str) -> String {
        head(&self.address.masked(text), MOST_WORDS).to_owned()
    }

    pub(super) fn unusable(&self, problem: String) -> A2aError {
        A2aError::Config { agent: Arc::clone(&self.name), problem }
    }

    fn unreachable(&self, problem: String) -> A2aError {
        A2aError::Connect { agent: Arc::clone(&self.name), problem: self.words(&problem) }
    }

    pub(super) fn silent(&self, request: &'static str, limit: Duration) -> A2aError {
        A2aError::Silent { agent: Arc::clone(&self.name), request, limit }
    }

    pub(super) fn lost(&self, request: &'static str, problem: String) -> A2aError {
        A2aError::Lost { agent: Arc::clone(&self.name), request, problem: self.words(&problem) }
    }

    pub(super) fn wrong(&self, request: &'static str, problem: String) -> A2aError {
        A2aError::Answer { agent: Arc::clone(&self.name), request, problem: self.words(&problem) }
    }

    /// Returns the error for a question that cannot be shown or answered.
    pub(super) fn unanswerable(&self, problem: Unanswerable) -> A2aError {
        A2aError::Question { agent: Arc::clone(&self.name), problem: problem.to_owned() }
    }

    /// Masks keys in a card error and shortens it.
    fn masked(&self, error: A2aError) -> A2aError {
        match error {
            A2aError::Card { agent, problem } => {
                A2aError::Card { agent, problem: self.words(&problem) }
            }
            other => other,
        }
    }
}

/// Returns the target of a redirect.
fn location_of(response: &Response) -> Option<String> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    Some(response.url().join(location).ok()?.to_string())
}

/// Formats an error with its causes.
pub(super) fn causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
