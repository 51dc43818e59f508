//! The questions of a task that waits for input: the text for a person, and the message parts that
//! carry the answer.
//!
//! The protocol defines no form for questions and answers, so each server has its own. Data in an
//! unknown form becomes part of the question's text, and the answer is text.

use agentflow_schema::text::head;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::super::{A2aContent, A2aPart, A2aTask, A2aTaskState, approval_from_text};
use agentflow_core::__private::extension::asks_approval;
use agentflow_core::run::Approval;
use agentflow_core::tool::UserQuestion;
use agentflow_core::value::{Encoded, NodeValue};

/// Kind of the questions of remote agents.
const KIND: &str = "a2a.input-required";
/// Maximum number of bytes of one value in the text of a question.
const MOST_SHOWN: usize = 4 << 10;
/// Maximum number of bytes of the data of all questions of a task.
const MOST_DATA: usize = 1 << 20;
/// Maximum number of bytes of the schema of an answer.
const MOST_SCHEMA: usize = 64 << 10;
/// Maximum number of questions of a task at a time.
const MOST_QUESTIONS: usize = 10;

/// Metadata field with the type of a google-adk part.
const ADK_KIND: &str = "adk_type";
/// google-adk function that asks to approve a call.
const ADK_CONFIRMATION: &str = "adk_request_confirmation";
/// google-adk function that asks for input.
const ADK_INPUT: &str = "adk_request_input";
/// google-adk function that asks for credentials.
const ADK_CREDENTIAL: &str = "adk_request_credential";
/// Name of the artifact with the interrupts of a LangGraph agent.
pub(super) const LANGGRAPH_ARTIFACT: &str = "Interrupt";
/// Field with the calls that LangChain asks a person to approve.
const LANGCHAIN_CALLS: &str = "action_requests";

/// A question of a task.
#[derive(Debug, PartialEq)]
pub(super) struct TaskQuestion {
    /// Text of the question, including its data.
    pub(super) text: String,
    /// Data of the question, or `null`.
    about: Value,
    /// The JSON Schema of the answer.
    schema: Value,
    pub(super) form: AnswerForm,
}

/// Form in which the server expects an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "form", rename_all = "snake_case")]
pub(super) enum AnswerForm {
    /// A text part.
    Text,
    /// A data part.
    Data,
    /// A function response of google-adk.
    FunctionResponse { id: String, name: String },
    /// The value that resumes a LangGraph interrupt.
    Resume { interrupt: String },
    /// A LangChain decision about one call. `is_listed` is `true` if the interrupt has a list of
    /// calls.
    Decision { interrupt: String, is_listed: bool },
}

/// A reason for which a question cannot be shown or answered. In messages it follows the agent's
/// name.
pub(super) type Unanswerable = &'static str;

/// Reason for a task without a question.
pub(super) const NO_QUESTION: Unanswerable =
    "asks for input without a question that can be shown: its message has neither text nor data";

/// Reason for a task whose server does not show its question again.
pub(super) const NOT_SHOWN: Unanswerable = "does not show its question again, so the form of the answer is not known; send a \
                                            message with the parts that it expects (`agentwf a2a send --data`)";

/// Extracts the questions of a task that waits for input. Tries the forms of google-adk, LangGraph
/// and this library, then the plain parts of the message or the artifacts.
///
/// # Errors
/// If a question cannot be shown to a person, or cannot be answered.
pub(super) fn questions_of(task: &A2aTask) -> Result<Vec<TaskQuestion>, Unanswerable> {
    let message = task.status.message.as_ref().map_or(&[][..], |message| &message.parts);
    let mut questions = adk_questions(message)?;
    if questions.is_empty() {
        questions = interrupts(task);
    }
    if questions.is_empty() {
        questions.extend(offered_question(message));
    }
    if questions.is_empty() {
        let results = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
        let parts: Vec<&A2aPart> =
            if message.is_empty() { results.collect() } else { message.iter().collect() };
        questions.push(plain_question(&parts)?);
    } else if let Some(text) =
        task.said().filter(|_| !matches!(questions[0].form, AnswerForm::Text | AnswerForm::Data))
    {
        questions[0].text = format!("{text}\n{}", questions[0].text);
    }
    if questions.len() > MOST_QUESTIONS {
        return Err("asks more than ten questions at once, which is the most");
    }
    let size: usize = questions.iter().map(|question| question.about.to_string().len()).sum();
    if size > MOST_DATA {
        return Err("asks a question with more than 1 MiB of data, which is the most");
    }
    Ok(questions)
}

impl TaskQuestion {
    /// Converts the question to a question for a person.
    pub(super) fn for_person(&self, agent: &str) -> UserQuestion {
        let text = format!("the A2A agent `{agent}` asks: {}", self.text);
        UserQuestion::new(text, self.schema.clone()).about(self.about.clone()).kind(KIND)
    }

    /// Returns `true` if the answer is an [`Approval`].
    pub(super) fn asks_approval(&self) -> bool {
        Encoded::new(&self.schema).is_ok_and(|schema| asks_approval(&schema))
    }

    /// Parses the answer from a string.
    ///
    /// # Errors
    /// If the question asks for an approval and the text is neither a yes nor a no.
    fn answer_from_text(&self, text: &str) -> Result<Value, Unanswerable> {
        if self.asks_approval() {
            return match approval_from_text(text) {
                Some(approval) => Ok(json!(approval)),
                None => Err("asks for an approval; answer with `yes` or `no`"),
            };
        }
        if self.schema["type"] == "string" {
            return Ok(text.into());
        }
        Ok(serde_json::from_str(text).unwrap_or_else(|_| text.into()))
    }
}

/// Builds the parts that carry the answers. Each answer has the form at the same index.
pub(super) fn answer_parts(forms: &[AnswerForm], answers: &[Value]) -> Vec<A2aPart> {
    let mut parts = Vec::new();
    // Answers to LangGraph interrupts are collected into one part.
    let mut resumed = Map::new();
    for (form, answer) in forms.iter().zip(answers) {
        match form {
            AnswerForm::Text => {
                let text = answer.as_str().map_or_else(|| answer.to_string(), ToOwned::to_owned);
                parts.push(A2aPart::text(text));
            }
            AnswerForm::Data => parts.push(A2aPart::data(answer.clone())),
            AnswerForm::FunctionResponse { id, name } => {
                parts.push(function_response(id, name, answer));
            }
            AnswerForm::Resume { interrupt } => {
                resumed.insert(interrupt.clone(), answer.clone());
            }
            AnswerForm::Decision { interrupt, is_listed: false } => {
                resumed.insert(interrupt.clone(), decision(answer));
            }
            AnswerForm::Decision { interrupt, is_listed: true } => {
                let value =
                    resumed.entry(interrupt.clone()).or_insert_with(|| json!({"decisions": []}));
                if let Some(decisions) = value["decisions"].as_array_mut() {
                    decisions.push(decision(answer));
                }
            }
        }
    }
    // LangGraph expects an object with several interrupts by their ids, but a single interrupt as
    // the bare value.
    let values: Vec<&Value> = resumed.values().collect();
    match values.as_slice() {
        [] => {}
        [value] => parts.push(A2aPart::data(json!({"resume": value}))),
        _ => parts.push(A2aPart::data(json!({"resume": resumed}))),
    }
    parts
}

/// Builds the parts that answer all questions of a task with one text. For several questions the
/// text is a JSON array with one answer each.
///
/// # Errors
/// If the questions cannot be answered, or not with this text.
pub(super) fn parts_from_text(task: &A2aTask, text: &str) -> Result<Vec<A2aPart>, Unanswerable> {
    let questions = questions_of(task)?;
    let texts: Vec<String> = match questions.as_slice() {
        [_] => vec![text.to_owned()],
        several => {
            let answers = serde_json::from_str::<Vec<Value>>(text).unwrap_or_default();
            if answers.len() != several.len() {
                return Err(
                    "asks several questions at once; answer with a JSON array that has an answer for each",
                );
            }
            answers
                .iter()
                .map(|answer| answer.as_str().map_or_else(|| answer.to_string(), ToOwned::to_owned))
                .collect()
        }
    };
    let mut answers = Vec::new();
    for (question, text) in questions.iter().zip(&texts) {
        answers.push(question.answer_from_text(text)?);
    }
    let forms: Vec<AnswerForm> = questions.into_iter().map(|question| question.form).collect();
    Ok(answer_parts(&forms, &answers))
}

impl A2aTask {
    /// Returns the questions of a task that waits for input, as text with their data. Returns
    /// `None` if the task does not wait for input or its questions cannot be shown.
    #[doc(alias = "input_required")]
    pub fn question(&self) -> Option<String> {
        if self.status.state != A2aTaskState::InputRequired {
            return None;
        }
        let questions = questions_of(self).ok()?;
        Some(questions.into_iter().map(|question| question.text).collect::<Vec<_>>().join("\n"))
    }
}

/// Extracts the google-adk function calls that wait for a response.
fn adk_questions(parts: &[A2aPart]) -> Result<Vec<TaskQuestion>, Unanswerable> {
    let mut questions = Vec::new();
    for part in parts {
        let kind = part.metadata.as_ref().and_then(|metadata| metadata.get(ADK_KIND));
        let A2aContent::Data(call) = &part.content else { continue };
        if kind.is_none_or(|kind| kind != "function_call") {
            continue;
        }
        let (Some(id), Some(name)) = (call["id"].as_str(), call["name"].as_str()) else {
            return Err(
                "asks with a function call without an id and a name, which cannot be answered",
            );
        };
        let arguments = &call["args"];
        let form = AnswerForm::FunctionResponse { id: id.to_owned(), name: name.to_owned() };
        questions.push(match name {
            ADK_CREDENTIAL => return Err("asks for credentials, which this program cannot give"),
            ADK_CONFIRMATION => confirmation(arguments, form),
            ADK_INPUT => {
                let text = arguments["message"].as_str().unwrap_or_default();
                let mut about = arguments.clone();
                if let Some(fields) = about.as_object_mut() {
                    fields.retain(|field, value| field == "payload" && !value.is_null());
                }
                let schema = ["responseSchema", "response_schema"].map(|key| &arguments[key]);
                let schema = usable_schema(schema.into_iter().find(|schema| schema.is_object()));
                if text.is_empty() && about.as_object().is_none_or(Map::is_empty) {
                    return Err("asks for input without a question");
                }
                data_question(text, about, schema, form)
            }
            _ => {
                // For any other function, the answer is the result of the call.
                let about = json!({"tool": name, "arguments": arguments});
                let text =
                    format!("what is the result of the call `{}`?", format_call(name, arguments));
                TaskQuestion { text, about, schema: json!({}), form }
            }
        });
    }
    Ok(questions)
}

/// Builds the question to approve a google-adk tool call.
fn confirmation(arguments: &Value, form: AnswerForm) -> TaskQuestion {
    // Depending on the server's serializer, field names are in camel case or in snake case.
    let call = ["originalFunctionCall", "original_function_call"].map(|key| &arguments[key]);
    let call = call.into_iter().find(|call| call.is_object()).unwrap_or(arguments);
    let (name, of_call) = match call["name"].as_str() {
        Some(name) => (name, &call["args"]),
        None => (ADK_CONFIRMATION, arguments),
    };
    let confirmation = ["toolConfirmation", "tool_confirmation"].map(|key| &arguments[key]);
    approval_of_call(
        name,
        of_call,
        confirmation.into_iter().find_map(|of| of["hint"].as_str()),
        form,
    )
}

/// Builds the question to approve a call, with the hint of the server.
fn approval_of_call(
    name: &str,
    arguments: &Value,
    hint: Option<&str>,
    form: AnswerForm,
) -> TaskQuestion {
    let mut text = format!("approve the call `{}`?", format_call(name, arguments));
    if let Some(hint) = hint.filter(|hint| !hint.is_empty()) {
        text = format!("{text}\n{}", head(hint, MOST_SHOWN));
    }
    let about = json!({"tool": name, "arguments": arguments});
    TaskQuestion { text, about, schema: Approval::schema(), form }
}

fn function_response(id: &str, name: &str, answer: &Value) -> A2aPart {
    let response = match (name, answer) {
        (ADK_CONFIRMATION, answer) => {
            let approval = Approval::deserialize(answer);
            json!({"confirmed": approval.is_ok_and(|approval| approval.is_granted())})
        }
        (ADK_INPUT, answer) => json!({"result": answer}),
        (_, Value::Object(_)) => answer.clone(),
        (_, answer) => json!({"result": answer}),
    };
    let mut part = A2aPart::data(json!({"id": id, "name": name, "response": response}));
    part.metadata = Some(Map::from_iter([(ADK_KIND.to_owned(), "function_response".into())]));
    part
}

/// Extracts the interrupts of a LangGraph agent.
fn interrupts(task: &A2aTask) -> Vec<TaskQuestion> {
    let artifacts = task
        .artifacts
        .iter()
        .filter(|artifact| artifact.name.as_deref() == Some(LANGGRAPH_ARTIFACT));
    let mut questions = Vec::new();
    for part in artifacts.flat_map(|artifact| &artifact.parts) {
        let A2aContent::Data(data) = &part.content else { continue };
        let (Some(id), Some(value)) = (data["id"].as_str(), data.get("value")) else { continue };
        let calls = calls_to_approve(value);
        if !calls.is_empty() {
            let is_listed = value.get(LANGCHAIN_CALLS).is_some();
            for call in calls {
                let form = AnswerForm::Decision { interrupt: id.to_owned(), is_listed };
                let name = call["name"].as_str().unwrap_or_default();
                questions.push(approval_of_call(
                    name,
                    &call["args"],
                    call["description"].as_str(),
                    form,
                ));
            }
            continue;
        }
        let schema = usable_schema(data.get("response_schema"));
        let form = AnswerForm::Resume { interrupt: id.to_owned() };
        questions.push(match value {
            Value::String(text) => data_question(text, Value::Null, schema, form),
            value => data_question("", value.clone(), schema, form),
        });
    }
    questions
}

/// Returns the calls that a LangChain interrupt asks to approve: a list, or a single call.
fn calls_to_approve(value: &Value) -> Vec<&Value> {
    let calls: Vec<&Value> = match value[LANGCHAIN_CALLS].as_array() {
        Some(calls) => calls.iter().collect(),
        None if value["type"] == "tool_approval" => vec![value],
        None => return Vec::new(),
    };
    if calls.iter().all(|call| call["name"].is_string()) { calls } else { Vec::new() }
}

/// Converts a person's answer to a LangChain decision.
fn decision(answer: &Value) -> Value {
    match Approval::deserialize(answer) {
        Ok(Approval::Granted { .. }) => json!({"type": "approve"}),
        Ok(Approval::Denied { comment: Some(comment) }) => {
            json!({"type": "reject", "message": comment})
        }
        Ok(Approval::Denied { comment: None }) | Err(_) => json!({"type": "reject"}),
    }
}

/// Extracts the first question of a server of this library: a text part followed by a data part
/// with the schema of the answer. Only the first question is returned, because a message answers
/// one question.
fn offered_question(parts: &[A2aPart]) -> Option<TaskQuestion> {
    for (at, part) in parts.iter().enumerate() {
        let A2aContent::Data(data) = &part.content else { continue };
        let is_one = data["question"].is_string()
            && data.get("about").is_some()
            && data["answer"].is_object();
        let Some(text) = parts[..at].last().and_then(A2aPart::as_text).filter(|_| is_one) else {
            continue;
        };
        let mut schema = usable_schema(data.get("answer"));
        let is_approval = Encoded::new(&schema).is_ok_and(|schema| asks_approval(&schema));
        // Plain types are answered with data. For any other schema the person writes text, which
        // the server parses as JSON if necessary.
        let is_plain = schema["type"].is_string() && schema["type"] != "string";
        let form = if is_plain || is_approval { AnswerForm::Data } else { AnswerForm::Text };
        if form == AnswerForm::Text {
            schema = json!({"type": "string"});
        }
        return Some(data_question(text, data["about"].clone(), schema, form));
    }
    None
}

/// Builds the question from parts in an unknown form.
fn plain_question(parts: &[&A2aPart]) -> Result<TaskQuestion, Unanswerable> {
    let (mut texts, mut values) = (Vec::new(), Vec::new());
    for part in parts {
        match &part.content {
            A2aContent::Text(text) if !text.trim().is_empty() => texts.push(text.clone()),
            A2aContent::Url(url) => texts.push(url.clone()),
            A2aContent::Data(data) if !is_empty(data) => values.push(data.clone()),
            A2aContent::Text(_) | A2aContent::Data(_) | A2aContent::Raw(_) => {}
        }
    }
    if texts.is_empty() && values.is_empty() {
        return Err(NO_QUESTION);
    }
    let about = match values.len() {
        0 => Value::Null,
        1 => values.remove(0),
        _ => Value::Array(values),
    };
    Ok(data_question(&texts.join("\n"), about, json!({"type": "string"}), AnswerForm::Text))
}

/// Builds a question that shows its data below the text, unless the text already contains the data.
fn data_question(text: &str, about: Value, schema: Value, form: AnswerForm) -> TaskQuestion {
    let data = match &about {
        value if is_empty(value) => String::new(),
        Value::String(data) => head(data, MOST_SHOWN).to_owned(),
        value => shown(value),
    };
    let data = if text.contains(&data) { "" } else { &data };
    let lines = [text, data].into_iter().filter(|line| !line.is_empty());
    TaskQuestion { text: lines.collect::<Vec<_>>().join("\n"), about, schema, form }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Returns the server's schema for the answer. A schema that is too large or invalid is replaced by
/// a schema that accepts every value, because the server checks the answer too.
fn usable_schema(schema: Option<&Value>) -> Value {
    let Some(schema) =
        schema.filter(|schema| schema.is_object() && schema.to_string().len() <= MOST_SCHEMA)
    else {
        return json!({});
    };
    #[cfg(feature = "check")]
    if agentflow_schema::schema_check::SchemaCheck::new(schema).is_err() {
        return json!({});
    }
    schema.clone()
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    let start = head(&text, MOST_SHOWN);
    if start.len() < text.len() { format!("{start}…") } else { text }
}

/// Formats a call, such as `refund(cents: 900)`.
fn format_call(name: &str, arguments: &Value) -> String {
    let Value::Object(arguments) = arguments else { return format!("{name}()") };
    let arguments: Vec<String> =
        arguments.iter().map(|(name, value)| format!("{name}: {}", shown(value))).collect();
    format!("{name}({})", arguments.join(", "))
}
