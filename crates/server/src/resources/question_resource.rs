//! The JSON form of an open question.

use std::collections::BTreeMap;

use agentflow_core::runtime::OpenQuestion;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{json_value, time_text};

/// A question that a run waits for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Question")]
pub(crate) struct QuestionResource {
    /// Id of the question within its run, such as `review@3f2a91c0`.
    pub(crate) question_id: String,
    /// Id of the run.
    pub(crate) run_id: String,
    /// Name of the workflow or agent.
    pub(crate) workflow_id: String,
    /// Node or call that asks, such as `review` or `paid/tool#1.refund`.
    pub(crate) node_id: String,
    /// Kind of the question, such as `mcp_elicitation`. Empty for an ordinary one.
    pub(crate) kind: String,
    /// Text of the question.
    pub(crate) message: String,
    /// Subject of the question, such as the arguments of a call.
    pub(crate) about: Value,
    /// JSON Schema of the answer.
    pub(crate) answer_schema: Value,
    /// Time at which it was asked.
    pub(crate) asked_at: String,
    /// Time after which it cannot be answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deadline: Option<String>,
    /// Caller of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) triggered_by: Option<String>,
    /// Tags of the run.
    pub(crate) tags: BTreeMap<String, String>,
}

impl From<OpenQuestion> for QuestionResource {
    fn from(question: OpenQuestion) -> Self {
        Self {
            question_id: question.id,
            run_id: question.run.to_string(),
            workflow_id: question.name.to_string(),
            node_id: question.path,
            kind: question.kind.to_string(),
            message: question.message,
            about: json_value(&question.about),
            answer_schema: json_value(&question.answer),
            asked_at: time_text(question.asked),
            deadline: question.deadline.map(time_text),
            triggered_by: question.caller.as_deref().map(str::to_owned),
            tags: question.tags,
        }
    }
}
