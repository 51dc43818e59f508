//! Spans as OpenTelemetry's GenAI conventions name them, nested as the work is.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use agentflow::{Agent, Context, FnTool, Usage};
use agentflow_testing::{ScriptedModel, Turn, test_runtime};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context as LayerContext, SubscriberExt};
use tracing_subscriber::{Layer, Registry, registry::LookupSpan};

#[derive(Clone, Default)]
struct Collected(Arc<Mutex<BTreeMap<u64, Span>>>);

#[derive(Clone, Default)]
struct Span {
    parent: Option<u64>,
    fields: BTreeMap<&'static str, String>,
}

impl Visit for Span {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collected {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: LayerContext<'_, S>) {
        let parent = cx.span(id).and_then(|span| span.parent()).map(|parent| parent.id().into_u64());
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

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn spans_have_the_conventions_names_and_no_contents() {
    let collected = Collected::default();
    let _guard = tracing::subscriber::set_default(Registry::default().with(collected.clone()));
    let model = ScriptedModel::new([
        Turn::call("secret_word", json!({})).usage(Usage::new(7, 3)),
        Turn::text("The word is xyzzy."),
    ])
    .named("openai-chat", "gpt-test");
    let tool = FnTool::new("secret_word", "", |_: Context, (): ()| async { Ok::<_, String>("xyzzy") });
    let agent = Agent::new(model).name("teller").tools([tool]).runtime(&test_runtime().build());
    agent.run("What is the word? plugh").await.unwrap();

    let spans = collected.0.lock().unwrap().clone();
    let named = |name: &str| {
        let found: Vec<_> = spans.iter().filter(|(_, span)| span.fields["otel.name"] == name).collect();
        assert!(!found.is_empty(), "no span {name}");
        found
    };
    let (agent_id, agent) = named("invoke_agent teller")[0];
    assert_eq!(agent.fields["otel.kind"], "internal");
    assert_eq!(agent.fields["gen_ai.operation.name"], "invoke_agent");
    assert_eq!(agent.fields["gen_ai.agent.name"], "teller");
    assert_eq!(agent.fields["gen_ai.conversation.id"], "run-1");
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
    let everything = spans.values().flat_map(|span| span.fields.values()).cloned().collect::<String>();
    assert!(!everything.contains("xyzzy") && !everything.contains("plugh"), "{everything}");
}
