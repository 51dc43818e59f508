//! Unusual but legal answers of the providers and of compatible servers, one per row of a data
//! file.
//!
//! A row has a `name`, the `source` that shows or describes such an answer, and the reply: a
//! `document`, a raw `body`, a list of `events`, or a raw `stream`. A text among the events is sent
//! unchanged. `status`, `type` and `asks` change the status, the content type and the requested
//! form. `expected` is the answer that a client should read: absent fields are empty, the stop
//! reason is `stop`, and usage is not compared.

use std::fs;
use std::path::Path;
use std::time::Duration;

use agentflow::Model;
use agentflow::message::Part;
use agentflow::model::{ModelError, ModelEvent, ModelRequest, ModelResponse};
use futures_util::TryStreamExt;
use serde::Deserialize;
use serde_json::{Value, json};

use super::scripted_server::{Format, Reply, ScriptedServer};

/// Time limit for an answer. It only determines how long a failing test takes.
const HANGS: Duration = Duration::from_secs(20);

/// Minimum number of rows in a file.
const FEWEST: usize = 50;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    source: String,
    status: Option<u16>,
    #[serde(rename = "type")]
    content_type: Option<String>,
    asks: Option<Asks>,
    document: Option<Value>,
    body: Option<String>,
    events: Option<Vec<Value>>,
    stream: Option<String>,
    expected: Expected,
}

/// The requested form of the answer. Default: the form of the reply.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Asks {
    Document,
    Stream,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Expected {
    text: String,
    reasoning: String,
    calls: Vec<ExpectedCall>,
    /// MIME types of the files.
    media: Vec<String>,
    stop: Option<String>,
    /// Names and counts of [`agentflow::model::Usage`].
    usage: Option<Value>,
    error: Option<ExpectedError>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedCall {
    id: Option<String>,
    name: String,
    /// Parsed arguments; a text may also equal the raw arguments.
    arguments: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedError {
    kind: String,
    /// A substring of the message.
    message: Option<String>,
    retryable: Option<bool>,
}

impl Row {
    fn is_stream(&self) -> bool {
        self.events.is_some() || self.stream.is_some()
    }

    fn reply(&self) -> Reply {
        let (default_type, body) = match (&self.document, &self.body, &self.events, &self.stream) {
            (Some(document), None, None, None) => ("application/json", document.to_string()),
            (None, Some(body), None, None) => ("application/json", body.clone()),
            (None, None, Some(events), None) => {
                ("text/event-stream", events.iter().map(event).collect())
            }
            (None, None, None, Some(stream)) => ("text/event-stream", stream.clone()),
            _ => panic!("the row `{}` needs exactly one reply", self.name),
        };
        let content_type = self.content_type.as_deref().unwrap_or(default_type);
        Reply::new(content_type, body).status(self.status.unwrap_or(200))
    }

    fn request(&self) -> ModelRequest {
        let default = if self.is_stream() { Asks::Stream } else { Asks::Document };
        let request = ModelRequest::new("Hi");
        match self.asks.unwrap_or(default) {
            Asks::Stream => request.streamed(),
            Asks::Document => request,
        }
    }

    /// Calls the model and returns the problems of the answer.
    async fn problems(&self, model: &dyn Model) -> Vec<String> {
        let answer = async {
            let events: Vec<ModelEvent> = model.stream(self.request()).try_collect().await?;
            Ok(events)
        };
        let answer = match tokio::time::timeout(HANGS, answer).await {
            Ok(answer) => answer,
            Err(_) => return vec![format!("no answer within {HANGS:?}")],
        };
        match (answer, &self.expected.error) {
            (Err(error), Some(expected)) => expected.problems(&error),
            (Err(error), None) => vec![format!("expected an answer, got the error {error:?}")],
            (Ok(events), Some(expected)) => {
                vec![format!("expected an error of the kind {}, got {events:?}", expected.kind)]
            }
            (Ok(events), None) => self.expected.problems(&events),
        }
    }
}

fn event(event: &Value) -> String {
    match event {
        Value::String(text) => text.clone(),
        event => format!("data: {event}\n\n"),
    }
}

impl ExpectedError {
    fn problems(&self, error: &ModelError) -> Vec<String> {
        let message = self.message.as_deref().unwrap_or_default();
        let retryable = self.retryable.unwrap_or_else(|| error.is_retryable());
        if error.kind().as_str() == self.kind
            && error.message().contains(message)
            && error.is_retryable() == retryable
        {
            return Vec::new();
        }
        vec![format!(
            "expected an error of the kind {} with `{message}`, retryable: {retryable}, got {error:?}",
            self.kind
        )]
    }
}

impl Expected {
    fn problems(&self, events: &[ModelEvent]) -> Vec<String> {
        let Some(ModelEvent::Completed(response)) = events.last() else {
            return vec![format!("the stream ends without an answer: {events:?}")];
        };
        let mut problems = Vec::new();
        let mut compare = |what: &str, expected: Value, seen: Value| {
            if expected != seen {
                problems.push(format!("{what}: expected {expected}, got {seen}"));
            }
        };
        compare("text", json!(self.text), json!(response.text()));
        compare("reasoning", json!(self.reasoning), json!(response.message.reasoning()));
        compare("media", json!(self.media), json!(media(response)));
        compare(
            "stop reason",
            json!(self.stop.as_deref().unwrap_or("stop")),
            json!(response.stop_reason.as_str()),
        );
        let usage = serde_json::to_value(&response.usage).unwrap();
        for (name, count) in self.usage.iter().flat_map(|usage| usage.as_object().unwrap()) {
            compare(name, count.clone(), usage[name].clone());
        }
        compare("number of calls", json!(self.calls.len()), json!(response.tool_calls().count()));
        let mut ids = Vec::new();
        for (expected, call) in self.calls.iter().zip(response.tool_calls()) {
            compare("name of a call", json!(expected.name), json!(call.name));
            if let Some(id) = &expected.id {
                compare("id of a call", json!(id), json!(call.id));
            }
            let read = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
            if expected.arguments != json!(call.arguments) {
                compare("arguments of a call", expected.arguments.clone(), read);
            }
            compare(
                "an id that is used again or empty",
                json!(false),
                json!(ids.contains(&call.id) || call.id.is_empty()),
            );
            ids.push(call.id.clone());
        }
        // The deltas contain the same text as the complete answer.
        let heard: String = events.iter().filter_map(text).collect();
        if events.len() > 1 {
            compare("text of the pieces", json!(self.text), json!(heard));
        }
        problems
    }
}

fn text(event: &ModelEvent) -> Option<&str> {
    match event {
        ModelEvent::Text(text) => Some(text),
        _ => None,
    }
}

fn media(response: &ModelResponse) -> Vec<&str> {
    let files = response.message.parts().iter().filter_map(|part| match part {
        Part::Media(file) => Some(file.mime_type.as_str()),
        _ => None,
    });
    files.collect()
}

fn rows(file: &str) -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/odd_answers").join(file);
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rows = text.lines().enumerate().map(|(at, line)| {
        serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("{file}, line {}: {error}", at + 1))
    });
    rows.collect()
}

async fn every_answer_is_read(format: Format, file: &str) {
    let rows = rows(file);
    assert!(rows.len() >= FEWEST, "{file} has only {} rows", rows.len());
    let replies: Vec<Reply> = rows.iter().map(Row::reply).collect();
    let server = ScriptedServer::start(replies);
    let model = format.model(&server);
    let mut failed = Vec::new();
    for row in &rows {
        for problem in row.problems(&*model).await {
            failed.push(format!("{} ({}): {problem}", row.name, row.source));
        }
    }
    assert!(failed.is_empty(), "{} problems in {file}:\n{}", failed.len(), failed.join("\n"));
}

#[tokio::test]
async fn odd_answers_of_chat_servers_are_read() {
    every_answer_is_read(Format::Chat, "chat.jsonl").await;
}

#[tokio::test]
async fn odd_answers_of_responses_servers_are_read() {
    every_answer_is_read(Format::Responses, "responses.jsonl").await;
}

#[tokio::test]
async fn odd_answers_of_anthropic_servers_are_read() {
    every_answer_is_read(Format::Anthropic, "anthropic.jsonl").await;
}

#[tokio::test]
async fn odd_answers_of_gemini_servers_are_read() {
    every_answer_is_read(Format::Gemini, "gemini.jsonl").await;
}
