//! Agents and workflows of a runtime as a server of the Agent2Agent protocol, version 1.0. The host mounts it as an `axum`
//! router. [`a2a`](crate::a2a) is the other side: agents of other programs as tools of this one.
#![doc = include_str!("../docs/a2a-server.md")]

mod a2a_caller;
mod a2a_server_error;
mod asked_operation;
mod begun_task;
mod event_body;
mod fault;
mod inbound;
mod operations;
#[cfg(feature = "a2a-push")]
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
use axum::http::HeaderMap;
use axum::routing::any;
use serde_json::Value;

use self::a2a_caller::AuthHook;
pub use self::a2a_caller::{A2aCaller, A2aRefusal};
pub use self::a2a_server_error::A2aServerError;
use self::served_settings::{Settings, Shared};
use crate::a2a::{A2aCard, A2aProvider};
use crate::runtime::Runtime;

/// A runtime as a server of the Agent2Agent protocol: those of its agents and workflows that are named here are skills, a
/// task is a run, a context is a session.
#[derive(Clone)]
#[must_use = "a server serves nobody before its `router` is mounted"]
pub struct A2aServer {
    runtime: Runtime,
    settings: Settings,
}

impl A2aServer {
    /// A server that offers nothing yet. The runtime must have a store.
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

    /// Replaces the part of the card that shows a workflow: `version`, and `skills` with `id`, `name`, `description` and
    /// `tags`. Default: the `a2a` section of the workflow's document, else one skill of the workflow's name and description.
    pub fn card_section(self, workflow: impl Into<String>, section: Value) -> Self {
        self.set(|settings| drop(settings.sections.insert(workflow.into(), section)))
    }

    /// Which agent or workflow a message is for that names none, on the address of the whole server. Default: the only one
    /// that is offered; of several, such a message is refused.
    pub fn default_skill(self, name: impl Into<String>) -> Self {
        self.set(|settings| settings.default_skill = Some(name.into()))
    }

    /// What the server calls itself. The name also tells its tasks from those of other servers with the same store: under
    /// another name they are not found. Default: `agentflow`, with the version of this library.
    pub fn name(self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.set(|settings| (settings.name, settings.version) = (name.into(), version.into()))
    }

    /// What the card says the server is for. Default: a sentence that says no more than that it has agents and workflows.
    pub fn description(self, description: impl Into<String>) -> Self {
        self.set(|settings| settings.description = description.into())
    }

    /// Who runs the server, for its card: the address and the name. Default: nobody is named.
    pub fn provider(self, url: impl Into<String>, organization: impl Into<String>) -> Self {
        let provider = A2aProvider { url: url.into(), organization: organization.into() };
        self.set(|settings| settings.provider = Some(provider))
    }

    /// The address at which clients reach the router, for the card; its host may be named in requests. Default: `http://`
    /// with the host of the request for the card.
    pub fn public_url(self, url: impl Into<String>) -> Self {
        self.set(|settings| settings.public_url = Some(url.into()))
    }

    /// Hosts that requests may name in `Host`, such as `agents.example` for every port of it. Others are refused, so that a
    /// page in a browser cannot reach the server under a name of its own. Default: those of this machine, `localhost`,
    /// `127.0.0.1` and `[::1]`, which are always among them, and that of [`public_url`](Self::public_url).
    pub fn hosts<S: Into<String>>(self, hosts: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.hosts.extend(hosts.into_iter().map(|host| host.into().to_ascii_lowercase())))
    }

    /// Origins of pages that may send requests, such as `https://console.example`. A request with another header `Origin`
    /// is refused; one without this header is not sent by a page. Default: none.
    pub fn origins<S: Into<String>>(self, origins: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.origins.extend(origins.into_iter().map(Into::into)))
    }

    /// Finds out who sends a request, by its headers: called for each request but for cards, on the task that serves it, so
    /// it must not block. Default: every client is the caller `anonymous`: it sees the tasks of every other one and shares
    /// sessions and memories with all of them. [`router`](Self::router) then logs a warning.
    pub fn auth(self, hook: impl Fn(&HeaderMap) -> Result<A2aCaller, A2aRefusal> + Send + Sync + 'static) -> Self {
        self.set(|settings| settings.auth = Some(AuthHook::new(hook)))
    }

    /// What the card says of how clients say who they are: the schemes by name, and which of them are asked for, as the
    /// protocol has them. [`auth`](Self::auth) decides. Default: nothing.
    pub fn security(self, schemes: BTreeMap<String, Value>, requirements: Vec<Value>) -> Self {
        self.set(|settings| settings.security = Some((schemes, requirements)))
    }

    /// Offers these agents and workflows beside the others, and shows them on the extended card alone, which only a client has
    /// that [`auth`](Self::auth) knows. Name them with [`agents`](Self::agents) or [`workflows`](Self::workflows), too.
    /// Default: none, and there is no extended card.
    pub fn extended<S: Into<Arc<str>>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.extended.extend(names.into_iter().map(Into::into)))
    }

    /// Notifies clients of their tasks at addresses that they choose, as `request` sends requests: its hosts, guard, resolver,
    /// headers for hosts and its time limit, 10 seconds at most, apply to each notification. At most 8 notifications of a caller
    /// are sent at once; other callers do not wait for them. A notification is one `POST`; redirects are not
    /// followed, and of the answer only the status is read. Default: nobody is notified.
    ///
    /// What is notified of is kept in the store, with the tokens that clients give for it, until the run is deleted. The store
    /// must keep state.
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
    #[cfg(feature = "a2a-push")]
    pub fn push_notifications(self, request: crate::tools::HttpRequest) -> Self {
        self.set(|settings| settings.push = Some(request))
    }

    /// Gives agents that take texts the files of a message, too, of these media types, such as `image/png` or `image/*`: bytes
    /// as files of the message that the model reads, addresses as links in its text, which nobody here follows. Name what the
    /// models of all those agents take. Default: none, and a message with a file is refused.
    pub fn input_files<S: Into<String>>(self, media_types: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| {
            settings.input_files.extend(media_types.into_iter().map(|kind| kind.into().to_ascii_lowercase()));
        })
    }

    /// Gives clients the files that their runs saved, of these names, such as `report.md`, `*.png` or `*`, as results of the
    /// task: of each name the newest. A run may have files that nobody else is to see, so there are none by default.
    pub fn output_files<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.output_files.extend(names.into_iter().map(Into::into)))
    }

    /// The most bytes of one file of a result; a task has four times as many at most. Default: 1 MiB. The metadata of the task
    /// name what is larger.
    pub fn max_file(self, bytes: usize) -> Self {
        self.set(|settings| settings.max_file = bytes)
    }

    /// Lets every client answer the approvals of its own tasks: at gates, and before calls of tools. Default: no. A client
    /// would approve what it asked for itself, so it is neither shown these questions nor may it answer them, and its task
    /// is `WORKING` until the host answers, with [`Runtime::approve`](crate::Runtime::approve) or `agentwf runs approve`.
    /// [`A2aCaller::approves`] lets single callers do so.
    pub fn clients_approve(self) -> Self {
        self.set(|settings| settings.clients_approve = true)
    }

    /// Grants scopes to the runs of all tasks, beside those of the caller and of the runtime. Default: none.
    pub fn grant<S: Into<Arc<str>>>(self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.grants.extend(scopes.into_iter().map(Into::into)))
    }

    /// The most bytes of a body. Default: 1 MiB. A larger one is refused with 413.
    pub fn max_body(self, bytes: usize) -> Self {
        self.set(|settings| settings.max_body = bytes)
    }

    /// How long a body may take to arrive. Default: 30 seconds. A slower one is refused with 408.
    pub fn body_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.body_timeout = timeout)
    }

    /// The most requests at once, streams not counted once they have begun. Default: 256. A further one is refused with 503.
    pub fn max_requests(self, requests: usize) -> Self {
        self.set(|settings| settings.max_requests = requests)
    }

    /// The most streams at once. Default: 256. A further one is refused with 503; its task continues.
    pub fn max_streams(self, streams: usize) -> Self {
        self.set(|settings| settings.max_streams = streams)
    }

    /// The most requests at once of one caller, streams not counted once they have begun. Default: 64. A further one is refused
    /// with 429. Without [`auth`](Self::auth) the limit applies to each address of a peer, if the HTTP server passes it on:
    /// see [`router`](Self::router).
    pub fn max_requests_of_caller(self, requests: usize) -> Self {
        self.set(|settings| settings.max_requests_of_caller = requests)
    }

    /// The most streams at once of one caller. Default: 64. A further one is refused with 429; its task continues. Without
    /// [`auth`](Self::auth) it applies to each address, as [`max_requests_of_caller`](Self::max_requests_of_caller) does.
    pub fn max_streams_of_caller(self, streams: usize) -> Self {
        self.set(|settings| settings.max_streams_of_caller = streams)
    }

    /// The most tasks of one caller that have not ended, at least 1: a client can leave what a task asks unanswered. Default:
    /// 1000. A message that would begin a further one is refused. Messages that arrive at the same moment can exceed it, by
    /// the requests of the caller at most. Without [`auth`](Self::auth) all clients are one caller.
    pub fn max_open_tasks(self, tasks: usize) -> Self {
        self.set(|settings| settings.max_open_tasks = tasks.max(1))
    }

    /// How long a message without a stream is waited on before its client is given the task as it is. Default: 5 minutes.
    pub fn max_wait(self, wait: Duration) -> Self {
        self.set(|settings| settings.max_wait = wait)
    }

    /// How long a stream lasts at most; its client subscribes again. Default: 1 hour.
    pub fn max_stream(self, longest: Duration) -> Self {
        self.set(|settings| settings.max_stream = longest)
    }

    fn set(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(&mut self.settings);
        self
    }

    /// Checks that everything is there which this server is to offer, and that clients can use it.
    ///
    /// # Errors
    /// [`A2aServerError`], with what to do.
    pub async fn check(&self) -> Result<(), A2aServerError> {
        self.shared().await.map(drop)
    }

    /// The card of the server for an address, or of one agent or workflow of it.
    ///
    /// # Errors
    /// As [`check`](Self::check); also when `only` is not offered.
    #[doc(alias = "to_agent_card")]
    #[doc(alias = "agent_cards")]
    pub async fn card(&self, url: &str, only: Option<&str>) -> Result<A2aCard, A2aServerError> {
        let (shared, url) = (self.shared().await?, served_card::checked_url(url)?);
        let offer = only.map(|name| {
            let problem = "it is not offered; name it with `agents` or `workflows`".to_owned();
            let unusable = A2aServerError::Unusable { kind: "agent or workflow", name: name.to_owned(), problem };
            shared.offer(name).ok_or(unusable)
        });
        Ok(served_card::card(&shared, &url, offer.transpose()?.map(|offer| &**offer), false))
    }

    /// The server as a router: JSON-RPC at `/`, resources such as `/message:send` and `/tasks/{id}`, the card at
    /// `/.well-known/agent-card.json`, and the same for each agent and workflow below `/a2a/NAME`; each also with a slash at
    /// its end. Merge it, or give it to `nest_service` for a path of its own, which [`public_url`](Self::public_url) then says.
    ///
    /// Without [`auth`](Self::auth), serve it with `into_make_service_with_connect_info::<SocketAddr>()`, so that the limits of
    /// requests and streams apply to each address. Behind a proxy, all clients have the proxy's address.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    ///
    /// # Panics
    /// Outside of a tokio runtime, of a server with push notifications.
    pub async fn router(&self) -> Result<Router, A2aServerError> {
        let shared = Arc::new(self.shared().await?);
        if shared.settings.auth.is_none() {
            let server = &shared.settings.name;
            tracing::warn!(
                server,
                "all clients are one caller, with the same tasks and memories; tell them apart with `auth`"
            );
        }
        let served = inbound::Served {
            #[cfg(feature = "a2a-push")]
            notifier: push::Notifier::begin(&shared).map(Arc::new),
            shared,
        };
        let entry = any(inbound::entry);
        Ok(Router::new().route("/", entry.clone()).route("/{*path}", entry).with_state(served))
    }

    async fn shared(&self) -> Result<Shared, A2aServerError> {
        match self.runtime.store() {
            None => return Err(A2aServerError::NoStore),
            #[cfg(feature = "a2a-push")]
            Some(store) if self.settings.push.is_some() && !store.keeps_state() => return Err(A2aServerError::NoState),
            Some(_) => {}
        }
        if !self.settings.extended.is_empty() && self.settings.auth.is_none() {
            return Err(A2aServerError::NobodyKnown);
        }
        let mut settings = self.settings.clone();
        settings.public_url = settings.public_url.as_deref().map(served_card::checked_url).transpose()?;
        let offers = skill_offer::offers(&self.runtime, &settings).await?;
        Ok(Shared::new(self.runtime.clone(), settings, offers))
    }
}

impl fmt::Debug for A2aServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("A2aServer").field("name", &self.settings.name).finish_non_exhaustive()
    }
}
