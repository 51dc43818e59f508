//! The lasting link to a server. It owns the current connection, opens a new one when that ends,
//! with growing pauses, and reports the server's health.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rmcp::model::{ClientRequest, ListToolsRequest};
use tokio::time::Instant;

use super::connection::Connection;
use super::handshake;
use super::list_versions::ListVersions;
use super::mcp_error::McpError;
use super::mcp_settings::Described;

/// Pause before a server is started again: first and longest pause.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// Pause after a server has ended too often in a row.
const REST: Duration = Duration::from_secs(60);

/// Minimum and maximum time that listed tools stay valid. Times that the server gives are clamped
/// to them. The minimum exists because the tools are checked before each model call.
const FRESH: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(24 * 60 * 60));

/// The state of a server. Returned by [`McpClient::health`](super::McpClient::health).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpHealth {
    /// `true` if the server is connected now. The first use of its tools opens the connection.
    pub is_connected: bool,
    /// Name and version that the server reports for itself.
    pub implementation: Option<String>,
    /// Protocol revision of the connection, such as `2026-07-28`.
    pub protocol: Option<String>,
    /// Number of times that the server was started or connected.
    pub connections: u64,
    /// Number of consecutive connections that failed, or ended without an answer to a call.
    pub failures: u32,
    /// The last problem.
    pub problem: Option<String>,
    /// Tools that were left out, each with the reason: unusable tools, and the second of two tools
    /// with the same name for models. The entry `*` is the rest of a list that exceeds a limit.
    pub left_out: Vec<(String, String)>,
    /// Last output of the server's process on its standard error, at most 8 KiB. The values of its
    /// environment variables are masked.
    pub said: String,
}

/// The link to one server.
pub(super) struct ServerLink {
    pub(super) described: Arc<Described>,
    pub(super) versions: Arc<ListVersions>,
    /// Time when the fetched tools become outdated, if the server limits their validity.
    tools_until: Mutex<Option<Instant>>,
    current: RwLock<Option<Arc<Connection>>>,
    /// Locked while a connection is being opened.
    attempts: tokio::sync::Mutex<Attempts>,
    health: Mutex<McpHealth>,
}

#[derive(Default)]
struct Attempts {
    failures: u32,
    not_before: Option<Instant>,
    problem: String,
    made: u64,
}

impl ServerLink {
    pub(super) fn new(described: Described) -> Self {
        Self {
            described: Arc::new(described),
            versions: Arc::default(),
            tools_until: Mutex::default(),
            current: RwLock::default(),
            attempts: tokio::sync::Mutex::default(),
            health: Mutex::default(),
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.described.name
    }

    /// Returns the connection, and opens it if necessary. Concurrent callers wait for the same
    /// connection.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>, McpError> {
        self.connected(true).await
    }

    /// Opens or returns the connection. If `is_limited` is set and another caller's login waits for
    /// a person, this caller gives up after the time for connecting.
    async fn connected(&self, is_limited: bool) -> Result<Arc<Connection>, McpError> {
        if let Some(connection) = self.live() {
            return Ok(connection);
        }
        let mut attempts = self.attempt(is_limited).await?;
        // Another caller may have connected while this one waited for the lock.
        if let Some(connection) = self.live() {
            return Ok(connection);
        }
        let before = self.current.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(before) = before {
            // A connection that has answered something ended the series of failures.
            let failures = if before.has_answered() { 1 } else { attempts.failures + 1 };
            self.note(&mut attempts, failures, before.end_reason().await);
        }
        self.wait_for_pause(&attempts).await?;
        match handshake::connect(&self.described, &self.versions).await {
            Ok(connection) => Ok(self.keep(connection, &mut attempts)),
            // The server is running, so a pause before the next attempt would not help.
            Err(error @ McpError::Unauthorized { .. }) => {
                self.health().problem = Some(error.to_string());
                Err(error)
            }
            Err(error) => {
                let failures = attempts.failures + 1;
                self.note(&mut attempts, failures, error.to_string());
                Err(error)
            }
        }
    }

    /// Checks that the server answers, and reconnects first if the connection was lost. An error
    /// response counts as an answer.
    pub(super) async fn check(&self) -> Result<(), McpError> {
        match self.request_tools().await {
            Err(error) if error.is_lost() => self.request_tools().await,
            answered => answered,
        }
    }

    async fn request_tools(&self) -> Result<(), McpError> {
        let connection = self.connection().await?;
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::default());
        match connection
            .request_within("tools/list", request, self.described.settings.call_timeout)
            .await
        {
            Ok(_) | Err(McpError::Refused { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Waits until no other caller is opening a connection.
    async fn attempt(
        &self,
        is_limited: bool,
    ) -> Result<tokio::sync::MutexGuard<'_, Attempts>, McpError> {
        let limit = self.described.settings.connect_timeout.max(PAUSE.0);
        let attempts = self.attempts.lock();
        tokio::pin!(attempts);
        // The login can begin while this caller waits, so its state is checked again after each
        // time-out.
        loop {
            if let Ok(attempts) = tokio::time::timeout(limit, &mut attempts).await {
                return Ok(attempts);
            }
            #[cfg(feature = "auth")]
            if is_limited && self.described.login.as_ref().is_some_and(|login| login.is_asking()) {
                return Err(McpError::asking(self.name()));
            }
            #[cfg(not(feature = "auth"))]
            let _ = is_limited;
        }
    }

    /// Closes the connection, if one is open, and ends a login that waits for a person. The next
    /// request connects again.
    pub(super) async fn close(&self) {
        #[cfg(feature = "auth")]
        // Ends a login that holds the lock, so that the lock becomes free.
        let closing = self.described.login.as_ref().map(|login| login.closing());
        let mut attempts = self.attempts.lock().await;
        #[cfg(feature = "auth")]
        drop(closing);
        let connection = self.current.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(connection) = connection {
            connection.close().await;
        }
        attempts.failures = 0;
        attempts.not_before = None;
    }

    #[cfg(feature = "auth")]
    /// Connects, and allows a login by a person in the meantime. Also logs in if the server accepts
    /// connections without a login.
    pub(super) async fn log_in(&self) -> Result<(), McpError> {
        let Some(login) = &self.described.login else { return Err(self.has_no_login()) };
        let _allowed = login.allow();
        self.connected(false).await?;
        login.log_in().await
    }

    #[cfg(feature = "auth")]
    /// Deletes the login and closes the connection that uses it.
    pub(super) async fn log_out(&self) -> Result<(), McpError> {
        let Some(login) = &self.described.login else { return Err(self.has_no_login()) };
        let removed = {
            let _closing = login.closing();
            login.log_out().await
        };
        self.close().await;
        removed
    }

    #[cfg(feature = "auth")]
    fn has_no_login(&self) -> McpError {
        let problem = format!(
            "`{}` has no `authorization`, with which the program says how it logs in",
            self.name()
        );
        McpError::Config { at: None, problem }
    }

    fn live(&self) -> Option<Arc<Connection>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().filter(|connection| !connection.is_over()).cloned()
    }

    /// Waits until the server may be started again. Fails if the series of failures is too long.
    async fn wait_for_pause(&self, attempts: &Attempts) -> Result<(), McpError> {
        let Some(not_before) = attempts.not_before else { return Ok(()) };
        let retry_in = not_before.saturating_duration_since(Instant::now());
        if attempts.failures > self.described.settings.restarts && !retry_in.is_zero() {
            return Err(McpError::Unavailable {
                server: Arc::clone(self.name()),
                times: attempts.failures,
                retry_in,
                problem: attempts.problem.clone(),
            });
        }
        tokio::time::sleep_until(not_before).await;
        Ok(())
    }

    fn note(&self, attempts: &mut Attempts, failures: u32, problem: String) {
        attempts.failures = failures;
        let pause = match failures > self.described.settings.restarts {
            true => REST,
            false => PAUSE.0.saturating_mul(1 << (failures - 1).min(16)).min(PAUSE.1),
        };
        attempts.not_before = Some(Instant::now() + pause);
        tracing::warn!(server = %self.name(), failures, problem, "an MCP server is not connected");
        attempts.problem.clone_from(&problem);
        let mut health = self.health();
        (health.failures, health.problem) = (failures, Some(problem));
    }

    fn keep(&self, connection: Connection, attempts: &mut Attempts) -> Arc<Connection> {
        attempts.made += 1;
        if attempts.made > 1 {
            // The new connection may have a different version of the server.
            self.versions.invalidate_all();
        }
        let connection = Arc::new(connection);
        {
            let mut health = self.health();
            health.connections = attempts.made;
            let info = connection.info();
            health.protocol = info.as_ref().map(|info| info.protocol_version.as_str().to_owned());
            let of = info.as_ref().and_then(|info| info.server_info.as_ref());
            health.implementation = of.map(|of| format!("{} {}", of.name, of.version));
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) =
            Some(Arc::clone(&connection));
        connection
    }

    /// Returns the version of the tools. The version grows when the validity of the tools has
    /// expired.
    pub(super) fn version_of_tools(&self) -> u64 {
        let mut until = self.tools_until.lock().unwrap_or_else(PoisonError::into_inner);
        if until.is_some_and(|until| until <= Instant::now()) {
            *until = None;
            self.versions.tools.fetch_add(1, Ordering::SeqCst);
        }
        self.versions.tools.load(Ordering::SeqCst)
    }

    /// Limits the validity of the tools that were just fetched. The time is clamped to [`FRESH`].
    pub(super) fn keep_tools(&self, fresh_for: Option<Duration>) {
        let until = fresh_for.map(|fresh_for| Instant::now() + fresh_for.clamp(FRESH.0, FRESH.1));
        *self.tools_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    pub(super) fn health(&self) -> std::sync::MutexGuard<'_, McpHealth> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current state of the server.
    pub(super) fn health_now(&self) -> McpHealth {
        let connection = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut health = self.health().clone();
        if let Some(connection) = connection {
            health.is_connected = !connection.is_over();
            health.said = connection.words();
            if health.is_connected && connection.has_answered() {
                (health.failures, health.problem) = (0, None);
            }
        }
        health
    }
}
