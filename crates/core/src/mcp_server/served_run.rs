//! A call of an agent or a workflow: a run of the runtime, followed until it ends or asks. The answers of a later request are
//! in `given_answers.rs`. It decides nothing about who may call.

use std::collections::BTreeMap;
use std::pin::pin;

use futures_util::StreamExt;
use rmcp::model::{
    CallToolResponse, CallToolResult, ErrorCode, InputRequest, InputRequiredResult, InputResponses, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext, RequestHandle};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use super::call_progress::ShownProgress;
use super::given_answers::{CalledRun, Sent, give, state_of_call};
use super::offered::Offer;
use super::served_log::LogLevel;
use super::served_question::{Said, is_approval};
use super::server_settings::{BUSY, Shared, Turn};
use super::service::Reach;
use super::{request_kind, served_answer, served_call, served_question};
use crate::agent::RunRequest;
use crate::error::Error;
use crate::event::{EventKind, PauseReason, RunId};
use crate::run::{Events, FirstEvents, RunHandle};
use crate::runtime::{EntryKind, OpenQuestion, StartRun};
use crate::store::{RunFilter, RunRecord, StoreErrorKind};
use crate::value::Encoded;

/// The tag of a run that a client of a server has begun: the server's name.
const TAG: &str = "mcp.server";
/// The tag of what a client must know to continue the call.
const CONTINUES: &str = "mcp.continues";
/// How often one question is asked when the answers do not fit.
const MOST_ASKED: u32 = 3;
/// Who answers where nobody has found out who calls.
pub(super) const SOMEBODY: &str = "a client of the MCP server";

/// Starts the run of an agent or a workflow, whose events are listened to from its first moment on.
pub(super) async fn start(
    shared: &Shared,
    offer: &Offer,
    arguments: String,
    context: &RequestContext<RoleServer>,
) -> Result<(RunHandle<Encoded>, Events), Error> {
    let first = FirstEvents::default();
    let (runtime, grants) = (&shared.runtime, served_call::grants(shared, context));
    let server = &*shared.settings.name;
    let token = token();
    let caller = served_call::caller(context);
    let run = match offer.kind {
        EntryKind::Agent => {
            let request = RunRequest::default().grant(grants).tag(TAG, server).tag(CONTINUES, &token);
            let mut request = caller.into_iter().fold(request, RunRequest::caller);
            request.first_events = Some(first.clone());
            runtime.start_agent_with(&offer.name, &arguments, request).await?
        }
        _ => {
            let input = Encoded::from_json(arguments).map_err(|error| Error::value(&offer.name, &error))?;
            let run = runtime.start_named(&offer.name, input).grant(grants).tag(TAG, server).tag(CONTINUES, &token);
            caller.into_iter().fold(run, StartRun::caller).first_events(first.clone()).await?
        }
    };
    let events = first.take().unwrap_or_else(|| run.events());
    Ok((run, events))
}

/// What a client must know to continue a call, beside the id of its run: others know that.
pub(super) fn token() -> String {
    let mut bytes = [0; 16];
    // Without randomness of the system no call can be continued.
    match getrandom::fill(&mut bytes) {
        Ok(()) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        Err(_) => String::new(),
    }
}

/// How a client is asked.
enum Asks {
    /// While the call is open.
    Here(Peer<RoleServer>),
    /// As the answer to the call, which it then sends again.
    InAnswers,
    Nobody,
}

impl Asks {
    fn of(shared: &Shared, reach: Reach, context: &RequestContext<RoleServer>) -> Self {
        match request_kind::is_without_handshake(context) {
            // A later request finds the run in the store.
            true if shared.runtime.store().is_some() => Self::InAnswers,
            // A request that stands for itself has nobody who could answer.
            false if reach.is_lasting() => Self::Here(context.peer.clone()),
            _ => Self::Nobody,
        }
    }
}

/// Whether a client may answer what a person must agree to.
pub(super) fn may_approve(shared: &Shared, context: &RequestContext<RoleServer>) -> bool {
    #[cfg(feature = "mcp-server-http")]
    if served_call::http_caller(context).is_some_and(super::http_callers::McpCaller::may_approve) {
        return true;
    }
    let _ = context;
    shared.settings.clients_approve
}

/// What a client names a run by that it continues, or that is its task; `None` when no request can.
pub(super) fn state_of(record: &RunRecord) -> Option<String> {
    let token = record.tags.get(CONTINUES).filter(|token| !token.is_empty())?;
    Some(format!("{}.{token}", record.run_id))
}

/// The run that a client names, when this server has begun it for this caller; `None` when there is no such run.
///
/// # Errors
/// When the store does not say whether there is.
pub(super) async fn own(
    shared: &Shared,
    state: &str,
    context: &RequestContext<RoleServer>,
) -> Result<Option<RunRecord>, ErrorData> {
    let Some((run, _)) = state.rsplit_once('.') else { return Ok(None) };
    let record = match shared.runtime.run_record(&RunId::new(run)).await {
        Ok(record) => record,
        Err(Error::Store(error)) if error.kind() == StoreErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(shared, &error)),
    };
    let is_its = record.tags.get(TAG) == Some(&shared.settings.name)
        && state_of(&record).is_some_and(|of_run| of_run == state)
        && record.caller.as_deref() == served_call::caller(context).as_deref();
    Ok(is_its.then_some(record))
}

/// What a client reads of a store that does not do what it is to: nothing of the store.
pub(super) fn unreadable(shared: &Shared, error: &Error) -> ErrorData {
    tracing::warn!(error = shared.runtime.host().redacted(error), "a run of a client could not be read or changed");
    ErrorData::internal_error("the run cannot be read or changed now; ask again later", None)
}

/// What a client reads of an error of a run: nothing of the store, and nothing that is taken out of events.
pub(super) fn said_of(shared: &Shared, error: &Error) -> String {
    match error {
        Error::Store(_) => unreadable(shared, error).message.into_owned(),
        _ => shared.runtime.host().redacted(error),
    }
}

/// Whether the caller may begin a further run.
///
/// # Errors
/// When too many of its runs have not ended, or the store cannot list them.
pub(super) async fn check_open(shared: &Shared, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
    if shared.runtime.store().is_none() {
        return Ok(());
    }
    let most = shared.settings.max_open_runs;
    let caller = served_call::caller(context);
    let open = RunFilter::unfinished().tag(TAG, &shared.settings.name).limit(most);
    let open = caller.into_iter().fold(open, RunFilter::caller);
    match shared.runtime.runs(open).await {
        Ok(open) if open.len() < most => Ok(()),
        Ok(_) => {
            let problem = format!("{most} runs of earlier calls have not ended; answer what they ask, or cancel them");
            Err(ErrorData::new(BUSY, problem, None))
        }
        Err(error) => {
            tracing::warn!(
                error = shared.runtime.host().redacted(error),
                "the open runs of a client could not be counted"
            );
            Err(ErrorData::internal_error("the runs of earlier calls cannot be counted now; call again later", None))
        }
    }
}

/// What was said at the client; `None` when it did not ask. Dropping the future closes the form at the client.
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

/// A form at the client, which is closed unless its answer is there.
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

/// What of a run is followed.
pub(super) struct Followed<'r, 's> {
    pub(super) shared: &'r Shared,
    pub(super) offer: &'r Offer,
    pub(super) run: &'r RunHandle<Encoded>,
    pub(super) context: &'r RequestContext<RoleServer>,
    pub(super) reach: Reach,
    pub(super) turn: &'r Turn<'s>,
    /// From which level on the client wants messages of the log on its connection.
    pub(super) level: Option<LogLevel>,
}

impl Followed<'_, '_> {
    /// Waits for the end of a run, and asks the client what it asks meanwhile. What the client has answered `beforehand` is
    /// not asked. Dropping the future cancels nothing.
    ///
    /// # Errors
    /// When the run asks what the client does not say that it can be asked, or its answers cannot be given.
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
        let mut shown = ShownProgress::of(self.context, self.level, &self.offer.tool.name);
        let (mut problem, mut asked_again) = (None::<(String, String)>, 0);
        loop {
            let mut asked = pin!(self.run.asked());
            let asked = loop {
                tokio::select! {
                    biased;
                    Some(event) = events.next() => match &event.kind {
                        EventKind::RunPaused { reason: PauseReason::Interrupted, .. } if self.is_interrupted().await => {
                            return Ok(self.interrupted().into());
                        }
                        kind => shown.show(kind).await,
                    },
                    asked = &mut asked => break asked,
                }
            };
            let Ok(Some(question)) = asked else { break };
            if is_approval(&question) && !may_approve(self.shared, self.context) {
                return Ok(self.left(&question).into());
            }
            match &asks {
                Asks::Nobody => return Ok(self.left(&question).into()),
                Asks::InAnswers => {
                    let record = self.shared.runtime.run_record(self.run.run_id()).await;
                    let record = record.map_err(|error| unreadable(self.shared, &error))?;
                    if !beforehand.is_empty() {
                        let given = give(self.shared, &record, &mut beforehand, Sent::Beforehand, self.context).await?;
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
                    let last = problem.take().filter(|(id, _)| *id == question.id).map(|(_, problem)| problem);
                    asked_again = if last.is_some() { asked_again + 1 } else { 0 };
                    let request = served_question::request(&question, last.as_deref());
                    let is_askable = served_question::is_askable(&question, self.context) && asked_again < MOST_ASKED;
                    let Some(request) = request.filter(|_| is_askable) else {
                        return Ok(self.left(&question).into());
                    };
                    // A person who thinks keeps nobody else from calling.
                    self.turn.give_back();
                    let answered = tokio::select! {
                        biased;
                        // Somebody else was first, or nothing asks it any more: the form at the client is closed.
                        _ = self.run.until_closed(&question.id) => None,
                        answered = answered(peer, request) => Some(answered),
                    };
                    let Some(answered) = answered else {
                        self.turn.take_again().await;
                        continue;
                    };
                    let answer = match answered.map(|response| served_question::said(&question, response)) {
                        Some(Ok(Said::Answer(answer))) => answer,
                        Some(Err(refused)) => {
                            self.turn.take_again().await;
                            problem = Some((question.id, refused));
                            continue;
                        }
                        Some(Ok(Said::Declined)) | None => return Ok(self.left(&question).into()),
                    };
                    let by = served_call::caller(self.context);
                    let by = by.as_deref().unwrap_or(SOMEBODY);
                    // What was said in time counts, however long others have the turns.
                    let outcome = self.run.answer(&question.id, &answer, by).await;
                    self.turn.take_again().await;
                    match outcome {
                        Err(Error::Control(error)) => problem = Some((question.id, error.to_string())),
                        Err(error) => {
                            return Ok(self.ended(served_answer::error(said_of(self.shared, &error))).into());
                        }
                        Ok(()) => {}
                    }
                }
            }
        }
        Ok(match self.run.result().await {
            Ok(output) => served_answer::of_run(self.offer, self.run.run_id(), &output).into(),
            Err(error) => self.ended(served_answer::error(said_of(self.shared, &error))).into(),
        })
    }

    /// Everything that the run asks and that the client can be asked, as the answer to the call.
    async fn all_asked(
        &self,
        first: &OpenQuestion,
        record: &RunRecord,
        problems: &BTreeMap<String, String>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut questions = self.shared.runtime.questions_of(record).await.unwrap_or_default();
        questions.retain(|question| !is_approval(question) || may_approve(self.shared, self.context));
        let Some(state) = state_of(record) else { return Ok(self.left(first).into()) };
        let state = state_of_call(&state, questions.last());
        let (askable, others): (Vec<_>, Vec<_>) =
            questions.iter().partition(|question| served_question::is_askable(question, self.context));
        let requests = served_question::requests(askable, problems);
        match (requests.is_empty(), others.is_empty()) {
            (false, _) => Ok(InputRequiredResult::new(Some(requests), Some(state)).into()),
            (true, true) => Ok(self.left(first).into()),
            (true, false) => Err(self.not_askable(&others, &state)),
        }
    }

    /// What a client reads of a run that asks what it does not say that it can be asked. The run waits, for whoever answers where
    /// this server runs, and for the client, when it can be asked after all.
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

    /// Whether it still waits for an operator: what is followed begins with what was recorded.
    async fn is_interrupted(&self) -> bool {
        let record = self.shared.runtime.run_record(self.run.run_id()).await;
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

    /// What the client reads of a run whose question somebody else must answer.
    fn left(&self, question: &OpenQuestion) -> CallToolResult {
        let what_next = match self.shared.runtime.store() {
            Some(_) => format!(
                "it continues when its question at `{}` is answered where this server runs; do not call again, which would \
                 begin another run",
                question.path
            ),
            None => "nobody can answer it, since this server keeps no runs, so it was cancelled".to_owned(),
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
