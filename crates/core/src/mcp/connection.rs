//! One connection to a server, from its handshake to its end: requests, their progress and their cancellation. It is never
//! made anew; `server_link.rs` makes another one.

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
use super::open_questions::OpenQuestions;
use super::progress_routes::{CallProgress, ProgressRoutes};
use super::stray_lines::StrayLines;

/// The most bytes of a server's own words in an error.
const MOST_WORDS: usize = 2048;

/// Why a connection ended: the first reason that is known.
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

/// A connection; dropping it ends it, and the process behind it.
pub(super) struct Connection {
    described: Arc<Described>,
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, ServerEvents>>>,
    child: tokio::sync::Mutex<Option<ChildServer>>,
    progress: Arc<ProgressRoutes>,
    questions: Arc<OpenQuestions>,
    strays: StrayLines,
    ending: Ending,
    /// Whether it has answered a request for something: the call of a tool, a list, a resource or a prompt.
    has_answered: AtomicBool,
    /// Whether a message could not be sent over it. Over HTTP it looks as before, and the server may have forgotten it.
    is_broken: AtomicBool,
}

impl Connection {
    pub(super) fn new(
        described: Arc<Described>,
        service: RunningService<RoleClient, ServerEvents>,
        child: Option<ChildServer>,
        (progress, questions, strays): (Arc<ProgressRoutes>, Arc<OpenQuestions>, StrayLines),
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

    /// Whether it was good for something.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    pub(super) fn count_answer(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
    }

    pub(super) fn info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.peer.peer_info()
    }

    /// Why it is over, as far as that is known.
    pub(super) async fn why_over(&self) -> String {
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

    /// What its process wrote to its standard error last.
    pub(super) fn words(&self) -> String {
        let child = self.child.try_lock();
        child.ok().and_then(|child| child.as_ref().map(|child| child.words().text())).unwrap_or_default()
    }

    /// Ends it, and waits until its process is gone.
    pub(super) async fn close(&self) {
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.ending.because("this program closed it".to_owned());
        if let Some(service) = service {
            let _ = service.cancel().await;
        }
        if let Some(child) = self.child.lock().await.take() {
            child.end().await;
        }
    }

    /// Where the server's questions find the call that they belong to.
    pub(super) fn questions(&self) -> &Arc<OpenQuestions> {
        &self.questions
    }

    /// Asks the server. Dropping the future tells it to stop. `progress` gets what it says meanwhile. What it refuses for want
    /// of a login is asked again with another one, if there can be one.
    pub(super) async fn ask(
        &self,
        name: &'static str,
        request: ClientRequest,
        progress: impl FnMut(CallProgress),
    ) -> Result<ServerResult, McpError> {
        self.ask_as(name, request, |_| (), progress).await
    }

    /// The same; `sent_as` gets the id of the request when it is on its way, each time that it is sent.
    pub(super) async fn ask_as(
        &self,
        name: &'static str,
        request: ClientRequest,
        mut sent_as: impl FnMut(Option<RequestId>),
        mut progress: impl FnMut(CallProgress),
    ) -> Result<ServerResult, McpError> {
        #[cfg(feature = "mcp-auth")]
        if let Some(login) = &self.described.login {
            let mut tries = login.tries();
            loop {
                login.begin(&mut tries);
                match self.ask_once(name, request.clone(), &mut sent_as, &mut progress).await {
                    Err(NoAnswer { refused: Some(refused), .. }) => {
                        sent_as(None);
                        login.answer(&refused, &mut tries).await?;
                    }
                    other => return other.map_err(|failed| failed.error),
                }
            }
        }
        self.ask_once(name, request, &mut sent_as, &mut progress).await.map_err(|failed| failed.error)
    }

    async fn ask_once(
        &self,
        name: &'static str,
        request: ClientRequest,
        sent_as: &mut impl FnMut(Option<RequestId>),
        progress: &mut impl FnMut(CallProgress),
    ) -> Result<ServerResult, NoAnswer> {
        let since = Instant::now();
        let sent = self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        let handle = match sent {
            Ok(handle) => handle,
            Err(error) => return Err(self.failed(name, error).await),
        };
        sent_as(Some(handle.id.clone()));
        let mut said = self.progress.of(handle.progress_token.clone());
        let mut asked = Asked(Some(handle));
        let mut stray = pin!(self.strays.in_place_of_answer(since));
        let answer = loop {
            let Some(handle) = &mut asked.0 else { return Err(self.failed(name, ServiceError::TransportClosed).await) };
            tokio::select! {
                biased;
                Some(word) = said.receiver.recv() => progress(word),
                answer = &mut handle.rx => break answer.unwrap_or(Err(ServiceError::TransportClosed)),
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

    /// The same within a time limit.
    pub(super) async fn ask_within(
        &self,
        name: &'static str,
        request: ClientRequest,
        limit: Duration,
    ) -> Result<ServerResult, McpError> {
        let asked = tokio::time::timeout(limit, self.ask(name, request, |_| ())).await;
        #[cfg(feature = "mcp-auth")]
        if asked.is_err() && self.described.login.as_ref().is_some_and(|login| login.is_asking()) {
            return Err(McpError::asking(&self.described.name));
        }
        asked.unwrap_or_else(|_| Err(McpError::Silent { server: self.server(), request: name, limit }))
    }

    fn server(&self) -> Arc<str> {
        Arc::clone(&self.described.name)
    }

    async fn failed(&self, request: &'static str, error: ServiceError) -> NoAnswer {
        #[cfg(feature = "mcp-http")]
        if let ServiceError::TransportSend(error) = &error
            && let Some(failed) = self.unauthorized(&*error.error)
        {
            return failed;
        }
        NoAnswer::from(self.lost(request, error).await)
    }

    /// A request that was refused for want of a login, after which the connection is as it was.
    #[cfg(feature = "mcp-http")]
    fn unauthorized(&self, error: &(dyn std::error::Error + 'static)) -> Option<NoAnswer> {
        #[cfg(feature = "mcp-auth")]
        if let Some(error) = super::http_failures::without_login(error) {
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
                match never_arrived(&*error.error) {
                    true => McpError::Connect { server, problem },
                    false => McpError::Lost { server, request, problem },
                }
            }
            ServiceError::TransportClosed | ServiceError::Cancelled { .. } => {
                McpError::Lost { server, request, problem: self.why_over().await }
            }
            other => McpError::Answer { server, request, problem: head(&other.to_string(), MOST_WORDS).to_owned() },
        }
    }

    /// An answer of another kind than the request asks for, or one whose values have wrong types.
    pub(super) fn unexpected(&self, request: &'static str) -> McpError {
        self.unusable(request, "it is not an answer to this request".to_owned())
    }

    pub(super) fn unusable(&self, request: &'static str, problem: String) -> McpError {
        McpError::Answer { server: self.server(), request, problem }
    }
}

/// Why there is no answer.
struct NoAnswer {
    error: McpError,
    /// What the server said when it wanted a login.
    #[cfg(feature = "mcp-http")]
    #[cfg_attr(not(feature = "mcp-auth"), allow(dead_code, reason = "nobody logs in"))]
    refused: Option<super::http_failures::Refused>,
}

impl From<McpError> for NoAnswer {
    fn from(error: McpError) -> Self {
        Self {
            error,
            #[cfg(feature = "mcp-http")]
            refused: None,
        }
    }
}

/// Whether a message cannot have reached the server.
fn never_arrived(error: &(dyn std::error::Error + 'static)) -> bool {
    #[cfg(feature = "mcp-http")]
    return super::http_failures::never_arrived(error);
    #[cfg(not(feature = "mcp-http"))]
    {
        let _ = error;
        false
    }
}

/// A request that is cancelled unless its answer is there.
struct Asked(Option<RequestHandle<RoleClient>>);

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(handle.cancel(Some("the caller no longer waits".to_owned())));
        }
    }
}
