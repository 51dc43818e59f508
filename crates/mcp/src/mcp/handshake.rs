//! Connects to a server within a time limit, in either era of the protocol: the older era with the
//! `initialize` handshake, or the newer one with `server/discover`. Also receives the notifications
//! of the server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agentflow_schema::text::head;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, FormElicitationCapability, Implementation, ProgressNotificationParam,
    ProtocolVersion, ServerCapabilities, ServerNotification, SubscriptionFilter,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, InboundStreamOrigin,
    NotificationContext, RequestContext, RunningService, ServiceError,
};
use rmcp::transport::IntoTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ClientHandler, ErrorData, RoleClient};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::bounded_lines::BoundedLines;
use super::child_server::ChildServer;
use super::connection::{Connection, Ending};
use super::heard_answers::TrackingTransport;
use super::list_versions::ListVersions;
use super::mcp_error::McpError;
use super::mcp_settings::{Described, Origin};
use super::open_questions::QuestionRoutes;
use super::progress_routes::ProgressRoutes;
use super::stray_lines::StrayLines;

/// Maximum number of bytes of the error text of a failed handshake.
const MOST_WORDS: usize = 2048;

/// Time that `rmcp` 3.9 waits for the response to `server/discover` before it falls back to the
/// older era (`DEFAULT_AUTO_DISCOVER_TIMEOUT`).
const DISCOVERS_FOR: Duration = Duration::from_secs(10);

/// Pause before the client subscribes to changes again after a subscription ended: first and
/// longest pause.
const LISTENS_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Handler of the server's requests and notifications.
pub(super) struct ServerEvents {
    versions: Arc<ListVersions>,
    progress: Arc<ProgressRoutes>,
    questions: Arc<QuestionRoutes>,
}

impl ClientHandler for ServerEvents {
    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
            answer = self.questions.ask(params, context.extensions.get::<InboundStreamOrigin>()) => answer,
        }
    }

    async fn on_progress(
        &self,
        said: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.progress.arrived(said);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.versions.tools.fetch_add(1, Ordering::SeqCst);
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.versions.resources.fetch_add(1, Ordering::SeqCst);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.versions.prompts.fetch_add(1, Ordering::SeqCst);
    }

    fn get_info(&self) -> ClientConfig {
        // Of the client capabilities, only forms for a person are offered. A server that needs a
        // model or folders of the client has to work without them.
        let asks = ElicitationCapability::new().with_form(FormElicitationCapability::new());
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(asks);
        let client = Implementation::new("agentflow", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, client)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// Eras of the protocol that a connection attempt uses.
#[derive(Clone, Copy, PartialEq)]
enum ProtocolEras {
    /// Tries the newer era first, and the older era after [`DISCOVERS_FOR`].
    Either,
    Older,
    Newer,
}

/// Settings of one connection attempt.
#[derive(Clone, Copy)]
struct HandshakeAttempt {
    eras: ProtocolEras,
    deadline: Instant,
}

/// The error of a failed connection attempt, with instructions for the next one.
struct FailedHandshake {
    error: McpError,
    /// Era to use in a second attempt, if one makes sense.
    then: Option<ProtocolEras>,
    #[cfg(feature = "http")]
    #[cfg_attr(not(feature = "auth"), allow(dead_code, reason = "nobody logs in"))]
    /// The server's request for a login, if that is the reason.
    refused: Option<super::http_failures::Refused>,
}

impl From<McpError> for FailedHandshake {
    fn from(error: McpError) -> Self {
        Self {
            error,
            then: None,
            #[cfg(feature = "http")]
            refused: None,
        }
    }
}

/// Starts the server and connects to it. The numbers in `versions` grow when the lists of the
/// server change. If the server wants a login, connects again with a new login, if one can be
/// obtained. The time for the login does not count as time for connecting.
pub(super) async fn connect(
    described: &Arc<Described>,
    versions: &Arc<ListVersions>,
) -> Result<Connection, McpError> {
    #[cfg(feature = "auth")]
    if let Some(login) = &described.login {
        let mut tries = login.tries();
        loop {
            login.begin(&mut tries);
            match connect_in_either_era(described, versions).await {
                Err(FailedHandshake { refused: Some(refused), .. }) => {
                    login.answer(&refused, &mut tries).await?;
                }
                other => return other.map_err(|refusal| refusal.error),
            }
        }
    }
    connect_in_either_era(described, versions).await.map_err(|refusal| refusal.error)
}

/// Connects, with a second attempt in one era if the first attempt failed because of its era.
async fn connect_in_either_era(
    described: &Arc<Described>,
    versions: &Arc<ListVersions>,
) -> Result<Connection, FailedHandshake> {
    let first = HandshakeAttempt {
        eras: ProtocolEras::Either,
        deadline: Instant::now() + described.settings.connect_timeout,
    };
    match attempt(described, versions, first).await {
        Err(FailedHandshake { then: Some(eras), .. }) => {
            attempt(described, versions, HandshakeAttempt { eras, ..first }).await
        }
        other => other,
    }
}

async fn attempt(
    described: &Arc<Described>,
    versions: &Arc<ListVersions>,
    attempt: HandshakeAttempt,
) -> Result<Connection, FailedHandshake> {
    let Described { name, origin, .. } = &**described;
    let ending = Ending::default();
    let progress = Arc::new(ProgressRoutes::default());
    let questions = Arc::new(QuestionRoutes::default());
    let strays = StrayLines::default();
    let events = ServerEvents {
        versions: Arc::clone(versions),
        progress: Arc::clone(&progress),
        questions: Arc::clone(&questions),
    };
    let (service, child) = match origin {
        Origin::Process(command) => {
            let (mut child, output, input) = ChildServer::start(command, described.hidden())
                .map_err(|error| McpError::Start {
                    server: Arc::clone(name),
                    problem: format!("`{}`: {error}", command.program),
                })?;
            match handshake(described, (&ending, &strays), events, output, input, attempt).await {
                Ok(service) => (service, Some(child)),
                Err(FailedHandshake {
                    error: McpError::Connect { server, problem }, then, ..
                }) => {
                    // The connection error is seldom specific. The process may have written the
                    // reason to its standard error.
                    let epitaph = child.epitaph().await;
                    let problem =
                        if epitaph.is_empty() { problem } else { format!("{problem}; {epitaph}") };
                    return Err(FailedHandshake {
                        then,
                        ..FailedHandshake::from(McpError::Connect { server, problem })
                    });
                }
                Err(refusal) => return Err(refusal),
            }
        }
        #[cfg(feature = "http")]
        Origin::Http(address) => {
            let transport = super::http_transport::transport(address, described)
                .map_err(|problem| McpError::Connect { server: Arc::clone(name), problem })?;
            let transport =
                TrackingTransport::new(transport, Arc::clone(described), Arc::clone(&questions));
            (serve(described, &ending, events, transport, attempt).await?, None)
        }
        Origin::Memory(connect) => {
            let (output, input) = connect();
            (handshake(described, (&ending, &strays), events, output, input, attempt).await?, None)
        }
    };
    // Newer servers send changes only to subscribers.
    listen(&service, versions);
    tracing::debug!(server = %name, "an MCP server is connected");
    Ok(Connection::new(
        Arc::clone(described),
        service,
        child,
        (progress, questions, strays),
        ending,
    ))
}

async fn handshake(
    described: &Arc<Described>,
    (ending, strays): (&Ending, &StrayLines),
    events: ServerEvents,
    output: impl AsyncRead + Send + Unpin + 'static,
    input: impl AsyncWrite + Send + Unpin + 'static,
    attempt: HandshakeAttempt,
) -> Result<RunningService<RoleClient, ServerEvents>, FailedHandshake> {
    let output = BoundedLines::new(output, described.settings.max_message, ending.clone())
        .noting(strays.clone());
    // `BoundedLines` enforces the limit, with a better error message.
    let transport = AsyncRwTransport::new(output, input).with_max_line_length(usize::MAX);
    let transport =
        TrackingTransport::new(transport, Arc::clone(described), Arc::clone(&events.questions));
    serve(described, ending, events, transport, attempt).await
}

async fn serve<T, E, A>(
    described: &Described,
    ending: &Ending,
    events: ServerEvents,
    transport: T,
    attempt: HandshakeAttempt,
) -> Result<RunningService<RoleClient, ServerEvents>, FailedHandshake>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let Described { name, settings, .. } = described;
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let mode = match attempt.eras {
        ProtocolEras::Either => {
            let legacy_version = Some(ProtocolVersion::LATEST_WITH_INITIALIZE);
            ClientLifecycleMode::Auto { preferred_versions, legacy_version }
        }
        ProtocolEras::Older => ClientLifecycleMode::Initialize,
        ProtocolEras::Newer => ClientLifecycleMode::Discover { preferred_versions },
    };
    let began = Instant::now();
    let serving = events.serve_with_lifecycle(transport, mode);
    match tokio::time::timeout_at(attempt.deadline, serving).await {
        Ok(Ok(service)) => Ok(service),
        Ok(Err(error)) => {
            let server = Arc::clone(name);
            #[cfg(feature = "auth")]
            if let Some(error) = transport_cause(&error).and_then(super::http_failures::login_error)
            {
                return Err(error.into());
            }
            #[cfg(feature = "http")]
            // The caller decides whether a login is possible, and then connects again.
            if let Some(refused) = transport_cause(&error).and_then(super::http_failures::refused) {
                let error = McpError::Connect { server, problem: refused.problem() };
                return Err(FailedHandshake {
                    refused: Some(refused),
                    ..FailedHandshake::from(error)
                });
            }
            let problem = described.masked(&ending.reason().unwrap_or_else(|| problem_of(&error)));
            let problem = head(&problem, MOST_WORDS).to_owned();
            let then = match error {
                _ if attempt.eras != ProtocolEras::Either => None,
                // Some servers answer every request with some result, also `server/discover`.
                ClientInitializeError::ExpectedInitResult(_) => Some(ProtocolEras::Older),
                // The server started slowly, so the client gave up on `server/discover` and fell
                // back to `initialize`, which this server does not support.
                ClientInitializeError::JsonRpcError(_) if began.elapsed() >= DISCOVERS_FOR => {
                    Some(ProtocolEras::Newer)
                }
                _ => None,
            };
            Err(FailedHandshake {
                then,
                ..FailedHandshake::from(McpError::Connect { server, problem })
            })
        }
        Err(_) => {
            let (server, limit) = (Arc::clone(name), settings.connect_timeout);
            Err(McpError::Silent { server, request: "initialize", limit }.into())
        }
    }
}

/// Returns the reason of a failed handshake. If both eras failed, this is the reason of the older
/// one, because servers report more in its handshake.
fn problem_of(error: &ClientInitializeError) -> String {
    match error {
        // `error.error` leaves out the type name of the transport.
        ClientInitializeError::TransportError { error, .. } => reasons(&*error.error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => problem_of(fallback),
        other => reasons(other),
    }
}

#[cfg(feature = "http")]
/// Returns the transport error that caused the handshake to fail.
fn transport_cause(error: &ClientInitializeError) -> Option<&(dyn std::error::Error + 'static)> {
    match error {
        ClientInitializeError::TransportError { error, .. } => Some(&*error.error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => transport_cause(fallback),
        _ => None,
    }
}

/// Returns the messages of an error and its causes, without repetitions.
pub(super) fn reasons(error: &(dyn std::error::Error + 'static)) -> String {
    #[cfg(feature = "http")]
    if let Some(error) = super::http_failures::of_client(error) {
        return reasons(error);
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let of = error.to_string();
        if !text.contains(&of) {
            text = format!("{text}: {of}");
        }
        cause = error.source();
    }
    text
}

/// Subscribes to changes of the server's lists, if the server sends them only to subscribers (newer
/// era). Subscribes again after the subscription ended. Changes in the meantime are unknown, so all
/// lists then count as changed.
fn listen(service: &RunningService<RoleClient, ServerEvents>, versions: &Arc<ListVersions>) {
    let Some(info) = service.peer_info().filter(|info| !info.protocol_version.has_initialize())
    else {
        return;
    };
    let ServerCapabilities { tools, resources, prompts, .. } = &info.capabilities;
    let mut filter = SubscriptionFilter::new();
    filter.tools_list_changed =
        tools.as_ref().and_then(|tools| tools.list_changed).filter(|says| *says);
    filter.resources_list_changed =
        resources.as_ref().and_then(|of| of.list_changed).filter(|says| *says);
    filter.prompts_list_changed =
        prompts.as_ref().and_then(|of| of.list_changed).filter(|says| *says);
    if filter == SubscriptionFilter::new() {
        return;
    }
    let (peer, versions) = (service.peer().clone(), Arc::clone(versions));
    tokio::spawn(async move {
        let mut pause = LISTENS_AGAIN.0;
        let mut is_first = true;
        while !peer.is_transport_closed() {
            match peer.listen(filter.clone()).await {
                Ok(mut changes) => {
                    match std::mem::take(&mut is_first) {
                        // The tools were listed only a moment before, and are checked before each
                        // model call. Only the other lists count as changed.
                        true => versions.invalidate_reads(),
                        false => versions.invalidate_all(),
                    }
                    while let Ok(Some(change)) = changes.next().await {
                        pause = LISTENS_AGAIN.0;
                        match change {
                            ServerNotification::ToolListChangedNotification(_) => {
                                versions.tools.fetch_add(1, Ordering::SeqCst);
                            }
                            _ => versions.invalidate_reads(),
                        }
                    }
                }
                // The server does not support subscriptions.
                Err(ServiceError::McpError(_)) => return,
                Err(_) => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LISTENS_AGAIN.1);
        }
    });
}
