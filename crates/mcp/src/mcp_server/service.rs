//! The request handler of one connection or session: lists, calls and their cancellation, and
//! subscriptions. `served_call.rs` and `served_run.rs` execute calls, and `served_reads.rs`
//! executes reads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use agentflow_schema::schema_check::SchemaCheck;
use agentflow_schema::text::{head, name_hint};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
    CustomRequest, CustomResult, GetPromptRequestParams, GetPromptResponse, GetTaskParams,
    GetTaskResult, Implementation, InitializeRequestParams, InitializeResult, InputResponses,
    JsonObject, ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesRequestMethod,
    ListResourceTemplatesResult, ListResourcesRequestMethod, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, PromptsCapability, ReadResourceRequestParams, ReadResourceResponse,
    RequestId, ResourcesCapability, ServerCapabilities, ServerConfig, SetLevelRequestMethod,
    SubscribeRequestMethod, SubscribeRequestParams, SubscriptionFilter, TASKS_EXTENSION_ID, Tool,
    UnsubscribeRequestMethod, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;

use super::call_progress::ProgressSender;
use super::given_answers::{CalledRun, Given};
use super::offered::Offer;
use super::resource_updates::ResourceUpdates;
use super::served_log::LogLevel;
use super::served_run::Followed;
use super::server_settings::{BUSY, Shared};
use super::{
    given_answers, request_kind, served_answer, served_call, served_reads, served_run, served_task,
    unread_request,
};
use crate::mcp::Ending;
use agentflow_core::run::{ControlCall, RunHandle};
use agentflow_core::runtime::EntryKind;
use agentflow_core::value::Encoded;

/// Maximum number of bytes of an unknown name in an error.
const MOST_NAME: usize = 128;
/// Recorded reason of a cancelled run.
const CANCELLED: &str = "the client cancelled the call";

/// Channel to the client in addition to the response to its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientChannel {
    /// The streams of the connection.
    Streams,
    /// A stream of the session.
    #[cfg(feature = "server-http")]
    Session,
    #[cfg(feature = "server-http")]
    /// No channel. The request is served without a session.
    Request,
}

impl ClientChannel {
    /// Returns `true` if the server can send messages after the response to a request.
    pub(super) fn is_lasting(self) -> bool {
        match self {
            Self::Streams => true,
            #[cfg(feature = "server-http")]
            Self::Session => true,
            #[cfg(feature = "server-http")]
            Self::Request => false,
        }
    }
}

pub(super) struct Service {
    shared: Arc<Shared>,
    reach: ClientChannel,
    /// Log level that the client has set.
    level: Mutex<Option<LogLevel>>,
    updates: ResourceUpdates,
    /// Reason for the end of the connection. Empty while the connection is open. A session has its
    /// own.
    ending: Ending,
    /// The open calls to agents and workflows, with their runs once these are started, so that a
    /// notification can cancel them.
    runs: Mutex<HashMap<RequestId, Option<RunHandle<Encoded>>>>,
}

/// Registration of an open call. Dropping it ends the registration.
struct OpenCall<'s> {
    service: &'s Service,
    id: RequestId,
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        self.service.runs().remove(&self.id);
    }
}

impl Service {
    pub(super) fn new(shared: Arc<Shared>, ending: Ending, reach: ClientChannel) -> Self {
        let (level, updates, runs) =
            (Mutex::default(), ResourceUpdates::default(), Mutex::default());
        Self { shared, reach, level, updates, ending, runs }
    }

    /// Returns `true` if the connection or session of the request has ended.
    fn has_ended(&self, context: &RequestContext<RoleServer>) -> bool {
        #[cfg(feature = "server-http")]
        if let Some(ending) = super::http_sessions::session_ending(context) {
            return ending.reason().is_some();
        }
        let _ = context;
        self.ending.reason().is_some()
    }

    fn level(&self) -> Option<LogLevel> {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runs(&self) -> std::sync::MutexGuard<'_, HashMap<RequestId, Option<RunHandle<Encoded>>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers an open call.
    ///
    /// # Errors
    /// Fails if too many calls are open, or a call with this id is open.
    fn opened(&self, id: &RequestId) -> Result<OpenCall<'_>, ErrorData> {
        let (most, mut runs) = (self.shared.most_open(), self.runs());
        if runs.contains_key(id) {
            let problem = "a call with this id is open already; give each call an id of its own";
            return Err(ErrorData::invalid_request(problem, None));
        }
        if runs.len() >= most {
            let problem =
                format!("{most} calls of this client are open; end one, or call again later");
            return Err(ErrorData::new(BUSY, problem, None));
        }
        runs.insert(id.clone(), None);
        Ok(OpenCall { service: self, id: id.clone() })
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let shared = &self.shared;
        // The client ignores the response to a cancelled call.
        let stopped = CallToolResponse::from(served_answer::error(CANCELLED));
        let turn = tokio::select! {
            biased;
            () = context.ct.cancelled() => return Ok(stopped),
            turn = shared.turn(served_call::caller_name(context)) => turn?,
        };
        let Some(offer) = shared.offer(&request.name).await else {
            return Err(self.unknown(&request.name).await);
        };
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let text = arguments.to_string();
        let most = shared.settings.max_arguments;
        if text.len() > most {
            let problem =
                format!("the arguments have {} bytes, and {most} is the most", text.len());
            return Ok(served_answer::error(problem).into());
        }
        let level = self.level();
        if offer.kind == EntryKind::Tool {
            let shown = ProgressSender::new(context, level, &offer.tool.name);
            return tokio::select! {
                biased;
                () = context.ct.cancelled() => Ok(stopped),
                called = served_call::tool(shared, &offer, text, context, shown) => {
                    Ok(called.unwrap_or_else(|error| served_answer::error(error.to_string())).into())
                }
            };
        }
        // A call that waits for a person does not hold a permit, so the permits do not limit the
        // number of open calls.
        let open = self.opened(&context.id)?;
        let responses = given_answers::checked(shared, request.input_responses)?;
        let (called, beforehand) = match request.request_state {
            Some(state) => {
                let called =
                    given_answers::continued(shared, &offer, &state, responses, context).await?;
                (called, InputResponses::new())
            }
            None => {
                // Invalid arguments become an error result, which the client's model can correct.
                if let Err(problem) = fitting(&offer, &arguments) {
                    return Ok(served_answer::error(problem).into());
                }
                served_run::check_open(shared, context).await?;
                let (run, events) = match served_run::start(shared, &offer, text, context).await {
                    Ok(begun) => begun,
                    Err(error) => {
                        return Ok(served_answer::error(served_run::client_error_text(
                            shared, &error,
                        ))
                        .into());
                    }
                };
                // The client reads the task with later requests, so this request ends now.
                if served_task::is_wanted(shared, context)
                    && let Ok(record) = shared.runtime.run(run.run_id()).record().await
                    && let Some(task) = served_task::begun(&record)
                    // The client would never receive the task's id.
                    && !context.ct.is_cancelled()
                {
                    return Ok(task.into());
                }
                (CalledRun { run, events, given: Given::default() }, responses)
            }
        };
        let run = called.run.clone();
        // From now on, a cancellation notification finds the run.
        self.runs().insert(open.id.clone(), Some(run.clone()));
        let followed = Followed {
            shared,
            offer: &offer,
            run: &run,
            context,
            reach: self.reach,
            turn: &turn,
            level,
        };
        tokio::select! {
            biased;
            () = context.ct.cancelled() => {
                // A disconnect is not a cancellation: a run with a store continues.
                if !self.has_ended(context) {
                    let cancelling = run.cancel(CANCELLED);
                    let _ = served_call::caller_name(context).into_iter().fold(cancelling, ControlCall::by).await;
                }
                Ok(stopped)
            }
            response = followed.to_its_answer(called, beforehand) => response,
        }
    }

    /// Waits for a permit and then executes a request, unless the client cancels it.
    async fn in_turn<T>(
        &self,
        context: &RequestContext<RoleServer>,
        made: impl Future<Output = Result<T, ErrorData>>,
    ) -> Result<T, ErrorData> {
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Err(ErrorData::internal_error(CANCELLED, None)),
            made = async {
                let _turn = self.shared.turn(served_call::caller_name(context)).await?;
                made.await
            } => made,
        }
    }

    async fn unknown(&self, name: &str) -> ErrorData {
        let offered = self.shared.offered().await;
        let hint = name_hint(name, offered.iter().map(|offer| &*offer.tool.name));
        ErrorData::invalid_params(
            format!("there is no tool `{}`; {hint}", head(name, MOST_NAME)),
            None,
        )
    }
}

/// Checks the arguments of an agent or a workflow against their schema. Tools check theirs
/// themselves.
fn fitting(offer: &Offer, arguments: &Value) -> Result<(), String> {
    let schema = Value::Object((*offer.tool.input_schema).clone());
    let check = SchemaCheck::new(&schema).map_err(|problem| problem.message())?;
    check.check(arguments).map_err(|mismatches| mismatches.to_string())
}

impl ServerHandler for Service {
    fn get_info(&self) -> ServerConfig {
        let settings = &self.shared.settings;
        // Only capabilities with offered items are declared.
        let mut capabilities = ServerCapabilities::builder().enable_tools().build();
        capabilities.resources = (!settings.resources.is_empty()).then(|| {
            let mut resources = ResourcesCapability::default();
            resources.subscribe = Some(true);
            resources
        });
        capabilities.logging = Some(JsonObject::new());
        capabilities.prompts = (!settings.prompts.is_empty()).then(PromptsCapability::default);
        if self.shared.has_tasks() {
            capabilities
                .extensions
                .get_or_insert_default()
                .insert(TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
        }
        let info = ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(settings.name.clone(), settings.version.clone()));
        settings
            .instructions
            .iter()
            .fold(info, |info, instructions| info.with_instructions(instructions))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let mut answer = self.negotiate_initialize(&request)?;
        // Without a channel to the client, log messages and subscriptions cannot work.
        if !self.reach.is_lasting() {
            answer.capabilities.logging = None;
            if let Some(resources) = &mut answer.capabilities.resources {
                resources.subscribe = None;
            }
        }
        Ok(answer)
    }

    #[expect(deprecated, reason = "the revisions that have this have nothing else")]
    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // Newer clients send the level with each request.
        if !self.reach.is_lasting() || request_kind::is_without_handshake(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.level.into());
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match self.reach.is_lasting() && !self.shared.settings.resources.is_empty() {
            true => self.updates.subscribe(&self.shared, &request.uri, &context),
            false => Err(ErrorData::method_not_found::<SubscribeRequestMethod>()),
        }
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match self.reach.is_lasting() && !self.shared.settings.resources.is_empty() {
            true => self.updates.unsubscribe(&request.uri),
            false => return Err(ErrorData::method_not_found::<UnsubscribeRequestMethod>()),
        }
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let has_resources = !self.shared.settings.resources.is_empty();
        has_resources.then(|| self.updates.accept(&self.shared, requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.updates.listen(&self.shared, &context).await
    }

    /// Returns the tool from the last listing. Its schema defines the HTTP headers that repeat
    /// arguments.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.shared.last_offer(name).map(|offer| offer.tool.clone())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let offered = self.shared.offered().await;
        Ok(ListToolsResult::with_all_items(
            offered.iter().map(|offer| offer.tool.clone()).collect(),
        ))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        // Without resources, the capability is not declared, so the methods do not exist.
        match self.shared.settings.resources.is_empty() {
            true => Err(ErrorData::method_not_found::<ListResourcesRequestMethod>()),
            false => Ok(served_reads::resources(&self.shared)),
        }
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        match self.shared.settings.resources.is_empty() {
            true => Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>()),
            false => Ok(served_reads::templates(&self.shared)),
        }
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = served_reads::read(&self.shared, request.uri, &context);
        self.in_turn(&context, read).await.map(Into::into)
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        match self.shared.settings.prompts.is_empty() {
            true => Err(ErrorData::method_not_found::<ListPromptsRequestMethod>()),
            false => Ok(served_reads::prompts(&self.shared)),
        }
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let made = served_reads::prompt(&self.shared, request, &context);
        self.in_turn(&context, made).await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request, &context).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.in_turn(&context, served_task::get(&self.shared, request, &context)).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.in_turn(&context, served_task::update(&self.shared, request, &context)).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // A cancellation waits for no permit, because it is short and lets other calls end.
        served_task::cancel(&self.shared, request, &context).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(unread_request::refused(&request))
    }

    async fn on_cancelled(
        &self,
        said: CancelledNotificationParam,
        _: NotificationContext<RoleServer>,
    ) {
        let run = said.request_id.and_then(|id| self.runs().get(&id).cloned().flatten());
        if let Some(run) = run {
            let _ = run.cancel(CANCELLED).await;
        }
    }
}
