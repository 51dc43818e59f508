//! Tests workflows in documents: every mistake is reported with its position, and documents run
//! like other workflows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentflow::document::{Document, DocumentError, DocumentForm};
use agentflow::model::{ModelEvent, ModelInfo, ModelRequest, ModelResponse, ModelStream};
use agentflow::prelude::*;
use agentflow::runtime::RuntimeBuilder;
use agentflow::store::MemoryStore;
use agentflow::tool::{ToolRef, Toolset, ToolsetRef};
use agentflow::value::Encoded;
use agentflow_testing::{ScriptedModel, Turn, check_events};
use serde_json::{Value, json};

use crate::every_crash::every_crash;

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

/// Formats the problems as `line:column: message`.
pub(super) fn places(error: &DocumentError) -> Vec<String> {
    let place = |problem: &agentflow::diagnostic::Diagnostic| {
        format!("{}:{}: {}", problem.line(), problem.column(), problem.message())
    };
    error.problems().iter().map(place).collect()
}

pub(super) fn problems(text: &str) -> Vec<String> {
    places(&Document::read("it.yaml", text).unwrap_err())
}

pub(super) async fn run(runtime: &Runtime, name: &str, input: Value) -> Value {
    let handle = runtime
        .start_named(name, Encoded::new(&input).unwrap())
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    handle.result().await.unwrap_or_else(|error| panic!("{error}")).decode().unwrap()
}

const COUNT: &str = include_str!("../../../crates/core/tests/documents/count.yaml");

#[tokio::test]
async fn a_graph_document_runs_like_the_graph_it_describes() {
    let document = read(COUNT);
    assert_eq!((document.form(), document.name()), (DocumentForm::Graph, "doc-count-found"));
    let runtime = Runtime::builder().document(document.clone()).build();
    runtime.documents().check(&document).await.unwrap();
    assert_eq!(run(&runtime, "doc-count-found", json!({"topic": "rust"})).await, json!(4));
    // The exported JSON gives the same graph.
    let json = serde_json::to_string_pretty(&document.graph().to_json()).unwrap();
    let again = read(&json);
    assert_eq!(again.graph().hash(), document.graph().hash());
    let origin = runtime.catalogue().snapshot().await.check().unwrap();
    let entry = origin.get(agentflow::runtime::EntryKind::Workflow, "doc-count-found").unwrap();
    assert_eq!(entry.origin.to_string(), "from the document it.yaml");
}

#[tokio::test]
async fn a_document_bounds_its_runs() {
    let text = "id: bounded\nlimits: {max_llm_calls: 3, timeout_ms: 60000}\nnodes:\n  - {id: words, tool: doc_count, args_template: {texts: [a]}}\n";
    let document = read(text);
    let limits = agentflow::workflow::RunLimits::new()
        .max_llm_calls(3)
        .timeout(std::time::Duration::from_secs(60));
    assert_eq!(document.graph().limits, limits);
    for form in [DocumentForm::Tools, DocumentForm::Graph] {
        let again = read(&form.export(document.graph()).unwrap().to_string());
        assert_eq!((again.form(), again.graph().limits), (form, limits));
    }
    let runtime = Runtime::builder().store(MemoryStore::new()).document(document).build();
    let run = runtime.start_named("bounded", json!({})).await.unwrap();
    run.result().await.unwrap();
    let events = runtime.run(run.run_id()).journal().await.unwrap();
    let agentflow::event::EventKind::RunStarted(started) = &events[0].kind else {
        panic!("{:?}", events[0])
    };
    assert_eq!(
        (started.terms().max_llm_calls, started.terms().timeout_ms),
        (Some(3), Some(60_000))
    );
    assert_eq!(
        problems(&text.replace("max_llm_calls", "max_llm_cals")),
        ["2:10: unknown field `max_llm_cals`; did you mean `max_llm_calls`?"]
    );
    assert_eq!(problems(&text.replace("60000", "-1")).len(), 1);
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
    let text = COUNT
        .replace("doc_search", "doc_serach")
        .replace("{from: found}}", "{from: found}, twice: {value: 2}}");
    let document = read(&text);
    let runtime = Runtime::builder().document(document.clone()).build();
    let error = runtime.documents().check(&document).await.unwrap_err();
    assert_eq!(
        places(&error),
        [
            "10:32: the node `found`: this program has no tool `doc_serach`; did you mean `doc_search`?",
            "13:81: the node `count`: the tool `doc_count` has no argument `twice`",
        ]
    );
    let started = runtime
        .start_named("doc-count-found", json!({"topic": "x"}))
        .await
        .unwrap_err()
        .to_string();
    assert!(started.contains("it.yaml:10:32"), "{started}");
    assert!(started.contains("^^^^^^^^^^"), "{started}");
    assert_eq!(runtime.catalogue().snapshot().await.problems().len(), 1);
}

#[test]
fn a_form_that_is_not_complete_says_what_it_lacks() {
    let begins = |text: &str, expected: &str| {
        let found = problems(text);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{text}: {found:?}");
    };
    begins(
        "name: w\nagents:\n  - name: a\n",
        "2:1: a document with `agents` needs `orchestration`, which says in what order",
    );
    begins(
        "name: w\norchestration: {type: sequential}\n",
        "2:1: a document with `orchestration` needs `agents`, a list of",
    );
    begins(
        "name: w\nnodes: []\n",
        "2:1: a document with `nodes` needs `id`, where each node names a `tool`, `output`, where it is a graph",
    );
    begins(
        "workflow_id: w\nnodes: []\n",
        "1:1: a document with `workflow_id` needs `nodes` and `edges`, or `steps`",
    );
    begins("steps: []\n", "1:1: a document with `steps` needs `workflow_id`");
    begins("name: w\n", "1:1: the document has none of the known forms; the forms are ");
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
        ("id: x\nnode: []\n", "2:1: the document has none of the known forms; the forms are "),
        ("name: x", "1:1: the document has none of the known forms; the forms are "),
        ("- a", "1:1: a document is an object, and this is a list; the forms are "),
    ] {
        let problems = problems(text);
        assert!(problems.len() == 1 && problems[0].starts_with(says), "{problems:?}");
        let hint = "; the field `node` belongs to none of them; did you mean `nodes`?";
        assert_eq!(problems[0].ends_with(hint), text.contains("node"), "{problems:?}");
    }
}

#[test]
fn a_cycle_is_named() {
    let text = "name: c\noutput: a\nnodes:\n  - {name: a, does: {value: {from: b}}}\n  - {name: b, does: {value: {from: a}}}\n";
    assert_eq!(
        problems(text),
        [
            "4:36: these nodes wait for each other: `a`, `b`; a workflow cannot have a cycle, and a node with `repeat` repeats steps"
        ]
    );
    // Each node is needed by the other, so the workflow has no last node that could be its output.
    let text = "id: c\nnodes:\n  - {id: a, tool: doc_count, depends_on: [b]}\n  - {id: b, tool: doc_count, depends_on: [a]}\n";
    let found = problems(text);
    assert!(
        found.len() == 1 && found[0].contains(": these nodes wait for each other: `a`, `b`; "),
        "{found:?}"
    );
}

/// Without quotes, YAML parses `{topic}` as a mapping with one key and no value.
#[test]
fn a_placeholder_without_quotes_is_named() {
    let text = |value: &str| {
        format!(
            "id: c\nnodes:\n  - {{id: a, tool: doc_search, args_template: {{query: {value}}}}}\n"
        )
    };
    for (value, name) in [("{topic}", "topic"), ("{ a.b }", "a.b")] {
        let says = format!(
            "3:54: without quotes YAML reads `{{{name}}}` as an object; write \"{{{name}}}\""
        );
        assert_eq!(problems(&text(value)), [says]);
    }
    for value in ["\"{topic}\"", "{topic: }", "{topic: null}", "{}", "{a: 1}", "{\"a\": null}"] {
        read(&text(value));
    }
}

pub(super) const REVIEW: &str = include_str!("../../../crates/core/tests/documents/review.yaml");

pub(super) const WF_001: &str = include_str!("../../../crates/core/tests/documents/wf-001.yaml");

pub(super) const LETTERS: &str = include_str!("../../../crates/core/tests/documents/letters.yaml");

const RESEARCH: &str = include_str!("../../../crates/core/tests/documents/research.yaml");

#[tokio::test]
async fn a_document_of_tools_fills_its_templates() {
    let document = read(RESEARCH);
    assert_eq!(document.form(), DocumentForm::Tools);
    let runtime = Runtime::builder().store(MemoryStore::new()).document(document.clone()).build();
    runtime.documents().check(&document).await.unwrap();
    let handle = runtime
        .start_named("research_report", Encoded::new(&json!({"task": "rust"})).unwrap())
        .await
        .unwrap();
    assert_eq!(
        handle.result().await.unwrap().decode::<Value>().unwrap(),
        json!(["rust: 6 words, of rust 1 1"])
    );
    let state = serde_json::to_value(runtime.run(handle.run_id()).state().await.unwrap()).unwrap();
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
            "10:18: `count` depends on `discovre`, and there is no such node; did you mean `discover`?",
            "13:55: the `{` at byte 26 has no `}` on its line; write `{{` for a brace",
            "15:5: a node has no `retry_limt`; did you mean `retry_limit`?",
        ]
    );
    let text = RESEARCH.replace("depends_on: [discover]", "depends_on: [discovre]");
    assert_eq!(
        problems(&text),
        [
            "10:18: `count` depends on `discovre`, and there is no such node; did you mean `discover`?"
        ]
    );
    let document = read(&RESEARCH.replace("texts: \"{discover}\"", "text: \"{discover}\""));
    let error = Runtime::default().documents().check(&document).await.unwrap_err();
    assert_eq!(
        places(&error),
        [
            "7:11: the node `count`: the tool `doc_count` needs `texts`, which is not given",
            "9:7: the node `count`: the tool `doc_count` has no argument `text`; did you mean `texts`?",
        ]
    );
}

const TRACKER: &str = include_str!("../../../crates/core/tests/documents/tracker.yaml");

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
    let runtime = Runtime::builder()
        .store(MemoryStore::new())
        .document(document.clone())
        .model(model.clone())
        .build();
    runtime.documents().check(&document).await.unwrap();
    let handle = runtime
        .start_named("exchange_tracker", Encoded::new(&json!({"message": "The euro?"})).unwrap());
    let handle = handle.await.unwrap();
    assert_eq!(handle.result().await.unwrap().decode::<Value>().unwrap(), json!("It rises."));
    let state = serde_json::to_value(runtime.run(handle.run_id()).state().await.unwrap()).unwrap();
    assert_eq!(
        (&state["rate_data"], &state["analysis"]),
        (&json!("1.1 dollars"), &json!("It rises.")),
        "{state}"
    );
    let instructions = model.requests()[2].messages.messages()[0].text().to_string();
    assert_eq!(instructions, "You write for traders.");
}

#[tokio::test]
async fn agents_work_at_the_same_time_or_in_rounds() {
    let text = TRACKER
        .replace("sequential", "parallel")
        .replace("Analyse these rates: {rate_data}", "Be brief.");
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
    runtime.documents().check(&document).await.unwrap();
    assert_eq!(run(&runtime, "exchange_tracker", json!({"message": "?"})).await, json!("b"));
}

static NICK: StateKey<String> = StateKey::user("nick");

/// Remember how somebody wants to be called.
#[tool]
async fn doc_call_me(cx: &Context, nick: String) -> Result<()> {
    cx.set(&NICK, &nick)
}

#[tokio::test]
async fn an_agent_is_shown_what_is_known_of_its_user() {
    let text = TRACKER.replace("Find the rates that are asked for.", "\"Greet {user:nick?}.\"");
    let naming =
        "id: naming\nnodes:\n  - {id: a, tool: doc_call_me, args_template: {nick: Countess}}\n";
    let model = ScriptedModel::new([
        Turn::text("Hello.").expect_last("Greet .\n\nHi"),
        Turn::text("So."),
        Turn::text("Hello.").expect_last("Greet Countess.\n\nHi"),
        Turn::text("So."),
    ]);
    let runtime = Runtime::builder()
        .store(MemoryStore::new())
        .documents([read(&text), read(naming)])
        .model(model);
    let runtime = runtime.build();
    for (name, input) in [
        ("exchange_tracker", json!({"message": "Hi"})),
        ("naming", json!({})),
        ("exchange_tracker", json!({"message": "Hi"})),
    ] {
        let start =
            runtime.start_named(name, Encoded::new(&input).unwrap()).caller("ada").await.unwrap();
        start.result().await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[tokio::test]
async fn an_agent_ends_a_loop() {
    let text = TRACKER
        .replace("type: sequential", "type: loop")
        .replace("tools: []", "tools: [exit_loop]");
    let exit = || Turn::call("exit_loop", json!({}));
    for (turns, output) in [
        // If the model calls `exit_loop` without a text, the previous round's output is the result.
        (vec![Turn::text("1"), Turn::text("a"), Turn::text("2"), exit()], "a"),
        (vec![Turn::text("1"), Turn::text("a"), Turn::text("2"), exit().and_text("b")], "b"),
        (vec![Turn::text("1"), exit().and_text("a")], "a"),
        // The first round has no previous output.
        (vec![Turn::text("1"), exit()], ""),
    ] {
        let runtime = Runtime::builder().store(MemoryStore::new()).document(read(&text));
        let runtime = runtime.model(ScriptedModel::new(turns)).build();
        let input = Encoded::new(&json!({"message": "?"})).unwrap();
        let handle = runtime.start_named("exchange_tracker", input).await.unwrap();
        assert_eq!(handle.result().await.unwrap().decode::<Value>().unwrap(), json!(output));
        let state =
            serde_json::to_value(runtime.run(handle.run_id()).state().await.unwrap()).unwrap();
        assert_eq!(
            state["analysis"],
            if output.is_empty() { Value::Null } else { json!(output) },
            "{state}"
        );
    }
}

/// A toolset whose server is unreachable.
pub(super) struct Away;

#[agentflow::async_trait]
impl Toolset for Away {
    fn name(&self) -> &str {
        "mcp.away"
    }

    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn std::error::Error + Send + Sync>> {
        Err("nobody is at home".into())
    }
}

#[tokio::test]
async fn a_toolset_that_cannot_be_fetched_is_a_problem_of_the_document() {
    let document = read("id: reads\nnodes:\n  - {id: a, tool: mcp.away.read}\n");
    let runtime = Runtime::builder().toolset(ToolsetRef::new(Away)).build();
    let error = runtime.documents().check(&document).await.unwrap_err();
    assert!(places(&error).iter().any(|problem| problem.contains("nobody is at home")), "{error}");
    let agents = TRACKER.replace("[doc_search]", "[mcp.away]");
    Runtime::builder()
        .toolset(ToolsetRef::new(Away))
        .build()
        .documents()
        .check(&read(&agents))
        .await
        .unwrap();
    let one = Runtime::builder().toolset(ToolsetRef::new(Away)).build();
    // A single tool of the server is also looked up when the agent runs.
    one.documents()
        .check(&read(&TRACKER.replace("[doc_search]", "[mcp.away.read]")))
        .await
        .unwrap();
}

/// Fails each time.
#[tool(effects = "read")]
fn doc_fails(count: Inject<AtomicUsize>) -> Result<(), String> {
    count.fetch_add(1, Ordering::Relaxed);
    Err("it is broken".to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_call_is_tried_again_as_often_as_its_document_says() {
    for (limit, attempts) in [("", 3), (", retry_limit: 0", 1), (", retry_limit: 4", 5)] {
        let count = Arc::new(AtomicUsize::new(0));
        let text = format!(
            "id: fails\nnodes:\n  - {{id: a, tool: doc_fails{limit}}}\n  - {{id: b, tool: doc_fails, depends_on: [a]}}\n"
        );
        let runtime = Runtime::builder().resource(Arc::clone(&count)).document(read(&text)).build();
        let error = runtime
            .start_named("fails", Encoded::new(&json!({})).unwrap())
            .await
            .unwrap()
            .result()
            .await;
        assert!(error.unwrap_err().to_string().contains("it is broken"));
        assert_eq!(count.load(Ordering::Relaxed), attempts, "{text}");
    }
}

#[test]
fn a_mistake_hides_no_other() {
    let text = "id: x\nnodes:\n  - {id: a, tool: doc_search, args_template: [q], depends_on: [b], retry: 1}\n";
    let found = problems(text);
    assert!(
        found[0].starts_with("3:46: `args_template` is an object, and this is a list"),
        "{found:?}"
    );
    assert!(
        found[1].starts_with("3:64: `a` depends on `b`, and there is no such node"),
        "{found:?}"
    );
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
            "16:28: the agent `analyzer` is shown `rate_date`, and no agent before it gives it; did you mean `rate_data`?",
            "18:17: `user:analysis` outlives the run, and an answer is saved for its run or its session; leave the prefix out",
            "20:9: there is no orchestration `sequental`; did you mean `sequential`?",
            "21:21: there is no agent `analyser` in this document; did you mean `analyzer`?",
            "25:40: a skill has no `tag`; did you mean `tags`?",
        ]
    );
    assert_eq!(
        problems(&TRACKER.replace("{rate_data}", "{rate_date}")),
        [
            "16:28: the agent `analyzer` is shown `rate_date`, and no agent before it gives it; did you mean `rate_data`?"
        ]
    );
    assert_eq!(
        problems(&TRACKER.replace("type: sequential", "type: loop")),
        [
            "20:9: a `loop` needs `max_iterations`, or an agent with the tool `exit_loop`, which ends it"
        ]
    );
    let document = read(&TRACKER.replace("[doc_search]", "[doc_serch, nothing_like_it]"));
    let error = Runtime::default().documents().check(&document).await.unwrap_err();
    assert_eq!(
        places(&error),
        [
            "8:13: the agent `fetcher`: this program has no tool `doc_serch`; did you mean `doc_search`?",
            "8:24: the agent `fetcher`: this program has no tool `nothing_like_it`",
        ]
    );
    let document = read(&TRACKER.replacen("openai-chat/", "openai-chatt/", 1));
    let error = Runtime::default().documents().check(&document).await.unwrap_err();
    let unknown = "6:12: the agent `fetcher`: no adapter is called `openai-chatt`; did you mean `openai-chat`?";
    assert_eq!(places(&error), [unknown]);
    // The model of the runtime replaces the unknown one.
    Runtime::builder().model(Echo::default()).build().documents().check(&document).await.unwrap();
}

/// Checks that reading a randomly modified document terminates, and that every problem has a
/// position within the text.
#[test]
fn no_change_of_a_document_breaks_its_reader() {
    const WORDS: [&str; 16] = [
        "{", "}", "[", "]", ":", "- ", "\n", "  ", "&a ", "*a", "!!str ", "null", "\"", "{task}",
        "{a..b}", "nodes",
    ];
    let mut rng = fastrand::Rng::with_seed(7);
    for text in [COUNT, RESEARCH, TRACKER, REVIEW, WF_001, LETTERS] {
        for _ in 0..400 {
            let mut changed = text.to_owned();
            for _ in 0..=rng.usize(..3) {
                let places: Vec<usize> = changed.char_indices().map(|(at, _)| at).collect();
                let (from, to) =
                    (places[rng.usize(..places.len())], places[rng.usize(..places.len())]);
                match rng.u8(..3) {
                    0 => changed.insert_str(from, WORDS[rng.usize(..WORDS.len())]),
                    1 if from < to && to - from < 40 => changed.replace_range(from..to, ""),
                    _ => changed.replace_range(from..=from, WORDS[rng.usize(..WORDS.len())]),
                }
            }
            let Err(error) = Document::read("it.yaml", changed.as_str()) else { continue };
            assert!(!error.problems().is_empty(), "{changed}");
            for problem in error.problems() {
                assert!(changed.get(problem.span()).is_some(), "{problem:?}\n{changed}");
                let lines: Vec<&str> = changed.split('\n').collect();
                let line = lines
                    .get(problem.line() - 1)
                    .unwrap_or_else(|| panic!("{problem:?}\n{changed}"));
                assert!(problem.column() <= line.chars().count() + 1, "{problem:?}\n{changed}");
            }
            let _ = error.to_string();
        }
    }
}

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
            // A graph that fails without knowledge of its names must also fail in a runtime.
            Err(error) => {
                let runtime = Runtime::builder().graph(graph).build();
                assert!(
                    runtime.catalogue().workflow_graph("random").is_err(),
                    "seed {seed}: {error}"
                );
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

/// Returns the output of the document's workflow. Crashes at each write and checks that resuming
/// gives the same output.
pub(super) async fn after_every_crash(
    text: &str,
    input: Value,
    with: impl Fn(RuntimeBuilder) -> RuntimeBuilder,
) -> Value {
    let document = read(text);
    let described = || with(Runtime::builder()).document(document.clone());
    let whole =
        run(&described().store(MemoryStore::new()).build(), document.name(), input.clone()).await;
    let crashes = every_crash(
        |store| described().store(store).build(),
        document.name(),
        input,
        |found, _, journal, how| {
            assert_eq!(*found, whole, "{how}");
            check_events(&journal).unwrap();
        },
    );
    assert!(crashes.await > 2, "{text}");
    whole
}

#[tokio::test]
async fn a_run_of_a_document_survives_every_crash() {
    let tools = "id: doc_crash\nnodes:\n  - {id: discover, tool: doc_search, args_template: {query: '{task}', most: 3}}\n  \
                 - {id: count, tool: doc_count, args_template: {texts: '{discover}'}}\n";
    let of_code = doc_in_code(&Runtime::default().context(), "rust".to_owned()).await.unwrap();
    assert_eq!(
        after_every_crash(tools, json!({"task": "rust"}), |builder| builder).await,
        json!(of_code)
    );
    assert_eq!(
        after_every_crash(COUNT, json!({"topic": "rust"}), |builder| builder).await,
        json!(4)
    );

    // Each process has a model that echoes the request, so a repeated call has the same answer.
    let agents = |builder: RuntimeBuilder| builder.model(Echo::default());
    let in_rounds = TRACKER.replace("type: sequential", "type: loop\n  max_iterations: 2");
    let side_by_side = TRACKER
        .replace("sequential", "parallel")
        .replace("Analyse these rates: {rate_data}", "Be brief.");
    for text in [TRACKER, &in_rounds, &side_by_side] {
        after_every_crash(text, json!({"message": "The euro?"}), agents).await;
    }
}

/// A model that answers with the last message.
#[derive(Debug)]
pub(super) struct Echo(ModelInfo);

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
        let asked = request
            .messages
            .messages()
            .last()
            .map(|message| message.text().to_string())
            .unwrap_or_default();
        let answer = Arc::new(Message::assistant(format!("<{asked}>")));
        let completed = ModelEvent::Completed(Box::new(ModelResponse::new(answer)));
        ModelStream::new(futures_util::stream::iter([Ok(completed)]))
    }
}
