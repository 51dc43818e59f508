//! Handles a message from a client: starts a run, or answers a question of a run.

use std::sync::Arc;

use serde_json::Value;

use super::fault::Fault;
use super::served_settings::Shared;
use super::shown_task::{
    CONTEXT_TAG, MESSAGE_TAG, SERVER_TAG, context_of, questions_for, record_of,
};
use super::skill_offer::{SkillInput, SkillOffer, contents, whole_numbers};
use crate::a2a::{A2aErrorCode, A2aMessage, approval_from_text};
use agentflow_core::__private::extension::asks_approval;
use agentflow_core::__private::sha256;
use agentflow_core::Caller;
use agentflow_core::agent::RunRequest;
use agentflow_core::error::Error;
use agentflow_core::event::RunId;
use agentflow_core::runtime::{EntryKind, OpenQuestion};
use agentflow_core::session::Session;
use agentflow_core::store::{RunFilter, StoreErrorKind};
use agentflow_core::value::Encoded;

/// Keys in a message's metadata: the skill, and one of several questions to answer.
const SKILL: &str = "skill";
const QUESTION: &str = "question";

/// Starts or continues a task. Returns the id of its run.
pub(super) async fn receive(
    shared: &Shared,
    caller: &Caller,
    skill: Option<&str>,
    message: &A2aMessage,
) -> Result<RunId, Fault> {
    match &message.task_id {
        Some(task) => answer(shared, caller, skill, task, message).await,
        None => begin(shared, caller, skill, message).await,
    }
}

fn said<'m>(message: &'m A2aMessage, key: &str) -> Result<Option<&'m str>, Fault> {
    match message.metadata.as_ref().and_then(|metadata| metadata.get(key)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Fault::params(format!("message.metadata.{key}: it is a text"))),
    }
}

/// Returns the skill that a message addresses. An anonymous caller has no skills of the extended
/// card.
fn chosen<'s>(
    shared: &'s Shared,
    caller: &Caller,
    skill: Option<&str>,
    message: &A2aMessage,
) -> Result<&'s Arc<SkillOffer>, Fault> {
    let named = said(message, SKILL)?;
    let offers: Vec<&Arc<SkillOffer>> =
        shared.offers.iter().filter(|offer| shared.is_shown(offer, caller)).collect();
    let shown = |name: &str| offers.iter().copied().find(|offer| *offer.name == *name);
    if let Some(skill) = skill {
        let offer = shown(skill).ok_or_else(Fault::no_task)?;
        return match named.is_none_or(|named| offer.has_skill(named)) {
            true => Ok(offer),
            false => Err(Fault::params(format!(
                "message.metadata.skill: this is the address of `{skill}` alone"
            ))),
        };
    }
    let known =
        || offers.iter().map(|offer| format!("`{}`", offer.name)).collect::<Vec<_>>().join(", ");
    match (named, offers.as_slice(), &shared.settings.default_skill) {
        (Some(named), _, _) => {
            let its = || offers.iter().copied().find(|offer| offer.has_skill(named));
            shown(named).or_else(its).ok_or_else(|| {
                Fault::params(format!("message.metadata.skill: it is one of {}", known()))
            })
        }
        (None, [only], _) => Ok(only),
        (None, _, Some(default)) => shown(default).ok_or_else(Fault::no_task),
        (None, _, None) => {
            let problem = format!(
                "message.metadata.skill: name one of {}, or send the message to its address",
                known()
            );
            Err(Fault::params(problem))
        }
    }
}

async fn begin(
    shared: &Shared,
    caller: &Caller,
    skill: Option<&str>,
    message: &A2aMessage,
) -> Result<RunId, Fault> {
    let offer = chosen(shared, caller, skill, message)?;
    let SkillInput { arguments, conversation } = offer.input_of(message)?;
    let (runtime, settings) = (shared.runtime.for_caller(caller), &shared.settings);
    // The run id is derived from the message, so that a message that is sent again finds its run,
    // also in another process. Messages with the same id but different contents are different
    // messages.
    let sent = (&message.message_id, &message.context_id, &message.parts);
    let key = serde_json::json!([settings.name, caller.name(), offer.name, sent]).to_string();
    let hash = sha256(key.as_bytes());
    let id = RunId::new(format!("a2a-{}", &hash[..32]));
    if let Ok(known) = record_of(shared, caller, skill, id.as_str()).await {
        return Ok(known.run_id);
    }
    let context = match &message.context_id {
        Some(context) => {
            // A context id is accepted only if the server assigned it to an earlier task of this
            // caller, so that no caller can join a session of another caller.
            let its = RunFilter::new().caller(caller.name()).tag(SERVER_TAG, &settings.name);
            let its = its.tag(CONTEXT_TAG, context).limit(1);
            if runtime.runs().list(its).await.map_err(|error| Fault::internal(&error))?.is_empty() {
                return Err(Fault::params(
                    "message.contextId: there is no such context; leave it out, and the task names a new one",
                ));
            }
            context.clone()
        }
        None => id.to_string(),
    };
    check_open(shared, caller).await?;
    // The scopes of the caller are granted to its run.
    let grants = settings.grants.iter().cloned();
    let begun = match offer.kind {
        EntryKind::Agent => {
            let request =
                RunRequest::new(conversation).run_id(id.clone()).caller(caller).grant(grants);
            let request = request.tag(SERVER_TAG, &settings.name).tag(CONTEXT_TAG, &context);
            let request = request.tag(MESSAGE_TAG, &message.message_id);
            let request = request.session(Session::new(context.as_str()));
            runtime.start_agent_with(&offer.name, &arguments, request).await
        }
        _ => {
            let input =
                Encoded::from_json(arguments).map_err(|error| Fault::params(error.to_string()))?;
            let run = runtime.start_named(&offer.name, input).run_id(id.clone()).caller(caller);
            let run = run.grant(grants).tag(SERVER_TAG, &settings.name).tag(CONTEXT_TAG, &context);
            run.tag(MESSAGE_TAG, &message.message_id).await
        }
    };
    match begun {
        // A run with a store continues when its handle is dropped.
        Ok(_) => Ok(id),
        // A concurrent request with the same message started the run first.
        Err(Error::Store(error)) if error.kind() == StoreErrorKind::Exists => {
            record_of(shared, caller, skill, id.as_str()).await.map(|known| known.run_id)
        }
        Err(Error::Store(error)) if error.kind() == StoreErrorKind::SessionBusy => Err(Fault::new(
            A2aErrorCode::UnsupportedOperation,
            "the context has a task that has not ended; send the message to that task, or when it has ended",
        )),
        Err(error @ Error::Input { .. }) => Err(Fault::params(error.to_string())),
        Err(error) => Err(Fault::internal(&error)),
    }
}

/// Fails if the caller has too many unfinished tasks.
async fn check_open(shared: &Shared, caller: &Caller) -> Result<(), Fault> {
    let most = shared.settings.max_open_tasks;
    let open = RunFilter::unfinished().caller(caller.name()).tag(SERVER_TAG, &shared.settings.name);
    let open = shared
        .runtime
        .runs()
        .list(open.limit(most))
        .await
        .map_err(|error| Fault::internal(&error))?;
    match open.len() < most {
        true => Ok(()),
        false => {
            let problem = format!(
                "{most} tasks of this caller have not ended; answer what they ask, or cancel them"
            );
            Err(Fault::new(A2aErrorCode::UnsupportedOperation, problem))
        }
    }
}

/// Answers a question of a task.
async fn answer(
    shared: &Shared,
    caller: &Caller,
    skill: Option<&str>,
    task: &str,
    message: &A2aMessage,
) -> Result<RunId, Fault> {
    let record = record_of(shared, caller, skill, task).await?;
    if message.context_id.as_ref().is_some_and(|context| *context != context_of(&record)) {
        return Err(Fault::params(
            "message.contextId: the task belongs to another context; leave it out",
        ));
    }
    if record.status.has_ended() {
        let problem =
            "the task has ended and takes no further message; begin another one in its context";
        return Err(Fault::new(A2aErrorCode::UnsupportedOperation, problem));
    }
    let runtime = shared.runtime.for_caller(caller);
    let questions = questions_for(shared, caller, &record).await?;
    let question = match said(message, QUESTION)? {
        Some(named) => questions.iter().find(|question| question.id == named || question.path == named).ok_or_else(|| {
            Fault::params(
                "message.metadata.question: the task does not ask its client this, or not any more; its state has what it asks",
            )
        })?,
        None => questions.first().ok_or_else(|| {
            Fault::new(
                A2aErrorCode::UnsupportedOperation,
                "the task asks its client nothing now; a message to it is an answer",
            )
        })?,
    };
    let value = read_answer(question, message)?;
    let value = Encoded::from_json(whole_numbers(&value))
        .map_err(|error| Fault::params(error.to_string()))?;
    match runtime
        .run(&record.run_id)
        .answer_here(&question.id, value, caller.name())
        .await
        .map(drop)
    {
        Ok(()) => Ok(record.run_id),
        Err(Error::Control(error)) => Err(Fault::params(format!("the answer is refused: {error}"))),
        Err(error @ Error::AccessDenied { .. }) => {
            Err(Fault::new(A2aErrorCode::UnsupportedOperation, error.to_string()))
        }
        Err(error) => Err(Fault::internal(&error)),
    }
}

/// Extracts the answer to a question from a message.
fn read_answer(question: &OpenQuestion, message: &A2aMessage) -> Result<Value, Fault> {
    let (texts, values) = contents(message)?;
    // For a question that expects text, the text is the answer even if it is valid JSON.
    let wants_text = question
        .answer
        .decode::<Value>()
        .is_ok_and(|schema| schema.get("type").is_some_and(|kind| kind == "string"));
    let text = texts.join("\n");
    match (texts.is_empty(), values.as_slice()) {
        (true, [value]) => Ok((*value).clone()),
        (false, []) if wants_text => Ok(text.into()),
        (false, []) if asks_approval(&question.answer) => {
            approval_from_text(&text).map(|approval| serde_json::json!(approval)).ok_or_else(|| {
                Fault::params(
                    "the answer is the text `granted` or `denied`, or a part with `data` such as {\"decision\": \"granted\"}",
                )
            })
        }
        (false, []) => serde_json::from_str(&text).map_err(|_| {
            Fault::params("the answer is a part with `data` that fits the schema of the question")
        }),
        _ => Err(Fault::params("an answer is one text, or one part with `data`")),
    }
}
