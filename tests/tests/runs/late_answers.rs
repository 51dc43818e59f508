//! Tests questions that time out: gates, nodes with an approval, tool calls in steps, and tool
//! calls of a model.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::run::{OnTimeout, RunResult};
use agentflow::serde_json::{self, Value, json};
use agentflow::store::{MemoryStore, RunFilter, RunStatus, Store};
use agentflow::value::Encoded;
use agentflow::workflow::{Graph, Node};
use agentflow::{Event, RunHandle, RunId, Workflow};
use agentflow_testing::{
    CrashTest, EffectLog, ScriptedModel, TestClock, Turn, check_events, test_runtime,
};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Records the effects.
#[derive(Clone, Default)]
struct Done(Arc<Mutex<Vec<String>>>);

impl Done {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

fn id() -> RunId {
    RunId::new("run-1")
}

async fn journal(store: &impl Store) -> Vec<Event> {
    store.read(&id(), 0, usize::MAX).await.unwrap()
}

/// Returns the answers in a journal with their authors.
fn answers(events: &[Event]) -> Vec<(String, String)> {
    let of = |event: &Event| match &event.kind {
        EventKind::ApprovalResolved { answer, by } => Some((answer.to_string(), by.to_string())),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

/// Runs a workflow without answering its questions. Returns its result, its duration and its
/// journal.
async fn alone<Out: agentflow::value::NodeValue>(
    flow: Workflow<(), Out>,
) -> (Result<Out>, Duration, Vec<Event>) {
    let store = MemoryStore::new();
    let runtime = test_runtime().store(store.clone()).build();
    let began = tokio::time::Instant::now();
    let ended = runtime.start(flow, ()).await.unwrap().result().await;
    let events = journal(&store).await;
    check_events(&events).unwrap();
    (ended, began.elapsed(), events)
}

#[workflow]
async fn late_denies() -> Result<String> {
    #[node(timeout = "7d", on_timeout = deny)]
    let approval = gate!("publish?").await?;
    let said = match approval {
        Approval::Granted { .. } => "published".to_owned(),
        Approval::Denied { comment } => comment.unwrap_or_default(),
    };
    Ok(said)
}

#[workflow]
async fn late_approves() -> Result<bool> {
    #[node(timeout = "7d", on_timeout = approve)]
    let answer = gate!("publish?").await?;
    Ok(answer.is_granted())
}

#[tokio::test(start_paused = true)]
async fn a_time_out_answers_as_a_person_would() {
    let (said, lasted, events) = alone(late_denies::workflow()).await;
    assert_eq!(said.unwrap(), "nobody answered within 604800s");
    assert_eq!(lasted, 7 * DAY);
    let denied = r#"{"decision":"denied","comment":"nobody answered within 604800s"}"#;
    assert_eq!(answers(&events), [(denied.to_owned(), "timeout".to_owned())]);

    let (granted, lasted, events) = alone(late_approves::workflow()).await;
    assert!(granted.unwrap());
    assert_eq!(lasted, 7 * DAY);
    assert_eq!(answers(&events)[0].1, OnTimeout::BY);
}

#[derive(
    Debug,
    PartialEq,
    agentflow::serde::Serialize,
    agentflow::serde::Deserialize,
    agentflow::schemars::JsonSchema,
)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
enum Verdict {
    Merge,
    Close,
    NobodyAnswered,
}

/// Ends a timeout with a value of the answer's type, and matches on it.
#[workflow]
async fn late_verdict() -> Result<String> {
    #[node(timeout = "1h", on_timeout = answer(Verdict::NobodyAnswered))]
    let verdict = gate!("merge?", answer = Verdict).await?;
    let said = match verdict {
        Verdict::Merge => "merged",
        Verdict::Close => "closed",
        Verdict::NobodyAnswered => "left open",
    };
    Ok(said.to_owned())
}

/// The same with an optional answer.
#[workflow]
async fn late_option() -> Result<String> {
    #[node(timeout = "1h", on_timeout = answer(None))]
    let approval = gate!("merge?", answer = Option<Approval>).await?;
    let said = match approval {
        Some(Approval::Granted { .. }) => "merged",
        Some(Approval::Denied { .. }) => "closed",
        None => "left open",
    };
    Ok(said.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_time_out_is_a_value_to_match_on() {
    assert_eq!(alone(late_verdict::workflow()).await.0.unwrap(), "left open");
    let (said, lasted, events) = alone(late_option::workflow()).await;
    assert_eq!(said.unwrap(), "left open");
    assert_eq!(lasted, DAY / 24);
    assert_eq!(answers(&events), [("null".to_owned(), "timeout".to_owned())]);
    // A person answers with the usual `Approval`.
    let runtime =
        test_runtime().store(MemoryStore::new()).workflow(&late_option::workflow()).build();
    let run = runtime.start(late_option::workflow(), ()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    runtime.run(run.run_id()).approve("approval", Approval::granted(), "ada").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "merged");
}

/// Notes something.
#[tool]
async fn late_note(done: Inject<Done>, what: String) -> Result<String, String> {
    done.0.lock().unwrap().push(what.clone());
    Ok(what)
}

/// Skips the steps that read the answer of the gate, and runs the others.
#[workflow]
async fn late_skips(cx: &Context) -> Result<String, Failed> {
    #[node(timeout = "1h", on_timeout = skip)]
    let answer = gate!("tell them?").await?;
    let _told = late_note(cx.inject()?, format!("told {}", answer.is_granted())).await?;
    let rest = late_note(cx.inject()?, "the rest".to_owned()).await?;
    Ok(rest)
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_is_passed_over_skips_what_reads_it() {
    let (store, done) = (MemoryStore::new(), Done::default());
    let runtime = test_runtime().store(store.clone()).resource(done.clone()).build();
    assert_eq!(
        runtime.start(late_skips::workflow(), ()).await.unwrap().result().await.unwrap(),
        "the rest"
    );
    assert_eq!(done.all(), ["the rest"]);
    let events = journal(&store).await;
    check_events(&events).unwrap();
    assert!(answers(&events).is_empty());
    assert_eq!(store.record(&id()).await.unwrap().unwrap().status, RunStatus::Success);
}

/// Checks that the timeout starts with the recorded question, and continues while no process
/// executes the run.
#[tokio::test(start_paused = true)]
async fn a_deadline_is_that_of_the_recorded_question() {
    for (down, left) in [(2, 4), (20, 0)] {
        let (store, clock) = (MemoryStore::new(), TestClock::new());
        let first = test_runtime()
            .clock(clock.clone())
            .store(store.clone())
            .workflow(&late_denies::workflow())
            .build();
        let run = first.start(late_denies::workflow(), ()).await.unwrap();
        tokio::time::sleep(DAY).await;
        run.abandon();
        tokio::task::yield_now().await;
        tokio::time::sleep(down * DAY).await;
        let next = test_runtime()
            .clock(clock)
            .store(store.clone())
            .workflow(&late_denies::workflow())
            .build();
        let began = tokio::time::Instant::now();
        let run = next.run(&id()).resume_as(&late_denies::workflow()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), "nobody answered within 604800s");
        assert_eq!(began.elapsed(), left * DAY);
        assert_eq!(answers(&journal(&store).await).len(), 1);
    }
}

/// Checks that the first of the answer and the timeout counts, and that a later answer is refused.
#[tokio::test(start_paused = true)]
async fn an_answer_at_the_deadline_is_the_only_one_or_refused() {
    for seconds in [7 * 24 * 3600 - 1, 7 * 24 * 3600, 7 * 24 * 3600 + 1] {
        let store = MemoryStore::new();
        let runtime = test_runtime().store(store.clone()).build();
        let run = runtime.start(late_denies::workflow(), ()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let answered = runtime.run(&id()).approve("approval", Approval::granted(), "ada").await;
        let said = run.result().await.unwrap();
        let given = answers(&journal(&store).await);
        assert_eq!(given.len(), 1, "{given:?}");
        assert_eq!(given[0].1, if answered.is_ok() { "ada" } else { "timeout" });
        assert_eq!(said == "published", answered.is_ok());
        assert!(if seconds < 7 * 24 * 3600 {
            answered.is_ok()
        } else {
            seconds == 7 * 24 * 3600 || answered.is_err()
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_after_a_crash_at_any_write() {
    CrashTest::new(&late_denies::workflow(), || ())
        .unanswered("approval")
        .patience(30 * DAY)
        .twice()
        .run()
        .await;
    CrashTest::new(&late_option::workflow(), || ())
        .unanswered("approval")
        .patience(30 * DAY)
        .twice()
        .run()
        .await;
    let skips =
        CrashTest::new(&late_skips::workflow(), || ()).unanswered("answer").patience(30 * DAY);
    skips
        .runtime(|runtime| runtime.resource(Done::default()))
        .may_differ_when_interrupted()
        .run()
        .await;
}

/// Pays somebody, if a person agrees within two days.
#[tool(approve, approve_timeout = "2d", on_timeout = deny)]
async fn late_pay(cx: &Context, log: Inject<EffectLog>, who: String) -> Result<String, String> {
    log.note(cx);
    Ok(format!("paid {who}"))
}

/// Sends something; silence is consent.
#[tool(approve, approve_timeout = "2d", on_timeout = approve)]
async fn late_send(cx: &Context, log: Inject<EffectLog>, what: String) -> Result<String, String> {
    log.note(cx);
    Ok(format!("sent {what}"))
}

/// Deletes something.
#[tool(approve, approve_timeout = "2d")]
async fn late_delete(what: String) -> String {
    format!("deleted {what}")
}

/// Do what is asked.
#[agent(tools = [late_pay, late_send, late_delete])]
async fn late_clerk(what: String) -> Result<String>;

fn all_three() -> Turn {
    Turn::calls([
        ("late_pay", json!({"who": "ada"})),
        ("late_send", json!({"what": "news"})),
        ("late_delete", json!({"what": "all"})),
    ])
}

const RESULTS: [&str; 3] = [
    "a person was asked about this call and did not answer in time, so it is not made: nobody answered within 172800s",
    "sent news",
    "a person was asked about this call and did not answer in time: nobody answered within 172800s",
];

#[tokio::test(start_paused = true)]
async fn a_model_is_told_what_a_time_out_said() {
    let (store, log) = (MemoryStore::new(), EffectLog::new());
    let said =
        Turn::text("done").expect_text(RESULTS[0]).expect_text(RESULTS[1]).expect_text(RESULTS[2]);
    let model = ScriptedModel::new([all_three(), said]);
    let runtime =
        test_runtime().store(store.clone()).model(model.clone()).resource(log.clone()).build();
    let agent = late_clerk::agent("all".into()).runtime(&runtime);
    let run: RunHandle<RunResult<String>> =
        agent.start(RunRequest::default().run_id(id())).unwrap();
    tokio::time::sleep(DAY).await;
    let inbox = runtime.runs().questions(RunFilter::new()).await.unwrap();
    assert_eq!(inbox.len(), 3);
    let deadline = inbox[0].deadline.unwrap();
    assert_eq!(deadline.since(inbox[0].asked), 2 * DAY);
    assert_eq!(run.result().await.unwrap().output(), "done");
    let events = journal(&store).await;
    check_events(&events).unwrap();
    assert!(answers(&events).iter().all(|(_, by)| by == "timeout"));
    assert_eq!(log.counts().into_iter().collect::<Vec<_>>(), [("tool#1.late_send".to_owned(), 1)]);
    model.finish();
}

/// Calls tools within a step.
#[workflow]
async fn late_calls(cx: &Context) -> Result<String, Failed> {
    let said = tries(cx).await?;
    Ok(said)
}

async fn tries(cx: &Context) -> Result<String, Failed> {
    let sent = late_send(cx, cx.inject()?, "news".to_owned()).await?;
    Ok(sent)
}

/// Has a node that consists of the call, so the call's timeout is the node's.
#[workflow]
async fn late_node(cx: &Context) -> Result<String, Failed> {
    let sent = late_send(cx, cx.inject()?, "news".to_owned()).await?;
    Ok(sent)
}

#[workflow]
async fn late_denied(cx: &Context) -> Result<String, Failed> {
    let paid = late_pay(cx, cx.inject()?, "ada".to_owned()).await?;
    Ok(paid)
}

/// Has a node with another timeout than its tool.
#[workflow]
async fn late_otherwise(cx: &Context) -> Result<String, Failed> {
    #[node(approve_timeout = "1d", on_timeout = approve)]
    let paid = late_pay(cx, cx.inject()?, "ada".to_owned()).await?;
    Ok(paid)
}

#[tokio::test(start_paused = true)]
async fn a_call_in_a_step_has_the_time_of_its_tool() {
    for (flow, days, said) in [
        (late_calls::workflow(), 2, "sent news"),
        (late_node::workflow(), 2, "sent news"),
        (
            late_denied::workflow(),
            2,
            "the step `paid` failed: approval of `paid/tool#1.late_pay` denied: nobody answered within 172800s",
        ),
        (late_otherwise::workflow(), 1, "paid ada"),
    ] {
        let log = EffectLog::new();
        let (store, began) = (MemoryStore::new(), tokio::time::Instant::now());
        let runtime = test_runtime().store(store.clone()).resource(log.clone()).build();
        let ended = runtime.start(flow, ()).await.unwrap().result().await;
        assert_eq!(ended.unwrap_or_else(|error| error.to_string()), said);
        assert_eq!(began.elapsed(), days * DAY);
        assert_eq!(log.counts().values().sum::<usize>(), usize::from(!said.contains("denied")));
        let events = journal(&store).await;
        check_events(&events).unwrap();
        assert_eq!(
            answers(&events).iter().map(|(_, by)| by.as_str()).collect::<Vec<_>>(),
            ["timeout"]
        );
    }
}

/// Stops the process at each write. Each timeout must be recorded once, and the call that the
/// timeout approves must be made once.
#[tokio::test(start_paused = true)]
async fn a_crash_at_every_write_of_calls_that_nobody_answers() {
    let model = ScriptedModel::from_fn(|request| match request.messages.len() {
        0..=2 => all_three(),
        _ => Turn::text("done"),
    });
    let effects = EffectLog::new();
    let log = effects.clone();
    let agent = late_clerk::agent("all".into());
    let report = CrashTest::agent(&agent, || "Go on.")
        .runtime(move |runtime| runtime.model(model.clone()).resource(log.clone()))
        .effects(&effects)
        .unanswered("tool#1.late_pay")
        .unanswered("tool#1.late_send")
        .unanswered("tool#1.late_delete")
        .patience(30 * DAY)
        .twice()
        .run()
        .await;
    assert_eq!(report.step("tool#1.late_send").unwrap().began(), 1, "{report}");

    let effects = EffectLog::new();
    let log = effects.clone();
    let calls = CrashTest::new(&late_calls::workflow(), || ())
        .unanswered("said/tool#1.late_send")
        .patience(30 * DAY);
    calls.runtime(move |runtime| runtime.resource(log.clone())).effects(&effects).run().await;
}

#[test]
fn a_workflow_with_a_question_that_cannot_end_so_is_refused() {
    let built = |node: Node| {
        let flow = Workflow::<(), u32>::build("asks", [], |b, ()| {
            b.gate(node, (), |()| Ok::<_, String>(("how many?".to_owned(), ())))
        });
        flow.map(drop).unwrap_err().to_string()
    };
    let hour = Duration::from_secs(3600);
    let error = built(Node::new("n").on_timeout(OnTimeout::Skip));
    assert!(
        error.contains("the node `n` has an `on_timeout` and waits for its answer for ever; give it a `timeout`"),
        "{error}"
    );
    let error = built(Node::new("n").timeout(hour).on_timeout(OnTimeout::Deny));
    assert!(
        error.contains("the `on_timeout` of `n`: the answer does not fit what `n` asks for: "),
        "{error}"
    );
    let error = built(Node::new("n").timeout(hour).on_timeout(OnTimeout::answer(&"many")));
    assert!(error.contains("the `on_timeout` of `n`"), "{error}");
    let error = built(Node::new("n").timeout(hour).approve_timeout(hour));
    assert!(
        error.contains(
            "the node `n` has an `approve_timeout` and asks for no approval before it begins"
        ),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_question_in_a_graph_of_data_has_its_time_out() {
    let graph = |policy: Value| {
        let nodes = json!([{"name": "said", "does": {"ask": {"text": "go?"}}, "policy": policy}]);
        serde_json::from_value::<Graph>(
            json!({"version": 1, "name": "asks", "output": "said", "concurrency": 2, "nodes": nodes}),
        )
    };
    let runtime = |policy: Value| {
        test_runtime().store(MemoryStore::new()).graph(graph(policy).unwrap()).build()
    };
    let asks = runtime(json!({"timeout_ms": 1000, "on_timeout": "approve"}));
    let output = asks
        .start_named("asks", Encoded::new(&json!({})).unwrap())
        .await
        .unwrap()
        .result()
        .await
        .unwrap();
    assert!(output.decode::<Approval>().unwrap().is_granted());
    for (policy, problem) in [
        (json!({"timeout_ms": 1000, "on_timeout": {"answer": 5}}), "the `on_timeout` of `said`"),
        (json!({"on_timeout": "deny"}), "waits for its answer for ever; give it a `timeout`"),
    ] {
        let error =
            runtime(policy).catalogue().workflow_graph("asks").map(drop).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
    let error = graph(json!({"timeout_ms": 1000, "on_timeout": "denny"})).unwrap_err().to_string();
    assert!(error.contains("`denny`"), "{error}");
}
