//! Tests that keys are never shown. Runs all four adapters with known keys, against servers that
//! return a key in every known way, and searches all output: events, logs, errors, cassettes, and
//! `Debug` of all public types.
//!
//! This is a separate test program, since it installs the process-wide `tracing` subscriber and
//! `log` logger.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use agentflow::model::anthropic::Anthropic;
use agentflow::model::gemini::Gemini;
use agentflow::model::openai_chat::OpenAiChat;
use agentflow::model::openai_responses::OpenAiResponses;
use agentflow::model::{EnvSecrets, HttpSettings, ModelSource, Secret, SecretProvider};
use agentflow::{Agent, Model, RunHandle, Runtime, tool, tools};
use agentflow_testing::{Cassette, within};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context as LayerContext, SubscriberExt};
use tracing_subscriber::{Layer, Registry, registry::LookupSpan};

/// Keys that do not look like keys, so that no pattern detects them.
const KEY: &str = "plainly-a-key-5f1d9c7e2b";
const HEADER_KEY: &str = "key-of-a-header-77aa31";
const QUERY_KEY: &str = "key-of-the-query-90cd12";
const PASSWORD: &str = "key-of-the-user-33ef56";
/// The user and the password, encoded for a header.
const BASIC: &str = "dXNlcjprZXktb2YtdGhlLXVzZXItMzNlZjU2";
const KEYS: [&str; 4] = [KEY, HEADER_KEY, QUERY_KEY, PASSWORD];

/// Add two integers.
#[tool(effects = "none")]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Collects all output.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<String>>);

impl Shown {
    fn push(&self, what: &str, text: &str) {
        let mut all = self.0.lock().unwrap();
        all.push_str(what);
        all.push_str(": ");
        all.push_str(text);
        all.push('\n');
    }

    fn debug(&self, what: &str, value: &dyn Debug) {
        self.push(what, &format!("{value:?}\n{value:#?}"));
    }

    #[track_caller]
    fn holds_no_key(&self) {
        let all = self.0.lock().unwrap();
        for key in KEYS.into_iter().chain([BASIC]) {
            if let Some(at) = all.find(key) {
                let line = all[..at].rfind('\n').map_or(0, |at| at + 1);
                panic!("{key} is shown in: {}", &all[line..(at + 200).min(all.len())]);
            }
        }
    }
}

/// Collects logs and traces of all crates, at every level.
impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Shown {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: LayerContext<'_, S>) {
        attributes.record(&mut Fields(self));
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: LayerContext<'_, S>) {
        values.record(&mut Fields(self));
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: LayerContext<'_, S>) {
        event.record(&mut Fields(self));
    }
}

struct Fields<'a>(&'a Shown);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push(&format!("trace {}", field.name()), &format!("{value:?}"));
    }
}

/// Collects the messages of crates that log with `log`.
impl log::Log for Shown {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.push(&format!("log {}", record.target()), &record.args().to_string());
    }

    fn flush(&self) {}
}

/// Builds a server's response from the head of the request, since a response may contain parts of
/// the request.
type Answer = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Starts a server that gives one response per connection, and repeats the last one. Returns its
/// address.
fn serve(answers: Vec<Answer>) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    // The thread ends with the process.
    thread::spawn(move || {
        for (turn, stream) in listener.incoming().enumerate() {
            let Ok(stream) = stream else { return };
            if let Some(answer) = answers.get(turn).or(answers.last()) {
                let _ = reply(stream, answer);
            }
        }
    });
    format!("127.0.0.1:{port}")
}

fn reply(mut stream: TcpStream, answer: &Answer) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        if reader.read_line(&mut head)? == 0 || &head[start..] == "\r\n" {
            break;
        }
        if let Some(value) = head[start..].to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    reader.read_exact(&mut vec![0; length])?;
    stream.write_all(answer(&head).as_bytes())
}

fn http(status: u16, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\n{headers}connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

const JSON: &str = "content-type: application/json\r\n";
const EVENTS: &str = "content-type: text/event-stream\r\n";

fn document(body: Value) -> Answer {
    Arc::new(move |_| http(200, JSON, &body.to_string()))
}

/// The wire formats of the adapters.
#[derive(Clone, Copy, Debug)]
enum Format {
    Chat,
    Responses,
    Anthropic,
    Gemini,
}

impl Format {
    const ALL: [Self; 4] = [Self::Chat, Self::Responses, Self::Anthropic, Self::Gemini];

    /// Responses for a successful run: a tool call, then a text.
    fn story(self) -> Vec<Answer> {
        let arguments = json!({"a": 1, "b": 2});
        let text = arguments.to_string();
        let (call, answer) = match self {
            Self::Chat => {
                let call = json!({"id": "c1", "type": "function", "function": {"name": "add", "arguments": text}});
                let of = |message: Value, reason: &str| json!({"choices": [{"index": 0, "message": message, "finish_reason": reason}]});
                (
                    of(
                        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
                        "tool_calls",
                    ),
                    of(json!({"role": "assistant", "content": "three"}), "stop"),
                )
            }
            Self::Responses => {
                let of = |item: Value| json!({"id": "r", "object": "response", "status": "completed", "output": [item]});
                (
                    of(
                        json!({"type": "function_call", "id": "f", "call_id": "c1", "name": "add", "arguments": text}),
                    ),
                    of(json!({"type": "message", "id": "m", "role": "assistant", "content": [
                        {"type": "output_text", "text": "three", "annotations": []},
                    ]})),
                )
            }
            Self::Anthropic => {
                let of = |part: Value, reason: &str| {
                    json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [part],
                        "stop_reason": reason, "usage": {"input_tokens": 1, "output_tokens": 1}})
                };
                (
                    of(
                        json!({"type": "tool_use", "id": "c1", "name": "add", "input": arguments}),
                        "tool_use",
                    ),
                    of(json!({"type": "text", "text": "three"}), "end_turn"),
                )
            }
            Self::Gemini => {
                let of = |part: Value| json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]});
                (
                    of(json!({"functionCall": {"name": "add", "args": arguments}})),
                    of(json!({"text": "three"})),
                )
            }
        };
        vec![document(call), document(answer)]
    }

    /// Returns an error event within a stream.
    fn stream_error(self, said: &str) -> String {
        let error = match self {
            Self::Chat => json!({"error": {"message": said, "code": said, "type": said}}),
            Self::Responses => json!({"type": "error", "code": said, "message": said}),
            Self::Anthropic => json!({"type": "error", "error": {"type": said, "message": said}}),
            Self::Gemini => json!({"error": {"code": 401, "message": said, "status": said}}),
        };
        format!("data: {error}\n\n")
    }

    /// Returns a model with a key in every setting that accepts one.
    fn model(self, server: &str, shown: &Shown, from: KeyFrom) -> Arc<dyn Model> {
        let url = format!("http://{server}/v1?sig={QUERY_KEY}");
        let settings = HttpSettings::default()
            .max_retries(1)
            .retry_base(Duration::from_millis(1))
            .idle_timeout(Duration::from_millis(200));
        macro_rules! model {
            ($builder:expr) => {{
                let builder = $builder.base_url(url).http(settings).header("x-extra", HEADER_KEY);
                let builder = match from {
                    KeyFrom::Given => builder.api_key(Secret::new(KEY)),
                    KeyFrom::Vault => builder.secrets(Arc::new(Vault)),
                };
                shown.debug("a builder", &builder);
                let model = builder.build().unwrap();
                shown.debug("a model", &model);
                Arc::new(model)
            }};
        }
        match self {
            Self::Chat => model!(OpenAiChat::builder("m")),
            Self::Responses => model!(OpenAiResponses::builder("m")),
            Self::Anthropic => model!(Anthropic::builder("m")),
            Self::Gemini => model!(Gemini::builder("m")),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum KeyFrom {
    Given,
    Vault,
}

struct Vault;

#[async_trait::async_trait]
impl SecretProvider for Vault {
    async fn secret(&self, _: &str) -> Option<Secret> {
        Some(Secret::new(KEY))
    }
}

/// Returns responses that contain the request's keys, in every known way.
fn echoes(format: Format, keys: &[&str]) -> Vec<(&'static str, Answer)> {
    fn answer(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Answer {
        Arc::new(answer)
    }
    let all = keys.join(" ");
    let refused = json!({"error": {"message": all, "code": KEY, "type": KEY, "status": KEY, "param": KEY}, "key": all});
    let (in_stream, broken) = (format.stream_error(&all), format!("data: {{{all}\n\n"));
    let refusal = |status: u16| {
        let body = refused.to_string();
        answer(move |_| {
            http(status, &format!("{JSON}x-request-id: {KEY}\r\nrequest-id: {KEY}\r\n"), &body)
        })
    };
    vec![
        ("401", refusal(401)),
        ("403", refusal(403)),
        ("404", refusal(404)),
        ("400", refusal(400)),
        ("429", refusal(429)),
        ("500", refusal(500)),
        ("the whole head", answer(|head| http(401, "content-type: text/plain\r\n", head))),
        ("a long body", answer(|head| http(401, "", &format!("{}{head}", "x".repeat(4070))))),
        (
            "a message that is a text",
            answer(|head| http(401, JSON, &json!({"error": head}).to_string())),
        ),
        ("a type", answer(|_| http(200, &format!("content-type: application/{KEY}\r\n"), ""))),
        (
            "a redirect",
            answer(|head| {
                let port = head
                    .split("127.0.0.1:")
                    .nth(1)
                    .and_then(|rest| rest.split("\r\n").next())
                    .unwrap_or("1");
                http(302, &format!("location: http://127.0.0.1:{port}/{KEY}?k={KEY}\r\n"), "")
            }),
        ),
        (
            "another type",
            answer(|_| {
                http(
                    200,
                    JSON,
                    &json!({"choices": KEY, "output": KEY, "content": {"key": KEY}, "candidates": KEY}).to_string(),
                )
            }),
        ),
        (
            "another type in a stream",
            answer(|_| {
                let event =
                    json!({"choices": KEY, "output_index": KEY, "index": KEY, "candidates": KEY});
                http(200, EVENTS, &format!("data: {event}\n\n"))
            }),
        ),
        ("no JSON", answer(|head| http(200, JSON, head))),
        ("an error in a stream", answer(move |_| http(200, EVENTS, &in_stream))),
        ("no JSON in a stream", answer(move |_| http(200, EVENTS, &broken))),
        ("no HTTP", answer(|head| head.to_owned())),
        ("a line that is not a header", answer(|_| format!("HTTP/1.1 200 X\r\n{KEY}\r\n\r\n"))),
        (
            "half an answer",
            answer(|head| format!("HTTP/1.1 200 X\r\n{JSON}content-length: 9999\r\n\r\n{head}")),
        ),
        ("nothing", answer(|_| String::new())),
    ]
}

/// Runs an agent to its end and collects all output. Returns the outcome.
async fn run(model: Arc<dyn Model>, shown: &Shown, what: &str) -> Result<String, agentflow::Error> {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("keys-{}.json", std::process::id()));
    let cassette = Cassette::record(&file, model).unwrap();
    let events = Arc::new(Mutex::new(String::new()));
    let sink = {
        let events = Arc::clone(&events);
        move |event: &agentflow::Event| {
            let line = format!("{event:?} {}\n", serde_json::to_string(event).unwrap());
            events.lock().unwrap().push_str(&line);
        }
    };
    let builder = Runtime::builder().secrets(Vault).sink(sink).trace_content(true);
    shown.debug("a runtime's builder", &builder);
    let runtime = builder.build();
    shown.debug("a runtime", &runtime);
    shown.debug("providers", &runtime.catalogue().model_providers().await);
    let source = ModelSource::from(cassette.clone());
    shown.debug("a source", &source);
    let agent = Agent::new(source).tools(tools![add]).runtime(&runtime);
    shown.debug("an agent", &agent);
    let streamed = what.contains("stream");
    let handle: RunHandle = agent.start("What is 1 + 2?").unwrap();
    shown.debug("a handle", &handle);
    if streamed {
        let mut events = handle.events();
        shown.debug("a stream", &events);
        while let Some(event) = within("the next event", events.next()).await {
            shown.debug("a streamed event", &event);
        }
    }
    let ended = handle.result().await;
    match &ended {
        Ok(result) => {
            shown.debug("a result", result);
            shown.debug("a journal", &result.events());
            shown.push("an answer", &result.to_string());
        }
        Err(error) => {
            shown.debug("an error", error);
            shown.push("an error", &error.to_string());
            let mut cause = std::error::Error::source(error);
            while let Some(error) = cause {
                shown.push("a cause", &format!("{error} {error:?}"));
                cause = error.source();
            }
            if let agentflow::Error::Model(error) = error {
                shown.push(
                    "its parts",
                    &format!(
                        "{:?} {:?} {:?}",
                        error.provider_code(),
                        error.request_id(),
                        error.body()
                    ),
                );
                shown.debug("a failure", &agentflow::error::Failure::from(&**error));
            }
        }
    }
    shown.push(&format!("the events of {what}"), &events.lock().unwrap());
    shown.debug("a cassette", &cassette);
    cassette.finish();
    shown.push("a cassette's file", &std::fs::read_to_string(&file).unwrap());
    std::fs::remove_file(file).unwrap();
    ended.map(agentflow::run::RunResult::into_output)
}

#[tokio::test]
async fn no_key_is_ever_shown() {
    let shown = Shown::default();
    tracing::subscriber::set_global_default(Registry::default().with(shown.clone())).unwrap();
    log::set_boxed_logger(Box::new(shown.clone())).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    shown.debug("a secret", &Secret::new(KEY));
    shown.debug("the environment", &EnvSecrets);
    for format in Format::ALL {
        for from in [KeyFrom::Given, KeyFrom::Vault] {
            let server = serve(format.story());
            let said = run(format.model(&server, &shown, from), &shown, "a story").await;
            assert_eq!(said.unwrap(), "three", "{format:?}");
        }
        // The HTTP client turns a password in the URL into an `Authorization` header.
        for (user, keys) in [(String::new(), &KEYS[..3]), (format!("user:{PASSWORD}@"), &KEYS)] {
            for (what, answer) in echoes(format, keys) {
                let server = format!("{user}{}", serve(vec![answer]));
                let ended = run(format.model(&server, &shown, KeyFrom::Given), &shown, what).await;
                assert!(ended.is_err(), "{format:?}, {what}: {ended:?}");
            }
        }
        let wrong = format.model("127.0.0.1:1", &shown, KeyFrom::Given);
        assert!(run(wrong, &shown, "nobody").await.is_err());
    }
    // The search is only meaningful if the output was collected.
    let all = shown.0.lock().unwrap().clone();
    for seen in [
        "[hidden]",
        "status 401",
        "trace gen_ai.input.messages",
        "trace server.port",
        "log ",
        "tool.completed",
        "\"error\"",
        "127.0.0.1",
    ] {
        assert!(all.contains(seen), "{seen} was never shown");
    }
    shown.holds_no_key();
}

/// Checks that the search finds a key.
#[test]
#[should_panic(expected = "plainly-a-key-5f1d9c7e2b is shown in: a log: ")]
fn a_key_that_is_shown_is_found() {
    let shown = Shown::default();
    shown.push("a log", &format!("the key is {KEY}"));
    shown.holds_no_key();
}
