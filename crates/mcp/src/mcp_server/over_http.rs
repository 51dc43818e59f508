//! The HTTP methods of `McpServer`: access, the service and the listener. `mod.rs` has the settings
//! for all transports.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::McpServer;
use super::http_callers::{Authenticate, McpCaller, McpRefusal};
use super::http_listener;
use super::http_service::McpHttpService;
use super::mcp_server_error::McpServerError;

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

    /// Also accepts requests of web pages with these origins, such as
    /// `https://app.example.com:443`, or `http://localhost:*` for every port. Default: none. A
    /// request with another `Origin` is refused with status 403.
    pub fn allow_origins<S: Into<String>>(self, origins: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.http.origins.extend(origins.into_iter().map(Into::into)))
    }

    /// Sets the hook that authenticates each request by its headers, before its body is read.
    /// Default: all clients that can connect may call, with the scopes of the server. If the hook
    /// takes longer than [`handshake_timeout`](Self::handshake_timeout), the request is refused
    /// with status 503. The hook's future is dropped when the client disconnects.
    ///
    /// ```
    /// use agentflow::mcp_server::{McpCaller, McpRefusal, McpServer};
    /// # use agentflow::prelude::*;
    ///
    /// # let runtime = Runtime::builder().build();
    /// let server = McpServer::from_runtime(&runtime).authenticate(|headers| async move {
    ///     match headers.get("x-team").and_then(|team| team.to_str().ok()) {
    ///         Some("accounts") => Ok(McpCaller::new("accounts").grant(["invoices"])),
    ///         Some(_) => Err(McpRefusal::forbidden("this team has no access; ask for it")),
    ///         None => Err(McpRefusal::unknown("say who you are")),
    ///     }
    /// });
    /// # drop(server);
    /// ```
    pub fn authenticate<F, C>(self, check: F) -> Self
    where
        F: Fn(http::HeaderMap) -> C + Send + Sync + 'static,
        C: Future<Output = Result<McpCaller, McpRefusal>> + Send + 'static,
    {
        self.set(|settings| settings.http.authenticate = Some(Authenticate::new(check)))
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
        let head = self.settings.handshake.min(http_listener::LONGEST_HEAD);
        http_listener::listen(listener, service, self.settings.http.max_connections, head).await;
        Ok(())
    }
}
