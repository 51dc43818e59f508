//! [`Server`]: the settings of a server, its router, and how it listens.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agentflow_core::Runtime;
use agentflow_front::Authenticate;
use axum::Router;
use axum::middleware::from_fn_with_state;
use http::{Method, StatusCode, Uri};
use tokio::net::TcpListener;

use crate::api::operations;
use crate::api_error::ApiError;
use crate::listener::serve_router;
use crate::open_api::open_api;
use crate::operation::routes;
use crate::page;
use crate::request_guard::guard;
use crate::server_error::ServerError;
use crate::server_options::{ServerOptions, ServerState, StopSignal};

/// A server for the agents and workflows of a runtime: a REST API with event streams, and a web
/// page.
///
/// [`serve`](Self::serve) listens on an address. [`router`](Self::router) returns an `axum` router
/// for a program that has a server already. It may be mounted below any path.
///
/// ```
/// use agentflow::prelude::*;
/// use agentflow::server::Server;
/// use agentflow::store::MemoryStore;
///
/// #[workflow]
/// async fn served_double(n: i64) -> Result<i64> {
///     let twice = n * 2;
///     Ok(twice)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
/// let runtime = Runtime::builder().store(MemoryStore::new()).build();
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// println!("http://{}", listener.local_addr()?);
/// // Ends with the future that is passed, here at once.
/// Server::new(&runtime).serve_listener(listener, async {}).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a server does nothing before `serve` is awaited or its `router` is mounted"]
pub struct Server {
    runtime: Runtime,
    settings: ServerOptions,
    /// Routes of the program.
    routes: Router,
}

impl Server {
    /// Creates a server for all agents, workflows and tools of the runtime. The runtime must have a
    /// store.
    pub fn new(runtime: &Runtime) -> Self {
        Self { runtime: runtime.clone(), settings: ServerOptions::default(), routes: Router::new() }
    }

    /// Sets the hook that determines the caller of each request, except `GET /health`: a
    /// [`BearerToken`](agentflow_front::BearerToken), a closure, or another implementation of
    /// [`Authenticate`]. The access control of the runtime
    /// ([`RuntimeBuilder::access_control`](agentflow_core::runtime::RuntimeBuilder::access_control))
    /// decides which caller may do what.
    ///
    /// Default: every client is the caller `anonymous`.
    pub fn authenticate(self, authenticate: impl Authenticate) -> Self {
        self.set(|settings| settings.authenticate = Some(Arc::new(authenticate)))
    }

    /// Allows requests to these hosts (header `Host`), such as `flows.example`. Requests to other
    /// hosts are refused, so that a web page cannot reach the server under its own host name (DNS
    /// rebinding). `localhost`, `127.0.0.1` and `[::1]` are always allowed. Default: no further
    /// hosts.
    pub fn hosts<S: Into<String>>(self, hosts: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| {
            settings.hosts.extend(hosts.into_iter().map(|host| host.into().to_ascii_lowercase()));
        })
    }

    /// Allows requests from pages of these origins, such as `https://console.example`, and lets
    /// browsers show them the responses (CORS). A request with another `Origin` header is refused. A
    /// request without this header is not sent by a page and is allowed. Default: none, except for
    /// the page of the server itself.
    pub fn origins<S: Into<String>>(self, origins: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.origins.extend(origins.into_iter().map(Into::into)))
    }

    /// Sets the maximum size of a request's body in bytes. Default: 4 MiB.
    pub fn max_body(self, bytes: usize) -> Self {
        self.set(|settings| settings.max_body = bytes)
    }

    /// Sets the maximum time to determine the caller of a request, and to read its body. Default:
    /// 30 seconds.
    pub fn body_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.body_timeout = timeout)
    }

    /// Sets the maximum numbers of concurrent requests: of all callers, and of one caller or, for
    /// callers without a name, of one address. Further requests are refused with status 503 or 429.
    /// Default: 512 and 64.
    pub fn max_requests(self, total: usize, of_caller: usize) -> Self {
        self.set(|settings| {
            (settings.max_requests, settings.max_requests_of_caller) = (total, of_caller);
        })
    }

    /// Sets the maximum numbers of concurrent event streams and WebSockets: of all callers, and of
    /// one caller. Default: 2,048 and 256.
    pub fn max_streams(self, total: usize, of_caller: usize) -> Self {
        self.set(|settings| {
            (settings.max_streams, settings.max_streams_of_caller) = (total, of_caller);
        })
    }

    /// Sets the time after which an idle event stream receives a comment, and an idle WebSocket a
    /// ping. Default: 15 seconds.
    pub fn heartbeat(self, interval: Duration) -> Self {
        self.set(|settings| settings.heartbeat = interval)
    }

    /// Sets the maximum time for which an event stream waits for its client to read. The stream of a
    /// slower client is closed; the client continues with `Last-Event-ID`. Default: 30 seconds.
    pub fn write_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.write_timeout = timeout)
    }

    /// Sets the maximum time for which a stopping server waits for open requests. Default: 10
    /// seconds.
    pub fn shutdown_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.shutdown_timeout = timeout)
    }

    /// Serves the web page at the root of the router, or not. Default: `true`.
    pub fn page(self, is_served: bool) -> Self {
        self.set(|settings| settings.has_page = is_served)
    }

    /// Adds routes of the program, such as those of another server. Requests to them do not pass the
    /// checks of this server, so the program checks them itself. Default: none.
    ///
    /// # Panics
    /// [`router`](Self::router) and [`serve`](Self::serve) panic if a path is also one of this
    /// server.
    pub fn with_routes(mut self, routes: Router) -> Self {
        self.routes = self.routes.merge(routes);
        self
    }

    fn set(mut self, change: impl FnOnce(&mut ServerOptions)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Returns the OpenAPI 3.1 document of the API.
    pub fn open_api() -> serde_json::Value {
        open_api(&operations())
    }

    /// Returns the router, for a program that serves it itself. Its event streams end when the last
    /// clone of the router is dropped.
    ///
    /// Behind a server that provides no
    /// [`ConnectInfo`](axum::extract::ConnectInfo), the limits of callers do not apply to
    /// anonymous clients.
    ///
    /// # Errors
    /// [`ServerError::NoStore`].
    pub fn router(&self) -> Result<Router, ServerError> {
        let (stop_sender, stop_signal) = StopSignal::new();
        let router = self.router_until(stop_signal)?;
        // Dropping the sender ends the streams, so the router holds it.
        Ok(router.layer(axum::Extension(Arc::new(stop_sender))))
    }

    fn router_until(&self, stop_signal: StopSignal) -> Result<Router, ServerError> {
        if self.runtime.store().is_none() {
            return Err(ServerError::NoStore);
        }
        if self.settings.authenticate.is_none() && self.runtime.controls_access() {
            tracing::warn!(
                "the server does not authenticate its clients, so the access control sees only the caller `anonymous`"
            );
        }
        let document = bytes::Bytes::from(Self::open_api().to_string());
        let state =
            ServerState::new(self.runtime.clone(), self.settings.clone(), document, stop_signal);
        let mut own = routes(operations());
        if self.settings.has_page {
            own = own.merge(page::routes());
        }
        let own = own
            .method_not_allowed_fallback(wrong_method)
            .fallback(unknown_path)
            .layer(from_fn_with_state(state.clone(), guard))
            .with_state(state);
        Ok(own.merge(self.routes.clone()))
    }

    /// Listens on an address until the process receives Ctrl-C. The server then refuses new
    /// connections, ends event streams, and waits for open requests up to the
    /// [limit](Self::shutdown_timeout). Runs continue; [`Runtime::drain`] hands them over.
    ///
    /// # Errors
    /// [`ServerError::NoStore`], [`ServerError::NotAuthenticated`] for an address that other machines
    /// can reach, and [`ServerError::Listen`].
    ///
    /// # Cancel safety
    /// Dropping the future closes all connections. Runs continue.
    pub async fn serve(self, address: SocketAddr) -> Result<(), ServerError> {
        let listen = |source| ServerError::Listen { address, source };
        self.check_address(address)?;
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        self.serve_listener(listener, stop_signal()).await
    }

    /// Serves a socket until `stop` is ready, as [`serve`](Self::serve).
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    ///
    /// # Cancel safety
    /// Dropping the future closes all connections. Runs continue.
    pub async fn serve_listener(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ServerError> {
        if let Ok(address) = listener.local_addr() {
            self.check_address(address)?;
        }
        let (stop_sender, stop_signal) = StopSignal::new();
        let router = self.router_until(stop_signal)?;
        serve_router(listener, router, &self.settings, stop, stop_sender).await;
        Ok(())
    }

    fn check_address(&self, address: SocketAddr) -> Result<(), ServerError> {
        match address.ip().is_loopback() || self.settings.authenticate.is_some() {
            true => Ok(()),
            false => Err(ServerError::NotAuthenticated { address }),
        }
    }
}

/// Waits for Ctrl-C.
async fn stop_signal() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        tracing::warn!(%error, "Ctrl-C cannot be observed, so the server stops only with its process");
        std::future::pending::<()>().await;
    }
}

async fn unknown_path(uri: Uri) -> ApiError {
    let detail = format!(
        "no operation has the path `{}`; see `/api/v1/openapi.json` for the operations",
        uri.path()
    );
    ApiError::new(StatusCode::NOT_FOUND, "unknown_path", detail)
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let detail = format!("`{}` does not accept the method {method}", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}
