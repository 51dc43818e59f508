//! Calls to agents and workflows. A call starts a run of the runtime, and follows it until it ends
//! or asks a question that the client cannot answer during the call. `given_answers.rs` handles the
//! answers of later requests.

use std::collections::BTreeMap;
use std::pin::pin;

use futures_util::{FutureExt, StreamExt};
use rmcp::model::{
    CallToolResponse, CallToolResult, ErrorCode, InputRequest, InputRequiredResult, InputResponses,
    ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext, RequestHandle};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use super::call_progress::ProgressSender;
use super::given_answers::{CalledRun, Sent, give, state_of_call};
use super::offered::Offer;
use super::served_log::LogLevel;
use super::served_question::{Said, is_approval};
use super::server_settings::{BUSY, Shared, Turn};
use super::service::ClientChannel;
use super::{request_kind, served_answer, served_call, served_question};
use agentflow_core::__private::extension::{
    FirstEvents, announce_events, question_closed, redacted, value_error,
};
use agentflow_core::Caller;
use agentflow_core::agent::RunRequest;
use agentflow_core::error::Error;
use agentflow_core::event::{EventKind, PauseReason, RunId};
use agentflow_core::run::{Events, RunHandle};
use agentflow_core::runtime::{EntryKind, OpenQuestion, StartRun};
use agentflow_core::store::{RunFilter, RunRecord, StoreErrorKind};
use agentflow_core::value::Encoded;

/// Tag with the name of the server, on runs that its clients have started.
const TAG: &str = "mcp.server";
/// Tag with the secret that a client needs to continue the call.
const CONTINUES: &str = "mcp.continues";
/// Maximum number of attempts to get a valid answer to one question.
const MOST_ASKED: u32 = 3;
/// Name of the answering caller if the caller is not authenticated.
pub(super) const SOMEBODY: &str = "a client of the MCP server";

/// Starts the run of an agent or a workflow, and subscribes to its events from the beginning.
pub(super) async fn start(
    shared: &Shared,
    offer: &Offer,
    arguments: String,
    context: &RequestContext<RoleServer>,
) -> Result<(RunHandle<Encoded>, Events), Error> {
    let first = FirstEvents::default();
    let runtime = served_call::runtime(shared, context);
    // The scopes of the caller are granted to its run.
    let grants = shared.settings.grants.iter().cloned();
    let server = &*shared.settings.name;
    let token = token();
    let caller = served_call::caller(context);
    let run = match offer.kind {
        EntryKind::Agent => {
            let request =
                RunRequest::default().grant(grants).tag(TAG, server).tag(CONTINUES, &token);
            let mut request = caller.into_iter().fold(request, RunRequest::caller);
            announce_events(&mut request, first.clone());
            runtime.start_agent_with(&offer.name, &arguments, request).await?
        }
        _ => {
            let input =
                Encoded::from_json(arguments).map_err(|error| value_error(&offer.name, &error))?;
            let run = runtime
                .start_named(&offer.name, input)
                .grant(grants)
                .tag(TAG, server)
                .tag(CONTINUES, &token);
            caller.into_iter().fold(run, StartRun::caller).first_events(first.clone()).await?
        }
    };
    let events = first.take().unwrap_or_else(|| run.events());
    Ok((run, events))
}

/// Creates the secret that a client needs to continue a call. The id of a run alone is not
/// sufficient, because others can know it.
pub(super) fn token() -> String {
    let mut bytes = [0; 16];
    // Without system randomness the token is empty, and the call cannot be continued.
    match getrandom::fill(&mut bytes) {
        Ok(()) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        Err(_) => String::new(),
    }
}

/// Way to ask the client.
enum Asks {
    /// By requests while the call is open.
    Here(Peer<RoleServer>),
    /// By the result of the call. The client then repeats the call with the answers.
    InAnswers,
    Nobody,
}

impl Asks {
    fn of(shared: &Shared, reach: ClientChannel, context: &RequestContext<RoleServer>) -> Self {
        match request_kind::is_without_handshake(context) {
            // A later request finds the run in the store.
            true if shared.runtime.store().is_some() => Self::InAnswers,
            // A request without a session or connection has no channel for questions.
            false if reach.is_lasting() => Self::Here(context.peer.clone()),
            _ => Self::Nobody,
        }
    }
}

/// Returns `true` if the client may answer approvals.
pub(super) fn may_approve(shared: &Shared, context: &RequestContext<RoleServer>) -> bool {
    shared.settings.clients_approve || served_call::caller(context).is_some_and(Caller::may_approve)
}

/// Returns the state with which a client continues the call of a run, or refers to it as a task.
/// Returns `None` if the run cannot be continued.
pub(super) fn state_of(record: &RunRecord) -> Option<String> {
    let token = record.tags.get(CONTINUES).filter(|token| !token.is_empty())?;
    Some(format!("{}.{token}", record.run_id))
}

/// Returns the run of a state, if this server has started it for this caller. Returns `None` if no
/// such run exists.
///
/// # Errors
/// Fails if the store cannot be read.
pub(super) async fn own(
    shared: &Shared,
    state: &str,
    context: &RequestContext<RoleServer>,
) -> Result<Option<RunRecord>, ErrorData> {
    let Some((run, _)) = state.rsplit_once('.') else { return Ok(None) };
    let record = match served_call::runtime(shared, context).run(&RunId::new(run)).record().await {
        Ok(record) => record,
        Err(Error::Store(error)) if error.kind() == StoreErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(shared, &error)),
    };
    // The id of a run is no secret. The server, the token and the caller must match, too.
    let is_its = record.tags.get(TAG) == Some(&shared.settings.name)
        && state_of(&record).is_some_and(|of_run| of_run == state)
        && record.caller.as_deref() == served_call::caller(context).map(Caller::name);
    Ok(is_its.then_some(record))
}

/// Logs a failure of the store, and returns the error for the client. It contains no details of the
/// store.
pub(super) fn unreadable(shared: &Shared, error: &Error) -> ErrorData {
    tracing::warn!(
        error = redacted(&shared.runtime, error),
        "a run of a client could not be read or changed"
    );
    ErrorData::internal_error("the run cannot be read or changed now; ask again later", None)
}

/// Returns the text of a run's error for the client, without details of the store and without
/// redacted values.
pub(super) fn client_error_text(shared: &Shared, error: &Error) -> String {
    match error {
        Error::Store(_) => unreadable(shared, error).message.into_owned(),
        _ => redacted(&shared.runtime, error),
    }
}

/// Checks that the caller may start another run.
///
/// # Errors
/// Fails if too many of its runs have not ended, or the store cannot be read.
pub(super) async fn check_open(
    shared: &Shared,
    context: &RequestContext<RoleServer>,
) -> Result<(), ErrorData> {
    if shared.runtime.store().is_none() {
        return Ok(());
    }
    let most = shared.settings.max_open_runs;
    let caller = served_call::caller_name(context);
    let open = RunFilter::unfinished().tag(TAG, &shared.settings.name).limit(most);
    let open = caller.into_iter().fold(open, RunFilter::caller);
    match served_call::runtime(shared, context).runs().list(open).await {
        Ok(open) if open.len() < most => Ok(()),
        Ok(_) => {
            let problem = format!(
                "{most} runs of earlier calls have not ended; answer what they ask, or cancel them"
            );
            Err(ErrorData::new(BUSY, problem, None))
        }
        Err(error) => {
            tracing::warn!(
                error = redacted(&shared.runtime, error),
                "the open runs of a client could not be counted"
            );
            Err(ErrorData::internal_error(
                "the runs of earlier calls cannot be counted now; call again later",
                None,
            ))
        }
    }
}

/// Sends a request to the client and returns its response. Returns `None` if the client failed to
/// respond. Dropping the future closes the form at the client.
async fn answered(peer: &Peer<RoleServer>, request: InputRequest) -> Option<Value> {
    let request = match request {
        InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
        InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
        InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
        _ => return None,
    };
    let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
    let mut form = Form(Some(sent.ok()?));
    let answer = (&mut form.0.as_mut()?.rx).await;
    form.0 = None;
    serde_json::to_value(answer.ok()?.ok()?).ok()
}

/// A request that the client shows as a form. Dropping it closes the form, unless the response has
/// arrived.
struct Form(Option<RequestHandle<RoleServer>>);

impl Drop for Form {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(handle.cancel(Some("the question is not open any more".to_owned())));
        }
    }
}

/// A run that a call follows, with the parts of the call.
pub(super) struct Followed<'r, 's> {
    pub(super) shared: &'r Shared,
    pub(super) offer: &'r Offer,
    pub(super) run: &'r RunHandle<Encoded>,
    pub(super) context: &'r RequestContext<RoleServer>,
    pub(super) reach: ClientChannel,
    pub(super) turn: &'r Turn<'s>,
    /// Log level that the client has set for its connection.
    pub(super) level: Option<LogLevel>,
}

impl Followed<'_, '_> {
    /// Waits for the end of the run, and puts its questions to the client. Questions with an answer
    /// in `beforehand` are not sent. Dropping the future does not cancel the run.
    ///
    /// # Errors
    /// Fails if the run asks a question that the client does not support, or an answer cannot be
    /// given.
    pub(super) async fn to_its_answer(
        &self,
        CalledRun { events, given, .. }: CalledRun,
        beforehand: InputResponses,
    ) -> Result<CallToolResponse, ErrorData> {
        if given.is_declined
            && let Ok(Some(question)) = self.run.asked().await
        {
            return Ok(self.left(&question).into());
        }
        self.further(events, given.problems, beforehand).await
    }

    async fn further(
        &self,
        mut events: Events,
        mut problems: BTreeMap<String, String>,
        mut beforehand: InputResponses,
    ) -> Result<CallToolResponse, ErrorData> {
        let asks = Asks::of(self.shared, self.reach, self.context);
        let mut shown = ProgressSender::new(self.context, self.level, &self.offer.tool.name);
        let (mut problem, mut asked_again) = (None::<(String, String)>, 0);
        loop {
            // Progress is sent while the run works, until it asks or ends.
            let mut asked = pin!(self.run.asked());
            let asked = loop {
                tokio::select! {
                    biased;
                    // The recorded events come first, so the run may have been retried since this
                    // event.
                    Some(event) = events.next() => match &event.kind {
                        EventKind::RunPaused { reason: PauseReason::Interrupted, .. } if self.is_interrupted().await => {
                            return Ok(self.interrupted().into());
                        }
                        kind => shown.show(kind).await,
                    },
                    asked = &mut asked => break asked,
                }
            };
            // The run may have worked on another thread between the polls of the two futures.
            while let Some(Some(event)) = events.next().now_or_never() {
                shown.show(&event.kind).await;
            }
            let Ok(Some(question)) = asked else {
                // The events end with the run.
                while let Some(event) = events.next().await {
                    shown.show(&event.kind).await;
                }
                break;
            };
            // Only the host can approve. The call ends, and the run waits.
            if is_approval(&question) && !may_approve(self.shared, self.context) {
                return Ok(self.left(&question).into());
            }
            match &asks {
                Asks::Nobody => return Ok(self.left(&question).into()),
                Asks::InAnswers => {
                    let record = self.shared.runtime.run(self.run.run_id()).record().await;
                    let record = record.map_err(|error| unreadable(self.shared, &error))?;
                    // Answers that came with the call are used before the client is asked.
                    if !beforehand.is_empty() {
                        let given = give(
                            self.shared,
                            &record,
                            &mut beforehand,
                            Sent::Beforehand,
                            self.context,
                        )
                        .await?;
                        problems.extend(given.problems);
                        match (given.is_declined, given.count) {
                            (true, _) => return Ok(self.left(&question).into()),
                            (false, 0) => {}
                            (false, _) => continue,
                        }
                    }
                    return self.all_asked(&question, &record, &problems).await;
                }
                Asks::Here(peer) => {
                    // The problem belongs to this question only if the run repeats the question.
                    let last = problem
                        .take()
                        .filter(|(id, _)| *id == question.id)
                        .map(|(_, problem)| problem);
                    asked_again = if last.is_some() { asked_again + 1 } else { 0 };
                    let request = served_question::request(&question, last.as_deref());
                    let is_askable = served_question::is_askable(&question, self.context)
                        && asked_again < MOST_ASKED;
                    let Some(request) = request.filter(|_| is_askable) else {
                        return Ok(self.left(&question).into());
                    };
                    // While the person thinks, another call may be executed.
                    self.turn.give_back();
                    let answered = tokio::select! {
                        biased;
                        // The question was answered elsewhere or withdrawn. Dropping the request
                        // closes the form at the client.
                        _ = question_closed(self.run, &question.id) => None,
                        answered = answered(peer, request) => Some(answered),
                    };
                    let Some(answered) = answered else {
                        self.turn.reacquire().await;
                        continue;
                    };
                    let answer = match answered
                        .map(|response| served_question::said(&question, response))
                    {
                        Some(Ok(Said::Answer(answer))) => answer,
                        Some(Err(refused)) => {
                            self.turn.reacquire().await;
                            problem = Some((question.id, refused));
                            continue;
                        }
                        Some(Ok(Said::Declined)) | None => return Ok(self.left(&question).into()),
                    };
                    let by = served_call::caller(self.context).map_or(SOMEBODY, Caller::name);
                    // The answer is given before the permit is taken again, so it is not delayed by
                    // other calls.
                    let outcome = self.run.answer(&question.id, &answer, by).await;
                    self.turn.reacquire().await;
                    match outcome {
                        Err(Error::Control(error)) => {
                            problem = Some((question.id, error.to_string()));
                        }
                        Err(error) => {
                            return Ok(self
                                .ended(served_answer::error(client_error_text(self.shared, &error)))
                                .into());
                        }
                        Ok(()) => {}
                    }
                }
            }
        }
        Ok(match self.run.result().await {
            Ok(output) => served_answer::of_run(self.offer, self.run.run_id(), &output).into(),
            Err(error) => {
                self.ended(served_answer::error(client_error_text(self.shared, &error))).into()
            }
        })
    }

    /// Returns all open questions that the client supports, as the result of the call.
    async fn all_asked(
        &self,
        first: &OpenQuestion,
        record: &RunRecord,
        problems: &BTreeMap<String, String>,
    ) -> Result<CallToolResponse, ErrorData> {
        // Approvals that the client may not give stay open on the host.
        let mut questions =
            self.shared.runtime.run(&record.run_id).questions().await.unwrap_or_default();
        questions
            .retain(|question| !is_approval(question) || may_approve(self.shared, self.context));
        let Some(state) = state_of(record) else { return Ok(self.left(first).into()) };
        let state = state_of_call(&state, questions.last());
        let (askable, others): (Vec<_>, Vec<_>) = questions
            .iter()
            .partition(|question| served_question::is_askable(question, self.context));
        let requests = served_question::requests(askable, problems);
        // If the client supports only some of the questions, the others stay open on the host.
        match (requests.is_empty(), others.is_empty()) {
            (false, _) => Ok(InputRequiredResult::new(Some(requests), Some(state)).into()),
            (true, true) => Ok(self.left(first).into()),
            (true, false) => Err(self.not_askable(&others, &state)),
        }
    }

    /// Returns the error for a run whose questions the client does not support. The run waits until
    /// its questions are answered on the host, or until the client repeats the call with the needed
    /// capabilities.
    fn not_askable(&self, questions: &[&OpenQuestion], state: &str) -> ErrorData {
        let run = self.run.run_id();
        let asked: Vec<&str> = questions.iter().map(|question| question.message.as_str()).collect();
        let problem = format!(
            "the run `{run}` asks what this client does not say that it can be asked: {}\nit waits until that is answered \
             where this server runs, or asks it when the call is sent again with the capabilities and the `requestState` of \
             this error; without the state another run begins",
            asked.join("\n")
        );
        let data = json!({
            "requiredCapabilities": served_question::capabilities(questions.iter().copied()),
            "requestState": state,
            (served_answer::RUN): run.as_str(),
        });
        ErrorData::new(ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY, problem, Some(data))
    }

    /// Returns `true` if the run is still interrupted.
    async fn is_interrupted(&self) -> bool {
        let record = self.shared.runtime.run(self.run.run_id()).record().await;
        record.is_ok_and(|record| record.pause_reason == Some(PauseReason::Interrupted))
    }

    fn interrupted(&self) -> CallToolResult {
        let problem = format!(
            "the run `{}` was interrupted in a step that may have had its effect; it continues when that step is retried \
             where this server runs; do not call again, which would begin another run",
            self.run.run_id()
        );
        self.ended(served_answer::error(problem))
    }

    /// Returns the result for a run whose question must be answered elsewhere.
    fn left(&self, question: &OpenQuestion) -> CallToolResult {
        let what_next = match self.shared.runtime.store() {
            Some(_) => format!(
                "it continues when its question at `{}` is answered where this server runs; do not call again, which would \
                 begin another run",
                question.path
            ),
            None => "nobody can answer it, since this server keeps no runs, so it was cancelled"
                .to_owned(),
        };
        let message = &question.message;
        self.ended(served_answer::error(format!(
            "the run `{}` waits for a person: {message}\n{what_next}",
            self.run.run_id()
        )))
    }

    fn ended(&self, result: CallToolResult) -> CallToolResult {
        served_answer::of(self.run.run_id(), result)
    }
}
