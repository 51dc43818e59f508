//! A question of a run, as the person at the client is asked it, and what that person answers. It asks nobody.

use std::collections::BTreeMap;

use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, InputRequest,
};
use serde_json::{Map, Value, json};

use crate::run::{Approval, asks_approval};
use crate::runtime::OpenQuestion;
use crate::text::head;
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

/// The question as an elicitation; `None` when its answer has no form that a client could fill in. `problem` is what was wrong
/// with the last answer.
pub(super) fn params(question: &OpenQuestion, problem: Option<&str>) -> Option<ElicitRequestParams> {
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
    if let Some(problem) = problem {
        message = format!("{message}\nThe last answer was refused: {problem}");
    }
    Some(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// All of them by their keys, as the answer to a call.
pub(super) fn requests(
    questions: &[OpenQuestion],
    problems: &BTreeMap<String, String>,
) -> BTreeMap<String, InputRequest> {
    let request = |question: &OpenQuestion| {
        let params = params(question, problems.get(&question.id).map(String::as_str))?;
        Some((question.key().to_owned(), InputRequest::Elicitation(ElicitRequest::new(params))))
    };
    questions.iter().filter_map(request).collect()
}

/// What the person at the client said.
pub(super) fn said(question: &OpenQuestion, result: ElicitResult) -> Said {
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
