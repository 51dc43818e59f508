//! The HTTP methods of `McpServer`: access, the service and the listener. `mod.rs` has the settings
//! for all transports.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body::Body;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::McpServer;
use super::http_service::{BoxError, McpHttpBody, McpHttpService, plain};
use super::mcp_server_error::McpServerError;
use agentflow_front::{Authenticate, ConnectionLimits, serve_connections};

/// Path of the server.
const PATH: &str = "/mcp";
/// Maximum time for the head of a request.
const LONGEST_HEAD: Duration = Duration::from_secs(10);

/// Methods for streamable HTTP. They need the feature `mcp-server-http`. A client of a revision
/// before 2026-07-28 that requests a session gets one. All other requests are served without a
/// session.
impl McpServer {
    /// Also accepts requests to these hosts, such as `tools.example.com` or
    /// `tools.example.com:8443`. Default: only `localhost`, `127.0.0.1` and `::1`, so that a web
    /// page cannot reach the server through DNS rebinding.
    pub fn allow_hosts<S: Into<String>>(self, hosts: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.http.hosts.extend(hosts.into_iter().map(Into::into)))
    }

    /// Also accepts requests of web pages with these origins, such as `https://app.example.com`, or
    /// `http://localhost:*` for every port. Without a port, the origin has the default port of its
    /// scheme. Default: none. A request with another `Origin` is refused with status 403.
    pub fn allow_origins<S: Into<String>>(self, origins: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.http.origins.extend(origins.into_iter().map(Into::into)))
    }

    /// Sets the hook that determines the caller of each request, before its body is read: a
    /// [`BearerToken`](agentflow_front::BearerToken), a closure, or another implementation of
    /// [`Authenticate`]. Runs that a caller starts record it
    /// ([`StartRun::caller`](agentflow_core::runtime::StartRun::caller)); its calls have its scopes,
    /// in addition to the scopes of the server. Default: all clients that can connect may call, with the
    /// scopes of the server. If the hook takes longer than
    /// [`handshake_timeout`](Self::handshake_timeout), the request is refused with status 503.
    ///
    /// A middleware around [`McpHttpService`] that authenticates clients itself can insert a
    /// [`Caller`](agentflow_core::Caller) into the extensions of the request instead. The hook
    /// overrides it.
    ///
    /// ```
    /// use agentflow::Caller;
    /// use agentflow::front::{AuthRefusal, RequestHead};
    /// use agentflow::mcp_server::McpServer;
    /// # use agentflow::prelude::*;
    ///
    /// # let runtime = Runtime::builder().build();
    /// let server = McpServer::from_runtime(&runtime).authenticate(|request: RequestHead| async move {
    ///     match request.header("x-team") {
    ///         Some("accounts") => Ok(Caller::new("accounts").with_scopes(["invoices"])),
    ///         Some(_) => Err(AuthRefusal::forbidden("this team has no access; ask for it")),
    ///         None => Err(AuthRefusal::unauthenticated("name your team")),
    ///     }
    /// });
    /// # drop(server);
    /// ```
    pub fn authenticate(self, authenticate: impl Authenticate) -> Self {
        self.set(|settings| settings.http.authenticate = Some(Arc::new(authenticate)))
    }

    /// Sets the maximum number of concurrent connections of [`serve_http`](Self::serve_http), at
    /// least 1. Further connections wait until another one ends. Default: 256. One address may have
    /// at most a quarter of them, but at least 16, idle: without a request so far, or after a
    /// refused request. Further idle ones are closed.
    pub fn max_connections(self, connections: usize) -> Self {
        self.set(|settings| {
            settings.http.max_connections = connections.clamp(1, Semaphore::MAX_PERMITS);
        })
    }

    /// Sets the maximum number of concurrent sessions. Default: 256. A client beyond the limit is
    /// served without a session, so it receives no questions and no notifications. With 0, no
    /// client gets a session. A session belongs to its caller and to this process.
    pub fn max_sessions(self, sessions: usize) -> Self {
        self.set(|settings| settings.http.max_sessions = sessions)
    }

    /// Sets the maximum number of concurrent sessions of one authenticated caller, so that one
    /// caller cannot use all of them. Default: 64. Further clients of the caller are served without
    /// a session.
    pub fn max_sessions_of_caller(self, sessions: usize) -> Self {
        self.set(|settings| settings.http.max_sessions_of_caller = sessions)
    }

    /// Sets the maximum number of concurrent calls of one authenticated caller, at least 1, so that
    /// one caller does not occupy the server. Default: a quarter of [`max_calls`](Self::max_calls).
    /// Further calls wait for a call of the same caller, at most a quarter of
    /// [`max_waiting`](Self::max_waiting) of them. Any more are refused.
    pub fn max_calls_of_caller(self, calls: usize) -> Self {
        self.set(|settings| settings.max_calls_of_caller = Some(calls.max(1)))
    }

    /// Sets the expiry of sessions: `idle` after the last request or open response, and `age` after
    /// the start, at most one year. Default: 10 minutes and 24 hours. The client must open a new
    /// session then. Calls of an expired session have a few seconds to finish. Then tools are
    /// stopped, runs in memory are cancelled, and runs with a store continue.
    pub fn session_times(self, idle: Duration, age: Duration) -> Self {
        self.set(|settings| (settings.http.session_idle, settings.http.session_age) = (idle, age))
    }

    /// Returns the server as a `tower` service, for an HTTP server that the program runs.
    ///
    /// # Errors
    /// The same as [`check`](Self::check).
    pub async fn http_service(&self) -> Result<McpHttpService, McpServerError> {
        let shared = Arc::clone(self.shared());
        shared.check().await?;
        Ok(McpHttpService::new(shared))
    }

    /// Serves clients at `/mcp` over HTTP/1.1 without TLS. Bind a loopback address, or put a proxy
    /// with TLS in front and use [`authenticate`](Self::authenticate) and
    /// [`allow_hosts`](Self::allow_hosts). The future never completes successfully.
    ///
    /// # Errors
    /// The same as [`check`](Self::check), before a connection is accepted.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections, cancels their calls and ends the sessions.
    pub async fn serve_http(&self, listener: TcpListener) -> Result<(), McpServerError> {
        let service = self.http_service().await?;
        let limits = ConnectionLimits {
            connections: self.settings.http.max_connections,
            head: self.settings.handshake.min(LONGEST_HEAD),
        };
        serve_connections(listener, limits, move |request| answer(service.clone(), request)).await;
        Ok(())
    }
}

/// Answers a request to [`McpServer::serve_http`]. Only [`PATH`] is served.
async fn answer<B>(service: McpHttpService, request: Request<B>) -> Response<McpHttpBody>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    match request.uri().path() {
        PATH => service.answer(request).await,
        _ => plain(StatusCode::NOT_FOUND, format!("the server is at {PATH}")),
    }
}
