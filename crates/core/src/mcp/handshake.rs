//! Connecting to a server in whichever era of the protocol it speaks, within a time limit. It asks for nothing else.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agentflow_schema::text::head;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    FormElicitationCapability, Implementation, ProgressNotificationParam, ProtocolVersion, ServerCapabilities,
    ServerNotification, SubscriptionFilter,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, InboundStreamOrigin, NotificationContext,
    RequestContext, RunningService, ServiceError,
};
use rmcp::transport::IntoTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ClientHandler, ErrorData, RoleClient};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::bounded_lines::BoundedLines;
use super::child_server::ChildServer;
use super::connection::{Connection, Ending};
use super::heard_answers::HeardAnswers;
use super::list_versions::ListVersions;
use super::mcp_error::McpError;
use super::mcp_settings::{Described, Origin};
use super::open_questions::OpenQuestions;
use super::progress_routes::ProgressRoutes;
use super::stray_lines::StrayLines;

/// The most bytes of what a server says of a failed handshake.
const MOST_WORDS: usize = 2048;

/// Time limit of `rmcp` 3.9 for the answer of a server that may speak the newer era (`DEFAULT_AUTO_DISCOVER_TIMEOUT`).
const DISCOVERS_FOR: Duration = Duration::from_secs(10);

/// The pause before it is listened again to changes, after that ended: at first, and at most.
const LISTENS_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// What a server says without being asked.
pub(super) struct ServerEvents {
    versions: Arc<ListVersions>,
    progress: Arc<ProgressRoutes>,
    questions: Arc<OpenQuestions>,
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

    async fn on_progress(&self, said: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
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
        // A server may ask a person. One that needs a model or a folder of ours must do without.
        let asks = ElicitationCapability::new().with_form(FormElicitationCapability::new());
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(asks);
        let client = Implementation::new("agentflow", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, client).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// The eras of the protocol that an attempt speaks.
#[derive(Clone, Copy, PartialEq)]
enum Eras {
    /// Asks for the newer one first, and after [`DISCOVERS_FOR`] for the older one.
    Either,
    Older,
    Newer,
}

/// An attempt to connect, and its limit.
#[derive(Clone, Copy)]
struct Attempt {
    eras: Eras,
    deadline: Instant,
}

/// Why there is no connection.
struct Refusal {
    error: McpError,
    /// The era in which the server has to be asked once more.
    then: Option<Eras>,
    /// What the server said when it wanted a login.
    #[cfg(feature = "mcp-http")]
    #[cfg_attr(not(feature = "mcp-auth"), allow(dead_code, reason = "nobody logs in"))]
    refused: Option<super::http_failures::Refused>,
}

impl From<McpError> for Refusal {
    fn from(error: McpError) -> Self {
        Self {
            error,
            then: None,
            #[cfg(feature = "mcp-http")]
            refused: None,
        }
    }
}

/// Starts the server and connects to it. `versions` grow when its lists change. A server that wants a login is connected to
/// again with another one, if there can be one; the time that this takes is not that of connecting.
pub(super) async fn connect(described: &Arc<Described>, versions: &Arc<ListVersions>) -> Result<Connection, McpError> {
    #[cfg(feature = "mcp-auth")]
    if let Some(login) = &described.login {
        let mut tries = login.tries();
        loop {
            login.begin(&mut tries);
            match of_either_era(described, versions).await {
                Err(Refusal { refused: Some(refused), .. }) => login.answer(&refused, &mut tries).await?,
                other => return other.map_err(|refusal| refusal.error),
            }
        }
    }
    of_either_era(described, versions).await.map_err(|refusal| refusal.error)
}

async fn of_either_era(described: &Arc<Described>, versions: &Arc<ListVersions>) -> Result<Connection, Refusal> {
    let first = Attempt { eras: Eras::Either, deadline: Instant::now() + described.settings.connect_timeout };
    match attempt(described, versions, first).await {
        Err(Refusal { then: Some(eras), .. }) => attempt(described, versions, Attempt { eras, ..first }).await,
        other => other,
    }
}

async fn attempt(
    described: &Arc<Described>,
    versions: &Arc<ListVersions>,
    attempt: Attempt,
) -> Result<Connection, Refusal> {
    let Described { name, origin, .. } = &**described;
    let ending = Ending::default();
    let progress = Arc::new(ProgressRoutes::default());
    let questions = Arc::new(OpenQuestions::default());
    let strays = StrayLines::default();
    let events = ServerEvents {
        versions: Arc::clone(versions),
        progress: Arc::clone(&progress),
        questions: Arc::clone(&questions),
    };
    let (service, child) = match origin {
        Origin::Process(command) => {
            let (mut child, output, input) = ChildServer::start(command, described.hidden()).map_err(|error| {
                McpError::Start { server: Arc::clone(name), problem: format!("`{}`: {error}", command.program) }
            })?;
            match handshake(described, (&ending, &strays), events, output, input, attempt).await {
                Ok(service) => (service, Some(child)),
                Err(Refusal { error: McpError::Connect { server, problem }, then, .. }) => {
                    let epitaph = child.epitaph().await;
                    let problem = if epitaph.is_empty() { problem } else { format!("{problem}; {epitaph}") };
                    return Err(Refusal { then, ..Refusal::from(McpError::Connect { server, problem }) });
                }
                Err(refusal) => return Err(refusal),
            }
        }
        #[cfg(feature = "mcp-http")]
        Origin::Http(address) => {
            let transport = super::http_transport::transport(address, described)
                .map_err(|problem| McpError::Connect { server: Arc::clone(name), problem })?;
            let transport = HeardAnswers::new(transport, Arc::clone(described), Arc::clone(&questions));
            (serve(described, &ending, events, transport, attempt).await?, None)
        }
        Origin::Memory(connect) => {
            let (output, input) = connect();
            (handshake(described, (&ending, &strays), events, output, input, attempt).await?, None)
        }
    };
    listen(&service, versions);
    tracing::debug!(server = %name, "an MCP server is connected");
    Ok(Connection::new(Arc::clone(described), service, child, (progress, questions, strays), ending))
}

async fn handshake(
    described: &Arc<Described>,
    (ending, strays): (&Ending, &StrayLines),
    events: ServerEvents,
    output: impl AsyncRead + Send + Unpin + 'static,
    input: impl AsyncWrite + Send + Unpin + 'static,
    attempt: Attempt,
) -> Result<RunningService<RoleClient, ServerEvents>, Refusal> {
    let output = BoundedLines::new(output, described.settings.max_message, ending.clone()).noting(strays.clone());
    // The reader has the limit.
    let transport = AsyncRwTransport::new(output, input).with_max_line_length(usize::MAX);
    let transport = HeardAnswers::new(transport, Arc::clone(described), Arc::clone(&events.questions));
    serve(described, ending, events, transport, attempt).await
}

async fn serve<T, E, A>(
    described: &Described,
    ending: &Ending,
    events: ServerEvents,
    transport: T,
    attempt: Attempt,
) -> Result<RunningService<RoleClient, ServerEvents>, Refusal>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let Described { name, settings, .. } = described;
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let mode = match attempt.eras {
        Eras::Either => {
            let legacy_version = Some(ProtocolVersion::LATEST_WITH_INITIALIZE);
            ClientLifecycleMode::Auto { preferred_versions, legacy_version }
        }
        Eras::Older => ClientLifecycleMode::Initialize,
        Eras::Newer => ClientLifecycleMode::Discover { preferred_versions },
    };
    let began = Instant::now();
    let serving = events.serve_with_lifecycle(transport, mode);
    match tokio::time::timeout_at(attempt.deadline, serving).await {
        Ok(Ok(service)) => Ok(service),
        Ok(Err(error)) => {
            let server = Arc::clone(name);
            #[cfg(feature = "mcp-auth")]
            if let Some(error) = cause_of(&error).and_then(super::http_failures::without_login) {
                return Err(error.into());
            }
            #[cfg(feature = "mcp-http")]
            if let Some(refused) = cause_of(&error).and_then(super::http_failures::refused) {
                let error = McpError::Connect { server, problem: refused.problem() };
                return Err(Refusal { refused: Some(refused), ..Refusal::from(error) });
            }
            let problem = described.masked(&ending.reason().unwrap_or_else(|| problem_of(&error)));
            let problem = head(&problem, MOST_WORDS).to_owned();
            let then = match error {
                _ if attempt.eras != Eras::Either => None,
                // Some servers answer every request.
                ClientInitializeError::ExpectedInitResult(_) => Some(Eras::Older),
                // It began late, so the question for the newer era was given up, and it does not speak the older one.
                ClientInitializeError::JsonRpcError(_) if began.elapsed() >= DISCOVERS_FOR => Some(Eras::Newer),
                _ => None,
            };
            Err(Refusal { then, ..Refusal::from(McpError::Connect { server, problem }) })
        }
        Err(_) => {
            let (server, limit) = (Arc::clone(name), settings.connect_timeout);
            Err(McpError::Silent { server, request: "initialize", limit }.into())
        }
    }
}

/// Why a handshake failed: of both eras the one with a handshake, in which servers say more of what is wrong.
fn problem_of(error: &ClientInitializeError) -> String {
    match error {
        // Without the name of the type of the transport.
        ClientInitializeError::TransportError { error, .. } => reasons(&*error.error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => problem_of(fallback),
        other => reasons(other),
    }
}

/// The failure of the transport behind an error.
#[cfg(feature = "mcp-http")]
fn cause_of(error: &ClientInitializeError) -> Option<&(dyn std::error::Error + 'static)> {
    match error {
        ClientInitializeError::TransportError { error, .. } => Some(&*error.error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => cause_of(fallback),
        _ => None,
    }
}

/// An error with its causes, each once.
pub(super) fn reasons(error: &(dyn std::error::Error + 'static)) -> String {
    #[cfg(feature = "mcp-http")]
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

/// Of a server that says changes of its lists only to those who listen: listens as long as the connection is there, and
/// again after that ended. What changed meanwhile is unknown, so all lists count as changed.
fn listen(service: &RunningService<RoleClient, ServerEvents>, versions: &Arc<ListVersions>) {
    let Some(info) = service.peer_info().filter(|info| !info.protocol_version.has_initialize()) else { return };
    let ServerCapabilities { tools, resources, prompts, .. } = &info.capabilities;
    let mut filter = SubscriptionFilter::new();
    filter.tools_list_changed = tools.as_ref().and_then(|tools| tools.list_changed).filter(|says| *says);
    filter.resources_list_changed = resources.as_ref().and_then(|of| of.list_changed).filter(|says| *says);
    filter.prompts_list_changed = prompts.as_ref().and_then(|of| of.list_changed).filter(|says| *says);
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
                        // Tools are hardly older than that, and are looked at before each call of a model.
                        true => versions.read_anew(),
                        false => versions.all_changed(),
                    }
                    while let Ok(Some(change)) = changes.next().await {
                        pause = LISTENS_AGAIN.0;
                        match change {
                            ServerNotification::ToolListChangedNotification(_) => {
                                versions.tools.fetch_add(1, Ordering::SeqCst);
                            }
                            _ => versions.read_anew(),
                        }
                    }
                }
                // It does not let anybody listen.
                Err(ServiceError::McpError(_)) => return,
                Err(_) => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LISTENS_AGAIN.1);
        }
    });
}
