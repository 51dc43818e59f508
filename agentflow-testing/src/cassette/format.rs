//! Reads and writes cassette files, version 1 of the format. It is easy to review and is read
//! strictly.
//!
//! The file contains no data twice. It has each tool definition once, and a conversation that
//! continues an earlier call refers to that call. Reading restores the full requests, so only this
//! file handles the references.

use std::path::Path;
use std::time::Duration;

use agentflow::model::{
    ModelError, ModelErrorKind, ModelEvent, ModelInfo, ModelResponse, OutputMode, ToolCallDelta,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::asked::{Asked, message_form};
use super::layout::{self, Node};
use super::scrub::Ready;

/// The version that is written, and the only version that can be read.
const VERSION: u64 = 1;

/// The content of a cassette.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tape {
    pub(super) model: ModelInfo,
    pub(super) order: Order,
    pub(super) output_modes: Vec<RecordedOutputMode>,
    pub(super) calls: Vec<Call>,
}

/// Required order of the calls in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// The recorded order.
    Recorded,
    /// Any order, because some recorded calls overlapped.
    Any,
}

/// The output mode that the recorded model chose for an output schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedOutputMode {
    pub(super) schema: String,
    pub(super) with_tools: bool,
    pub(super) native: bool,
}

impl RecordedOutputMode {
    pub(super) fn mode(&self) -> OutputMode {
        if self.native { OutputMode::Native } else { OutputMode::Tool }
    }
}

/// A recorded call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) asked: Asked,
    pub(super) pieces: Vec<ModelEvent>,
    pub(super) came: Came,
}

/// The end of a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Came {
    Answer(Box<ModelResponse>),
    Error(Box<ErrorForm>),
    /// The stream ended without a completed response.
    Cut,
    /// The caller dropped the call before its end.
    Dropped,
}

/// The serialized form of a [`ModelError`], without its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ErrorForm {
    kind: ModelErrorKind,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider_code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    permanent: bool,
}

impl From<&ModelError> for ErrorForm {
    fn from(error: &ModelError) -> Self {
        Self {
            kind: error.kind(),
            message: error.message().to_owned(),
            status: error.status(),
            provider_code: error.provider_code().map(ToOwned::to_owned),
            request_id: error.request_id().map(ToOwned::to_owned),
            retry_after_ms: error
                .retry_after()
                .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            body: error.body().map(ToOwned::to_owned),
            // Set only if it differs from the default of the kind, to keep files short.
            permanent: error.kind().is_retryable() && !error.is_retryable(),
        }
    }
}

impl From<ErrorForm> for ModelError {
    fn from(form: ErrorForm) -> Self {
        let ErrorForm {
            kind,
            message,
            status,
            provider_code,
            request_id,
            retry_after_ms,
            body,
            permanent,
        } = form;
        let mut error = Self::new(kind, message);
        if let Some(status) = status {
            error = error.with_status(status);
        }
        if let Some(code) = provider_code {
            error = error.with_provider_code(code);
        }
        if let Some(id) = request_id {
            error = error.with_request_id(id);
        }
        if let Some(wait) = retry_after_ms {
            error = error.with_retry_after(Duration::from_millis(wait));
        }
        if let Some(body) = body {
            error = error.with_body(body);
        }
        if permanent { error.permanent() } else { error }
    }
}

impl Call {
    /// Removes secrets. If a secret is found in a streamed text, all pieces of this text are merged
    /// into one, because the secret may be split over several pieces.
    pub(super) fn scrub(&mut self, ready: &Ready) -> Result<(), String> {
        self.asked.scrub(ready);
        match &mut self.came {
            Came::Answer(answer) => {
                let mut value = json(&**answer)?;
                ready.value(&mut value);
                **answer = serde_json::from_value(value).map_err(|error| {
                    format!("the answer cannot be read after scrubbing: {error}")
                })?;
            }
            Came::Error(form) => {
                let texts = [
                    Some(&mut form.message),
                    form.provider_code.as_mut(),
                    form.request_id.as_mut(),
                ];
                for text in texts.into_iter().flatten().chain(&mut form.body) {
                    *text = ready.text(text);
                }
            }
            Came::Cut | Came::Dropped => {}
        }
        // Each text is scrubbed as a whole, because a secret may be split over its pieces.
        let mut channels: Vec<StreamedText> = Vec::new();
        for channel in self.pieces.iter().filter_map(channel_of) {
            if !channels.contains(&channel) {
                channels.push(channel);
            }
        }
        for channel in channels {
            let whole: String = self
                .pieces
                .iter_mut()
                .filter_map(|piece| text_of(piece, channel))
                .map(|text| &**text)
                .collect();
            let mut scrubbed = ready.text(&whole);
            if scrubbed != whole {
                // The first piece receives the whole scrubbed text, and the others become empty.
                for text in self.pieces.iter_mut().filter_map(|piece| text_of(piece, channel)) {
                    *text = std::mem::take(&mut scrubbed);
                }
                // An empty piece is kept if it carries the id or the name of a call.
                self.pieces
                    .retain(|piece| channel_of(piece) != Some(channel) || says_something(piece));
            }
        }
        Ok(())
    }
}

/// The text that a piece belongs to.
#[derive(Clone, Copy, PartialEq)]
enum StreamedText {
    Text,
    Reasoning,
    Call(usize),
}

fn channel_of(piece: &ModelEvent) -> Option<StreamedText> {
    match piece {
        ModelEvent::Text(_) => Some(StreamedText::Text),
        ModelEvent::Reasoning(_) => Some(StreamedText::Reasoning),
        ModelEvent::ToolCall(call) => Some(StreamedText::Call(call.index)),
        _ => None,
    }
}

fn says_something(piece: &ModelEvent) -> bool {
    match piece {
        ModelEvent::Text(text) | ModelEvent::Reasoning(text) => !text.is_empty(),
        ModelEvent::ToolCall(call) => {
            !call.arguments.is_empty() || call.id.is_some() || call.name.is_some()
        }
        _ => true,
    }
}

fn text_of(piece: &mut ModelEvent, channel: StreamedText) -> Option<&mut String> {
    match piece {
        ModelEvent::Text(text) if channel == StreamedText::Text => Some(text),
        ModelEvent::Reasoning(text) if channel == StreamedText::Reasoning => Some(text),
        ModelEvent::ToolCall(call) if channel == StreamedText::Call(call.index) => {
            Some(&mut call.arguments)
        }
        _ => None,
    }
}

fn json(value: &impl Serialize) -> Result<Value, String> {
    serde_json::to_value(value).map_err(|error| format!("it has no JSON form: {error}"))
}

/// Writes a cassette as text.
pub(super) fn write(tape: &Tape) -> Result<String, String> {
    let mut tools: Vec<(String, Value)> = Vec::new();
    let mut calls = Vec::new();
    for (at, call) in tape.calls.iter().enumerate() {
        let mut fields = vec![("call", Node::from(json!(at + 1)))];
        let (before, messages) = continued(&tape.calls[..at], &call.asked.messages);
        if let Some(before) = before {
            fields.push(("continues", json!(before + 1).into()));
        }
        fields.push(("messages", Node::List(messages.iter().cloned().map(Node::from).collect())));
        if !call.asked.tools.is_empty() {
            let labels: Vec<String> =
                call.asked.tools.iter().map(|tool| label(&mut tools, tool)).collect();
            fields.push(("tools", json!(labels).into()));
        }
        fields.extend(call.asked.output.clone().map(|output| ("output", output.into())));
        if !call.asked.settings.is_empty() {
            fields.push(("settings", Value::Object(call.asked.settings.clone()).into()));
        }
        if !call.pieces.is_empty() {
            fields.push(("pieces", Node::List(pieces(&call.pieces)?)));
        }
        fields.push(match &call.came {
            Came::Answer(answer) => ("answer", json(&**answer)?.into()),
            Came::Error(error) => ("error", json(&**error)?.into()),
            Came::Cut => ("ended", json!("cut").into()),
            Came::Dropped => ("ended", json!("dropped").into()),
        });
        calls.push(Node::Fields(fields));
    }
    let mut fields = vec![
        ("version", Node::from(json!(VERSION))),
        ("model", json!({"provider": tape.model.provider, "model": tape.model.model}).into()),
        ("order", json(&tape.order)?.into()),
    ];
    if !tape.output_modes.is_empty() {
        fields.push(("output_modes", json(&tape.output_modes)?.into()));
    }
    if !tools.is_empty() {
        fields.push(("tools", Value::Object(tools.into_iter().collect()).into()));
    }
    fields.push(("calls", Node::List(calls)));
    Ok(layout::document(&Node::Fields(fields)))
}

/// Returns the newest earlier call whose conversation, including its answer, is a prefix of the
/// messages, and the messages after this prefix.
fn continued<'m>(before: &[Call], messages: &'m [Value]) -> (Option<usize>, &'m [Value]) {
    // The newest match usually leaves the fewest messages to write.
    for (at, call) in before.iter().enumerate().rev() {
        if let Some(rest) =
            history(call).and_then(|history| messages.strip_prefix(history.as_slice()))
        {
            return (Some(at), rest);
        }
    }
    (None, messages)
}

/// Returns the conversation of a call including its answer, or `None` if it has no answer.
fn history(call: &Call) -> Option<Vec<Value>> {
    let Came::Answer(answer) = &call.came else { return None };
    Some(call.asked.messages.iter().cloned().chain([message_form(&answer.message)]).collect())
}

/// Returns the label of a tool: its name, with a number if different tools have the same name.
fn label(tools: &mut Vec<(String, Value)>, tool: &Value) -> String {
    if let Some((label, _)) = tools.iter().find(|(_, known)| known == tool) {
        return label.clone();
    }
    let name = tool["name"].as_str().unwrap_or_default();
    let same = tools.iter().filter(|(_, known)| known["name"] == tool["name"]).count();
    let label = if same == 0 { name.to_owned() } else { format!("{name}#{}", same + 1) };
    tools.push((label.clone(), tool.clone()));
    label
}

/// Serializes pieces. Consecutive pieces of one text become one list.
fn pieces(pieces: &[ModelEvent]) -> Result<Vec<Node>, String> {
    let mut nodes: Vec<Value> = Vec::new();
    for piece in pieces {
        let (key, text) = match piece {
            ModelEvent::Text(text) => ("text", text),
            ModelEvent::Reasoning(text) => ("reasoning", text),
            ModelEvent::ToolCall(call) => {
                nodes.push(json!({"tool_call": json(call)?}));
                continue;
            }
            _ => {
                return Err(
                    "a piece is of a kind that this release of agentflow-testing cannot keep"
                        .to_owned(),
                );
            }
        };
        match nodes.last_mut().and_then(|node| node.get_mut(key)).and_then(Value::as_array_mut) {
            Some(list) => list.push(Value::from(text.as_str())),
            None => nodes.push(json!({key: [text]})),
        }
    }
    Ok(nodes.into_iter().map(Node::from).collect())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm {
    #[serde(rename = "version")]
    _version: u64,
    model: InfoForm,
    order: Order,
    #[serde(default)]
    output_modes: Vec<RecordedOutputMode>,
    #[serde(default)]
    tools: Map<String, Value>,
    calls: Vec<CallForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InfoForm {
    provider: String,
    model: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallForm {
    call: usize,
    continues: Option<usize>,
    messages: Vec<Value>,
    #[serde(default)]
    tools: Vec<String>,
    output: Option<Value>,
    #[serde(default)]
    settings: Map<String, Value>,
    #[serde(default)]
    pieces: Vec<PieceForm>,
    answer: Option<Box<ModelResponse>>,
    error: Option<Box<ErrorForm>>,
    ended: Option<EndedForm>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum PieceForm {
    Text(Vec<String>),
    Reasoning(Vec<String>),
    ToolCall(ToolCallDelta),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum EndedForm {
    Cut,
    Dropped,
}

/// Parses a cassette.
pub(super) fn read(text: &str) -> Result<Tape, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    // The version is checked first, so that a newer format is not reported as a malformed file.
    match value.get("version").and_then(Value::as_u64) {
        Some(VERSION) => {}
        Some(other) => {
            return Err(format!(
                "it is of version {other} and this release of agentflow-testing reads version {VERSION}; record it again"
            ));
        }
        None => return Err("it has no `version`, so it is not a cassette".to_owned()),
    }
    let file: FileForm =
        serde_json::from_str(text).map_err(|error| format!("it is not a cassette: {error}"))?;
    let mut calls: Vec<Call> = Vec::new();
    for form in file.calls {
        let at = calls.len() + 1;
        // `continues` refers to these numbers, so a gap means that the file was edited
        // inconsistently.
        if form.call != at {
            return Err(format!("its call {} comes where call {at} should be", form.call));
        }
        calls.push(
            call(form, &file.tools, &calls)
                .map_err(|problem| format!("its call {at} {problem}"))?,
        );
    }
    Ok(Tape {
        model: ModelInfo::new(file.model.provider, file.model.model),
        order: file.order,
        output_modes: file.output_modes,
        calls,
    })
}

fn call(form: CallForm, tools: &Map<String, Value>, before: &[Call]) -> Result<Call, String> {
    let mut messages = match form.continues {
        None => Vec::new(),
        Some(number) => {
            number.checked_sub(1).and_then(|at| before.get(at)).and_then(history).ok_or_else(
                || format!("continues call {number}, which is not an earlier call with an answer"),
            )?
        }
    };
    messages.extend(form.messages);
    let tools = form.tools.iter().map(|label| {
        tools
            .get(label)
            .cloned()
            .ok_or_else(|| format!("names the tool `{label}`, which is not in its `tools`"))
    });
    let asked = Asked {
        messages,
        tools: tools.collect::<Result<_, _>>()?,
        output: form.output,
        settings: form.settings,
    };
    let mut pieces = Vec::new();
    for piece in form.pieces {
        match piece {
            PieceForm::Text(texts) => pieces.extend(texts.into_iter().map(ModelEvent::Text)),
            PieceForm::Reasoning(texts) => {
                pieces.extend(texts.into_iter().map(ModelEvent::Reasoning));
            }
            PieceForm::ToolCall(call) => pieces.push(ModelEvent::ToolCall(call)),
        }
    }
    let came = match (form.answer, form.error, form.ended) {
        (Some(answer), None, None) => Came::Answer(answer),
        (None, Some(error), None) => Came::Error(error),
        (None, None, Some(EndedForm::Cut)) => Came::Cut,
        (None, None, Some(EndedForm::Dropped)) => Came::Dropped,
        _ => return Err("needs one of `answer`, `error` and `ended`".to_owned()),
    };
    Ok(Call { asked, pieces, came })
}

/// Replaces a file atomically, so that a reader never sees a partial file.
pub(super) fn save(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // The process id separates the temporary files of concurrent test processes.
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, path)
}
