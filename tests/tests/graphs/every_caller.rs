//! Tests that a tool's policy applies equally to all callers: agents, workflow steps, graph nodes,
//! calls by name and the command line. The recorded events are equal too, except for their paths.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::event::{Event, EventKind, EventSink};
use agentflow::message::{ToolCall, ToolStatus};
use agentflow::prelude::*;
use agentflow::tool::{FnTool, ToolDefinition, ToolPolicy, ToolRef};
use agentflow::value::Encoded;
use agentflow::workflow::Graph;
use agentflow::{Error, Registry, Workflow};
use agentflow_testing::{ScriptedModel, Turn, check_events, test_runtime};
use agentflow_tests::Agentwf;
use serde_json::{Value, json};

use crate::called_tools::*;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Defines two workflows for each tool: in the first the call is a node, in the second a helper
/// function of a step makes the call.
macro_rules! workflows {
    ($($tool:ident $node:ident $within:ident $helper:ident)*) => {
        $(
            #[workflow]
            async fn $node(who: String) -> Result<String, AnyError> {
                let out = $tool(who).await?;
                Ok(out)
            }

            async fn $helper(who: String) -> Result<String, String> {
                let out = $tool(who).await?;
                Ok(out)
            }

            #[workflow]
            async fn $within(who: String) -> Result<String, AnyError> {
                let out = $helper(who).await?;
                Ok(out)
            }
        )*

        fn cases() -> Vec<Case> {
            vec![$(
                Case {
                    tool: tools![$tool].remove(0),
                    node: $node::workflow(),
                    within: $within::workflow(),
                }
            ),*]
        }
    };
}

struct Case {
    tool: ToolRef,
    node: Workflow<(String,), String>,
    within: Workflow<(String,), String>,
}

workflows! {
    calls_well node_well within_well helper_well
    calls_in_vain node_in_vain within_in_vain helper_in_vain
    calls_late node_late within_late helper_late
    calls_late_to_read node_late_to_read within_late_to_read helper_late_to_read
    calls_big node_big within_big helper_big
    calls_scoped node_scoped within_scoped helper_scoped
    calls_badly node_badly within_badly helper_badly
    calls_again node_again within_again helper_again
    calls_twice node_twice within_twice helper_twice
}

/// The status as recorded in events, and the text that the caller gets.
type Outcome = (String, String);

/// Returns the expected outcome for all callers, and the expected number of calls of the body.
fn expected(tool: &str) -> (Outcome, u32) {
    let (status, sentence, calls) = match tool {
        "calls_well" => ("success", "\"well\"", 1),
        "calls_in_vain" => ("error", "there is nothing left", 1),
        "calls_late" => (
            "timeout",
            "`calls_late` did not answer within 1s; whether it had its effect is unknown",
            1,
        ),
        "calls_late_to_read" => {
            ("timeout", "`calls_late_to_read` did not answer within 1s; it changes nothing", 1)
        }
        "calls_big" => (
            "output_too_large",
            "the tool ran, but its answer of 15 bytes is over the limit of 8 bytes; ask for less. It begins: \"much to",
            1,
        ),
        "calls_scoped" => (
            "unauthorized",
            "`calls_scoped` needs the scope `desk`, which this run was not granted; do without it",
            0,
        ),
        "calls_badly" => {
            ("panicked", "`calls_badly` panicked: not today; other arguments may help", 1)
        }
        "calls_again" => ("success", "\"at last\"", 3),
        "calls_twice" => ("error", "never", 2),
        other => panic!("{other} is not expected"),
    };
    ((status.to_owned(), sentence.to_owned()), calls)
}

fn of_run<T: serde::Serialize>(name: &str, result: Result<T, Error>) -> Outcome {
    match result {
        Ok(output) => ("success".to_owned(), serde_json::to_string(&output).unwrap()),
        Err(error) => {
            let text = error.to_string();
            let text = text.strip_prefix(&format!("the step `{name}` failed: ")).unwrap_or(&text);
            (error.kind().as_str().to_owned(), text.to_owned())
        }
    }
}

/// Returns the recorded events of the tool call without the ids and arguments.
fn records(events: &[Event]) -> Vec<Value> {
    let of_tool = |event: &&Event| {
        matches!(
            event.kind,
            EventKind::ToolStarted { .. }
                | EventKind::ToolRetrying { .. }
                | EventKind::ToolCompleted { .. }
                | EventKind::ToolFailed { .. }
        )
    };
    let bare = |event: &Event| {
        let mut kind = serde_json::to_value(&event.kind).unwrap();
        for part in ["call", "result"] {
            if let Some(part) = kind["payload"][part].as_object_mut() {
                part.remove("id");
                part.remove("call_id");
                part.remove("arguments");
            }
        }
        // A step also records the function's own error.
        kind["payload"].as_object_mut().unwrap().remove("error");
        kind
    };
    events.iter().filter(of_tool).map(bare).collect()
}

/// Removes durations, which depend on the real clock of another process.
fn without_times(mut records: Vec<Value>) -> Vec<Value> {
    for record in &mut records {
        record["payload"].as_object_mut().unwrap().remove("duration_ms");
    }
    records
}

/// An event sink that collects the events of a runtime.
#[derive(Clone, Default)]
pub(crate) struct EventCollector(Arc<Mutex<Vec<Event>>>);

impl EventSink for EventCollector {
    fn emit(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl EventCollector {
    /// Removes and returns the collected events.
    pub(crate) fn events(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Calls the tool through the command line. Returns the outcome, the number of calls of the body
/// and the events.
fn by_command_line(tool: &str) -> (Outcome, u32, Vec<Event>) {
    let folder = tempfile::tempdir().unwrap();
    let noted = folder.path().join("calls");
    let input = json!({"who": "cli"}).to_string();
    let command = Agentwf::new(env!("CARGO_BIN_EXE_called-by-name"))
        .args(["tools", "call", tool, "--input", &input, "--events", "jsonl"])
        .env(NOTED_IN, noted.to_str().unwrap());
    let ended = command.run();
    let events: Vec<Event> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (status, text) = match &events.last().unwrap().kind {
        EventKind::ToolCompleted { result, .. } | EventKind::ToolFailed { result, .. } => {
            (result.status.to_string(), result.output.clone())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(ended.code, Some(i32::from(status != "success")), "{ended:#?}");
    assert!(status == "success" || ended.stderr.contains(&text), "{ended:#?}");
    let calls = std::fs::read_to_string(&noted).unwrap_or_default();
    let calls = calls.lines().filter(|line| **line == format!("cli/{tool}")).count();
    ((status, text), u32::try_from(calls).unwrap(), events)
}

/// Checks that a node that consists of a tool call records only node events, and that they contain
/// the tool's name.
fn assert_named_once(events: &[Event], tool: &str) {
    let named: Vec<Option<&str>> = events
        .iter()
        .filter(|event| event.path.to_string() == "out")
        .filter_map(|event| match &event.kind {
            EventKind::NodeStarted { tool, .. } => Some(tool.as_deref()),
            _ => None,
        })
        .collect();
    assert!(
        !named.is_empty() && named.iter().all(|named| *named == Some(tool)),
        "{tool}: {named:?}"
    );
    assert_eq!(records(events), Vec::<Value>::new(), "{tool}");
}

fn graph(name: &str, tool: &str) -> Graph {
    let call = json!({"call": {"kind": "tool", "name": tool, "with": {"object": {"who": {"from": "who"}}}}});
    serde_json::from_value(json!({
        "version": 1, "name": name, "output": "out", "concurrency": 4,
        "nodes": [{"name": "who", "kind": "input", "schema": {"type": "string"}}, {"name": "out", "does": call}],
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_policy_its_sentences_and_its_events_are_the_same_for_every_caller() {
    let heard = EventCollector::default();
    for Case { tool, node, within } in cases() {
        let name = Arc::clone(&tool.definition().name);
        let (outcome, calls) = expected(&name);
        let check = |who: &str, got: Outcome| {
            assert_eq!(got, outcome, "{name} called by {who}");
            let made =
                CALLS.lock().unwrap().get_or_insert_default().remove(&format!("{who}/{name}"));
            assert_eq!(made.unwrap_or_default(), calls, "how often {who} reached {name}");
        };

        let model =
            ScriptedModel::new([Turn::call(&*name, json!({"who": "agent"})), Turn::text("Done.")]);
        let runtime = test_runtime().graph(graph("by-name", &name)).build();
        let run =
            Agent::new(model).tools(tool.clone()).runtime(&runtime).run("Call it.").await.unwrap();
        let result = run
            .conversation()
            .messages()
            .iter()
            .find_map(|message| message.results().next().cloned());
        let result = result.expect("each call has a result");
        check("agent", (result.status.to_string(), result.output.clone()));
        let of_agent = run.events();
        check_events(&of_agent).unwrap();

        let handle = runtime.start(within, ("within".to_owned(),)).await.unwrap();
        let result = handle.result().await;
        let of_step = handle.recorded();
        check_events(&of_step).unwrap();
        check("within", of_run("out", result));
        assert_eq!(records(&of_step), records(&of_agent), "{name}");

        let handle = runtime.start(node, ("node".to_owned(),)).await.unwrap();
        check("node", of_run("out", handle.result().await));
        assert_named_once(&handle.recorded(), &name);

        let input = Encoded::new(&json!({"who": "graph"})).unwrap();
        let handle = runtime.start_named("by-name", &input).await.unwrap();
        let result = handle.result().await;
        assert_named_once(&handle.recorded(), &name);
        check("graph", of_run("out", result.map(|output| output.decode::<Value>().unwrap())));

        // Outside of a run, the sinks of the runtime get the same events that a run records.
        let by_name = test_runtime().sink(heard.clone()).build();
        let heard = |who: &str| {
            let events = heard.events();
            assert_eq!(records(&events), records(&of_agent), "{name} called by {who}");
            for event in &events {
                assert_eq!(event.path.to_string(), format!("tool#1.{name}"), "{who}");
            }
            let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
            assert_eq!(
                seqs,
                (1..=events.len() as u64).collect::<Vec<_>>(),
                "{name} called by {who}"
            );
        };
        let call = |who: &str| ToolCall::new("1", &*name, json!({"who": who}).to_string());
        let result =
            Registry::linked().unwrap().invoke(&by_name.context(), &call("registry"), &[]).await;
        check("registry", (result.status.to_string(), result.output));
        heard("registry");
        let result = by_name.invoke(&call("runtime"), &[]).await.unwrap();
        check("runtime", (result.status.to_string(), result.output));
        heard("runtime");

        let (ended, made, events) = by_command_line(&name);
        assert_eq!((ended, made), (outcome.clone(), calls), "{name} called by the command line");
        assert_eq!(without_times(records(&events)), without_times(records(&of_agent)), "{name}");
    }
}

/// Counters for `calls_alone`: calls in progress, their maximum, and all calls.
static ALONE: [AtomicU32; 3] = [AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)];

#[tool(effects = "read", concurrency = 2, timeout = "5s")]
async fn calls_alone(who: String) -> String {
    let now = ALONE[0].fetch_add(1, Ordering::SeqCst) + 1;
    ALONE[1].fetch_max(now, Ordering::SeqCst);
    ALONE[2].fetch_add(1, Ordering::SeqCst);
    // Three calls in sequence take longer than the timeout of one call. Waiting for a free slot
    // does not count.
    tokio::time::sleep(Duration::from_secs(3)).await;
    ALONE[0].fetch_sub(1, Ordering::SeqCst);
    who
}

#[workflow]
async fn calls_many_alone(whos: Vec<String>) -> Result<Vec<String>> {
    let all = map!(whos, |who| calls_alone(who)).await?;
    Ok(all)
}

async fn calls_two_alone(who: &str) -> (String, String) {
    tokio::join!(calls_alone(who.to_owned()), calls_alone(who.to_owned()))
}

#[workflow]
async fn calls_alone_within(who: String) -> Result<String> {
    let both = calls_two_alone(&who).await;
    Ok(both.0)
}

#[tokio::test(start_paused = true)]
async fn only_so_many_calls_of_a_tool_run_at_once_in_a_runtime_whoever_calls() {
    let runtime = test_runtime().graph(graph("alone", "calls_alone")).build();
    let asks = ["a", "b", "c"].map(|who| ("calls_alone", json!({"who": who})));
    let agent = Agent::new(ScriptedModel::new([Turn::calls(asks), Turn::text("Done.")]))
        .tools(tools![calls_alone]);
    let agent = agent.runtime(&runtime);
    let many =
        runtime.start(calls_many_alone::workflow(), (vec!["x".to_owned(); 4],)).await.unwrap();
    let within = runtime.start(calls_alone_within::workflow(), ("y".to_owned(),)).await.unwrap();
    let named =
        runtime.start_named("alone", Encoded::new(&json!({"who": "z"})).unwrap()).await.unwrap();
    let call = ToolCall::new("1", "calls_alone", r#"{"who": "i"}"#);
    let (ran, many, within, named, invoked) = tokio::join!(
        agent.run("Go."),
        many.result(),
        within.result(),
        named.result(),
        runtime.invoke(&call, &[])
    );
    let ran = ran.unwrap();
    let results = ran
        .conversation()
        .messages()
        .iter()
        .flat_map(|message| message.results().cloned().collect::<Vec<_>>());
    assert!(results.into_iter().all(|result| result.status == ToolStatus::Success));
    assert_eq!(many.unwrap().len(), 4);
    assert_eq!(within.unwrap(), "y");
    assert_eq!(named.unwrap().as_str(), "\"z\"");
    assert_eq!(invoked.unwrap().status, ToolStatus::Success);
    let [now, most, all] = [0, 1, 2].map(|at| ALONE[at].load(Ordering::SeqCst));
    assert_eq!((now, most, all), (0, 2, 11));
}

/// Calls a dynamic tool by name: its policy applies, with the scopes passed to `invoke`.
#[tokio::test]
async fn a_runtime_calls_what_it_was_given_with_the_grants_it_is_given() {
    let tool = FnTool::dynamic(
        ToolDefinition::new(
            "desk.open",
            "Opens it.",
            json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
        ),
        |_, arguments: Value| async move { Ok::<_, String>(arguments) },
    )
    .policy(ToolPolicy::default().scopes(["desk"]).approve());
    let runtime = test_runtime().tools(tool).build();
    let call = |name: &str, arguments: &str| ToolCall::new("1", name, arguments);
    let status = async |scopes: &[&str], call: ToolCall| {
        let scopes: Vec<Arc<str>> = scopes.iter().map(|scope| (*scope).into()).collect();
        runtime.invoke(&call, &scopes).await.unwrap().status
    };
    assert_eq!(status(&[], call("desk.open", "{}")).await, ToolStatus::Unauthorized);
    assert_eq!(status(&["desk"], call("desk.open", "{}")).await, ToolStatus::Unauthorized);
    let both = ["desk", "approve:desk.open"];
    assert_eq!(status(&both, call("desk.open", r#"{"n": 1}"#)).await, ToolStatus::Success);
    assert_eq!(
        status(&both, call("desk__open", r#"{"n": "1"}"#)).await,
        ToolStatus::InvalidArguments
    );
    let unknown = runtime.invoke(&call("desk.opn", "{}"), &[]).await.unwrap();
    assert_eq!(unknown.status, ToolStatus::NotFound);
    assert_eq!(unknown.output, "there is no tool `desk.opn`; did you mean `desk.open`?");
}

/// Returns graphs that call a dynamic tool, one for each kind of call.
fn forms(tool: &str) -> Vec<(&'static str, Graph)> {
    let call = json!({"kind": "tool", "name": tool, "with": {"object": {"who": {"from": "who"}}}});
    let of_item = json!({"kind": "tool", "name": tool, "with": {"object": {"who": {"item": ""}}}});
    let does = [
        ("call", json!({"call": call})),
        ("map", json!({"map": {"items": "whos", "call": of_item}})),
        ("repeat", json!({"repeat": {"first": "who", "call": of_item, "max": 1}})),
        ("fallback", json!({"fallback": [call]})),
        ("race", json!({"race": [call]})),
    ];
    let of = |does: Value| {
        serde_json::from_value(json!({
            "version": 1, "name": "formed", "output": "out", "concurrency": 8,
            "nodes": [
                {"name": "who", "kind": "input", "schema": {"type": "string"}},
                {"name": "whos", "kind": "input", "schema": {"type": "array", "items": {"type": "string"}}},
                {"name": "out", "does": does},
            ],
        }))
        .unwrap()
    };
    does.into_iter().map(|(form, does)| (form, of(does))).collect()
}

fn formed(
    name: &str,
    policy: ToolPolicy,
    body: impl Fn(u32) -> Result<(), String> + Clone + Send + Sync + 'static,
) -> (ToolRef, Arc<AtomicU32>) {
    let made = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&made);
    let schema =
        json!({"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]});
    let tool =
        FnTool::dynamic(ToolDefinition::new(name, "", schema).policy(policy), move |_, _| {
            let outcome = body(count.fetch_add(1, Ordering::SeqCst));
            async move {
                tokio::time::sleep(Duration::from_millis(120)).await;
                outcome
            }
        });
    (tool.into(), made)
}

#[tokio::test(start_paused = true)]
async fn a_tool_made_at_run_time_is_tried_as_often_as_its_policy_says_in_every_form() {
    let policy = ToolPolicy::default()
        .effects(agentflow::tool::Effects::Read)
        .retry(2)
        .timeout(Duration::from_millis(200));
    for (form, graph) in forms("formed_fails") {
        let (tool, made) = formed("formed_fails", policy.clone(), |_| Err("it broke".to_owned()));
        let runtime = test_runtime().tools(tool).graph(graph).build();
        let input = Encoded::new(&json!({"who": "a", "whos": ["a"]})).unwrap();
        let error =
            runtime.start_named("formed", &input).await.unwrap().result().await.unwrap_err();
        assert!(error.to_string().contains("it broke"), "{form}: {error}");
        assert_eq!(made.load(Ordering::SeqCst), 3, "{form}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_turn_is_not_part_of_a_calls_time_in_a_list() {
    let policy = ToolPolicy::default().timeout(Duration::from_millis(200)).concurrency(1);
    let (_, graph) = forms("formed_waits").remove(1);
    let (tool, made) = formed("formed_waits", policy, |_| Ok(()));
    let runtime = test_runtime().tools(tool).graph(graph).build();
    let input = Encoded::new(&json!({"who": "a", "whos": ["a", "b", "c", "d"]})).unwrap();
    runtime.start_named("formed", &input).await.unwrap().result().await.unwrap();
    assert_eq!(made.load(Ordering::SeqCst), 4);
}
