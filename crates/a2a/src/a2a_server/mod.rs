//! Server for the Agent2Agent (A2A) protocol, version 1.0: offers agents and workflows of a runtime
//! as skills. A task is a run, a context is a session. The host mounts the server as an `axum`
//! router. The module [`a2a`](crate::a2a) is the client.
#![doc = include_str!("../docs/a2a-server.md")]

// `A2aServer` holds the settings and builds the router. A request passes these modules:
// - `inbound.rs` handles HTTP and both protocol bindings, `operations.rs` executes operations.
// - `begun_task.rs` starts runs and answers their questions. `skill_offer.rs` converts a message to
//   the input of an agent or a workflow.
// - `shown_task.rs`, `task_history.rs` and `task_updates.rs` present a run as a task. They read
//   only the store and the events of the run, so the server itself is stateless.
// - `push/` sends push notifications.

mod a2a_server_error;
mod asked_operation;
mod begun_task;
mod event_body;
mod fault;
mod inbound;
mod operations;
#[cfg(feature = "push")]
mod push;
mod served_card;
mod served_settings;
mod shown_task;
mod skill_offer;
mod task_history;
mod task_updates;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::any;
use serde_json::Value;

pub use self::a2a_server_error::A2aServerError;
use self::served_settings::{Settings, Shared};
use crate::a2a::{A2aCard, A2aProvider};
use agentflow_core::runtime::Runtime;
use agentflow_front::Authenticate;

/// A server for the Agent2Agent protocol. It offers the named agents and workflows of a runtime as
/// skills. A task is a run, a context is a session.
#[derive(Clone)]
#[must_use = "a server serves nobody before its `router` is mounted"]
pub struct A2aServer {
    runtime: Runtime,
    settings: Settings,
}

impl A2aServer {
    /// Creates a server that offers nothing yet. The runtime must have a store.
    pub fn from_runtime(runtime: &Runtime) -> Self {
        Self { runtime: runtime.clone(), settings: Settings::default() }
    }

    /// Offers these agents. Default: none.
    pub fn agents<S: Into<Arc<str>>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.agents.extend(names.into_iter().map(Into::into)))
    }

    /// Offers these workflows. Default: none.
    pub fn workflows<S: Into<Arc<str>>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.workflows.extend(names.into_iter().map(Into::into)))
    }

    /// Replaces a workflow's section of the card: `version`, and `skills` with `id`, `name`,
    /// `description` and `tags`. Default: the `a2a` section of the workflow's document, otherwise
    /// one skill with the name and description of the workflow.
    pub fn card_section(self, workflow: impl Into<String>, section: Value) -> Self {
        self.set(|settings| drop(settings.sections.insert(workflow.into(), section)))
    }

    /// Sets the agent or workflow for messages that do not name a skill and are sent to the address
    /// of the whole server. Default: the only offered skill; with several skills, such messages are
    /// refused.
    pub fn default_skill(self, name: impl Into<String>) -> Self {
        self.set(|settings| settings.default_skill = Some(name.into()))
    }

    /// Sets the name and version of the server. The name also separates its tasks from the tasks of
    /// other servers with the same store: after a change of the name, earlier tasks are not found.
    /// Default: `agentflow`, with the version of this library.
    pub fn name(self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.set(|settings| (settings.name, settings.version) = (name.into(), version.into()))
    }

    /// Sets the description of the server on its card. Default:
    /// `Agents and workflows of this program.`
    pub fn description(self, description: impl Into<String>) -> Self {
        self.set(|settings| settings.description = description.into())
    }

    /// Sets the operator of the server on its card: URL and name. Default: none.
    pub fn provider(self, url: impl Into<String>, organization: impl Into<String>) -> Self {
        let provider = A2aProvider { url: url.into(), organization: organization.into() };
        self.set(|settings| settings.provider = Some(provider))
    }

    /// Sets the public URL of the router, for the card. Requests may name its host. Default:
    /// `http://` and the host of the request for the card.
    pub fn public_url(self, url: impl Into<String>) -> Self {
        self.set(|settings| settings.public_url = Some(url.into()))
    }

    /// Allows requests to these hosts (header `Host`), such as `agents.example` for every port of
    /// this host. Requests to other hosts are refused, so that a web page cannot reach the server
    /// under its own host name (DNS rebinding). `localhost`, `127.0.0.1`, `[::1]` and the host of
    /// [`public_url`](Self::public_url) are always allowed. Default: no further hosts.
    pub fn hosts<S: Into<String>>(self, hosts: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| {
            settings.hosts.extend(hosts.into_iter().map(|host| host.into().to_ascii_lowercase()));
        })
    }

    /// Allows requests from pages of these origins, such as `https://console.example`. A request
    /// with another `Origin` header is refused. A request without this header is not sent by a page
    /// and is allowed. Default: none.
    pub fn origins<S: Into<String>>(self, origins: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.origins.extend(origins.into_iter().map(Into::into)))
    }

    /// Sets the hook that determines the caller of each request, except requests for cards, before
    /// the body is read: a [`BearerToken`](agentflow_front::BearerToken), a closure, or another
    /// implementation of [`Authenticate`]. A task belongs to the caller that started it; for other
    /// callers the task does not exist. Its run has the scopes of the caller. If the hook takes
    /// longer than [`body_timeout`](Self::body_timeout), the request is refused with status 503.
    ///
    /// Default: every client is the caller `anonymous`. Clients then see each other's tasks and
    /// share sessions and memories, and [`router`](Self::router) logs a warning.
    pub fn authenticate(self, authenticate: impl Authenticate) -> Self {
        self.set(|settings| settings.authenticate = Some(Arc::new(authenticate)))
    }

    /// Describes on the card how clients authenticate: the schemes by name, and the required
    /// schemes, in the JSON form of the protocol. This is information for clients;
    /// [`authenticate`](Self::authenticate) checks requests. Default: none.
    pub fn security(self, schemes: BTreeMap<String, Value>, requirements: Vec<Value>) -> Self {
        self.set(|settings| settings.security = Some((schemes, requirements)))
    }

    /// Shows these agents and workflows only on the extended card, which only clients that are
    /// authenticated by [`authenticate`](Self::authenticate) can request. Name them with [`agents`](Self::agents)
    /// or [`workflows`](Self::workflows), too. Default: none, and no extended card.
    pub fn extended<S: Into<Arc<str>>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.extended.extend(names.into_iter().map(Into::into)))
    }

    /// Sends push notifications to addresses that clients choose, by way of `request`: its hosts,
    /// guard, resolver, per-host headers and time limit (at most 10 seconds) apply to each
    /// notification. At most 8 notifications of a caller are sent concurrently; other callers do
    /// not wait for them. A notification is one `POST`. Redirects are not followed, and only the
    /// status of the response is used. Default: push notifications are not supported.
    ///
    /// The store keeps push configurations, including the tokens of clients, until the run is
    /// deleted. The store must support state.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use agentflow::a2a_server::A2aServer;
    /// use agentflow::prelude::*;
    /// use agentflow::tools::HttpRequest;
    ///
    /// fn server(runtime: &Runtime) -> A2aServer {
    ///     // Addresses of the public internet alone, and ten seconds for each attempt.
    ///     let request = HttpRequest::new().timeout(Duration::from_secs(10));
    ///     A2aServer::from_runtime(runtime).workflows(["doubled"]).push_notifications(request)
    /// }
    /// # drop(server(&Runtime::default()));
    /// ```
    #[cfg(feature = "push")]
    pub fn push_notifications(self, request: agentflow_tools::HttpRequest) -> Self {
        self.set(|settings| settings.push = Some(request))
    }

    /// Accepts files of these media types, such as `image/png` or `image/*`, in messages to agents
    /// that take text. Bytes become files of the message that the model reads. URLs become links in
    /// its text; the server does not fetch them. Name only media types that the models of all those
    /// agents accept. Default: none, and a message with a file is refused.
    pub fn input_files<S: Into<String>>(self, media_types: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| {
            settings
                .input_files
                .extend(media_types.into_iter().map(|kind| kind.into().to_ascii_lowercase()));
        })
    }

    /// Returns files that a run saved under these names, such as `report.md`, `*.png` or `*`, as
    /// results of the task. Only the newest version of each name is returned. A run may save files
    /// that clients must not see, so no files are returned by default.
    pub fn output_files<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.output_files.extend(names.into_iter().map(Into::into)))
    }

    /// Limits the bytes of one result file. All files of a task together may have four times as
    /// many. Larger files are left out and listed in the task's metadata. Default: 1 MiB.
    pub fn max_file(self, bytes: usize) -> Self {
        self.set(|settings| settings.max_file = bytes)
    }

    /// Allows every client to answer approvals in its tasks: at gates, and before tool
    /// calls. [`Caller::approves`](agentflow_core::Caller::approves) allows it for single callers. Default: not allowed, because a
    /// client would approve its own request.
    ///
    /// If it is not allowed, the client neither sees these questions nor can answer them. Its task
    /// is `WORKING` until the host answers with [`RunRef::approve`](agentflow_core::runtime::RunRef::approve) or
    /// `agentwf runs approve`.
    pub fn clients_approve(self) -> Self {
        self.set(|settings| settings.clients_approve = true)
    }

    /// Grants scopes to the runs of all tasks, in addition to the scopes of the caller and the
    /// runtime. Default: none.
    pub fn grant<S: Into<Arc<str>>>(self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.grants.extend(scopes.into_iter().map(Into::into)))
    }

    /// Limits the bytes of a request body. A larger body is refused with 413. Default: 1 MiB.
    pub fn max_body(self, bytes: usize) -> Self {
        self.set(|settings| settings.max_body = bytes)
    }

    /// Limits the time in which a body must arrive. A slower body is refused with 408. Default: 30
    /// seconds.
    pub fn body_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.body_timeout = timeout)
    }

    /// Limits the concurrent requests. Open streams do not count. Further requests are refused with
    /// 503. Default: 256.
    pub fn max_requests(self, requests: usize) -> Self {
        self.set(|settings| settings.max_requests = requests)
    }

    /// Limits the concurrent streams. Further streams are refused with 503; their tasks continue.
    /// Default: 256.
    pub fn max_streams(self, streams: usize) -> Self {
        self.set(|settings| settings.max_streams = streams)
    }

    /// Limits the concurrent requests of one caller. Open streams do not count. Further requests
    /// are refused with 429. Default: 64.
    ///
    /// Without [`authenticate`](Self::authenticate), the limit applies to each peer address, if the HTTP server
    /// provides it (see [`router`](Self::router)).
    pub fn max_requests_of_caller(self, requests: usize) -> Self {
        self.set(|settings| settings.max_requests_of_caller = requests)
    }

    /// Limits the concurrent streams of one caller. Further streams are refused with 429; their
    /// tasks continue. Default: 64. Without [`authenticate`](Self::authenticate), the limit applies to each peer
    /// address, as for [`max_requests_of_caller`](Self::max_requests_of_caller).
    pub fn max_streams_of_caller(self, streams: usize) -> Self {
        self.set(|settings| settings.max_streams_of_caller = streams)
    }

    /// Limits the unfinished tasks of one caller, because a client may leave questions of tasks
    /// unanswered. A message that would start a further task is refused. Default: 1000, minimum: 1.
    ///
    /// Concurrent messages can exceed the limit by the number of concurrent requests of the caller.
    /// Without [`authenticate`](Self::authenticate), all clients are one caller.
    pub fn max_open_tasks(self, tasks: usize) -> Self {
        self.set(|settings| settings.max_open_tasks = tasks.max(1))
    }

    /// Limits the time that a message without a stream waits for its task. The client then receives
    /// the unfinished task. Default: 5 minutes.
    pub fn max_wait(self, wait: Duration) -> Self {
        self.set(|settings| settings.max_wait = wait)
    }

    /// Limits the duration of a stream. The client can subscribe again. Default: 1 hour.
    pub fn max_stream(self, longest: Duration) -> Self {
        self.set(|settings| settings.max_stream = longest)
    }

    fn set(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(&mut self.settings);
        self
    }

    /// Checks that all offered agents and workflows exist, and that clients can use them.
    ///
    /// # Errors
    /// [`A2aServerError`] with the problem and its solution.
    pub async fn check(&self) -> Result<(), A2aServerError> {
        self.shared().await.map(drop)
    }

    /// Returns the card for the server at `url`, or, with `only`, the card of one agent or
    /// workflow.
    ///
    /// # Errors
    /// As [`check`](Self::check), and if `only` is not offered.
    #[doc(alias = "to_agent_card")]
    #[doc(alias = "agent_cards")]
    pub async fn card(&self, url: &str, only: Option<&str>) -> Result<A2aCard, A2aServerError> {
        let (shared, url) = (self.shared().await?, served_card::checked_url(url)?);
        let offer = only.map(|name| {
            let problem = "it is not offered; name it with `agents` or `workflows`".to_owned();
            let unusable = A2aServerError::Unusable {
                kind: "agent or workflow",
                name: name.to_owned(),
                problem,
            };
            shared.offer(name).ok_or(unusable)
        });
        Ok(served_card::card(&shared, &url, offer.transpose()?.map(|offer| &**offer), false))
    }

    /// Builds the router: JSON-RPC at `/`, resources such as `/message:send` and `/tasks/{id}`, the
    /// card at `/.well-known/agent-card.json`, and the same for each agent and workflow below
    /// `/a2a/NAME`. A trailing slash is accepted. Merge the router into another one, or pass it to
    /// `nest_service` and set [`public_url`](Self::public_url) to the nested path.
    ///
    /// Without [`authenticate`](Self::authenticate), serve it with
    /// `into_make_service_with_connect_info::<SocketAddr>()`, so that the limits of requests and
    /// streams apply to each address. Behind a proxy, all clients have the address of the proxy.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    ///
    /// # Panics
    /// If the server sends push notifications and this is called outside of a tokio runtime.
    pub async fn router(&self) -> Result<Router, A2aServerError> {
        let shared = Arc::new(self.shared().await?);
        if shared.settings.authenticate.is_none() {
            let server = &shared.settings.name;
            tracing::warn!(
                server,
                "all clients are one caller, with the same tasks and memories; tell them apart with `authenticate`"
            );
        }
        let served = inbound::Served {
            #[cfg(feature = "push")]
            notifier: push::Notifier::begin(&shared).map(Arc::new),
            shared,
        };
        let entry = any(inbound::entry);
        Ok(Router::new().route("/", entry.clone()).route("/{*path}", entry).with_state(served))
    }

    async fn shared(&self) -> Result<Shared, A2aServerError> {
        match self.runtime.store() {
            None => return Err(A2aServerError::NoStore),
            #[cfg(feature = "push")]
            Some(store) if self.settings.push.is_some() && store.state().is_none() => {
                return Err(A2aServerError::NoState);
            }
            Some(_) => {}
        }
        if !self.settings.extended.is_empty() && self.settings.authenticate.is_none() {
            return Err(A2aServerError::NobodyKnown);
        }
        let mut settings = self.settings.clone();
        settings.public_url =
            settings.public_url.as_deref().map(served_card::checked_url).transpose()?;
        let offers = skill_offer::offers(&self.runtime, &settings).await?;
        Ok(Shared::new(self.runtime.clone(), settings, offers))
    }
}

impl fmt::Debug for A2aServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("A2aServer").field("name", &self.settings.name).finish_non_exhaustive()
    }
}
