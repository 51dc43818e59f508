//! A question of a run, as a client or the person there is asked it, and what is answered. It asks nobody.

use std::collections::BTreeMap;

use agentflow_schema::text::head;
use rmcp::RoleServer;
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, InputRequest,
};
use rmcp::service::RequestContext;
use serde_json::{Map, Value, json};

use super::client_answer::Asked;
use super::client_requests;
use crate::run::{Approval, asks_approval};
use crate::runtime::OpenQuestion;
use crate::value::Encoded;

/// The most bytes of what a question is about.
const MOST_ABOUT: usize = 4096;
/// The key of an answer that is not an object.
const ANSWER: &str = "answer";

/// What was said to a question.
pub(super) enum Said {
    Answer(Encoded),
    /// Nothing that is an answer.
    Declined,
}

/// Whether the question is one of those that a client may answer only where the host says so.
pub(super) fn is_approval(question: &OpenQuestion) -> bool {
    asks_approval(&question.answer)
}

/// Whether the client says that it can be asked this.
pub(super) fn is_askable(question: &OpenQuestion, context: &RequestContext<RoleServer>) -> bool {
    match Asked::of(question) {
        Asked::Person => has_forms(context),
        Asked::Model => context.client_capabilities().is_some_and(|client| client.sampling.is_some()),
        Asked::Folders => context.client_capabilities().is_some_and(|client| client.roots.is_some()),
    }
}

/// Whether the person at the client can be asked to fill in a form.
pub(super) fn has_forms(context: &RequestContext<RoleServer>) -> bool {
    let of_client = context.client_capabilities().and_then(|client| client.elicitation);
    of_client.is_some_and(|asks| asks.form.is_some() || asks.url.is_none())
}

/// What a client must say that it can be asked, for all of these to be asked of it, as the protocol writes it.
pub(super) fn capabilities<'q>(questions: impl IntoIterator<Item = &'q OpenQuestion>) -> Value {
    let mut capabilities = Map::new();
    for question in questions {
        let (name, capability) = match Asked::of(question) {
            Asked::Person => ("elicitation", json!({"form": {}})),
            Asked::Model => ("sampling", json!({})),
            Asked::Folders => ("roots", json!({})),
        };
        capabilities.insert(name.to_owned(), capability);
    }
    Value::Object(capabilities)
}

/// The question as a request to a client; `None` when its answer has no form that could be filled in. `problem` is what was
/// wrong with the last answer.
pub(super) fn request(question: &OpenQuestion, problem: Option<&str>) -> Option<InputRequest> {
    match Asked::of(question) {
        Asked::Person => Some(InputRequest::Elicitation(ElicitRequest::new(params(question, problem)?))),
        Asked::Model => {
            let mut prompt = question.message.clone();
            // A text that is in the question already says nothing more.
            let is_said = question.about.decode::<String>().is_ok_and(|about| prompt.contains(&about));
            if question.about != Encoded::null() && !is_said {
                prompt = format!("{prompt}\n{}", question.about.as_str());
            }
            Some(client_requests::model_request(with_problem(prompt, problem)))
        }
        Asked::Folders => Some(client_requests::folders_request()),
    }
}

fn with_problem(message: String, problem: Option<&str>) -> String {
    match problem {
        Some(problem) => format!("{message}\nThe last answer was refused: {problem}"),
        None => message,
    }
}

fn params(question: &OpenQuestion, problem: Option<&str>) -> Option<ElicitRequestParams> {
    let schema = match is_approval(question) {
        true => json!({
            "type": "object",
            "properties": {
                "approve": {"type": "boolean", "title": "Approve?"},
                "comment": {"type": "string", "title": "Comment"},
            },
            "required": ["approve"],
        }),
        false => {
            let schema: Value = question.answer.decode().ok()?;
            match schema["type"] == "object" {
                true => schema,
                false => json!({"type": "object", "properties": {ANSWER: schema}, "required": [ANSWER]}),
            }
        }
    };
    let Value::Object(schema) = schema else { return None };
    let requested_schema = ElicitationSchema::from_json_schema(schema).ok()?;
    let mut message = question.message.clone();
    if question.about != Encoded::null() {
        message = format!("{message}\n{}", head(question.about.as_str(), MOST_ABOUT));
    }
    let message = with_problem(message, problem);
    Some(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// All of them by their keys, as the answer to a call.
pub(super) fn requests<'q>(
    questions: impl IntoIterator<Item = &'q OpenQuestion>,
    problems: &BTreeMap<String, String>,
) -> BTreeMap<String, InputRequest> {
    let request = |question: &OpenQuestion| {
        let request = request(question, problems.get(&question.id).map(String::as_str))?;
        Some((question.key().to_owned(), request))
    };
    questions.into_iter().filter_map(request).collect()
}

/// What was said at the client.
///
/// # Errors
/// When it is not an answer of the kind that was asked for.
pub(super) fn said(question: &OpenQuestion, response: Value) -> Result<Said, String> {
    match Asked::of(question) {
        Asked::Person => {
            let result = serde_json::from_value(response)
                .map_err(|error| format!("it is not the answer to an elicitation: {error}"))?;
            Ok(said_by_person(question, result))
        }
        Asked::Model => client_requests::reply(response).map(Said::Answer),
        Asked::Folders => client_requests::folders(response).map(Said::Answer),
    }
}

fn said_by_person(question: &OpenQuestion, result: ElicitResult) -> Said {
    let content = match (result.action, result.content) {
        (ElicitationAction::Accept, Some(Value::Object(content))) => content,
        (ElicitationAction::Accept, None) => Map::new(),
        _ => return Said::Declined,
    };
    let answer = match is_approval(question) {
        true => {
            let comment = content.get("comment").and_then(Value::as_str).unwrap_or_default();
            Encoded::new(&match content.get("approve") {
                Some(Value::Bool(true)) => {
                    Approval::Granted { comment: (!comment.is_empty()).then(|| comment.to_owned()), arguments: None }
                }
                Some(Value::Bool(false)) => Approval::denied(comment),
                _ => return Said::Declined,
            })
        }
        false => {
            let is_object = question.answer.decode::<Value>().is_ok_and(|schema| schema["type"] == "object");
            match (is_object, content.get(ANSWER)) {
                (true, _) => Encoded::new(&content),
                (false, Some(answer)) => Encoded::new(answer),
                (false, None) => return Said::Declined,
            }
        }
    };
    answer.map_or(Said::Declined, Said::Answer)
}
