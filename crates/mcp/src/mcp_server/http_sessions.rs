//! HTTP sessions for clients of protocol revisions before 2026-07-28: their owners, their number,
//! and their expiry. `rmcp`'s transport carries their messages. Sessions are not stored. A client
//! whose session is gone must open a new one.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, GetExtensions, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::{RequestContext, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    EventId, LocalSessionHandle, LocalSessionWorker, LocalSessionWorkerError, SessionConfig,
    SessionError, create_local_session,
};
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
};
use rmcp::transport::{Transport, WorkerTransport};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::served_run;
use super::server_settings::HttpSettings;
use crate::mcp::{CLOSED, Ending};
use agentflow_core::Caller;
use agentflow_front::{CallerSlot, CallerSlots};

/// Minimum time between two checks of a session.
const SHORTEST: Duration = Duration::from_millis(10);
/// Maximum time to wait until the transport of an ended session has closed.
const CLOSING: Duration = Duration::from_secs(1);
/// Maximum age of a session.
const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// All sessions of a server. Cloning is cheap.
#[derive(Clone)]
pub(super) struct HttpSessions(Arc<Sessions>);

struct Sessions {
    open: Mutex<HashMap<SessionId, Arc<Session>>>,
    room: Arc<Semaphore>,
    /// Session slots of single callers.
    of_callers: Arc<CallerSlots>,
    idle: Duration,
    age: Duration,
    /// Number of the next session in `rmcp`'s logs. The id of a session is a secret and must not be
    /// logged.
    number: AtomicU64,
}

struct Session {
    handle: LocalSessionHandle,
    /// Caller that has opened the session. Not set before the handshake.
    caller: OnceLock<Option<String>>,
    /// Released when the session ends, even if a response of it is unread.
    room: Mutex<Option<SessionSlot>>,
    ending: Ending,
    ended: CancellationToken,
    used: Mutex<Used>,
}

struct Used {
    /// Number of responses that are being sent.
    streams: usize,
    last: Instant,
}

/// A slot for one session. The request that opens the session carries it in its extensions.
#[derive(Clone)]
pub(super) struct SessionSlot(
    #[expect(dead_code, reason = "held until the session has ended")]
    Arc<(OwnedSemaphorePermit, Option<CallerSlot>)>,
);

/// Extension of a request with the reason why its session has ended.
#[derive(Clone)]
struct SessionEnding(Ending);

/// Returns the ending of the request's session, or `None` if the request has no session.
pub(super) fn session_ending(context: &RequestContext<RoleServer>) -> Option<&Ending> {
    context.extensions.get::<SessionEnding>().map(|SessionEnding(ending)| ending)
}

/// Failure of an operation on a session. The client reads the text, which therefore does not
/// contain the session's id.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionProblem {
    #[error("the session has ended; begin a new one")]
    Ended,
    #[error("the machine has no randomness for a session")]
    NoRandomness,
}

impl From<SessionError> for SessionProblem {
    fn from(_: SessionError) -> Self {
        Self::Ended
    }
}

impl Session {
    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the slot of the session, unless the session has ended in the meantime.
    fn takes(&self, room: SessionSlot) {
        let mut own = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        *own = (!self.ended.is_cancelled()).then_some(room);
    }

    fn end(&self, why: &str) {
        self.ending.because(why.to_owned());
        // The lock prevents `takes` from storing a slot after the end of the session.
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        self.ended.cancel();
        *room = None;
    }

    /// Returns the time of the next check, and `true` if the session has expired now.
    fn until(&self, idle: Duration, oldest: Instant) -> (Instant, bool) {
        let (now, used) = (Instant::now(), self.used());
        // An open response counts as use.
        let begins = if used.streams > 0 { now } else { used.last };
        let until = begins.checked_add(idle).unwrap_or(oldest).min(oldest);
        (until, until <= now)
    }

    /// Returns the messages of a response. The session counts as used until the stream is dropped.
    fn stream(
        self: Arc<Self>,
        messages: mpsc::Receiver<ServerSseMessage>,
    ) -> impl Stream<Item = ServerSseMessage> + use<> {
        self.used().streams += 1;
        let ended = self.ended.clone().cancelled_owned();
        OpenStream { messages, session: self }.take_until(ended)
    }
}

struct OpenStream {
    messages: mpsc::Receiver<ServerSseMessage>,
    session: Arc<Session>,
}

impl Stream for OpenStream {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        self.messages.poll_recv(cx)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut used = self.session.used();
        used.streams -= 1;
        used.last = Instant::now();
    }
}

impl HttpSessions {
    pub(super) fn new(settings: &HttpSettings) -> Self {
        let room = Arc::new(Semaphore::new(settings.max_sessions.min(Semaphore::MAX_PERMITS)));
        let (idle, age) =
            (settings.session_idle.max(SHORTEST), settings.session_age.clamp(SHORTEST, FAR));
        let of_callers = CallerSlots::new(settings.max_sessions_of_caller);
        Self(Arc::new(Sessions {
            open: Mutex::default(),
            room,
            of_callers,
            idle,
            age,
            number: AtomicU64::new(0),
        }))
    }

    /// Reserves a slot for a session. Returns `None` if the server or the caller has too many
    /// sessions.
    pub(super) fn room(&self, caller: Option<&Caller>) -> Option<SessionSlot> {
        let slot = match caller {
            Some(caller) => Some(self.0.of_callers.take(caller.name())?),
            None => None,
        };
        Arc::clone(&self.0.room)
            .try_acquire_owned()
            .ok()
            .map(|permit| SessionSlot(Arc::new((permit, slot))))
    }

    /// Returns `true` if the session exists.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.0.open().contains_key(id)
    }

    /// Returns `true` if the session exists and was opened by this caller.
    pub(super) fn has(&self, id: &str, caller: Option<&Caller>) -> bool {
        let caller = caller.map(Caller::name);
        let session = self.0.open().get(id).cloned();
        session
            .is_some_and(|session| session.caller.get().is_some_and(|own| own.as_deref() == caller))
    }

    /// Ends all sessions.
    pub(super) fn end_all(&self) {
        let ids: Vec<_> = self.0.open().keys().cloned().collect();
        for id in ids {
            self.0.end(&id, CLOSED);
        }
    }

    /// Returns the session and records its use.
    fn used(&self, id: &SessionId) -> Result<Arc<Session>, SessionProblem> {
        let session = self.0.open().get(id).cloned().ok_or(SessionProblem::Ended)?;
        session.used().last = Instant::now();
        Ok(session)
    }
}

impl Sessions {
    fn open(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Session>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, id: &str, why: &str) {
        if let Some(session) = self.open().remove(id) {
            session.end(why);
        }
    }

    /// Starts a task that ends the session when it is idle for too long or too old.
    fn watch(self: &Arc<Self>, id: SessionId, session: Arc<Session>) {
        // The weak reference lets the server drop its sessions.
        let (all, idle, oldest) = (Arc::downgrade(self), self.idle, Instant::now() + self.age);
        tokio::spawn(async move {
            loop {
                let (until, is_over) = session.until(idle, oldest);
                if is_over {
                    if let Some(all) = all.upgrade() {
                        all.end(&id, "the session was idle for too long, or too old");
                    }
                    return;
                }
                tokio::select! {
                    () = session.ended.cancelled() => return,
                    () = tokio::time::sleep_until(until) => {}
                }
            }
        });
    }
}

impl SessionManager for HttpSessions {
    type Error = SessionProblem;
    type Transport = SessionTransport;

    async fn create_session(&self) -> Result<(SessionId, SessionTransport), SessionProblem> {
        let id: SessionId = served_run::token().into();
        // An empty token means that the system has no randomness.
        if id.is_empty() {
            return Err(SessionProblem::NoRandomness);
        }
        let mut config = SessionConfig::default();
        // The keep-alive of `rmcp` would treat a call without output as idle.
        config.keep_alive = None;
        // Clients of revisions before 2025-11-25 treat an event without a message as an error.
        config.sse_retry = None;
        let number = self.0.number.fetch_add(1, Ordering::Relaxed);
        let (handle, worker) = create_local_session(number.to_string(), config);
        let session = Arc::new(Session {
            handle,
            caller: OnceLock::new(),
            room: Mutex::default(),
            ending: Ending::default(),
            ended: CancellationToken::new(),
            used: Mutex::new(Used { streams: 0, last: Instant::now() }),
        });
        self.0.open().insert(id.clone(), Arc::clone(&session));
        self.0.watch(id.clone(), Arc::clone(&session));
        Ok((id, SessionTransport { inner: WorkerTransport::spawn(worker), session }))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionProblem> {
        let session = self.used(id)?;
        // The slot moves from the request to the session, which outlives the request.
        if let JsonRpcMessage::Request(request) = &mut message
            && let Some(head) = request.request.extensions_mut().get_mut::<http::request::Parts>()
        {
            if let Some(room) = head.extensions.remove::<SessionSlot>() {
                session.takes(room);
            }
            let _ = session
                .caller
                .set(head.extensions.get().map(|caller: &Caller| caller.name().to_owned()));
        }
        message.insert_extension(SessionEnding(session.ending.clone()));
        Ok(session.handle.initialize(message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionProblem> {
        Ok(self.is_open(id))
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionProblem> {
        self.0.end(id, CLOSED);
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionProblem> {
        let session = self.used(id)?;
        message.insert_extension(SessionEnding(session.ending.clone()));
        let receiver = session.handle.establish_request_wise_channel().await?;
        session.handle.push_message(message, receiver.http_request_id).await?;
        Ok(session.stream(receiver.inner))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionProblem> {
        Ok(self.used(id)?.handle.push_message(message, None).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionProblem> {
        let session = self.used(id)?;
        let receiver = session.handle.establish_common_channel().await?;
        Ok(session.stream(receiver.inner))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionProblem> {
        let session = self.used(id)?;
        let last: EventId = last_event_id.parse().map_err(|_| SessionProblem::Ended)?;
        let receiver = session.handle.resume(last).await?;
        Ok(session.stream(receiver.inner))
    }
}

/// The transport of a session. It ends with the session.
pub(super) struct SessionTransport {
    inner: WorkerTransport<LocalSessionWorker>,
    session: Arc<Session>,
}

impl Transport<RoleServer> for SessionTransport {
    type Error = LocalSessionWorkerError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        // An ended session does not read further messages.
        let message = tokio::select! {
            biased;
            () = self.session.ended.cancelled() => None,
            message = self.inner.receive() => message,
        };
        if message.is_none() {
            // Calls that end from now on were not cancelled by their client.
            self.session.ending.because(CLOSED.to_owned());
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // The transport may wait for a reader of its messages. An ended session has no reader, and
        // dropping the transport ends it.
        tokio::time::timeout(CLOSING, self.inner.close()).await.unwrap_or(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::RequestId;
    use serde_json::json;

    use super::super::server_settings::Settings;
    use super::*;

    fn message<M: serde::de::DeserializeOwned>(message: serde_json::Value) -> M {
        serde_json::from_value(message).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_nobody_reads_ends_and_gives_its_room_back() {
        let sessions =
            HttpSessions::new(&HttpSettings { max_sessions: 1, ..Settings::default().http });
        let (id, mut transport) = sessions.create_session().await.unwrap();
        let client = json!({"name": "by hand", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let mut begin: ClientJsonRpcMessage =
            message(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        let (mut head, ()) = http::Request::new(()).into_parts();
        head.extensions.insert(sessions.room(None).unwrap());
        begin.insert_extension(head);
        let begun = sessions.initialize_session(&id, begin);
        let served = async {
            let Some(JsonRpcMessage::Request(request)) = transport.receive().await else {
                panic!("no request")
            };
            assert_eq!(request.id, RequestId::Number(0));
            let answer =
                json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": client});
            transport
                .send(message(json!({"jsonrpc": "2.0", "id": 0, "result": answer})))
                .await
                .unwrap();
        };
        let (begun, ()) = tokio::join!(begun, served);
        begun.unwrap();
        let unread = sessions.create_standalone_stream(&id).await.unwrap();
        // More messages than the transport buffers without a reader.
        for _ in 0..24 {
            let said = message(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
            sessions.accept_message(&id, said).await.unwrap();
        }
        assert!(sessions.room(None).is_none());
        sessions.close_session(&id).await.unwrap();
        assert!(sessions.room(None).is_some() && !sessions.is_open(&id));
        assert!(transport.receive().await.is_none());
        transport.close().await.unwrap();
        drop(unread);
    }
}
