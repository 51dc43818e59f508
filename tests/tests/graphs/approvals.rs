//! Tests calls by name of tools that need approval. Each call asks with its own arguments before it
//! runs, in every form of a graph and of a pipeline, and a person may change the arguments.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::pipeline::Pipeline;
use agentflow::prelude::*;
use agentflow::run::Approval;
use agentflow::runtime::{OpenQuestion, RuntimeBuilder};
use agentflow::store::MemoryStore;
use agentflow::tool::{FnTool, ToolDefinition, ToolPolicy};
use agentflow::value::Encoded;
use agentflow::workflow::{Graph, NodePolicy};
use agentflow::{RunHandle, RunId};
use agentflow_testing::{check_events, test_runtime};
use serde_json::{Value, json};

/// Records the texts that the tools sent.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<String>>>);

impl Sent {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn note(&self, text: &str) -> String {
        self.0.lock().unwrap().push(text.to_owned());
        format!("{text}!")
    }
}

/// Sends a text.
#[tool(approve)]
async fn agreed_async(sent: Inject<Sent>, text: String) -> String {
    sent.note(&text)
}

/// Sends a text at once.
#[tool(approve)]
fn agreed_at_once(sent: Inject<Sent>, text: String) -> String {
    sent.note(&text)
}

/// Returns a dynamic tool that has no Rust function.
fn given(sent: &Sent) -> FnTool {
    let schema = json!({
        "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": false
    });
    let sent = sent.clone();
    FnTool::dynamic(ToolDefinition::new("agreed_given", "Sends a text.", schema), move |_, arguments: Value| {
        let sent = sent.clone();
        async move { Ok::<_, String>(sent.note(arguments["text"].as_str().unwrap_or_default())) }
    })
    .policy(ToolPolicy::default().approve())
}

const TOOLS: [&str; 3] = ["agreed_async", "agreed_at_once", "agreed_given"];
const PATIENCE: Duration = Duration::from_secs(3600);

fn runtime(sent: &Sent) -> RuntimeBuilder {
    test_runtime().resource(sent.clone()).tools(given(sent))
}

async fn asked<T>(run: &RunHandle<T>) -> Option<OpenQuestion> {
    tokio::time::timeout(PATIENCE, run.asked()).await.expect("it asks or ends").unwrap()
}

/// Approves all questions, the first one with `first`. Returns the texts in the questions.
async fn answered(
    run: &RunHandle<Encoded>,
    sent: &Sent,
    tool: &str,
    first: Approval,
) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    while let Some(question) = asked(run).await {
        let about: Value = question.about.decode().unwrap();
        let text = about["text"].as_str().unwrap().to_owned();
        assert_eq!(question.message, format!("call `{tool}(text: \"{text}\")`?"));
        assert!(sent.all().len() <= texts.len(), "{:?} before the answer about {text}", sent.all());
        let answer = if texts.is_empty() { first.clone() } else { Approval::granted() };
        texts.push(text);
        run.approve(&question.path, answer, "ada").await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    texts
}

/// Returns a graph for each kind of call, with the texts that need approval for the input `["a",
/// "b"]`.
fn forms(tool: &str) -> Vec<(&'static str, Graph, Vec<&'static str>)> {
    let call =
        |text: Value| json!({"kind": "tool", "name": tool, "with": {"object": {"text": text}}});
    let first = json!({"from": "texts", "at": "/0"});
    let item = || call(json!({"item": ""}));
    let does = [
        ("call", json!({"call": call(first.clone())}), vec!["a"]),
        ("map", json!({"map": {"items": "texts", "call": item()}}), vec!["a", "b"]),
        (
            "repeat",
            json!({"repeat": {"first": "first", "call": item(), "max": 2}}),
            vec!["a", "a!"],
        ),
        ("fallback", json!({"fallback": [call(first.clone())]}), vec!["a"]),
        ("race", json!({"race": [call(first)]}), vec!["a"]),
    ];
    let graph = |does: Value| {
        serde_json::from_value(json!({
            "version": 1, "name": "agreed", "output": "out", "concurrency": 8,
            "nodes": [
                {"name": "texts", "kind": "input", "schema": {"type": "array", "items": {"type": "string"}}},
                {"name": "first", "does": {"value": {"from": "texts", "at": "/0"}}},
                {"name": "out", "does": does},
            ],
        }))
        .unwrap()
    };
    does.into_iter().map(|(form, does, texts)| (form, graph(does), texts)).collect()
}

fn texts() -> Encoded {
    Encoded::new(&json!({"texts": ["a", "b"]})).unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_call_of_a_graph_asks_with_its_own_arguments() {
    for tool in TOOLS {
        for (form, graph, expected) in forms(tool) {
            for changes in [false, true] {
                let sent = Sent::default();
                let runtime = runtime(&sent).graph(graph.clone()).store(MemoryStore::new()).build();
                let run = runtime.start_named("agreed", texts()).await.unwrap();
                let first = match changes {
                    false => Approval::granted(),
                    true => Approval::granted_with(json!({"text": "z"})),
                };
                let asked = answered(&run, &sent, tool, first).await;
                run.result().await.unwrap_or_else(|error| panic!("{tool}, {form}: {error}"));
                check_events(&runtime.run(run.run_id()).journal().await.unwrap()).unwrap();
                assert_eq!(asked[0], expected[0], "{tool}, {form}");
                let made = if changes { "z" } else { expected[0] };
                assert_eq!(sent.all()[0], made, "{tool}, {form}");
                assert_eq!(sent.all()[1..], asked[1..], "{tool}, {form}");
                assert_eq!(asked.len(), expected.len(), "{tool}, {form}");
                assert!(changes || asked == expected, "{tool}, {form}: {asked:?}");
            }
            let sent = Sent::default();
            let runtime = runtime(&sent).graph(graph).store(MemoryStore::new()).build();
            let run = runtime.start_named("agreed", texts()).await.unwrap();
            answered(&run, &sent, tool, Approval::denied("not now")).await;
            let error = run.result().await.unwrap_err();
            assert!(
                error.to_string().contains("not now") && error.kind() == "denied",
                "{tool}, {form}: {error}"
            );
            assert!(!sent.all().contains(&"a".to_owned()), "{tool}, {form}: {:?}", sent.all());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_by_name_is_asked_about_once_over_restarts() {
    for tool in TOOLS {
        for (form, graph, expected) in forms(tool) {
            let (sent, store, id) = (Sent::default(), MemoryStore::new(), RunId::new("run-1"));
            let first = runtime(&sent).graph(graph.clone()).store(store.clone()).build();
            let run = first.start_named("agreed", texts()).run_id(id.clone()).await.unwrap();
            let question = asked(&run).await.unwrap();
            run.abandon();
            drop(first);

            let store = store.as_another_process();
            let second = runtime(&sent).graph(graph.clone()).store(store.clone()).build();
            let run = second.run(&id).resume().await.unwrap();
            let again = asked(&run).await.unwrap();
            assert_eq!(
                (&again.path, &again.message),
                (&question.path, &question.message),
                "{tool}, {form}"
            );
            assert!(sent.all().is_empty());
            run.abandon();
            drop(second);

            // The answer arrives while no process executes the run.
            let third = runtime(&sent).graph(graph).store(store.as_another_process()).build();
            third.run(&id).approve(&again.path, Approval::granted(), "ada").await.unwrap();
            let run = third.run(&id).resume().await.unwrap();
            let asked = answered(&run, &Sent::default(), tool, Approval::granted()).await;
            run.result().await.unwrap_or_else(|error| panic!("{tool}, {form}: {error}"));
            assert_eq!(asked, expected[1..], "{tool}, {form}");
            let mut made = sent.all();
            made.sort();
            assert_eq!(made, expected, "{tool}, {form}");
            check_events(&third.run(&id).journal().await.unwrap()).unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_call_of_a_pipeline_asks_with_its_own_arguments() {
    for tool in TOOLS {
        let call = || Pipeline::tool(tool).with(json!({"text": "{input}"}));
        let all: Vec<(&str, Pipeline, Value, Vec<&str>)> = vec![
            ("a call", call(), json!("a"), vec!["a"]),
            ("a row", call() >> call().named("again"), json!("a"), vec!["a", "a!"]),
            ("each", Pipeline::map_over(call()), json!(["a", "b"]), vec!["a", "b"]),
            (
                "a row of each",
                Pipeline::map_over(call() >> call().named("again")),
                json!(["a"]),
                vec!["a", "a!"],
            ),
            ("so often", call() * 3, json!("a"), vec!["a", "a!", "a!!"]),
            ("in place of", call() / call().named("again"), json!("a"), vec!["a"]),
            ("a race", Pipeline::race([call()]), json!("a"), vec!["a"]),
            (
                "a choice",
                Pipeline::when("input == 'a'", call()).otherwise(Pipeline::value(1)),
                json!("a"),
                vec!["a"],
            ),
        ];
        for (form, pipeline, input, expected) in all {
            let sent = Sent::default();
            let runtime =
                runtime(&sent).pipeline("made", &pipeline).store(MemoryStore::new()).build();
            let input = Encoded::new(&json!({"input": input})).unwrap();
            let run = runtime.start_named("made", input).await.unwrap();
            let asked = answered(&run, &sent, tool, Approval::granted()).await;
            run.result().await.unwrap_or_else(|error| panic!("{tool}, {form}: {error}"));
            assert_eq!(asked, expected, "{tool}, {form}");
            assert_eq!(sent.all(), expected, "{tool}, {form}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_words_of_a_node_are_those_of_its_call_by_name() {
    for tool in TOOLS {
        let sent = Sent::default();
        let pipeline = Pipeline::tool(tool)
            .with(json!({"text": "{input}"}))
            .policy(NodePolicy::default().approve("ok?"));
        let runtime = runtime(&sent).pipeline("made", &pipeline).store(MemoryStore::new()).build();
        let run = runtime
            .start_named("made", Encoded::new(&json!({"input": "a"})).unwrap())
            .await
            .unwrap();
        let question = asked(&run).await.unwrap();
        assert_eq!(
            (&*question.message, question.about.as_str()),
            ("ok?", r#"{"text":"a"}"#),
            "{tool}"
        );
        run.approve(&question.path, Approval::granted_with(json!({"text": "b"})), "ada")
            .await
            .unwrap();
        assert!(asked(&run).await.is_none(), "it asks once");
        run.result().await.unwrap();
        assert_eq!(sent.all(), ["b"], "{tool}");
    }
}
