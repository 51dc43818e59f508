//! Converts a run's questions into requests to the client, and the client's responses into answers.

use std::collections::BTreeMap;

use agentflow_schema::text::head;
use rmcp::RoleServer;
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    InputRequest,
};
use rmcp::service::RequestContext;
use serde_json::{Map, Value, json};

use super::client_answer::Asked;
use super::client_requests;
use agentflow_core::__private::extension::asks_approval;
use agentflow_core::run::Approval;
use agentflow_core::runtime::OpenQuestion;
use agentflow_core::value::Encoded;

/// Maximum number of bytes of the value that a question is about.
const MOST_ABOUT: usize = 4096;
/// Key of an answer that is not an object.
const ANSWER: &str = "answer";

/// Response to a question.
pub(super) enum Said {
    Answer(Encoded),
    /// Declined or cancelled, or a response that cannot be an answer.
    Declined,
}

/// Returns `true` if the question is an approval. A client may answer it only if the host permits
/// that.
pub(super) fn is_approval(question: &OpenQuestion) -> bool {
    asks_approval(&question.answer)
}

/// Returns `true` if the client supports this kind of question.
pub(super) fn is_askable(question: &OpenQuestion, context: &RequestContext<RoleServer>) -> bool {
    match Asked::of(question) {
        Asked::Person => has_forms(context),
        Asked::Model => {
            context.client_capabilities().is_some_and(|client| client.sampling.is_some())
        }
        Asked::Folders => {
            context.client_capabilities().is_some_and(|client| client.roots.is_some())
        }
    }
}

/// Returns `true` if the client supports forms for its person.
pub(super) fn has_forms(context: &RequestContext<RoleServer>) -> bool {
    let of_client = context.client_capabilities().and_then(|client| client.elicitation);
    // A client that declares no mode supports forms.
    of_client.is_some_and(|asks| asks.form.is_some() || asks.url.is_none())
}

/// Returns the client capabilities that these questions need, in the form of the protocol.
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

/// Creates the request for a question. Returns `None` if its answer cannot be expressed as a form.
/// `problem` is the reason why the last answer was refused.
pub(super) fn request(question: &OpenQuestion, problem: Option<&str>) -> Option<InputRequest> {
    match Asked::of(question) {
        Asked::Person => {
            Some(InputRequest::Elicitation(ElicitRequest::new(params(question, problem)?)))
        }
        Asked::Model => {
            let mut prompt = question.message.clone();
            // A string that the question already contains is not repeated.
            let is_said =
                question.about.decode::<String>().is_ok_and(|about| prompt.contains(&about));
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
    // An approval has a fixed form, because its answer type is an enum.
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
                false => {
                    json!({"type": "object", "properties": {ANSWER: schema}, "required": [ANSWER]})
                }
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

/// Creates the requests of all questions, by their keys.
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

/// Converts the client's response into an answer.
///
/// # Errors
/// Fails if the response has a different type than the request expects.
pub(super) fn said(question: &OpenQuestion, response: Value) -> Result<Said, String> {
    match Asked::of(question) {
        Asked::Person => {
            let result = serde_json::from_value(response)
                .map_err(|error| format!("it is not the answer to an elicitation: {error}"))?;
            Ok(parse_person_response(question, result))
        }
        Asked::Model => client_requests::reply(response).map(Said::Answer),
        Asked::Folders => client_requests::folders(response).map(Said::Answer),
    }
}

fn parse_person_response(question: &OpenQuestion, result: ElicitResult) -> Said {
    let content = match (result.action, result.content) {
        (ElicitationAction::Accept, Some(Value::Object(content))) => content,
        (ElicitationAction::Accept, None) => Map::new(),
        _ => return Said::Declined,
    };
    let answer = match is_approval(question) {
        true => {
            let comment = content.get("comment").and_then(Value::as_str).unwrap_or_default();
            Encoded::new(&match content.get("approve") {
                Some(Value::Bool(true)) => Approval::Granted {
                    comment: (!comment.is_empty()).then(|| comment.to_owned()),
                    arguments: None,
                },
                Some(Value::Bool(false)) => Approval::denied(comment),
                _ => return Said::Declined,
            })
        }
        false => {
            let is_object =
                question.answer.decode::<Value>().is_ok_and(|schema| schema["type"] == "object");
            match (is_object, content.get(ANSWER)) {
                (true, _) => Encoded::new(&content),
                (false, Some(answer)) => Encoded::new(answer),
                (false, None) => return Said::Declined,
            }
        }
    };
    answer.map_or(Said::Declined, Said::Answer)
}
