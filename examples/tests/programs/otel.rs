//! The otel example with in-memory exporters: its spans and metrics, and that content is exported
//! only on request.

#[path = "../../src/bin/otel/agent.rs"]
mod agent;
#[path = "../../src/bin/otel/telemetry.rs"]
mod telemetry;

use std::collections::BTreeMap;
use std::process::Command;

use agentflow::event::EventSink;
use agentflow::model::Usage;
use agentflow::serde_json::{self, Value as Json, json};
use agentflow::telemetry::MetricsSink;
use agentflow::{Agent, Runtime};
use agentflow_testing::{ScriptedModel, Turn};
use opentelemetry::trace::{SpanId, SpanKind, Status};
use opentelemetry::{KeyValue, Value};
use opentelemetry_sdk::metrics::InMemoryMetricExporter;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SpanData};
use tracing_subscriber::util::SubscriberInitExt;

use self::telemetry::Telemetry;

/// Exported data.
struct Seen {
    spans: Vec<SpanData>,
    /// Count and sum by name and attributes.
    metrics: BTreeMap<String, (u64, f64)>,
}

async fn seen(agent: Agent, content: bool) -> Seen {
    let (spans, metrics) = (InMemorySpanExporter::default(), InMemoryMetricExporter::default());
    let telemetry = Telemetry::new(spans.clone(), metrics.clone());
    let guard = telemetry.subscriber().set_default();
    let runtime = Runtime::builder()
        .sink(MetricsSink::new(&telemetry.meter()))
        .trace_content(content)
        .build();
    let result = agent.runtime(&runtime).run("Do I need an umbrella in Oslo?").await;
    assert!(result.is_err() || result.unwrap().output().contains("Yes. It rains in Oslo."));
    drop(guard);
    telemetry.flush().unwrap();
    let mut spans = spans.get_finished_spans().unwrap();
    spans.sort_by_key(|span| span.start_time);
    Seen { spans, metrics: points(&metrics) }
}

/// Returns the recorded metric points by name and attributes.
fn points(metrics: &InMemoryMetricExporter) -> BTreeMap<String, (u64, f64)> {
    let mut points = BTreeMap::new();
    for metric in metrics
        .get_finished_metrics()
        .unwrap()
        .iter()
        .flat_map(|all| all.scope_metrics())
        .flat_map(|scope| scope.metrics())
    {
        let mut add = |attributes: Vec<String>, count: u64, sum: f64| {
            points.insert(
                format!("{}[{}] {}", metric.name(), metric.unit(), attributes.join(" ")),
                (count, sum),
            );
        };
        match metric.data() {
            AggregatedMetrics::F64(MetricData::Histogram(all)) => {
                all.data_points()
                    .for_each(|point| add(shown(point.attributes()), point.count(), point.sum()));
            }
            AggregatedMetrics::U64(MetricData::Histogram(all)) => {
                all.data_points().for_each(|point| {
                    add(shown(point.attributes()), point.count(), point.sum() as f64);
                });
            }
            other => panic!("{other:?}"),
        }
    }
    points
}

fn shown<'a>(attributes: impl Iterator<Item = &'a KeyValue>) -> Vec<String> {
    let mut shown: Vec<String> = attributes.map(|kv| format!("{}={}", kv.key, kv.value)).collect();
    shown.sort();
    shown
}

impl Seen {
    fn spans(&self, name: &str) -> Vec<&SpanData> {
        self.spans.iter().filter(|span| span.name == name).collect()
    }
}

fn value<'a>(span: &'a SpanData, key: &str) -> Option<&'a Value> {
    span.attributes.iter().find(|kv| kv.key.as_str() == key).map(|kv| &kv.value)
}

fn json_of(span: &SpanData, key: &str) -> Json {
    serde_json::from_str(&value(span, key).unwrap().as_str()).unwrap()
}

#[tokio::test]
async fn spans_are_those_of_the_conventions() {
    let seen = seen(agent::forecaster(), false).await;
    assert_eq!(seen.spans.len(), 4, "{:#?}", seen.spans);
    let agent = seen.spans("invoke_agent forecaster")[0];
    assert_eq!((agent.parent_span_id, &agent.span_kind), (SpanId::INVALID, &SpanKind::Internal));
    assert_eq!(value(agent, "gen_ai.operation.name"), Some(&"invoke_agent".into()));
    assert_eq!(value(agent, "gen_ai.agent.name"), Some(&"forecaster".into()));
    assert_eq!(value(agent, "gen_ai.usage.input_tokens"), Some(&Value::I64(40)));
    let chats = seen.spans("chat stand-in");
    assert_eq!(chats.len(), 2);
    for chat in &chats {
        assert_eq!(
            (chat.parent_span_id, &chat.span_kind),
            (agent.span_context.span_id(), &SpanKind::Client)
        );
        assert_eq!(value(chat, "gen_ai.operation.name"), Some(&"chat".into()));
        assert_eq!(value(chat, "gen_ai.provider.name"), Some(&"example".into()));
        assert_eq!(value(chat, "gen_ai.request.model"), Some(&"stand-in".into()));
        assert_eq!(value(chat, "gen_ai.response.model"), Some(&"stand-in-1".into()));
        // Numbers are exported as numbers, because a backend cannot add up texts.
        assert_eq!(value(chat, "gen_ai.request.max_tokens"), Some(&Value::I64(200)));
        assert_eq!(value(chat, "gen_ai.usage.input_tokens"), Some(&Value::I64(20)));
        assert_eq!(value(chat, "gen_ai.usage.output_tokens"), Some(&Value::I64(5)));
        assert_eq!(value(chat, "gen_ai.conversation.id"), value(agent, "gen_ai.conversation.id"));
    }
    let tool = seen.spans("execute_tool weather")[0];
    assert_eq!(tool.parent_span_id, agent.span_context.span_id());
    assert_eq!(value(tool, "gen_ai.tool.description"), Some(&"The weather of a city.".into()));
    let everything = format!("{:?}", seen.spans);
    for said in ["umbrella", "Oslo", "rains", "Look at"] {
        assert!(!everything.contains(said), "{said}: {everything}");
    }
}

#[tokio::test]
async fn contents_are_there_when_they_are_asked_for() {
    let seen = seen(agent::forecaster(), true).await;
    let chats = seen.spans("chat stand-in");
    assert_eq!(
        json_of(chats[0], "gen_ai.system_instructions")[0]["content"],
        "Look at the weather before you answer."
    );
    assert_eq!(
        json_of(chats[0], "gen_ai.input.messages")[0]["parts"][0]["content"],
        "Do I need an umbrella in Oslo?"
    );
    assert_eq!(
        json_of(chats[0], "gen_ai.output.messages")[0]["parts"][0]["arguments"]["city"],
        "Oslo"
    );
    assert_eq!(
        json_of(chats[1], "gen_ai.input.messages")[2]["parts"][0]["response"],
        "It rains in Oslo."
    );
    let tool = seen.spans("execute_tool weather")[0];
    assert_eq!(json_of(tool, "gen_ai.tool.call.result"), "It rains in Oslo.");
}

#[tokio::test]
async fn failures_are_errors() {
    let model = ScriptedModel::new([
        Turn::call("nothing", json!({})),
        Turn::fails(agentflow::model::ModelErrorKind::Overloaded),
    ]);
    let seen = seen(Agent::new(model).name("unlucky"), false).await;
    for (span, kind) in [
        (seen.spans("invoke_agent unlucky")[0], "overloaded"),
        (seen.spans("chat scripted")[1], "overloaded"),
        (seen.spans("execute_tool nothing")[0], "not_found"),
    ] {
        assert!(matches!(span.status, Status::Error { .. }), "{span:?}");
        assert_eq!(value(span, "error.type"), Some(&kind.into()));
    }
    let failed: Vec<&String> =
        seen.metrics.keys().filter(|name| name.contains("error.type=")).collect();
    assert_eq!(
        failed,
        [
            "agentflow.tool.output_size[By] error.type=not_found gen_ai.operation.name=execute_tool \
             gen_ai.tool.name=nothing gen_ai.tool.type=function",
            "gen_ai.client.operation.duration[s] error.type=overloaded gen_ai.operation.name=chat \
             gen_ai.provider.name=script gen_ai.request.model=scripted",
            "gen_ai.execute_tool.duration[s] error.type=not_found gen_ai.operation.name=execute_tool \
             gen_ai.tool.name=nothing gen_ai.tool.type=function",
            "gen_ai.invoke_agent.duration[s] error.type=overloaded gen_ai.agent.name=unlucky \
             gen_ai.operation.name=invoke_agent",
        ]
    );
}

#[tokio::test]
async fn metrics_are_those_of_the_conventions() {
    let seen = seen(agent::forecaster(), false).await;
    let chat = "gen_ai.operation.name=chat gen_ai.provider.name=example gen_ai.request.model=stand-in \
                gen_ai.response.model=stand-in-1";
    let counts: BTreeMap<&str, u64> =
        seen.metrics.iter().map(|(name, (count, _))| (name.as_str(), *count)).collect();
    let expected = [
        (
            "agentflow.tool.output_size[By] gen_ai.operation.name=execute_tool gen_ai.tool.name=weather \
             gen_ai.tool.type=function"
                .to_owned(),
            1,
        ),
        (format!("gen_ai.client.operation.duration[s] {chat}"), 2),
        (format!("gen_ai.client.token.usage[{{token}}] {chat} gen_ai.token.type=input"), 2),
        (format!("gen_ai.client.token.usage[{{token}}] {chat} gen_ai.token.type=output"), 2),
        (
            "gen_ai.execute_tool.duration[s] gen_ai.operation.name=execute_tool gen_ai.tool.name=weather \
             gen_ai.tool.type=function"
                .to_owned(),
            1,
        ),
        (
            "gen_ai.invoke_agent.duration[s] gen_ai.agent.name=forecaster gen_ai.operation.name=invoke_agent"
                .to_owned(),
            1,
        ),
    ];
    assert_eq!(counts, expected.iter().map(|(name, count)| (name.as_str(), *count)).collect());
    // `"It rains in Oslo."`
    assert_eq!(seen.metrics[&expected[0].0].1, 19.0);
    assert_eq!(seen.metrics[&expected[2].0].1, 40.0);
    assert_eq!(seen.metrics[&expected[3].0].1, 10.0);
}

/// Covers workflows, agents as steps, a cancelled run, and ends whose start events another process
/// received.
#[tokio::test]
async fn every_kind_of_run_is_measured_once() {
    let metrics = InMemoryMetricExporter::default();
    let telemetry = Telemetry::new(InMemorySpanExporter::default(), metrics.clone());
    let sink = MetricsSink::new(&telemetry.meter());
    let agent = json!({"name": "writer", "input": []});
    let workflow = json!({"name": "review", "definition": "d", "input": 1});
    let error = json!({"error": {"kind": "timeout", "message": "too long", "retryable": true}});
    for (run, seconds, path, name, payload) in [
        ("a", 0, "", "run.started", json!({"version": 1, "body": {"workflow": workflow}})),
        ("a", 1, "draft", "agent.started", agent.clone()),
        ("a", 3, "draft", "agent.failed", error.clone()),
        ("b", 4, "", "run.started", json!({"version": 1, "body": {"agent": agent}})),
        ("b", 5, "", "run.cancelled", json!({"reason": "enough"})),
        ("a", 8, "", "run.failed", error.clone()),
        ("c", 9, "draft", "agent.failed", error.clone()),
        ("c", 9, "", "run.failed", error),
    ] {
        let event = json!({"run_id": run, "seq": 1, "time": seconds * 1000, "path": path, "name": name, "payload": payload});
        sink.emit(&serde_json::from_value(event).unwrap());
    }
    telemetry.flush().unwrap();
    let measured: Vec<(String, (u64, f64))> = points(&metrics).into_iter().collect();
    let agent = "gen_ai.agent.name=writer gen_ai.operation.name=invoke_agent";
    assert_eq!(
        measured,
        [
            (format!("gen_ai.invoke_agent.duration[s] error.type=cancelled {agent}"), (1, 1.0)),
            (format!("gen_ai.invoke_agent.duration[s] error.type=timeout {agent}"), (1, 2.0)),
            (
                "gen_ai.workflow.duration[s] error.type=timeout gen_ai.operation.name=invoke_workflow \
                 gen_ai.workflow.name=review"
                    .to_owned(),
                (1, 8.0)
            ),
        ]
    );
}

/// Absurd token counts of a model must not overflow a meter.
#[tokio::test]
async fn counts_that_no_model_reaches_do_not_overflow() {
    let metrics = InMemoryMetricExporter::default();
    let telemetry = Telemetry::new(InMemorySpanExporter::default(), metrics.clone());
    // `tracing` caches if a span is enabled. A span that is first created without a subscriber
    // could stay disabled for concurrent tests.
    let guard = telemetry.subscriber().set_default();
    let runtime = Runtime::builder().sink(MetricsSink::new(&telemetry.meter())).build();
    for _ in 0..2 {
        let answer = Turn::text("x").usage(Usage::new(u64::MAX, 7));
        Agent::new(ScriptedModel::new([answer])).runtime(&runtime).run("go").await.unwrap();
    }
    drop(guard);
    telemetry.flush().unwrap();
    let tokens = points(&metrics)
        .into_iter()
        .filter(|(name, _)| name.starts_with("gen_ai.client.token.usage"));
    let tokens: Vec<(u64, f64)> = tokens.map(|(_, point)| point).collect();
    assert_eq!(tokens, [(2, 2_000_000_000.0), (2, 14.0)]);
}

#[test]
fn the_program_prints_spans_and_metrics() {
    let output = Command::new(env!("CARGO_BIN_EXE_otel"))
        .env_remove("AGENTFLOW_MODEL")
        .arg("Bergen")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Yes. It rains in Bergen.\n");
    for said in [
        "span invoke_agent forecaster",
        "span chat stand-in",
        "metric gen_ai.client.token.usage: 2 times, 40",
    ] {
        assert!(errors.contains(said), "{errors}");
    }
    assert!(!errors.contains("Bergen"), "{errors}");
}
