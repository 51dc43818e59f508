//! What `McpServer` has for HTTP: who may connect, the service and the listener. The settings of all transports are in
//! `mod.rs`.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::McpServer;
use super::http_callers::{Authenticate, McpCaller, McpRefusal};
use super::http_listener;
use super::http_service::McpHttpService;
use super::mcp_server_error::McpServerError;

/// Over streamable HTTP, with the feature `mcp-server-http`. A client of a revision before 2026-07-28 that begins a session has
/// one; every other request stands for itself.
impl McpServer {
    /// Accepts requests to these hosts, too, such as `tools.example.com` or `tools.example.com:8443`. Default: `localhost`,
    /// `127.0.0.1` and `::1` alone, so that no page in a browser reaches the server by a name of its own.
    pub fn allow_hosts<S: Into<String>>(self, hosts: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.http.hosts.extend(hosts.into_iter().map(Into::into)))
    }

    /// Accepts requests of pages of these origins, such as `https://app.example.com:443`, or `http://localhost:*` for every
    /// port. Default: none, so that a request with `Origin` is refused with the status 403.
    pub fn allow_origins<S: Into<String>>(self, origins: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.http.origins.extend(origins.into_iter().map(Into::into)))
    }

    /// Finds by the headers of each request who calls, before its body is read. Default: everybody may who can connect, with
    /// the scopes of the server. A hook that takes longer than [`handshake_timeout`](Self::handshake_timeout) refuses with
    /// the status 503. It is dropped when the client goes away.
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

    /// The most connections at once of [`serve_http`](Self::serve_http), at least 1. Default: 256. A further one waits until
    /// another ends. One address may have a quarter of them, at least 16, idle: without a request so far, or with a refused last
    /// one. A further one is closed.
    pub fn max_connections(self, connections: usize) -> Self {
        self.set(|settings| settings.http.max_connections = connections.clamp(1, Semaphore::MAX_PERMITS))
    }

    /// The most sessions at once. Default: 256. A client that begins a further one is served without, so that it is asked
    /// nothing and notified of nothing; 0 serves every client so. A session belongs to the caller that has begun it, and to
    /// this process alone.
    pub fn max_sessions(self, sessions: usize) -> Self {
        self.set(|settings| settings.http.max_sessions = sessions)
    }

    /// The most sessions at once of one caller that [`authenticate`](Self::authenticate) has found, so that no caller has all.
    /// Default: 64. A further one of its clients is served without a session.
    pub fn max_sessions_of_caller(self, sessions: usize) -> Self {
        self.set(|settings| settings.http.max_sessions_of_caller = sessions)
    }

    /// Maximum number of concurrent calls of one caller that [`authenticate`](Self::authenticate) has found, at least 1, so that
    /// one caller does not occupy the server. Default: a quarter of [`max_calls`](Self::max_calls). Further calls wait for a call
    /// of the same caller, at most a quarter of [`max_waiting`](Self::max_waiting) of them; any more are refused.
    pub fn max_calls_of_caller(self, calls: usize) -> Self {
        self.set(|settings| settings.max_calls_of_caller = Some(calls.max(1)))
    }

    /// When a session ends that its client does not end: `idle` after its last request or open response, and `age` after it
    /// has begun, a year at most. Default: 10 minutes, and 24 hours. The client begins a new one. Its calls have a few seconds
    /// to end; then tools are stopped, runs in memory are cancelled, and runs with a store continue.
    pub fn session_times(self, idle: Duration, age: Duration) -> Self {
        self.set(|settings| (settings.http.session_idle, settings.http.session_age) = (idle, age))
    }

    /// The server as a service of `tower`, for a server of HTTP that the host has.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub async fn http_service(&self) -> Result<McpHttpService, McpServerError> {
        let shared = Arc::clone(self.shared());
        shared.check().await?;
        Ok(McpHttpService::new(shared))
    }

    /// Serves clients at `/mcp` over HTTP/1.1, without TLS. It never returns unless with an error; dropping the future ends
    /// the connections and cancels their calls, and ends the sessions. Bind a loopback address, or put a proxy with TLS before it and use
    /// [`authenticate`](Self::authenticate) and [`allow_hosts`](Self::allow_hosts).
    ///
    /// # Errors
    /// As [`check`](Self::check), before anything is accepted.
    pub async fn serve_http(&self, listener: TcpListener) -> Result<(), McpServerError> {
        let service = self.http_service().await?;
        let head = self.settings.handshake.min(http_listener::LONGEST_HEAD);
        http_listener::listen(listener, service, self.settings.http.max_connections, head).await;
        Ok(())
    }
}
