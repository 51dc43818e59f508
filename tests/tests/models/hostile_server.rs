//! Malicious and broken model servers: absurd token counts, endless answers and parts, echoed keys.
//! All four adapters are tested against a server on loopback.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use agentflow::event::EventKind;
use agentflow::message::Conversation;
use agentflow::middleware::{Price, Prices, Scope, cost_tracker, token_budget};
use agentflow::model::gemini::Gemini;
use agentflow::model::openai_chat::OpenAiChat;
use agentflow::model::{
    HttpSettings, ModelError, ModelErrorKind, ModelRequest, ModelResponse, Secret, Usage,
};
use agentflow::store::{MemoryStore, Store};
use agentflow::{Agent, Message, Model, Runtime, tool, tools};
use agentflow_testing::{ScriptedModel, Turn};
use agentflow_tests::test_as_process;
use serde_json::{Value, json};
use tracing::field::Field;
use tracing_subscriber::layer::{Context as LayerContext, SubscriberExt};
use tracing_subscriber::{Layer, Registry};

use super::scripted_server::{Format, KEY};

/// Maximum number of parts of an answer, as documented in `HttpSettings`.
const MAX_PARTS: usize = 4096;

impl Format {
    /// Builds a complete answer whose usage counts all have this value.
    fn counted(self, count: &Value) -> Value {
        match self {
            Self::Chat => {
                json!({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": count, "completion_tokens": count,
                    "prompt_tokens_details": {"cached_tokens": count, "cache_write_tokens": count},
                    "completion_tokens_details": {"reasoning_tokens": count}}})
            }
            Self::Responses => json!({"status": "completed",
                "output": [{"type": "message", "content": [{"type": "output_text", "text": "x"}]}],
                "usage": {"input_tokens": count, "output_tokens": count,
                    "input_tokens_details": {"cached_tokens": count, "cache_write_tokens": count},
                    "output_tokens_details": {"reasoning_tokens": count}}}),
            Self::Anthropic => {
                json!({"type": "message", "content": [{"type": "text", "text": "x"}],
                "stop_reason": "end_turn", "usage": {"input_tokens": count, "output_tokens": count,
                    "cache_read_input_tokens": count, "cache_creation_input_tokens": count,
                    "output_tokens_details": {"thinking_tokens": count}}})
            }
            Self::Gemini => {
                json!({"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": count, "candidatesTokenCount": count,
                    "thoughtsTokenCount": count, "cachedContentTokenCount": count,
                    "toolUsePromptTokenCount": count}})
            }
        }
    }

    /// Returns the start of a stream, and an event that can be repeated without end.
    fn endless(self) -> (String, String) {
        let text = "abcdefgh".repeat(512);
        let (start, more) = match self {
            Self::Chat => (None, json!({"choices": [{"delta": {"content": text}}]})),
            Self::Responses => (
                None,
                json!({"type": "response.output_text.delta", "output_index": 0, "delta": text}),
            ),
            Self::Anthropic => (
                Some(
                    json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                ),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
            ),
            Self::Gemini => {
                (None, json!({"candidates": [{"content": {"parts": [{"text": text}]}}]}))
            }
        };
        (start.map(event).unwrap_or_default(), event(more))
    }

    /// Builds an event that starts another tool call.
    fn call(self, number: usize) -> String {
        let name = format!("f{number}");
        event(match self {
            Self::Chat => json!({"choices": [{"delta": {"tool_calls": [
                {"index": number, "id": name, "function": {"name": "f", "arguments": "{}"}}]}}]}),
            Self::Responses => json!({"type": "response.output_item.added", "output_index": number,
                "item": {"type": "function_call", "id": name, "call_id": name, "name": "f", "arguments": "{}"}}),
            Self::Anthropic => json!({"type": "content_block_start", "index": number,
                "content_block": {"type": "tool_use", "id": name, "name": "f", "input": {}}}),
            Self::Gemini => {
                json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {}}}]}}]})
            }
        })
    }

    /// Returns the end of a stream.
    fn end(self) -> String {
        match self {
            Self::Chat => {
                event(json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}))
                    + "data: [DONE]\n\n"
            }
            Self::Responses => {
                event(json!({"type": "response.completed", "response": {"status": "completed"}}))
            }
            Self::Anthropic => {
                event(json!({"type": "message_start", "message": {"id": "m"}}))
                    + &event(json!({"type": "message_stop"}))
            }
            Self::Gemini => {
                event(json!({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]}))
            }
        }
    }

    /// Builds an event or an answer with a list of this many empty items.
    fn list_of_nothings(self, items: usize) -> String {
        let list = format!("[{}{{}}]", "{},".repeat(items - 1));
        match self {
            Self::Chat => {
                format!(
                    r#"{{"choices":[{{"message":{{"tool_calls":{list}}},"delta":{{"tool_calls":{list}}}}}]}}"#
                )
            }
            Self::Responses => format!(
                r#"{{"type":"response.completed","status":"completed","output":{list},"response":{{"output":{list}}}}}"#
            ),
            Self::Anthropic => format!(r#"{{"type":"message","content":{list}}}"#),
            Self::Gemini => format!(r#"{{"candidates":[{{"content":{{"parts":{list}}}}}]}}"#),
        }
    }

    /// Builds events with the key in fields that should be lists or objects.
    fn key_of_another_type(self, key: &str) -> Vec<String> {
        let fields: &[&str] = match self {
            Self::Chat => &[
                r#""choices":KEY"#,
                r#""choices":[{"message":KEY}]"#,
                r#""choices":[{"delta":KEY}]"#,
            ],
            Self::Responses => &[
                r#""output":KEY,"type":"response.completed","response":KEY"#,
                r#""output_index":KEY,"output":KEY"#,
            ],
            Self::Anthropic => &[
                r#""type":"content_block_delta","delta":KEY"#,
                r#""type":"message_start","message":KEY"#,
            ],
            Self::Gemini => &[
                r#""candidates":KEY"#,
                r#""candidates":[{"content":KEY}]"#,
                r#""candidates":[{"content":{"parts":KEY}}]"#,
            ],
        };
        fields
            .iter()
            .map(|field| format!("{{{}}}", field.replace("KEY", &format!("\"{key}\""))))
            .collect()
    }
}

/// Look something up.
#[tool(effects = "none")]
fn look_up(what: String) -> String {
    what
}

fn event(value: Value) -> String {
    format!("data: {value}\n\n")
}

/// Writes an answer. The answer is complete when this returns.
type Answer = Arc<dyn Fn(&mut TcpStream) -> std::io::Result<()> + Send + Sync>;

/// Starts a server that gives every request this answer. Returns its address and the heads of the
/// received requests.
fn serve(answer: Answer) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    // The thread ends with the process. A test starts only a few.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
            thread::spawn(move || {
                seen.lock().unwrap().push(request(&stream).unwrap_or_default());
                // The client closes the connection once a limit is exceeded.
                let _ = answer(&mut stream);
            });
        }
    });
    (format!("http://127.0.0.1:{port}"), heads)
}

/// Reads a request and returns its head.
fn request(stream: &TcpStream) -> std::io::Result<String> {
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
    Ok(head)
}

fn whole(kind: &'static str, body: String) -> Answer {
    Arc::new(move |stream| {
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    })
}

fn document(body: String) -> Answer {
    whole("application/json", body)
}

fn stream(body: String) -> Answer {
    whole("text/event-stream", body)
}

/// Builds an endless answer, and a counter of the bytes written.
fn endless(kind: &'static str, start: String, more: String) -> (Answer, Arc<AtomicU64>) {
    let written = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&written);
    let answer: Answer = Arc::new(move |stream| {
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n{start}"
        )?;
        // Large writes, so that the server is not the bottleneck.
        let piece = more.repeat((64 * 1024 / more.len()).max(1));
        loop {
            stream.write_all(piece.as_bytes())?;
            count.fetch_add(piece.len() as u64, Ordering::SeqCst);
        }
    });
    (answer, written)
}

fn once() -> HttpSettings {
    HttpSettings::default().max_retries(0)
}

async fn call(model: &dyn Model, streamed: bool) -> Result<ModelResponse, ModelError> {
    let request = ModelRequest::new(Message::user("Hi"));
    model.call(if streamed { request.streamed() } else { request }).await
}

#[tokio::test]
async fn counts_are_those_that_a_model_can_reach() {
    const BILLION: u64 = 1_000_000_000;
    for format in Format::ALL {
        for (count, most) in [
            (json!(7), 7),
            (json!(12.0), 12),
            (json!(-5), 0),
            (json!(u64::MAX), BILLION),
            (json!(1e300), BILLION),
            (json!("many"), 0),
            (json!([]), 0),
        ] {
            let (server, _) = serve(document(format.counted(&count).to_string()));
            let usage = call(&*format.model_at(&server, once()), false).await.unwrap().usage;
            let what = format!("{format:?} {count}");
            // Some formats split the input or the output into several counts.
            for tokens in [usage.input_tokens, usage.output_tokens] {
                assert!(tokens >= most && tokens <= 3 * most, "{what}: {usage:?}");
            }
            for tokens in [usage.cached_tokens, usage.reasoning_tokens] {
                assert_eq!(tokens.unwrap_or(0), most, "{what}");
            }
            assert!(usage.raw.is_some(), "{what}: the provider's own object stays");
        }
    }
}

#[tokio::test]
async fn a_lying_server_neither_overflows_a_run_nor_its_budget() {
    let (server, _) = serve(document(Format::Chat.counted(&json!(u64::MAX)).to_string()));
    let runtime = Runtime::builder().with(token_budget(1_000)).build();
    let agent = Agent::new(Format::Chat.model_at(&server, once())).runtime(&runtime);
    let result = agent.run("Hi").await.unwrap();
    assert_eq!(result.usage().total_tokens(), 2_000_000_000);

    // A third-party model may report any numbers.
    let lie = || Usage::new(u64::MAX, u64::MAX);
    let call = || Turn::call("look_up", json!({"what": "x"})).usage(lie());
    let liar = || ScriptedModel::new([call(), call(), Turn::text("done").usage(lie())]);
    let prices = Prices::new().model("scripted", Price::per_million(1.0, 1.0));
    let runtime = Runtime::builder()
        .store(MemoryStore::new())
        .with(cost_tracker(prices).allow_unpriced())
        .build();
    let result =
        Agent::new(liar()).tools(tools![look_up]).runtime(&runtime).run("Hi").await.unwrap();
    assert_eq!((result.output().as_str(), result.usage().total_tokens()), ("done", u64::MAX));
    // Its journal must stay readable for a resume.
    let events = result.events();
    assert_eq!(Conversation::from_events(&events).len(), 6);
    for (cut, scope) in
        (1..events.len()).flat_map(|cut| [(cut, Scope::Run), (cut, Scope::Invocation)])
    {
        let store = MemoryStore::new();
        store.create(&events[0].run_id, events[..cut].to_vec()).await.unwrap();
        let runtime = Runtime::builder().store(store).with(token_budget(10).scope(scope)).build();
        // The model is called only if no usage was recorded before the cut.
        let spent = events[..cut].iter().any(|event| event.name() == "model.completed");
        let script = (!spent).then(|| Turn::text("again").usage(lie()));
        let agent = Agent::new(ScriptedModel::new(script)).tools(tools![look_up]).runtime(&runtime);
        let handle = agent.clone().runtime(&runtime).resume(&events[0].run_id).await.unwrap();
        let answer = handle.result().await.unwrap().into_output();
        let ended = events[..cut]
            .iter()
            .any(|event| matches!(&event.kind, EventKind::ModelCompleted(answer) if answer.text() == "done"));
        let expected = if ended {
            "done"
        } else if spent {
            "Token budget of 10 exceeded."
        } else {
            "again"
        };
        assert_eq!(answer, expected, "cut after {cut}");
    }
}

#[tokio::test]
async fn an_answer_without_an_end_is_ended() {
    const LIMIT: u64 = 1024 * 1024;
    for format in Format::ALL {
        for streamed in [true, false] {
            let (start, more) =
                if streamed { format.endless() } else { ("[".to_owned(), "{},".to_owned()) };
            let kind = if streamed { "text/event-stream" } else { "application/json" };
            let (answer, written) = endless(kind, start, more);
            let (server, _) = serve(answer);
            let http = once().max_answer_bytes(LIMIT);
            let error = call(&*format.model_at(&server, http), streamed).await.unwrap_err();
            assert_eq!(
                error.kind(),
                ModelErrorKind::AnswerTooLarge,
                "{format:?} {streamed}: {error}"
            );
            assert!(error.message().contains("1048576") && !error.is_retryable(), "{error}");
            // Includes the bytes in socket buffers.
            let written = written.load(Ordering::SeqCst);
            assert!(written < 16 * LIMIT, "{format:?} {streamed}: {written} bytes were taken");
        }
    }
}

#[tokio::test]
async fn an_answer_has_a_limit_by_default() {
    assert_eq!(HttpSettings::default(), HttpSettings::default().max_answer_bytes(64 * 1024 * 1024));
    let (start, more) = Format::Chat.endless();
    let (answer, _) = endless("text/event-stream", start, more);
    let (server, _) = serve(answer);
    let error = call(&*Format::Chat.model_at(&server, once()), true).await.unwrap_err();
    assert_eq!(error.kind(), ModelErrorKind::AnswerTooLarge, "{error}");
}

#[tokio::test]
async fn an_answer_has_no_more_parts_than_it_may() {
    for format in Format::ALL {
        let of = |calls: usize| {
            (0..calls).map(|number| format.call(number)).collect::<String>() + &format.end()
        };
        let (server, _) = serve(stream(of(MAX_PARTS)));
        let response = call(&*format.model_at(&server, once()), true).await.unwrap();
        assert_eq!(response.tool_calls().count(), MAX_PARTS, "{format:?}");
        let (server, _) = serve(stream(of(MAX_PARTS + 1)));
        let error = call(&*format.model_at(&server, once()), true).await.unwrap_err();
        assert_eq!(error.kind(), ModelErrorKind::AnswerTooLarge, "{format:?}: {error}");
    }
}

/// Two bytes on the wire may take a hundred in memory.
#[tokio::test]
async fn a_list_of_nothings_is_not_read() {
    for format in Format::ALL {
        let body = format.list_of_nothings(MAX_PARTS + 1);
        let (server, _) = serve(document(body.clone()));
        let error = call(&*format.model_at(&server, once()), false).await.unwrap_err();
        assert_eq!(error.kind(), ModelErrorKind::AnswerTooLarge, "{format:?}: {error}");
        if format != Format::Anthropic {
            let (server, _) = serve(stream(format!("data: {body}\n\n")));
            let error = call(&*format.model_at(&server, once()), true).await.unwrap_err();
            assert_eq!(error.kind(), ModelErrorKind::AnswerTooLarge, "{format:?}: {error}");
        }
    }
}

#[tokio::test]
async fn no_text_of_an_error_is_long() {
    let long = "x".repeat(1024 * 1024);
    for format in Format::ALL {
        let error = json!({"type": "error", "message": long, "code": long,
            "error": {"type": long, "message": long, "code": long, "status": long}});
        let (server, _) = serve(stream(event(error)));
        let error = call(&*format.model_at(&server, once()), true).await.unwrap_err();
        let texts = [Some(error.message()), error.provider_code(), error.body()];
        for text in texts.into_iter().flatten() {
            assert!(text.len() <= 4096, "{format:?}: {} bytes", text.len());
        }
        assert!(error.to_string().len() < 3 * 4096, "{format:?}");
    }
}

/// Collects all visible text of an error and its causes.
fn shown(error: &ModelError) -> String {
    let mut all =
        format!("{error} {error:?} {error:#?} {:?} {:?}\n", error.body(), error.provider_code());
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        all.push_str(&format!("{error} {error:?} {error:#?}\n"));
        cause = error.source();
    }
    all
}

#[tokio::test]
async fn a_key_in_the_place_of_something_else_is_not_shown() {
    let escaped: String = KEY.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    let mut caused = 0;
    for format in Format::ALL {
        for key in [KEY, &escaped] {
            for body in format.key_of_another_type(key) {
                for (answer, streamed) in
                    [(document(body.clone()), false), (stream(format!("data: {body}\n\n")), true)]
                {
                    let (server, _) = serve(answer);
                    let error =
                        call(&*format.model_at(&server, once()), streamed).await.unwrap_err();
                    let shown = shown(&error);
                    assert!(
                        !shown.contains(KEY) && !shown.contains(&escaped),
                        "{format:?} {body}: {shown}"
                    );
                    let cause = std::error::Error::source(&error);
                    caused += usize::from(
                        cause.is_some_and(|cause| cause.to_string().contains("[hidden]")),
                    );
                }
            }
        }
    }
    assert!(caused > 10, "the causes stay, without the key: {caused}");
}

#[tokio::test]
async fn a_models_name_leads_nowhere_else() {
    let (server, heads) = serve(document(Format::Gemini.counted(&json!(1)).to_string()));
    for (name, path) in [
        ("gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("tunedModels/mine", "tunedModels/mine"),
        ("a b?key=x#y", "models/a%20b%3Fkey%3Dx%23y"),
        ("m:deleteAll", "models/m%3AdeleteAll"),
        ("%2e%2e", "models/%252e%252e"),
        ("é\\..\\x", "models/%C3%A9%5C..%5Cx"),
        ("m\r\nx-evil: 1", "models/m%0D%0Ax-evil%3A%201"),
        ("...", "models/..."),
    ] {
        let model = Gemini::builder(name)
            .base_url(&server)
            .api_key(Secret::new(KEY))
            .http(once())
            .build()
            .unwrap();
        call(&model, false).await.unwrap();
        let head = heads.lock().unwrap().pop().unwrap();
        assert_eq!(
            head.lines().next(),
            Some(&*format!("POST /v1beta/{path}:generateContent HTTP/1.1")),
            "{name}"
        );
        assert!(!head.contains("x-evil: 1"), "{head}");
    }
    for name in ["", "..", "models/../../v1beta/cachedContents/x", "/m", "m/", "a//b", "./m"] {
        let error = Gemini::builder(name).base_url(&server).build().unwrap_err();
        assert_eq!(error.kind(), ModelErrorKind::BadRequest, "{name}: {error}");
    }
}

/// Runs in a new process, because a test cannot change its own environment.
#[tokio::test]
async fn calls_to_this_machine_take_no_proxy() {
    const SERVER: &str = "AGENTFLOW_TEST_BEHIND_A_PROXY";
    if let Ok(server) = std::env::var(SERVER) {
        let response = call(&*Format::Chat.model_at(&server, once()), false).await.unwrap();
        assert_eq!(response.text(), "x");
        let elsewhere = "http://models.invalid";
        let response = call(&*Format::Chat.model_at(elsewhere, once()), false).await.unwrap();
        assert_eq!(response.text(), "x", "the proxy answers for others");
        return;
    }
    let body = Format::Chat.counted(&json!(1)).to_string();
    let ((server, heads), (proxy, proxied)) =
        (serve(document(body.clone())), serve(document(body)));
    let test = test_as_process(module_path!(), "calls_to_this_machine_take_no_proxy")
        .env(SERVER, server)
        .envs(["http_proxy", "HTTP_PROXY", "ALL_PROXY"].map(|name| (name, &proxy)))
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .output();
    let test = tokio::task::spawn_blocking(|| test).await.unwrap().unwrap();
    assert!(
        test.status.success(),
        "{}{}",
        String::from_utf8_lossy(&test.stdout),
        String::from_utf8_lossy(&test.stderr)
    );
    let proxied = proxied.lock().unwrap();
    assert_eq!((heads.lock().unwrap().len(), proxied.len()), (1, 1));
    assert!(proxied[0].starts_with("POST http://models.invalid/"), "{}", proxied[0]);
}

/// Collects the warnings of one thread.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &tracing::Event<'_>, _: LayerContext<'_, S>) {
        if *event.metadata().level() == tracing::Level::WARN {
            let mut text = String::new();
            event.record(&mut |field: &Field, value: &dyn Debug| {
                text.push_str(&format!("{}={value:?} ", field.name()));
            });
            self.0.lock().unwrap().push(text);
        }
    }
}

#[tokio::test]
async fn a_key_in_plain_text_is_warned_of_once_for_a_server() {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(Registry::default().with(warnings.clone()));
    let ask = async |url: &str, key: Option<&str>, header: Option<(&str, &str)>| {
        let mut builder = OpenAiChat::builder("m")
            .base_url(url)
            .http(once())
            .api_key_name("AGENTFLOW_TEST_NO_SUCH_KEY");
        if let Some(key) = key {
            builder = builder.api_key(Secret::new(key));
        }
        if let Some((name, value)) = header {
            builder = builder.header(name, value);
        }
        call(&builder.build().unwrap(), false).await.unwrap_err();
        std::mem::take(&mut *warnings.0.lock().unwrap())
    };
    // The host does not exist. The warning is logged before the request is sent.
    let seen = ask("http://one.invalid:81/v1", Some(KEY), None).await;
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(
        seen[0].contains("one.invalid") && seen[0].contains("81") && seen[0].contains("http://"),
        "{seen:?}"
    );
    assert!(!seen[0].contains(KEY), "{seen:?}");
    for (url, key, header, expected) in [
        // The same server again, also for another of its models.
        ("http://one.invalid:81/v1", Some(KEY), None, 0),
        ("http://one.invalid:82/v1", Some(KEY), None, 1),
        ("http://two.invalid", None, Some(("authorization", KEY)), 1),
        ("http://user:pass-word@three.invalid", None, None, 1),
        ("http://four.invalid/?sig=signature", None, None, 1),
        ("http://five.invalid", None, Some(("x-title", "mine")), 0),
        ("https://six.invalid", Some(KEY), None, 0),
        ("http://127.0.0.1:1", Some(KEY), None, 0),
        ("http://localhost:1", Some(KEY), None, 0),
    ] {
        let seen = ask(url, key, header).await;
        assert_eq!(seen.len(), expected, "{url}: {seen:?}");
        assert!(
            seen.iter().all(|text| !text.contains(KEY) && !text.contains("pass-word")),
            "{seen:?}"
        );
    }
}
