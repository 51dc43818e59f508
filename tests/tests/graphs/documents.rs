//! Workflows as documents: every mistake is named with its place, and what is read runs like any other workflow.

use std::sync::Arc;

use agentflow::RunId;
use agentflow::document::{Document, DocumentError, DocumentForm};
use agentflow::model::{ModelEvent, ModelInfo, ModelRequest, ModelResponse, ModelStream};
use agentflow::prelude::*;
use agentflow::runtime::RuntimeBuilder;
use agentflow::store::{MemoryStore, Store};
use agentflow::value::Encoded;
use agentflow_testing::{ScriptedModel, Turn};
use serde_json::{Value, json};

use crate::store::{Cut, MortalStore};

/// Find pages about a topic.
#[tool(effects = "read")]
async fn doc_search(query: String, most: Option<u32>) -> Vec<String> {
    (1..=most.unwrap_or(2)).map(|page| format!("{query} {page}")).collect()
}

/// Count the words of texts.
#[tool(effects = "none")]
async fn doc_count(texts: Vec<String>) -> usize {
    texts.iter().map(|text| text.split_whitespace().count()).sum()
}

pub(super) fn read(text: &str) -> Document {
    Document::read("it.yaml", text).unwrap_or_else(|error| panic!("{error}"))
}

/// The problems, as `line:column: message`.
pub(super) fn places(error: &DocumentError) -> Vec<String> {
    let place =
        |problem: &agentflow::document::Problem| format!("{}:{}: {}", problem.line, problem.column, problem.message);
    error.problems().iter().map(place).collect()
}

pub(super) fn problems(text: &str) -> Vec<String> {
    places(&Document::read("it.yaml", text).unwrap_err())
}

pub(super) async fn run(runtime: &Runtime, name: &str, input: Value) -> Value {
    let handle = runtime.start_named(name, Encoded::new(&input).unwrap()).await.unwrap_or_else(|e| panic!("{e}"));
    handle.result().await.unwrap_or_else(|error| panic!("{error}")).decode().unwrap()
}

const COUNT: &str = r#"# Counts what was found.
name: doc-count-found
output: count
nodes:
  - name: topic
    kind: input
    schema: {type: string}
  - name: found
    does:
      call: {kind: tool, name: doc_search, with: {object: {query: {from: topic}}}}
  - name: count
    does:
      call: {kind: tool, name: doc_count, with: {object: {texts: {from: found}}}}
"#;

#[tokio::test]
async fn a_graph_document_runs_like_the_graph_it_describes() {
    let document = read(COUNT);
    assert_eq!((document.form(), document.name()), (DocumentForm::Graph, "doc-count-found"));
    let runtime = Runtime::builder().document(document.clone()).build();
    runtime.check(&document).await.unwrap();
    assert_eq!(run(&runtime, "doc-count-found", json!({"topic": "rust"})).await, json!(4));
    // The same plan, as JSON.
    let json = serde_json::to_string_pretty(&document.graph().to_json()).unwrap();
    let again = read(&json);
    assert_eq!(again.graph().hash(), document.graph().hash());
    let origin = runtime.catalogue().await.check().unwrap();
    let entry = origin.get(agentflow::runtime::EntryKind::Workflow, "doc-count-found").unwrap();
    assert_eq!(entry.origin.to_string(), "from the document it.yaml");
}

#[tokio::test]
async fn every_mistake_is_named_where_it_stands() {
    let text = COUNT
        .replace("doc_search", "doc_serach")
        .replace("{texts: {from: found}}", "{texts: {from: fuond}, twice: {value: 2}}")
        .replace("output: count", "output: cuont");
    assert_eq!(
        problems(&text),
        [
            "3:9: the output is that of `cuont`, and there is no such node; did you mean `count`?",
            "13:73: the node `count` reads or follows `fuond`, and there is no such node; did you mean `found`?",
        ]
    );
    let text = COUNT.replace("doc_search", "doc_serach").replace("{from: found}}", "{from: found}, twice: {value: 2}}");
    let document = read(&text);
    let runtime = Runtime::builder().document(document.clone()).build();
    let error = runtime.check(&document).await.unwrap_err();
    assert_eq!(
        places(&error),
        [
            "10:32: the node `found`: this program knows no tool `doc_serach`; did you mean `doc_search`?",
            "13:81: the node `count`: the tool `doc_count` has no argument `twice`",
        ]
    );
    let started = runtime.start_named("doc-count-found", json!({"topic": "x"})).await.unwrap_err().to_string();
    assert!(started.contains("it.yaml:10:32"), "{started}");
    assert!(started.contains("^^^^^^^^^^"), "{started}");
    assert_eq!(runtime.catalogue().await.problems().len(), 1);
}

#[test]
fn the_fields_of_a_document_are_checked_in_one_pass() {
    let text = r#"name: 5
output: o
concurency: 2
nodes:
  - name: a
    dose: {value: {value: 1}}
  - nam: b
    policy: {retry: {max_attempts: "3", backof_ms: 5}, timeout_ms: soon}
  - 7
"#;
    assert_eq!(
        problems(text),
        [
            "1:7: `name` is a text, and this is the number 5; put it in quotes",
            "3:1: a graph has no `concurency`; did you mean `concurrency`?",
            "6:5: unknown field `dose`; did you mean `does`?",
            "7:5: unknown field `nam`; did you mean `name`?",
            "8:36: invalid type: string \"3\", expected a whole number, 0 or more",
            "8:41: unknown field `backof_ms`; did you mean `backoff_ms`?",
            "8:68: invalid type: string \"soon\", expected a whole number, 0 or more",
            "9:5: a node is an object, and this is the number 7",
        ]
    );
}

#[test]
fn a_document_has_one_known_form() {
    for (text, says) in [
        ("name: x", "1:1: the document has none of the known forms; the forms are "),
        ("- a", "1:1: a document is an object, and this is a list; the forms are "),
    ] {
        let problems = problems(text);
        assert!(problems.len() == 1 && problems[0].starts_with(says), "{problems:?}");
    }
}

#[test]
fn a_cycle_is_named() {
    let text = "name: c\noutput: a\nnodes:\n  - {name: a, does: {value: {from: b}}}\n  - {name: b, does: {value: {from: a}}}\n";
    assert_eq!(
        problems(text),
        [
            "4:36: these nodes wait for each other: `a`, `b`; a workflow has no cycle, and what is repeated is a node with `repeat`"
        ]
    );
}

const RESEARCH: &str = r#"id: research_report
nodes:
  - id: discover
    tool: doc_search
    args_template: {query: "{task}", most: 3}
  - id: count
    tool: doc_count
    args_template:
      texts: "{discover}"
    depends_on: [discover]
  - id: note
    tool: doc_search
    args_template: {query: "{task}: {count} words, of {discover.0}", most: 1}
    depends_on: [count]
    retry_limit: 0
"#;

#[tokio::test]
async fn a_document_of_tools_fills_its_templates() {
    let document = read(RESEARCH);
    assert_eq!(document.form(), DocumentForm::Tools);
    let runtime = Runtime::builder().store(MemoryStore::new()).document(document.clone()).build();
    runtime.check(&document).await.unwrap();
    let handle = runtime.start_named("research_report", Encoded::new(&json!({"task": "rust"})).unwrap()).await.unwrap();
    assert_eq!(handle.result().await.unwrap().decode::<Value>().unwrap(), json!(["rust: 6 words, of rust 1 1"]));
    let state = serde_json::to_value(runtime.run_state(handle.run_id()).await.unwrap()).unwrap();
    assert_eq!(state["count"], json!(6), "{state}");
    let policy = |node: &str| document.graph().node(node).unwrap().policy.retry.max_attempts;
    assert_eq!((policy("discover"), policy("note")), (3, 1));
}

#[tokio::test]
async fn mistakes_of_a_document_of_tools() {
    let text = RESEARCH
        .replace("depends_on: [discover]", "depends_on: [discovre]")
        .replace("retry_limit: 0", "retry_limt: 0")
        .replace("of {discover.0}", "of {discover.0")
        .replace("tool: doc_count", "tool: 7");
    assert_eq!(
        problems(&text),
        [
            "7:11: `tool` is a text, and this is the number 7; put it in quotes",
            "13:28: the `{` at byte 26 has no `}` on its line; write `{{` for a brace",
            "15:5: a node has no `retry_limt`; did you mean `retry_limit`?",
        ]
    );
    let text = RESEARCH.replace("depends_on: [discover]", "depends_on: [discovre]");
    assert_eq!(
        problems(&text),
        ["10:18: `count` depends on `discovre`, and there is no such node; did you mean `discover`?"]
    );
    let document = read(&RESEARCH.replace("texts: \"{discover}\"", "text: \"{discover}\""));
    let error = Runtime::default().check(&document).await.unwrap_err();
    assert_eq!(
        places(&error),
        [
            "7:11: the node `count`: the tool `doc_count` needs `texts`, which is not given",
            "9:7: the node `count`: the tool `doc_count` has no argument `text`; did you mean `texts`?",
        ]
    );
}

const TRACKER: &str = r#"name: exchange_tracker
description: Follows exchange rates.
agents:
  - name: fetcher
    type: llm
    model: openai-chat/gpt-5-mini
    instruction: Find the rates that are asked for.
    tools: [doc_search]
    output_key: rate_data
  - name: analyzer
    type: llm
    model: openai-chat/gpt-5-mini
    instruction: |
      You write for traders.

      Analyse these rates: {rate_data}
    tools: []
    output_key: analysis
orchestration:
  type: sequential
  agents: [fetcher, analyzer]
a2a:
  version: "1.0"
  skills:
    - {id: rate_tracking, name: Rates, tags: [money]}
"#;

#[tokio::test]
async fn agents_work_one_after_another() {
    let model = ScriptedModel::new([
        Turn::call("doc_search", json!({"query": "EUR"})).expect_last("The euro?"),
        Turn::text("1.1 dollars"),
        Turn::text("It rises.").expect_last("Analyse these rates: 1.1 dollars\n\nThe euro?"),
    ])
    .capturing();
    let document = read(TRACKER);
    assert_eq!(document.agents().collect::<Vec<_>>(), ["fetcher", "analyzer"]);
    assert_eq!(document.card().unwrap()["skills"][0]["id"], "rate_tracking");
    let runtime = Runtime::builder().store(MemoryStore::new()).document(document.clone()).model(model.clone()).build();
    runtime.check(&document).await.unwrap();
    let handle = runtime.start_named("exchange_tracker", Encoded::new(&json!({"message": "The euro?"})).unwrap());
    let handle = handle.await.unwrap();
    assert_eq!(handle.result().await.unwrap().decode::<Value>().unwrap(), json!("It rises."));
    let state = serde_json::to_value(runtime.run_state(handle.run_id()).await.unwrap()).unwrap();
    assert_eq!((&state["rate_data"], &state["analysis"]), (&json!("1.1 dollars"), &json!("It rises.")), "{state}");
    let instructions = model.requests()[2].messages.messages()[0].text().to_string();
    assert_eq!(instructions, "You write for traders.");
}

#[tokio::test]
async fn agents_work_at_the_same_time_or_in_rounds() {
    let text = TRACKER.replace("sequential", "parallel").replace("Analyse these rates: {rate_data}", "Be brief.");
    let model = ScriptedModel::new([Turn::text("same"), Turn::text("same")]);
    let runtime = Runtime::builder().document(read(&text)).model(model).build();
    let output = run(&runtime, "exchange_tracker", json!({"message": "?"})).await;
    assert_eq!(output, json!({"fetcher": "same", "analyzer": "same"}));

    let text = TRACKER.replace("type: sequential", "type: loop\n  max_iterations: 2");
    let model = ScriptedModel::new([
        Turn::text("1").expect_last("{\"last\":null,\"message\":\"?\"}"),
        Turn::text("a"),
        Turn::text("2").expect_last("{\"last\":\"a\",\"message\":\"?\"}"),
        Turn::text("b").expect_last("Analyse these rates: 2\n\n?"),
    ]);
    let document = read(&text);
    let runtime = Runtime::builder().document(document.clone()).model(model).build();
    runtime.check(&document).await.unwrap();
    assert_eq!(run(&runtime, "exchange_tracker", json!({"message": "?"})).await, json!("b"));
}

#[tokio::test]
async fn an_agent_ends_a_loop() {
    let text = TRACKER.replace("type: sequential", "type: loop").replace("tools: []", "tools: [exit_loop]");
    let model = ScriptedModel::new([
        Turn::text("1"),
        Turn::text("a"),
        Turn::text("2"),
        Turn::call("exit_loop", json!({})),
        Turn::text("enough"),
    ]);
    let runtime = Runtime::builder().document(read(&text)).model(model).build();
    assert_eq!(run(&runtime, "exchange_tracker", json!({"message": "?"})).await, json!("enough"));
}

#[test]
fn a_mistake_hides_no_other() {
    let text = "id: x\nnodes:\n  - {id: a, tool: doc_search, args_template: [q], depends_on: [b], retry: 1}\n";
    let found = problems(text);
    assert!(found[0].starts_with("3:46: `args_template` is an object, and this is a list"), "{found:?}");
    assert!(found[1].starts_with("3:64: `a` depends on `b`, and there is no such node"), "{found:?}");
    assert!(found[2].starts_with("3:68: a node has no `retry`"), "{found:?}");
    let none = problems("name: x\nagents: []\norchestration: {type: sequential, agents: []}\n");
    assert_eq!(none, ["1:1: a document of agents has at least one agent"]);
}

#[tokio::test]
async fn mistakes_of_a_document_of_agents() {
    let text = TRACKER
        .replace("{rate_data}", "{rate_date}")
        .replace("[fetcher, analyzer]", "[fetcher, analyser]")
        .replace("type: sequential", "type: sequental")
        .replace("output_key: analysis", "output_key: user:analysis")
        .replace("tags: [money]", "tag: money");
    assert_eq!(
        problems(&text),
        [
            "18:17: `user:analysis` outlives the run, and an answer is saved for its run or its session; leave the prefix out",
            "20:9: there is no orchestration `sequental`; did you mean `sequential`?",
            "21:21: there is no agent `analyser` in this document; did you mean `analyzer`?",
            "25:40: a skill has no `tag`; did you mean `tags`?",
        ]
    );
    assert_eq!(
        problems(&TRACKER.replace("{rate_data}", "{rate_date}")),
        ["14:7: the agent `analyzer` is shown `rate_date`, and no agent before it gives it; did you mean `rate_data`?"]
    );
    assert_eq!(
        problems(&TRACKER.replace("type: sequential", "type: loop")),
        ["20:9: a `loop` needs `max_iterations`, or an agent with the tool `exit_loop`, which ends it"]
    );
    let document = read(&TRACKER.replace("[doc_search]", "[doc_serch, nothing_like_it]"));
    let error = Runtime::default().check(&document).await.unwrap_err();
    assert_eq!(
        places(&error),
        [
            "8:13: the agent `fetcher`: this program knows no tool `doc_serch`; did you mean `doc_search`?",
            "8:24: the agent `fetcher`: this program knows no tool `nothing_like_it`",
        ]
    );
    let document = read(&TRACKER.replacen("openai-chat/", "openai-chatt/", 1));
    let error = Runtime::default().check(&document).await.unwrap_err();
    let unknown =
        "6:12: the agent `fetcher`: there is no provider of models `openai-chatt`; did you mean `openai-chat`?";
    assert_eq!(places(&error), [unknown]);
    // Another model stands in its place.
    Runtime::builder().model(Echo::default()).build().check(&document).await.unwrap();
}

/// Whatever is changed in a document, reading it ends in time, and every problem stands in the text.
#[test]
fn no_change_of_a_document_breaks_its_reader() {
    const WORDS: [&str; 16] =
        ["{", "}", "[", "]", ":", "- ", "\n", "  ", "&a ", "*a", "!!str ", "null", "\"", "{task}", "{a..b}", "nodes"];
    let mut rng = fastrand::Rng::with_seed(7);
    for text in [COUNT, RESEARCH, TRACKER] {
        for _ in 0..400 {
            let mut changed = text.to_owned();
            for _ in 0..=rng.usize(..3) {
                let places: Vec<usize> = changed.char_indices().map(|(at, _)| at).collect();
                let (from, to) = (places[rng.usize(..places.len())], places[rng.usize(..places.len())]);
                match rng.u8(..3) {
                    0 => changed.insert_str(from, WORDS[rng.usize(..WORDS.len())]),
                    1 if from < to && to - from < 40 => changed.replace_range(from..to, ""),
                    _ => changed.replace_range(from..=from, WORDS[rng.usize(..WORDS.len())]),
                }
            }
            let Err(error) = Document::read("it.yaml", changed.as_str()) else { continue };
            assert!(!error.problems().is_empty(), "{changed}");
            for problem in error.problems() {
                assert!(changed.get(problem.span.clone()).is_some(), "{problem:?}\n{changed}");
                let lines: Vec<&str> = changed.split('\n').collect();
                let line = lines.get(problem.line - 1).unwrap_or_else(|| panic!("{problem:?}\n{changed}"));
                assert!(problem.column <= line.chars().count() + 1, "{problem:?}\n{changed}");
            }
            let _ = error.to_string();
        }
    }
}

/// A random graph is the same when it was written as a document and read again.
#[test]
fn a_graph_is_read_as_it_was_written() {
    for seed in 0..200 {
        let graph = crate::reference::random_graph(seed);
        let text = serde_json::to_string_pretty(&graph.to_json()).unwrap();
        match Document::read("random.json", text.as_str()) {
            Ok(document) => {
                assert_eq!(document.graph(), &graph, "seed {seed}");
                assert_eq!(document.graph().hash(), graph.hash());
            }
            // What is wrong with it whatever its names refer to is wrong with the graph.
            Err(error) => {
                let runtime = Runtime::builder().graph(graph).build();
                assert!(runtime.workflow_graph("random").is_err(), "seed {seed}: {error}");
            }
        }
    }
}

/// Sums up numbers, as the document below does.
#[workflow]
async fn doc_in_code(cx: &Context, task: String) -> Result<usize> {
    let _ = cx;
    let discover = doc_search(task, Some(3)).await;
    let count = doc_count(discover).await;
    Ok(count)
}

/// Runs the workflow of a document once for each write at which a process can end, and resumes it in another runtime.
async fn after_every_crash(text: &str, input: Value, with: impl Fn(RuntimeBuilder) -> RuntimeBuilder) -> Value {
    let document = read(text);
    let build = |store: MortalStore| with(Runtime::builder().store(store)).document(document.clone()).build();
    let whole = run(
        &build(MortalStore::new(&(Arc::new(MemoryStore::new()) as Arc<dyn Store>), None)),
        document.name(),
        input.clone(),
    )
    .await;
    for write in 1.. {
        for kept_write in [false, true] {
            let kept: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let (id, cut) = (RunId::new("crashed"), Cut { write, kept: kept_write });
            let store = MortalStore::new(&kept, Some(cut));
            let first = build(store.clone());
            let started = async {
                let start = first.start_named(document.name(), Encoded::new(&input).unwrap()).run_id(id.clone());
                start.await.unwrap().result().await
            };
            let ended = tokio::select! {
                ended = started => Some(ended.unwrap()),
                () = store.died() => None,
            };
            let second = build(MortalStore::new(&kept, None));
            let ended = match ended {
                Some(_) => return whole,
                None if kept.record(&id).await.unwrap().is_none() => continue,
                None => match second.resume(&id).await {
                    Ok(handle) => handle.result().await.unwrap_or_else(|error| panic!("{cut}: {error}")),
                    Err(_) => second.output(&id).await.unwrap_or_else(|error| panic!("{cut}: {error}")),
                },
            };
            assert_eq!(ended.decode::<Value>().unwrap(), whole, "{cut}");
        }
    }
    unreachable!("every run has a last write")
}

#[tokio::test]
async fn a_run_of_a_document_survives_every_crash() {
    let tools = "id: doc_crash\nnodes:\n  - {id: discover, tool: doc_search, args_template: {query: '{task}', most: 3}}\n  \
                 - {id: count, tool: doc_count, args_template: {texts: '{discover}'}}\n";
    let of_code = doc_in_code(&Runtime::default().context(), "rust".to_owned()).await.unwrap();
    assert_eq!(after_every_crash(tools, json!({"task": "rust"}), |builder| builder).await, json!(of_code));
    assert_eq!(after_every_crash(COUNT, json!({"topic": "rust"}), |builder| builder).await, json!(4));

    // Each process has a model that answers what it is asked, so a call that is made a second time has the same answer.
    let agents = |builder: RuntimeBuilder| builder.model(Echo::default());
    let in_rounds = TRACKER.replace("type: sequential", "type: loop\n  max_iterations: 2");
    let side_by_side =
        TRACKER.replace("sequential", "parallel").replace("Analyse these rates: {rate_data}", "Be brief.");
    for text in [TRACKER, &in_rounds, &side_by_side] {
        after_every_crash(text, json!({"message": "The euro?"}), agents).await;
    }
}

/// Answers with what it is asked.
#[derive(Debug)]
struct Echo(ModelInfo);

impl Default for Echo {
    fn default() -> Self {
        Self(ModelInfo::new("test", "echo"))
    }
}

impl Model for Echo {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let asked = request.messages.messages().last().map(|message| message.text().to_string()).unwrap_or_default();
        let answer = Arc::new(Message::assistant(format!("<{asked}>")));
        let completed = ModelEvent::Completed(Box::new(ModelResponse::new(answer)));
        Box::pin(futures_util::stream::iter([Ok(completed)]))
    }
}
