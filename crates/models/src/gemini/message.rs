//! Encodes one message as parts. It does not depend on the rest of the request.

use std::borrow::Cow;
use std::ops::Deref;

use agentflow_core::message::{Media, Message, Part, Reasoning, Role, ToolCall, ToolResult};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{MADE_ID, PROVIDER, generation};
use crate::sent_call::{arguments, tool_name};

/// The value that Google specifies in place of a signature for calls that the model did not make.
/// Models from Gemini 3 on refuse calls without a signature.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The key that refers to a file next to a result.
const REFERENCE: &str = "$ref";

/// Returns the parts of a message, separated by commas. Returns no bytes if there are no parts.
pub(super) fn parts(message: &Message, model: &str) -> Vec<u8> {
    let mut out = Parts(Vec::new());
    match message.role() {
        Role::Assistant => assistant(&mut out, message, model),
        role => {
            let mut results: Vec<&ToolResult> = message.results().map(Deref::deref).collect();
            // The provider matches results without ids to calls by their order.
            results.sort_by_key(|result| assigned_call_number(&result.call_id));
            for result in results {
                out.put(&WirePart {
                    function_response: Some(response(result, model)),
                    ..WirePart::default()
                });
            }
            for part in message.parts() {
                match part {
                    Part::Text { text } if !text.is_empty() => out.put(&WirePart::text(text)),
                    Part::Media(file) => out.put(&WirePart::file(file)),
                    _ => {}
                }
            }
            if out.0.is_empty() && role == Role::User {
                out.put(&WirePart::text(""));
            }
        }
    }
    out.0
}

fn assistant(out: &mut Parts, message: &Message, model: &str) {
    // The signature of the text or the file that comes next.
    let mut next = None;
    let mut unsigned = generation(model).is_some_and(|generation| generation >= 3.0);
    for part in message.parts() {
        let signature = next.take();
        match part {
            Part::Text { text } if !text.is_empty() => {
                out.put(&WirePart { thought_signature: signature, ..WirePart::text(text) });
            }
            Part::Media(file) => {
                out.put(&WirePart { thought_signature: signature, ..WirePart::file(file) });
            }
            Part::Reasoning(reasoning)
                if reasoning.provider == PROVIDER.name && reasoning.model == model =>
            {
                next = reasoned(out, reasoning);
            }
            Part::ToolCall(call) => {
                let own = call
                    .opaque
                    .as_deref()
                    .filter(|own| own["provider"] == PROVIDER.name && own["model"] == model);
                let signature = own.and_then(|own| own["thoughtSignature"].as_str());
                // Of parallel calls, only the first has a signature.
                let stand_in = std::mem::take(&mut unsigned).then_some(NO_SIGNATURE);
                out.put(&WirePart {
                    function_call: Some(function_call(call)),
                    thought_signature: signature.or(stand_in),
                    ..WirePart::default()
                });
            }
            _ => {}
        }
    }
}

/// Writes reasoning of this model unchanged. If the reasoning only stores the signature of the next
/// part, returns that signature.
fn reasoned<'a>(out: &mut Parts, reasoning: &'a Reasoning) -> Option<&'a str> {
    let opaque = reasoning.opaque.as_deref().unwrap_or(&Value::Null);
    if let Some(part) = opaque.get("part") {
        out.put(part);
    } else if let Some(next) = opaque.get("next") {
        return next["thoughtSignature"].as_str();
    } else if !reasoning.text.is_empty() {
        let thought_signature = opaque["thoughtSignature"].as_str();
        out.put(&WirePart { thought: true, thought_signature, ..WirePart::text(&reasoning.text) });
    }
    None
}

fn function_call(call: &ToolCall) -> FunctionCall<'_> {
    FunctionCall { id: provider_id(&call.id), name: tool_name(&call.name), args: arguments(call) }
}

/// Encodes a tool result. Models from Gemini 3 on accept inline files in a result. For other
/// models, files are described in the text.
fn response<'a>(result: &'a ToolResult, model: &str) -> FunctionResponse<'a> {
    let reads_files = generation(model).is_some_and(|generation| generation >= 3.0);
    let parts: Vec<WirePart<'_>> = result
        .media()
        .map(WirePart::file)
        .filter(|part| reads_files && part.inline_data.is_some())
        .collect();
    let is_sent = |file: &Media| reads_files && WirePart::file(file).inline_data.is_some();
    let response = match (result.status.is_success(), &result.content) {
        (true, None) => Response::Output(match serde_json::from_str::<&RawValue>(&result.output) {
            Ok(raw) if !has_references(&result.output) => Output::Json(raw),
            _ => Output::Text(result.text()),
        }),
        (true, Some(_)) => Response::Output(Output::Text(result.text_beside(is_sent))),
        (false, _) => Response::Error(format!("{}: {}", result.status, result.output)),
    };
    FunctionResponse {
        id: provider_id(&result.call_id),
        name: tool_name(&result.name),
        response,
        parts,
    }
}

/// Returns true if the JSON contains an object with the key `$ref`, or is nested too deeply. The
/// service interprets `$ref` as a reference to a file next to the result, and refuses the request
/// if the file is missing.
fn has_references(json: &str) -> bool {
    fn found(value: &Value) -> bool {
        match value {
            Value::Object(fields) => {
                fields.iter().any(|(name, value)| name == REFERENCE || found(value))
            }
            Value::Array(items) => items.iter().any(found),
            _ => false,
        }
    }
    // A key may contain escapes. Most results contain neither string, and need not be parsed.
    let may_have = json.contains(REFERENCE) || json.contains("\\u00");
    may_have && serde_json::from_str::<Value>(json).map_or(true, |value| found(&value))
}

/// Returns the id of the provider. An id that this adapter assigned is not sent.
fn provider_id(id: &str) -> Option<&str> {
    Some(id).filter(|id| !id.is_empty() && !id.starts_with(MADE_ID))
}

/// Returns the number of the call in an id that this adapter assigned. Results with other ids keep
/// their order.
fn assigned_call_number(id: &str) -> usize {
    let number = id.strip_prefix(MADE_ID).and_then(|id| id.rsplit_once('_')?.1.parse().ok());
    number.unwrap_or_default()
}

struct Parts(Vec<u8>);

impl Parts {
    fn put(&mut self, part: &impl Serialize) {
        if !self.0.is_empty() {
            self.0.push(b',');
        }
        write(&mut self.0, part);
    }
}

pub(super) fn write(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value)
        .expect("texts, numbers and JSON values are written into memory without fail");
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct WirePart<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    thought: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<FunctionResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<Inline<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_data: Option<File<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

impl<'a> WirePart<'a> {
    fn text(text: &'a str) -> Self {
        Self { text: Some(text), ..Self::default() }
    }

    fn file(file: &'a Media) -> Self {
        let mime_type = &*file.mime_type;
        match file.url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
            Some((_, data)) => {
                Self { inline_data: Some(Inline { mime_type, data }), ..Self::default() }
            }
            None => {
                Self { file_data: Some(File { mime_type, file_uri: &file.url }), ..Self::default() }
            }
        }
    }
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: Cow<'a, str>,
    args: Cow<'a, RawValue>,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: Cow<'a, str>,
    response: Response<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<WirePart<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Response<'a> {
    Output(Output<'a>),
    Error(String),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Json(&'a RawValue),
    Text(Cow<'a, str>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inline<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    mime_type: &'a str,
    file_uri: &'a str,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agentflow_core::message::{
        Media, Message, ResourceLink, ToolCall, ToolContent, ToolPart, ToolResult, ToolStatus,
    };
    use serde_json::{Value, json};

    use super::parts;

    #[test]
    fn files_in_an_answer_are_parts_of_it_for_models_that_read_them() {
        let mut result =
            ToolResult::new(&ToolCall::new("c", "f", "{}"), ToolStatus::Success, r#"{"n":1}"#);
        let files = vec![
            ToolPart::Media(Media::of_bytes("image/png", [1, 2, 3])),
            ToolPart::Media(Media::new("video/mp4", "https://example.com/v.mp4")),
            ToolPart::Link(ResourceLink::new("file:///a").name("all")),
        ];
        let mut content = ToolContent::default();
        (content.text, content.parts) = (Some("Seen.".to_owned()), files);
        result.content = Some(Box::new(content));
        let message = Message::tool_results([Arc::new(result)]);
        let sent = |model: &str| -> Value {
            serde_json::from_slice(&parts(&message, model)).expect("one part")
        };
        let video = "[video/mp4 at https://example.com/v.mp4 left out]\n[all: file:///a]";
        let response = &sent("gemini-3-pro")["functionResponse"];
        assert_eq!(response["response"], json!({"output": format!("Seen.\n{video}")}));
        assert_eq!(
            response["parts"],
            json!([{"inlineData": {"mimeType": "image/png", "data": "AQID"}}])
        );
        let response = &sent("gemini-2.5-flash")["functionResponse"];
        assert_eq!(
            response["response"],
            json!({"output": format!("Seen.\n[image/png left out]\n{video}")})
        );
        assert_eq!(response.get("parts"), None);
    }
}
