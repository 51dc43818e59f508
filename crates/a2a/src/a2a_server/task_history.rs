//! The messages of a task: the message that started it, the questions to its client, and the
//! client's answers. They are read from the journal of the run. Other events are not
//! shown.

use serde_json::{Value, json};

use super::fault::Fault;
use super::served_settings::Shared;
use super::shown_task::{MESSAGE_TAG, context_of};
use crate::a2a::{A2aContent, A2aMessage, A2aPart, A2aRole};
use agentflow_core::__private::extension::asks_approval;
use agentflow_core::Caller;
use agentflow_core::event::{ApprovalRequest, Event, EventKind, RunBody};
use agentflow_core::message::{Media, Part, Role};
use agentflow_core::path::StepPath;
use agentflow_core::store::RunRecord;
use agentflow_core::value::Encoded;

/// Maximum number of messages of a task, even if the client requests more.
const MOST_MESSAGES: usize = 100;
/// Maximum number of bytes of the messages in one response, as JSON. Older messages are left out.
pub(super) const MOST_HISTORY_BYTES: usize = 4 << 20;

/// Returns the newest messages of a task, in chronological order. Returns none if the client did
/// not request any. `room` is the number of bytes left for messages in the response.
pub(super) async fn load_history(
    shared: &Shared,
    caller: &Caller,
    record: &RunRecord,
    most: Option<u32>,
    room: &mut usize,
) -> Result<Vec<A2aMessage>, Fault> {
    let most = most.map_or(0, |most| (most as usize).min(MOST_MESSAGES));
    if most == 0 || *room == 0 {
        return Ok(Vec::new());
    }
    let events = shared
        .runtime
        .for_caller(caller)
        .run(&record.run_id)
        .journal()
        .await
        .map_err(|error| Fault::internal(&error))?;
    let mut said = said(shared, caller, record, &events);
    said.drain(..said.len().saturating_sub(most));
    let mut history = Vec::new();
    // Newest first, so that the size limit leaves out the oldest messages.
    for message in said.into_iter().rev() {
        let size = json!(message).to_string().len();
        if size > *room {
            *room = 0;
            break;
        }
        *room -= size;
        history.push(message);
    }
    history.reverse();
    Ok(history)
}

fn said(shared: &Shared, caller: &Caller, record: &RunRecord, events: &[Event]) -> Vec<A2aMessage> {
    let message = |role: A2aRole, event: &Event, parts: Vec<A2aPart>| {
        let message = A2aMessage::new(role, parts).id(format!("{}-{}", record.run_id, event.seq));
        message.task(record.run_id.as_str()).context(context_of(record))
    };
    let mut said = Vec::new();
    let mut asked: Vec<&StepPath> = Vec::new();
    for event in events {
        match &event.kind {
            EventKind::RunStarted(started) => {
                let parts = match &started.body {
                    // The program built the prompt of an agent with arguments. The client did not
                    // send it.
                    RunBody::Agent(_)
                        if !shared.offer(&record.name).is_some_and(|of| of.takes_text()) =>
                    {
                        continue;
                    }
                    RunBody::Agent(agent) => {
                        // `given` is the conversation before middleware changed it.
                        let given = agent
                            .given
                            .as_ref()
                            .unwrap_or(&agent.input)
                            .messages()
                            .iter()
                            .rfind(|message| message.role() == Role::User);
                        given
                            .into_iter()
                            .flat_map(|message| message.parts())
                            .filter_map(part)
                            .collect()
                    }
                    RunBody::Workflow(workflow) => vec![input(shared, record, &workflow.input)],
                    _ => continue,
                };
                let first = message(A2aRole::User, event, parts);
                said.push(match record.tags.get(MESSAGE_TAG) {
                    Some(id) => first.id(id.as_str()),
                    None => first,
                });
            }
            EventKind::ApprovalRequested(question)
                if caller.may_approve() || !asks_approval(&question.answer) =>
            {
                asked.push(&event.path);
                said.push(message(A2aRole::Agent, event, question_parts(event, question)));
            }
            EventKind::ApprovalResolved { answer, by } if asked.contains(&&event.path) => {
                asked.retain(|path| **path != event.path);
                // Answers of the host are not shown to the client.
                if **by == *caller.name() {
                    said.push(message(A2aRole::User, event, vec![value_part(answer)]));
                }
            }
            _ => {}
        }
    }
    said
}

/// Formats the input of a workflow as the client may have sent it.
fn input(shared: &Shared, record: &RunRecord, input: &Encoded) -> A2aPart {
    let value: Value = input.decode().unwrap_or_default();
    let offer = shared.offer(&record.name);
    match offer.and_then(|offer| offer.text_alone(&value)) {
        Some(text) => A2aPart::text(text),
        None => A2aPart::data(value),
    }
}

fn question_parts(event: &Event, question: &ApprovalRequest) -> Vec<A2aPart> {
    let value = |of: &Encoded| of.decode::<Value>().unwrap_or_default();
    let data = json!({
        "question": question.id_at(&event.path), "about": value(&question.payload), "answer": value(&question.answer),
    });
    vec![A2aPart::text(&question.message), A2aPart::data(data)]
}

fn value_part(value: &Encoded) -> A2aPart {
    match value.decode::<Value>().unwrap_or_default() {
        Value::String(text) => A2aPart::text(text),
        value => A2aPart::data(value),
    }
}

fn part(part: &Part) -> Option<A2aPart> {
    match part {
        Part::Text { text } => Some(A2aPart::text(text)),
        Part::Media(Media { mime_type, url, name, .. }) => {
            let content = match url.strip_prefix("data:").and_then(|url| url.split_once(";base64,"))
            {
                Some((_, base64)) => A2aContent::from_base64(base64).ok()?,
                None => A2aContent::Url(url.clone()),
            };
            let part = A2aPart::new(content).media_type(mime_type);
            Some(name.iter().cloned().fold(part, A2aPart::filename))
        }
        _ => None,
    }
}
