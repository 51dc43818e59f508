//! `ServerOptions` with the defaults of a server, `ServerState`, which the handlers share, and
//! `StopSignal`, which ends streams.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agentflow_core::Runtime;
use agentflow_front::{Authenticate, FrontSettings, HttpFront};
use tokio::sync::watch;

/// Settings of a server.
#[derive(Clone)]
pub(crate) struct ServerOptions {
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    pub(crate) authenticate: Option<Arc<dyn Authenticate>>,
    pub(crate) max_body: usize,
    pub(crate) body_timeout: Duration,
    pub(crate) max_requests: usize,
    pub(crate) max_requests_of_caller: usize,
    pub(crate) max_streams: usize,
    pub(crate) max_streams_of_caller: usize,
    pub(crate) max_connections: usize,
    pub(crate) heartbeat: Duration,
    pub(crate) write_timeout: Duration,
    pub(crate) shutdown_timeout: Duration,
    pub(crate) has_page: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            origins: Vec::new(),
            authenticate: None,
            max_body: 4 << 20,
            body_timeout: Duration::from_secs(30),
            max_requests: 512,
            max_requests_of_caller: 64,
            max_streams: 2048,
            max_streams_of_caller: 256,
            max_connections: 4096,
            heartbeat: Duration::from_secs(15),
            write_timeout: Duration::from_secs(30),
            shutdown_timeout: Duration::from_secs(10),
            has_page: true,
        }
    }
}

impl ServerOptions {
    /// Creates the checks that every request passes.
    pub(crate) fn front(&self) -> HttpFront {
        HttpFront::new(FrontSettings {
            hosts: self.hosts.clone(),
            origins: self.origins.clone(),
            own_pages: self.has_page,
            authenticate: self.authenticate.clone(),
            authenticate_timeout: self.body_timeout,
            max_body: self.max_body,
            body_timeout: self.body_timeout,
            max_requests: self.max_requests,
            max_requests_of_caller: self.max_requests_of_caller,
            max_streams: self.max_streams,
            max_streams_of_caller: self.max_streams_of_caller,
        })
    }
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions")
            .field("hosts", &self.hosts)
            .field("origins", &self.origins)
            .field("authenticates", &self.authenticate.is_some())
            .finish_non_exhaustive()
    }
}

/// State of the router, shared by all handlers.
#[derive(Clone, Debug)]
pub(crate) struct ServerState(Arc<ServerShared>);

#[derive(Debug)]
struct ServerShared {
    runtime: Runtime,
    front: HttpFront,
    settings: ServerOptions,
    open_api: bytes::Bytes,
    stop_signal: StopSignal,
}

impl ServerState {
    pub(crate) fn new(
        runtime: Runtime,
        settings: ServerOptions,
        open_api: bytes::Bytes,
        stop_signal: StopSignal,
    ) -> Self {
        let front = settings.front();
        Self(Arc::new(ServerShared { runtime, front, settings, open_api, stop_signal }))
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }

    pub(crate) fn front(&self) -> &HttpFront {
        &self.0.front
    }

    pub(crate) fn settings(&self) -> &ServerOptions {
        &self.0.settings
    }

    /// Returns the OpenAPI document.
    pub(crate) fn open_api(&self) -> bytes::Bytes {
        self.0.open_api.clone()
    }

    pub(crate) fn stop_signal(&self) -> StopSignal {
        self.0.stop_signal.clone()
    }
}

/// Tells the streams of a server that it stops. Requests end by themselves, streams may not.
#[derive(Clone, Debug)]
pub(crate) struct StopSignal(watch::Receiver<bool>);

/// Sends the signal. Dropping it sends the signal, too.
#[derive(Debug)]
pub(crate) struct StopSender(watch::Sender<bool>);

impl StopSignal {
    pub(crate) fn new() -> (StopSender, Self) {
        let (sender, receiver) = watch::channel(false);
        (StopSender(sender), Self(receiver))
    }

    /// Waits until the server stops.
    pub(crate) async fn stopped(&mut self) {
        // An error means that the sender is gone, so the server is gone, too.
        let _ = self.0.wait_for(|stops| *stops).await;
    }
}

impl StopSender {
    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }
}
