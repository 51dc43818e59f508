//! Sessions of clients of revisions before 2026-07-28 over HTTP: whose one is, how many there are, and when they end. What is
//! said in one is carried by `rmcp`'s transport. Nothing of a session is stored: whoever names one that is gone begins anew.

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
    EventId, LocalSessionHandle, LocalSessionWorker, LocalSessionWorkerError, SessionConfig, SessionError,
    create_local_session,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use rmcp::transport::{Transport, WorkerTransport};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::http_callers::McpCaller;
use super::served_run;
use super::server_settings::HttpSettings;
use crate::caller_slots::{CallerSlot, CallerSlots};
use crate::mcp::{CLOSED, Ending};

/// The shortest time after which a session is looked at again.
const SHORTEST: Duration = Duration::from_millis(10);
/// How long the transport of a session that has ended is waited for.
const CLOSING: Duration = Duration::from_secs(1);
/// Later than any session ends.
const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// All sessions of a server. Cloning is cheap.
#[derive(Clone)]
pub(super) struct HttpSessions(Arc<Sessions>);

struct Sessions {
    open: Mutex<HashMap<SessionId, Arc<Session>>>,
    room: Arc<Semaphore>,
    /// The same of single callers.
    of_callers: Arc<CallerSlots>,
    idle: Duration,
    age: Duration,
    /// What `rmcp`, which logs it, knows the next one as.
    number: AtomicU64,
}

struct Session {
    handle: LocalSessionHandle,
    /// Who has opened it; unset before its handshake.
    caller: OnceLock<Option<String>>,
    /// Given back when it ends, although a response of it may be unread.
    room: Mutex<Option<Room>>,
    ending: Ending,
    ended: CancellationToken,
    used: Mutex<Used>,
}

struct Used {
    /// Responses that are being sent.
    streams: usize,
    last: Instant,
}

/// Room for one session, kept in the head of the request that opens it.
#[derive(Clone)]
pub(super) struct Room(
    #[expect(dead_code, reason = "held until the session has ended")] Arc<(OwnedSemaphorePermit, Option<CallerSlot>)>,
);

/// What a request knows of its session: why it has ended.
#[derive(Clone)]
struct OfSession(Ending);

/// Why the session of a request has ended; `None` when it belongs to none.
pub(super) fn ending_of(context: &RequestContext<RoleServer>) -> Option<&Ending> {
    context.extensions.get::<OfSession>().map(|OfSession(ending)| ending)
}

/// Why a session cannot do what it is to. The client reads it, so it does not name the session.
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

    /// Keeps its room, unless it has ended meanwhile.
    fn takes(&self, room: Room) {
        let mut own = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        *own = (!self.ended.is_cancelled()).then_some(room);
    }

    fn end(&self, why: &str) {
        self.ending.because(why.to_owned());
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        self.ended.cancel();
        *room = None;
    }

    /// When it is to be looked at again, and whether it is over now.
    fn until(&self, idle: Duration, oldest: Instant) -> (Instant, bool) {
        let (now, used) = (Instant::now(), self.used());
        let begins = if used.streams > 0 { now } else { used.last };
        let until = begins.checked_add(idle).unwrap_or(oldest).min(oldest);
        (until, until <= now)
    }

    /// What a response of the session sends, which counts as its use as long as it is read.
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
        let (idle, age) = (settings.session_idle.max(SHORTEST), settings.session_age.clamp(SHORTEST, FAR));
        let of_callers = CallerSlots::new(settings.max_sessions_of_caller);
        Self(Arc::new(Sessions { open: Mutex::default(), room, of_callers, idle, age, number: AtomicU64::new(0) }))
    }

    /// Room for one more; `None` when the most are open, or the most of this caller.
    pub(super) fn room(&self, caller: Option<&McpCaller>) -> Option<Room> {
        let slot = match caller {
            Some(caller) => Some(self.0.of_callers.take(caller.name())?),
            None => None,
        };
        Arc::clone(&self.0.room).try_acquire_owned().ok().map(|permit| Room(Arc::new((permit, slot))))
    }

    /// Whether there is such a session, whoever has opened it.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.0.open().contains_key(id)
    }

    /// Whether there is such a session, and this caller has opened it.
    pub(super) fn has(&self, id: &str, caller: Option<&McpCaller>) -> bool {
        let caller = caller.map(McpCaller::name);
        let session = self.0.open().get(id).cloned();
        session.is_some_and(|session| session.caller.get().is_some_and(|own| own.as_deref() == caller))
    }

    /// Ends all sessions.
    pub(super) fn end_all(&self) {
        let ids: Vec<_> = self.0.open().keys().cloned().collect();
        for id in ids {
            self.0.end(&id, CLOSED);
        }
    }

    /// The session, as one that is used now.
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

    /// Ends a session when nobody has used it for long, or when it is old.
    fn watch(self: &Arc<Self>, id: SessionId, session: Arc<Session>) {
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
        if id.is_empty() {
            return Err(SessionProblem::NoRandomness);
        }
        let mut config = SessionConfig::default();
        // It would count a call that says nothing as idle.
        config.keep_alive = None;
        // Clients of revisions before 2025-11-25 take an event without a message for an error.
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
        if let JsonRpcMessage::Request(request) = &mut message
            && let Some(head) = request.request.extensions_mut().get_mut::<http::request::Parts>()
        {
            if let Some(room) = head.extensions.remove::<Room>() {
                session.takes(room);
            }
            let _ = session.caller.set(head.extensions.get().map(|caller: &McpCaller| caller.name().to_owned()));
        }
        message.insert_extension(OfSession(session.ending.clone()));
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
        message.insert_extension(OfSession(session.ending.clone()));
        let receiver = session.handle.establish_request_wise_channel().await?;
        session.handle.push_message(message, receiver.http_request_id).await?;
        Ok(session.stream(receiver.inner))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), SessionProblem> {
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

/// The messages of a session, until it ends.
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
        let message = tokio::select! {
            biased;
            () = self.session.ended.cancelled() => None,
            message = self.inner.receive() => message,
        };
        if message.is_none() {
            // Calls that end now were not cancelled by their client.
            self.session.ending.because(CLOSED.to_owned());
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // The transport may wait for somebody who reads its messages, which nobody does any more; it ends when it is dropped.
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
        let sessions = HttpSessions::new(&HttpSettings { max_sessions: 1, ..Settings::default().http });
        let (id, mut transport) = sessions.create_session().await.unwrap();
        let client = json!({"name": "by hand", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let mut begin: ClientJsonRpcMessage =
            message(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        let (mut head, ()) = http::Request::new(()).into_parts();
        head.extensions.insert(sessions.room(None).unwrap());
        begin.insert_extension(head);
        let begun = sessions.initialize_session(&id, begin);
        let served = async {
            let Some(JsonRpcMessage::Request(request)) = transport.receive().await else { panic!("no request") };
            assert_eq!(request.id, RequestId::Number(0));
            let answer = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": client});
            transport.send(message(json!({"jsonrpc": "2.0", "id": 0, "result": answer}))).await.unwrap();
        };
        let (begun, ()) = tokio::join!(begun, served);
        begun.unwrap();
        let unread = sessions.create_standalone_stream(&id).await.unwrap();
        // More than the transport takes in without somebody who reads it.
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
