//! A connection to a server, from its handshake to its end. It sends requests, routes their
//! progress and cancels them. A connection never reconnects:
//! [`ServerLink`](super::server_link::ServerLink) replaces it with a new one.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use agentflow_schema::text::head;
use rmcp::RoleClient;
use rmcp::model::{ClientRequest, RequestId, ServerPeerInfo, ServerResult};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RunningService, ServiceError};
use tokio::time::Instant;

use super::child_server::ChildServer;
use super::handshake::{ServerEvents, reasons};
use super::mcp_error::McpError;
use super::mcp_settings::Described;
use super::open_questions::QuestionRoutes;
use super::progress_routes::{CallProgress, ProgressRoutes};
use super::stray_lines::StrayLines;

/// Maximum number of bytes of a server's text in an error.
const MOST_WORDS: usize = 2048;

/// The reason why a connection ended. The first reported reason wins.
#[derive(Clone, Default)]
pub(crate) struct Ending(Arc<OnceLock<String>>);

impl Ending {
    pub(crate) fn because(&self, reason: String) {
        let _ = self.0.set(reason);
    }

    pub(crate) fn reason(&self) -> Option<String> {
        self.0.get().cloned()
    }
}

/// A connection to a server. Dropping it ends the connection and the server's process.
pub(super) struct Connection {
    described: Arc<Described>,
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, ServerEvents>>>,
    child: tokio::sync::Mutex<Option<ChildServer>>,
    progress: Arc<ProgressRoutes>,
    questions: Arc<QuestionRoutes>,
    strays: StrayLines,
    ending: Ending,
    /// `true` once the server has answered a tool call, a list, a resource or a prompt.
    has_answered: AtomicBool,
    /// `true` once a message could not be sent. Over HTTP the transport still looks open then, but
    /// the server may have discarded the session.
    is_broken: AtomicBool,
}

impl Connection {
    pub(super) fn new(
        described: Arc<Described>,
        service: RunningService<RoleClient, ServerEvents>,
        child: Option<ChildServer>,
        (progress, questions, strays): (Arc<ProgressRoutes>, Arc<QuestionRoutes>, StrayLines),
        ending: Ending,
    ) -> Self {
        Self {
            described,
            peer: service.peer().clone(),
            service: Mutex::new(Some(service)),
            child: tokio::sync::Mutex::new(child),
            progress,
            questions,
            strays,
            ending,
            has_answered: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.peer.is_transport_closed() || self.is_broken.load(Ordering::Relaxed)
    }

    /// Returns `true` if the server has answered at least one request since the handshake.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    pub(super) fn count_answer(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
    }

    pub(super) fn info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.peer.peer_info()
    }

    /// Returns the reason why the connection ended, if it is known.
    pub(super) async fn end_reason(&self) -> String {
        let reason = self.ending.reason();
        let epitaph = match self.child.lock().await.as_mut() {
            Some(child) => child.epitaph().await,
            None => String::new(),
        };
        match (reason, epitaph.is_empty()) {
            (Some(reason), true) => reason,
            (Some(reason), false) => format!("{reason}; {}", head(&epitaph, MOST_WORDS)),
            (None, true) => "no reason is known".to_owned(),
            (None, false) => head(&epitaph, MOST_WORDS).to_owned(),
        }
    }

    /// Returns the last output of the server's process on its standard error.
    pub(super) fn words(&self) -> String {
        // The lock is taken while the process ends. Health reports must not wait for that.
        let child = self.child.try_lock();
        child
            .ok()
            .and_then(|child| child.as_ref().map(|child| child.words().text()))
            .unwrap_or_default()
    }

    /// Closes the connection and waits until the server's process has exited.
    pub(super) async fn close(&self) {
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Calls that fail from now on report this reason.
        self.ending.because("this program closed it".to_owned());
        if let Some(service) = service {
            let _ = service.cancel().await;
        }
        if let Some(child) = self.child.lock().await.take() {
            child.end().await;
        }
    }

    /// Returns the routes of the server's questions to the calls that are running.
    pub(super) fn questions(&self) -> &Arc<QuestionRoutes> {
        &self.questions
    }

    /// Sends a request and waits for the response. Dropping the future cancels the request.
    /// `progress` receives the progress notifications of the request. If the server refuses the
    /// request because it wants a login, the request is sent again with a new login, if one can be
    /// obtained.
    pub(super) async fn ask(
        &self,
        name: &'static str,
        request: ClientRequest,
        progress: impl FnMut(CallProgress),
    ) -> Result<ServerResult, McpError> {
        self.request_with_id(name, request, |_| (), progress).await
    }

    /// Sends a request like [`ask`](Self::ask). Each time the request is sent, `sent_as` receives
    /// its id. It receives `None` when the server refused the request because it wants a login.
    pub(super) async fn request_with_id(
        &self,
        name: &'static str,
        request: ClientRequest,
        mut sent_as: impl FnMut(Option<RequestId>),
        mut progress: impl FnMut(CallProgress),
    ) -> Result<ServerResult, McpError> {
        #[cfg(feature = "auth")]
        if let Some(login) = &self.described.login {
            let mut tries = login.tries();
            loop {
                login.begin(&mut tries);
                match self.request_once(name, request.clone(), &mut sent_as, &mut progress).await {
                    Err(NoAnswer { refused: Some(refused), .. }) => {
                        sent_as(None);
                        login.answer(&refused, &mut tries).await?;
                    }
                    other => return other.map_err(|failed| failed.error),
                }
            }
        }
        self.request_once(name, request, &mut sent_as, &mut progress)
            .await
            .map_err(|failed| failed.error)
    }

    async fn request_once(
        &self,
        name: &'static str,
        request: ClientRequest,
        sent_as: &mut impl FnMut(Option<RequestId>),
        progress: &mut impl FnMut(CallProgress),
    ) -> Result<ServerResult, NoAnswer> {
        // Stray lines from before this time do not belong to the request.
        let since = Instant::now();
        let sent =
            self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        let handle = match sent {
            Ok(handle) => handle,
            Err(error) => return Err(self.failed(name, error).await),
        };
        // The server may ask a question as soon as it has the request, so its id is reported first.
        sent_as(Some(handle.id.clone()));
        let mut said = self.progress.subscribe(handle.progress_token.clone());
        let mut asked = PendingRequest(Some(handle));
        let mut stray = pin!(self.strays.wait_for_stray_line(since));
        let answer = loop {
            let Some(handle) = &mut asked.0 else {
                return Err(self.failed(name, ServiceError::TransportClosed).await);
            };
            tokio::select! {
                // Progress that arrived before the response is delivered before it.
                biased;
                Some(word) = said.receiver.recv() => progress(word),
                answer = &mut handle.rx => break answer.unwrap_or(Err(ServiceError::TransportClosed)),
                // The line was probably the response, in a broken form. Without this branch, the
                // call would wait until its time-out.
                line = &mut stray => {
                    let problem = format!("it wrote a line that is not a message: `{}`", self.described.masked(&line));
                    return Err(NoAnswer::from(self.unusable(name, problem)));
                }
            }
        };
        asked.0 = None;
        match answer {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.failed(name, error).await),
        }
    }

    /// Sends a request like [`ask`](Self::ask), with a time limit.
    pub(super) async fn request_within(
        &self,
        name: &'static str,
        request: ClientRequest,
        limit: Duration,
    ) -> Result<ServerResult, McpError> {
        let asked = tokio::time::timeout(limit, self.ask(name, request, |_| ())).await;
        #[cfg(feature = "auth")]
        // While a person is being asked to log in, a time-out is not the server's fault.
        if asked.is_err() && self.described.login.as_ref().is_some_and(|login| login.is_asking()) {
            return Err(McpError::asking(&self.described.name));
        }
        asked.unwrap_or_else(|_| {
            Err(McpError::Silent { server: self.server(), request: name, limit })
        })
    }

    fn server(&self) -> Arc<str> {
        Arc::clone(&self.described.name)
    }

    async fn failed(&self, request: &'static str, error: ServiceError) -> NoAnswer {
        #[cfg(feature = "http")]
        // Over HTTP, the refusal arrives as a transport error.
        if let ServiceError::TransportSend(error) = &error
            && let Some(failed) = self.unauthorized(&*error.error)
        {
            return failed;
        }
        NoAnswer::from(self.lost(request, error).await)
    }

    #[cfg(feature = "http")]
    /// Returns the error for a request that was refused because the server wants a login. The
    /// connection stays usable.
    fn unauthorized(&self, error: &(dyn std::error::Error + 'static)) -> Option<NoAnswer> {
        #[cfg(feature = "auth")]
        if let Some(error) = super::http_failures::login_error(error) {
            return Some(error.into());
        }
        let refused = super::http_failures::refused(error)?;
        let error = McpError::Unauthorized { server: self.server(), problem: refused.problem() };
        Some(NoAnswer { error, refused: Some(refused) })
    }

    async fn lost(&self, request: &'static str, error: ServiceError) -> McpError {
        let server = self.server();
        match error {
            ServiceError::McpError(error) => McpError::Refused {
                server,
                request,
                code: error.code.0,
                message: head(&self.described.masked(&error.message), MOST_WORDS).to_owned(),
            },
            ServiceError::TransportSend(error) => {
                let problem = self.described.masked(&reasons(&*error.error));
                let problem = head(&problem, MOST_WORDS).to_owned();
                self.ending.because(problem.clone());
                self.is_broken.store(true, Ordering::Relaxed);
                // Without a TCP connection the server cannot have executed the request, so this is
                // not `Lost`.
                match never_arrived(&*error.error) {
                    true => McpError::Connect { server, problem },
                    false => McpError::Lost { server, request, problem },
                }
            }
            ServiceError::TransportClosed | ServiceError::Cancelled { .. } => {
                McpError::Lost { server, request, problem: self.end_reason().await }
            }
            other => McpError::Answer {
                server,
                request,
                problem: head(&other.to_string(), MOST_WORDS).to_owned(),
            },
        }
    }

    /// Returns the error for a response of a different type than the request expects.
    pub(super) fn unexpected(&self, request: &'static str) -> McpError {
        self.unusable(request, "it is not an answer to this request".to_owned())
    }

    pub(super) fn unusable(&self, request: &'static str, problem: String) -> McpError {
        McpError::Answer { server: self.server(), request, problem }
    }
}

/// The error of a request without a response.
struct NoAnswer {
    error: McpError,
    #[cfg(feature = "http")]
    #[cfg_attr(not(feature = "auth"), allow(dead_code, reason = "nobody logs in"))]
    /// The server's request for a login, if that is the reason.
    refused: Option<super::http_failures::Refused>,
}

impl From<McpError> for NoAnswer {
    fn from(error: McpError) -> Self {
        Self {
            error,
            #[cfg(feature = "http")]
            refused: None,
        }
    }
}

/// Returns `true` if the message cannot have reached the server.
fn never_arrived(error: &(dyn std::error::Error + 'static)) -> bool {
    #[cfg(feature = "http")]
    return super::http_failures::never_arrived(error);
    #[cfg(not(feature = "http"))]
    {
        let _ = error;
        false
    }
}

/// A request in flight. Dropping it cancels the request, unless the handle was removed.
struct PendingRequest(Option<RequestHandle<RoleClient>>);

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(handle.cancel(Some("the caller no longer waits".to_owned())));
        }
    }
}
