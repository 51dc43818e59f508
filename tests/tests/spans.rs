//! Tests spans with the names of OpenTelemetry's GenAI conventions, nested like the work.
//!
//! This is a separate test program: `tracing` caches for all threads whether the first thread at a
//! call site has a subscriber. So every test here has a subscriber, and none runs beside a test
//! without one.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::message::ToolCall;
use agentflow::middleware::redact;
use agentflow::model::{ModelError, ModelErrorKind, ModelSettings, Usage};
use agentflow::prelude::*;
use agentflow::session::Session;
use agentflow::store::MemoryStore;
use agentflow::tool::{FnTool, ToolDefinition};
use agentflow_testing::{ScriptedModel, Turn, test_runtime};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context as LayerContext, SubscriberExt};
use tracing_subscriber::{Layer, Registry, registry::LookupSpan};

#[derive(Clone, Default)]
struct SpanCollector(Arc<Mutex<BTreeMap<u64, Span>>>);

#[derive(Clone, Debug, Default)]
struct Span {
    parent: Option<u64>,
    fields: BTreeMap<&'static str, String>,
}

impl Visit for Span {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanCollector {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: LayerContext<'_, S>) {
        let parent =
            cx.span(id).and_then(|span| span.parent()).map(|parent| parent.id().into_u64());
        let mut span = Span { parent, ..Span::default() };
        attributes.record(&mut span);
        self.0.lock().unwrap().insert(id.into_u64(), span);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: LayerContext<'_, S>) {
        if let Some(span) = self.0.lock().unwrap().get_mut(&id.into_u64()) {
            values.record(span);
        }
    }
}

impl SpanCollector {
    /// Returns the spans with this name.
    fn named(&self, name: &str) -> Vec<(u64, Span)> {
        let spans = self.0.lock().unwrap().clone();
        let found: Vec<_> =
            spans.into_iter().filter(|(_, span)| span.fields["otel.name"] == name).collect();
        assert!(!found.is_empty(), "no span {name}");
        found
    }
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn spans_say_how_a_call_was_made_and_what_went_wrong() {
    let collected = SpanCollector::default();
    let _guard = tracing::subscriber::set_default(Registry::default().with(collected.clone()));
    let wrong = ModelError::new(ModelErrorKind::Overloaded, "xyzzy");
    let model = ScriptedModel::new([
        Turn::pieces(["a", "b"]).after(Duration::from_millis(1500)),
        Turn::call("no_such_tool", json!({})),
        Turn::error(wrong),
    ])
    .named("gemini", "g-1");
    let settings =
        ModelSettings::default().temperature(0.5).max_tokens(7).seed(-1).stop("one").stop("two");
    let agent = Agent::new(model).name("a").settings(settings).runtime(&test_runtime().build());
    let streamed = agent.stream("Hi").unwrap();
    streamed.result().await.unwrap();
    agent.run("Hi").await.unwrap_err();

    let chats = collected.named("chat g-1");
    let first = &chats[0].1.fields;
    for (name, value) in [
        ("gen_ai.provider.name", "gcp.gemini"),
        ("gen_ai.conversation.id", "run-1"),
        ("gen_ai.request.stream", "true"),
        ("gen_ai.request.temperature", "0.5"),
        ("gen_ai.request.max_tokens", "7"),
        ("gen_ai.request.seed", "-1"),
        ("gen_ai.request.stop_sequences", "[\"one\",\"two\"]"),
        ("gen_ai.output.type", "text"),
        ("gen_ai.response.time_to_first_chunk", "1.5"),
    ] {
        assert_eq!(first.get(name).map(String::as_str), Some(value), "{name}: {first:?}");
    }
    // Unknown fields are absent.
    for name in
        ["error.type", "gen_ai.request.top_p", "gen_ai.response.id", "gen_ai.usage.input_tokens"]
    {
        assert!(!first.contains_key(name), "{name}: {first:?}");
    }
    for (span, kind) in [
        (&collected.named("execute_tool no_such_tool")[0].1, "not_found"),
        (&chats[2].1, "overloaded"),
        (&collected.named("invoke_agent a")[1].1, "overloaded"),
    ] {
        assert_eq!(span.fields["otel.status_code"], "error");
        assert_eq!(span.fields["error.type"], kind);
    }
    let everything = format!(
        "{:?}",
        collected.0.lock().unwrap().values().map(|span| &span.fields).collect::<Vec<_>>()
    );
    assert!(!everything.contains("xyzzy"), "{everything}");
}

/// Its sum.
#[tool(effects = "read")]
async fn calls_spanned(n: u32) -> Result<u32, String> {
    if n == 0 { Err("nothing".to_owned()) } else { Ok(n) }
}

async fn calls_spanned_within(n: u32) -> u32 {
    calls_spanned(n).await.unwrap_or_default()
}

#[workflow]
async fn spanned(n: u32) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
    let within = calls_spanned_within(n).await;
    let node = calls_spanned(within).await?;
    Ok(node)
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn each_tool_call_has_one_span_whoever_makes_it() {
    let collected = SpanCollector::default();
    let _guard = tracing::subscriber::set_default(Registry::default().with(collected.clone()));
    let runtime = test_runtime().build();
    runtime.start(spanned::workflow(), (2,)).await.unwrap().result().await.unwrap();
    let ids = |spans: &[(u64, Span)]| -> Vec<String> {
        spans.iter().map(|(_, span)| span.fields["gen_ai.tool.call.id"].clone()).collect()
    };
    let spans = collected.named("execute_tool calls_spanned");
    assert_eq!(ids(&spans), ["within/tool#1.calls_spanned", "node"]);
    assert!(
        spans.iter().all(|(_, span)| span.fields["agentflow.tool.output_size"] == "1"),
        "{spans:?}"
    );
    let quiet = runtime.start(spanned::workflow(), (2,)).without_spans().await.unwrap();
    quiet.result().await.unwrap();
    assert_eq!(collected.named("execute_tool calls_spanned").len(), 2);
    assert_eq!(collected.named("invoke_workflow spanned").len(), 1);
    assert!(spans.iter().all(|(_, span)| !span.fields.contains_key("error.type")));
    runtime.start(spanned::workflow(), (0,)).await.unwrap().result().await.unwrap_err();
    let call = ToolCall::new("mine", "calls_spanned", r#"{"n": 1}"#);
    assert!(runtime.invoke(&call, &[]).await.unwrap().status.is_success());
    let model =
        ScriptedModel::new([Turn::call("calls_spanned", json!({"n": 0})), Turn::text("Done.")]);
    Agent::new(model).tools(tools![calls_spanned]).runtime(&runtime).run("Go.").await.unwrap();
    let spans = collected.named("execute_tool calls_spanned");
    let mut ended: Vec<(String, bool)> = ids(&spans)
        .into_iter()
        .zip(&spans)
        .map(|(id, (_, span))| {
            (id, span.fields.get("error.type").is_some_and(|kind| kind == "error"))
        })
        .collect();
    ended.sort();
    let within = "within/tool#1.calls_spanned";
    let expected = [
        ("call_1", true),
        ("mine", false),
        ("node", false),
        ("node", true),
        (within, false),
        (within, true),
    ];
    assert_eq!(ended, expected.map(|(id, failed)| (id.to_owned(), failed)));
}

async fn spanned_function(n: u32) -> Result<u32, String> {
    if n == 0 { Err("nothing".to_owned()) } else { Ok(n) }
}

#[workflow]
async fn joined(cx: &Context, n: u32) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let read = spanned_function(n).await?;
    let called = calls_spanned(read).await?;
    let said = joined_agent(cx, called).await?;
    Ok(said)
}

/// Say {n}.
#[agent(tools = [calls_spanned])]
async fn joined_agent(cx: &Context, n: u32) -> Result<String>;

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn spans_are_joined_by_session_caller_run_and_tags() {
    let collected = SpanCollector::default();
    let _guard = tracing::subscriber::set_default(Registry::default().with(collected.clone()));
    let script = || {
        ScriptedModel::new([Turn::call("calls_spanned", json!({"n": 1})), Turn::text("Done.")])
            .named("gemini", "g-2")
    };
    let runtime =
        test_runtime().store(MemoryStore::new()).with(redact().secret("swordfish")).build();
    let agent =
        Agent::new(script()).name("joined_one").tools(tools![calls_spanned]).runtime(&runtime);
    let request = RunRequest::new("Hi").session(Session::new("chat-7")).caller("ada");
    agent.run(request.tag("desk", "north").tag("word", "swordfish")).await.unwrap();
    let tags = r#"{"desk":"north","word":"[redacted]"}"#;
    let expected = [
        ("gen_ai.conversation.id", "chat-7"),
        ("agentflow.run.id", "run-1"),
        ("user.id", "ada"),
        ("agentflow.tags", tags),
    ];
    for name in ["invoke_agent joined_one", "chat g-2", "execute_tool calls_spanned"] {
        for (_, span) in collected.named(name) {
            for (field, value) in expected {
                assert_eq!(
                    span.fields.get(field).map(String::as_str),
                    Some(value),
                    "{name} {field}"
                );
            }
        }
    }

    // The steps of a workflow, including functions, have the same fields. Without a session, the
    // run is the conversation.
    let runtime = test_runtime().model(script()).build();
    runtime.start(joined::workflow(), (2,)).caller("bob").await.unwrap().result().await.unwrap();
    let workflow = collected.named("invoke_workflow joined")[0].0;
    for name in [
        "invoke_workflow joined",
        "execute_step read",
        "execute_tool calls_spanned",
        "invoke_agent joined_agent",
    ] {
        let of_bob =
            |span: &&(u64, Span)| span.1.fields.get("user.id").is_some_and(|user| user == "bob");
        let spans = collected.named(name);
        let (_, span) = spans.iter().find(of_bob).unwrap_or_else(|| panic!("{name}: {spans:?}"));
        assert_eq!(span.fields["gen_ai.conversation.id"], "run-1", "{name}");
        assert_eq!(span.fields["agentflow.run.id"], "run-1", "{name}");
        assert!(!span.fields.contains_key("agentflow.tags"), "{name}");
    }
    let steps = collected.named("execute_step read");
    assert_eq!(
        (steps.len(), steps[0].1.parent, &*steps[0].1.fields["agentflow.step"]),
        (1, Some(workflow), "read")
    );
    runtime.start(joined::workflow(), (0,)).await.unwrap().result().await.unwrap_err();
    assert!(
        collected
            .named("execute_step read")
            .iter()
            .any(|(_, span)| span.fields.contains_key("error.type"))
    );
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn contents_are_recorded_when_the_host_asks_for_them() {
    let collected = SpanCollector::default();
    let _guard = tracing::subscriber::set_default(Registry::default().with(collected.clone()));
    let model = ScriptedModel::new([
        Turn::call("secret_word", json!({"of": 1})),
        Turn::text("It is xyzzy."),
    ]);
    let schema = json!({"type": "object", "properties": {"of": {"type": "integer"}}});
    let definition = ToolDefinition::new("secret_word", "Tells it.", schema);
    let tool =
        FnTool::dynamic(definition, |_: Context, _: Value| async { Ok::<_, String>("xyzzy") });
    let runtime = test_runtime().trace_content(true).build();
    Agent::new(model)
        .name("a")
        .instruct("Tell.")
        .tools([tool])
        .runtime(&runtime)
        .run("What is it?")
        .await
        .unwrap();

    let json = |span: &Span, name: &str| serde_json::from_str::<Value>(&span.fields[name]).unwrap();
    let chats = collected.named("chat scripted");
    assert_eq!(
        json(&chats[0].1, "gen_ai.system_instructions"),
        json!([{"type": "text", "content": "Tell."}])
    );
    let asked = json!({"role": "user", "parts": [{"type": "text", "content": "What is it?"}]});
    assert_eq!(json(&chats[0].1, "gen_ai.input.messages"), json!([asked]));
    assert_eq!(json(&chats[0].1, "gen_ai.tool.definitions")[0]["name"], "secret_word");
    assert_eq!(json(&chats[0].1, "gen_ai.output.messages")[0]["finish_reason"], "tool_call");
    assert_eq!(json(&chats[1].1, "gen_ai.input.messages")[2]["parts"][0]["response"], "xyzzy");
    assert_eq!(
        json(&chats[1].1, "gen_ai.output.messages")[0]["parts"][0]["content"],
        "It is xyzzy."
    );
    let tool = &collected.named("execute_tool secret_word")[0].1;
    assert_eq!(json(tool, "gen_ai.tool.call.arguments"), json!({"of": 1}));
    assert_eq!(json(tool, "gen_ai.tool.call.result"), "xyzzy");
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn spans_have_the_conventions_names_and_no_contents() {
    let collected = SpanCollector::default();
    let _guard = tracing::subscriber::set_default(Registry::default().with(collected.clone()));
    let model = ScriptedModel::new([
        Turn::call("secret_word", json!({})).usage(Usage::new(7, 3)),
        Turn::text("The word is xyzzy."),
    ])
    .named("openai-chat", "gpt-test");
    let tool =
        FnTool::new("secret_word", "", |_: Context, (): ()| async { Ok::<_, String>("xyzzy") });
    let agent = Agent::new(model).name("teller").tools([tool]).runtime(&test_runtime().build());
    agent.run("What is the word? plugh").await.unwrap();

    let spans = collected.0.lock().unwrap().clone();
    let named = |name: &str| {
        let found: Vec<_> =
            spans.iter().filter(|(_, span)| span.fields["otel.name"] == name).collect();
        assert!(!found.is_empty(), "no span {name}");
        found
    };
    let (agent_id, agent) = named("invoke_agent teller")[0];
    assert_eq!(agent.fields["otel.kind"], "internal");
    assert_eq!(agent.fields["gen_ai.operation.name"], "invoke_agent");
    assert_eq!(agent.fields["gen_ai.agent.name"], "teller");
    assert_eq!(agent.fields["gen_ai.conversation.id"], "run-1");
    assert_eq!(agent.fields["gen_ai.request.model"], "gpt-test");
    assert_eq!(agent.fields["gen_ai.usage.input_tokens"], "7");
    let chats = named("chat gpt-test");
    assert_eq!(chats.len(), 2);
    let chat = chats[0].1;
    assert_eq!(chat.parent, Some(*agent_id));
    assert_eq!(chat.fields["otel.kind"], "client");
    assert_eq!(chat.fields["gen_ai.provider.name"], "openai");
    assert_eq!(chat.fields["gen_ai.request.model"], "gpt-test");
    assert_eq!(chat.fields["gen_ai.usage.input_tokens"], "7");
    assert_eq!(chat.fields["gen_ai.usage.output_tokens"], "3");
    assert_eq!(chat.fields["gen_ai.response.finish_reasons"], "tool_calls");
    let tool = named("execute_tool secret_word")[0].1;
    assert_eq!(tool.parent, Some(*agent_id));
    assert_eq!(tool.fields["gen_ai.tool.name"], "secret_word");
    assert_eq!(tool.fields["gen_ai.tool.type"], "function");
    assert_eq!(tool.fields["agentflow.tool.output_size"], "7");
    let everything =
        spans.values().flat_map(|span| span.fields.values()).cloned().collect::<String>();
    assert!(!everything.contains("xyzzy") && !everything.contains("plugh"), "{everything}");
}
