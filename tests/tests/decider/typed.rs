//! Deciders of a typed workflow. A decision is recorded before it takes effect, applies only to its
//! node, and is not requested again by the process that resumes the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentflow::event::EventKind;
use agentflow::message::Role;
use agentflow::model::{ModelRequest, Usage};
use agentflow::prelude::*;
use agentflow::store::{MemoryStore, RunFilter};
use agentflow::workflow::{
    Branch, Builder, Handle, NextNode, Node, NodeDecision, NodeEdge, OnError, RetryPolicy,
};
use agentflow::{Event, RunHandle, RunId, Workflow};
use agentflow_testing::{CrashTest, EffectLog, ScriptedModel, Turn, check_events, test_runtime};
use serde_json::{Value, json};

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Decide about the next step.
///
/// {next}
#[agent]
async fn decider_guide(next: NextNode) -> Result<NodeDecision>;

/// Returns the user messages of a request, without whitespace.
fn shown(request: &ModelRequest) -> String {
    let of_user = request.messages.messages().iter().filter(|message| message.role() == Role::User);
    of_user.map(|message| message.text().replace([' ', '\n'], "")).collect()
}

/// Builds a typed answer that is one variant of an enum.
fn answer(said: &str) -> Turn {
    Turn::text(format!(r#"{{"value": {said}}}"#))
}

/// Creates a model that returns the given decision for each named node and lets the others run.
fn guide(of: &'static [(&'static str, &'static str)]) -> ScriptedModel {
    ScriptedModel::from_fn(move |request| {
        let shown = shown(request);
        let said = of.iter().find(|(node, _)| shown.contains(&format!(r#""node":"{node}""#)));
        let said = said.map_or(r#"{"decision": "continue"}"#, |(_, said)| *said);
        answer(said).usage(Usage::new(10, 1))
    })
}

fn step(
    b: &mut Builder,
    effects: &EffectLog,
    node: impl Into<Node>,
    reads: Handle<u32>,
) -> Handle<u32> {
    let effects = effects.clone();
    b.node(node, (reads,), move |cx, (n,)| {
        let effects = effects.clone();
        async move {
            effects.note(&cx);
            Ok::<_, String>(n + 1)
        }
    })
}

/// Builds `a`, then `note`, which no node reads, then `c`, which reads `a`. The output includes the
/// note if it was written.
fn noted(effects: &EffectLog) -> Workflow<(u32,), (u32, Option<u32>)> {
    Workflow::build("noted", ["n"], |b, (n,)| {
        b.decider(|_, next| decider_guide(next));
        let a = step(b, effects, "a", n);
        let note = step(b, effects, "note", a);
        let c = step(b, effects, Node::new("c").edge(NodeEdge::from(note)), a);
        b.value("both", (c, note.optional()), Ok::<_, String>)
    })
    .unwrap()
}

const BOTH: &[(&str, &str)] = &[
    ("note", r#"{"decision": "skip", "reason": "nobody asked for it"}"#),
    ("c", r#"{"decision": "revise", "arguments": {"a": 40}, "reason": "the figure is old"}"#),
];

/// Returns the decisions, and the skipped nodes with their reasons.
fn decided(events: &[Event]) -> Vec<String> {
    let line = |event: &Event| match &event.kind {
        EventKind::NodeCompleted { output, .. }
            if event.path.to_string().ends_with(".decision") =>
        {
            Some(format!("{}: {output}", event.path))
        }
        EventKind::NodeSkipped { reason } => Some(format!("{} skipped: {reason}", event.path)),
        _ => None,
    };
    events.iter().filter_map(line).collect()
}

#[tokio::test]
async fn a_model_continues_skips_and_revises() {
    let (effects, model) = (EffectLog::new(), guide(BOTH));
    let runtime = test_runtime().model(model.clone()).build();
    let run = runtime.start(noted(&effects), 1).await.unwrap();
    // The run continues after the skipped node, and the revised arguments apply to `c` only.
    assert_eq!(run.result().await.unwrap(), (41, None));
    assert_eq!((effects.count("a"), effects.count("note"), effects.count("c")), (1, 0, 1));
    check_events(&run.recorded()).unwrap();
    assert_eq!(
        decided(&run.recorded()),
        [
            r#"a.decision: {"decision":"continue"}"#,
            r#"note.decision: {"decision":"skip","reason":"nobody asked for it"}"#,
            "note skipped: `note.decision` skips it: nobody asked for it",
            r#"c.decision: {"decision":"revise","arguments":{"a":40},"reason":"the figure is old"}"#,
        ]
    );
    assert_eq!(model.calls(), 3);
}

#[tokio::test]
async fn what_a_decider_says_is_what_was_true_without_one_when_it_lets_all_run() {
    let build = |decides: bool| {
        Workflow::<(u32,), u32>::build("plain", ["n"], move |b, (n,)| {
            if decides {
                b.decider(|_, _| async { Ok::<_, String>(NodeDecision::Continue) });
            }
            let effects = EffectLog::new();
            let a = step(b, &effects, "a", n);
            let c = step(b, &effects, "c", a);
            b.value("sum", (a, c), |(a, c)| Ok::<_, String>(a + c))
        })
        .unwrap()
    };
    let runtime = Runtime::default();
    assert_eq!(
        build(true).run(&runtime, 1).await.unwrap(),
        build(false).run(&runtime, 1).await.unwrap()
    );
    assert_ne!(build(true).graph().hash(), build(false).graph().hash());
}

/// Returns the failure of a run whose decider gives this answer about node `a`, and the messages
/// that the decider received.
async fn refused(said: Value) -> (String, Vec<String>) {
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let hears = Arc::clone(&told);
    let flow = Workflow::<(u32,), u32>::build("refused", ["n"], move |b, (n,)| {
        b.decider(move |_, next: NextNode| {
                hears.lock().unwrap().extend(next.refused.clone());
                let said = serde_json::from_value::<NodeDecision>(said.clone()).unwrap();
                async move {
                    Ok::<_, String>(if next.node == "a" { said } else { NodeDecision::Continue })
                }
            });
        let effects = EffectLog::new();
        let a = step(b, &effects, "a", n);
        step(b, &effects, "c", a)
    })
    .unwrap();
    let failed = flow.run(&Runtime::default(), 1).await.unwrap_err().to_string();
    let told = told.lock().unwrap().clone();
    (failed, told)
}

#[tokio::test]
async fn what_does_not_fit_is_refused_told_and_bounded() {
    for (said, why) in [
        (
            json!({"decision": "skip", "reason": ""}),
            "`a` cannot be skipped: `c` reads its output; continue, or revise its arguments",
        ),
        (
            json!({"decision": "revise", "arguments": {"n": "two"}, "reason": ""}),
            "the revised arguments of `a` do not fit: `n`: value is not of type \"integer\"; seen: \"two\"",
        ),
        (
            json!({"decision": "revise", "arguments": {"m": 2}, "reason": ""}),
            "the revised arguments of `a` do not fit: it reads no `m`; did you mean `n`?",
        ),
        (
            json!({"decision": "revise", "arguments": [2], "reason": ""}),
            "the revised arguments of `a` do not fit: they are an object of the values that it reads; seen: [2]",
        ),
    ] {
        let (failed, told) = refused(said).await;
        assert_eq!(told, [why, why]);
        let expected = format!(
            "the step `a.decision` failed: the decider's answer about `a` was refused, and so were the ones before it: {why}"
        );
        assert_eq!(failed, expected);
    }
}

#[tokio::test]
async fn a_model_that_is_told_why_may_do_better() {
    let model = ScriptedModel::from_fn(|request| {
        let shown = shown(request);
        answer(match shown.contains("cannotbeskipped") || !shown.contains(r#""node":"a""#) {
            true => r#"{"decision": "continue"}"#,
            false => r#"{"decision": "skip", "reason": "it is dull"}"#,
        })
    });
    let effects = EffectLog::new();
    let runtime = test_runtime().model(model.clone()).build();
    assert_eq!(noted(&effects).run(&runtime, 1).await.unwrap(), (3, Some(3)));
    assert_eq!(model.calls(), 4);
}

#[tokio::test]
async fn the_calls_of_the_decider_count_for_the_run() {
    let effects = EffectLog::new();
    let runtime = test_runtime().model(guide(&[])).build();
    let run = runtime.start(noted(&effects), 1).max_llm_calls(2).await.unwrap();
    let failed = run.result().await.unwrap_err().to_string();
    assert!(failed.contains("c.decision"), "{failed}");
    assert_eq!((effects.count("note"), effects.count("c")), (1, 0));
}

fn everything(effects: &EffectLog) -> Workflow<(u32,), Vec<u32>> {
    let inner = Workflow::<(u32,), u32>::build("inner", ["m"], |b, (m,)| {
        b.decider(|_, next| decider_guide(next));
        step(b, effects, "deep", m)
    })
    .unwrap();
    Workflow::build("everything", ["n"], |b, (n,)| {
        b.decider(|_, next| decider_guide(next));
        let left = step(b, effects, "left", n);
        let right = step(b, effects, "right", n);
        let nested = b.node("nested", (left,), move |cx, (m,)| {
            let inner = inner.clone();
            async move { inner.run_in(&cx, m).await }
        });
        let items = b.value("items", (left, right), |(a, b)| Ok::<_, String>(vec![a, b]));
        let noted = effects.clone();
        let mapped = b.map("mapped", items, (), move |cx, item: u32, ()| {
            noted.note(&cx);
            async move { Ok::<_, String>(item * 10) }
        });
        let rounds = b.repeat(
            "rounds",
            right,
            (),
            3,
            |n: &u32| *n > 40,
            |_, n, ()| async move { Ok::<_, String>(n + 20) },
        );
        let once = RetryPolicy::retries(1).backoff(Duration::from_millis(5));
        let tried =
            b.node(
                Node::new("tried")
                    .policy(agentflow::workflow::NodePolicy::default().retry_policy(once)),
                (left,),
                |cx, (n,)| async move {
                    if cx.attempt() == 1 { Err("not yet".to_owned()) } else { Ok(n) }
                },
            );
        let bad = b.node(Node::new("bad").on_error(OnError::Fail), (n,), |_, (_,)| async move {
            Err::<u32, _>("bad".to_owned())
        });
        let rescue = step(b, effects, Node::new("rescue").edge(NodeEdge::failed(bad)), n);
        let either = b.fallback(
            "either",
            [
                Branch::new("no", (n,), |_, (_,)| async move { Err::<u32, _>("no".to_owned()) }),
                Branch::new("yes", (n,), |_, (n,)| async move { Ok::<_, String>(n) }),
            ],
        );
        let extra = step(b, effects, "extra", right);
        b.value(
            "all",
            (mapped, rounds, tried, rescue, either, nested, extra.optional()),
            |(mut all, b, c, d, e, f, g)| {
                all.extend([b, c, d, e, f]);
                all.extend(g);
                Ok::<_, String>(all)
            },
        )
    })
    .unwrap()
}

const ALL: &[(&str, &str)] = &[
    ("mapped", r#"{"decision": "revise", "arguments": {"items": [5, 6, 7]}, "reason": ""}"#),
    ("rounds", r#"{"decision": "revise", "arguments": {"right": 30}, "reason": ""}"#),
    ("tried", r#"{"decision": "revise", "arguments": {"left": 70}, "reason": ""}"#),
    ("rescue", r#"{"decision": "revise", "arguments": {"n": 80}, "reason": ""}"#),
    ("either", r#"{"decision": "revise", "arguments": {"n": 90}, "reason": ""}"#),
    ("deep", r#"{"decision": "revise", "arguments": {"m": 100}, "reason": ""}"#),
    ("extra", r#"{"decision": "skip", "reason": "enough"}"#),
];

#[tokio::test(start_paused = true)]
async fn every_form_is_given_what_was_decided_and_a_crash_at_every_write_changes_nothing() {
    let effects = EffectLog::new();
    let runtime = test_runtime().model(guide(ALL)).build();
    let output = everything(&effects).run(&runtime, 1).await.unwrap();
    assert_eq!(output, [50, 60, 70, 50, 70, 81, 90, 101]);
    let effects = EffectLog::new();
    let flow = everything(&effects);
    let report = CrashTest::new(&flow, || 1)
        .effects(&effects)
        .runtime(|builder| builder.model(guide(ALL)))
        .run()
        .await;
    assert!(report.crashes() > 40, "{report}");
}

#[tokio::test(start_paused = true)]
async fn two_crashes_change_nothing_either() {
    let effects = EffectLog::new();
    let flow = noted(&effects);
    let report = CrashTest::new(&flow, || 1)
        .effects(&effects)
        .runtime(|builder| builder.model(guide(BOTH)))
        .twice()
        .run()
        .await;
    assert!(report.crashes() > 100, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_decides_the_same_though_the_model_would_not() {
    let store = MemoryStore::new();
    let effects = EffectLog::new();
    let flow = Workflow::<(u32,), u32>::build("held", ["n"], |b, (n,)| {
        b.decider(|_, next| decider_guide(next));
        step(b, &effects, Node::new("c").approve("do it?"), n)
    })
    .unwrap();
    const SAYS: &[(&str, &str)] =
        &[("c", r#"{"decision": "revise", "arguments": {"n": 40}, "reason": ""}"#)];
    let first = test_runtime().store(store.clone()).model(guide(SAYS)).build();
    let run = first.start(flow.clone(), 1).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The approval shows the revised arguments.
    let question = first.runs().questions(RunFilter::new()).await.unwrap().remove(0);
    assert_eq!((question.path.as_str(), question.about.to_string().as_str()), ("c", r#"{"n":40}"#));
    run.abandon();
    let silent = ScriptedModel::new([]);
    let second = test_runtime().store(store).model(silent.clone()).build();
    let id = RunId::new("run-1");
    let run = second.run(&id).resume_as(&flow).await.unwrap();
    run.approve("c", Approval::granted(), "ada").await.unwrap();
    assert_eq!(run.result().await.unwrap(), 41);
    assert_eq!(silent.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_run_is_paused_and_cancelled_while_a_decider_thinks() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let flow = Workflow::<(u32,), u32>::build("slow", ["n"], move |b, (n,)| {
        b.decider(move |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
            async {
                tokio::time::sleep(Duration::from_secs(60)).await;
                Ok::<_, String>(NodeDecision::Continue)
            }
        });
        let effects = EffectLog::new();
        let a = step(b, &effects, "a", n);
        step(b, &effects, "c", a)
    })
    .unwrap();
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let run = runtime.start(flow, 1).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    run.pause().await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    // The decision was requested, and the node waits for the operator.
    let began = |run: &RunHandle<u32>, name: &str| {
        run.recorded()
            .iter()
            .filter(|event| {
                event.path.to_string() == name && event.kind.name() == "workflow.node.started"
            })
            .count()
    };
    assert_eq!((began(&run, "a.decision"), began(&run, "a")), (1, 0));
    run.unpause().await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((began(&run, "a"), began(&run, "c.decision"), began(&run, "c")), (1, 1, 0));
    run.cancel("enough").await.unwrap();
    assert!(run.result().await.is_err());
    check_events(&run.recorded()).unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

/// Writes a number down.
#[tool]
async fn decider_write(cx: &Context, log: Inject<EffectLog>, number: u32) -> Result<u32, String> {
    log.note(cx);
    Ok(number)
}

/// A function can decide, too.
async fn by_rules(next: NextNode) -> Result<NodeDecision, String> {
    Ok(match next.node.as_str() {
        "written" => NodeDecision::Revise {
            arguments: json!({"doubled": 9}),
            reason: "nine is better".to_owned(),
        },
        "spare" => NodeDecision::Skip { reason: "it is spare".to_owned() },
        _ => NodeDecision::Continue,
    })
}

async fn double(number: u32) -> Result<u32, Failed> {
    Ok(number * 2)
}

#[workflow(decider = by_rules)]
async fn decided_by_rules(cx: &Context, number: u32) -> Result<Vec<u32>, Failed> {
    let doubled = double(number).await?;
    let written = decider_write(cx, cx.inject()?, doubled).await?;
    let list = vec![written, doubled];
    let all = map!(list, |one| {
        let twice = double(one).await?;
        twice
    })
    .await?;
    Ok(all)
}

#[tokio::test(start_paused = true)]
async fn an_attribute_names_the_decider() {
    let log = EffectLog::new();
    let runtime = test_runtime().resource(log.clone()).build();
    let run = runtime.start(decided_by_rules::workflow(), 1).await.unwrap();
    // The value that other nodes read is unchanged.
    assert_eq!(run.result().await.unwrap(), [18, 4]);
    assert!(
        decided(&run.recorded()).iter().any(|line| line.starts_with("all[1]/twice.decision: ")),
        "{:?}",
        decided(&run.recorded())
    );
    let graph = decided_by_rules::workflow().graph();
    let asks = graph.node("written.decision").unwrap();
    assert_eq!(asks.decides.as_deref(), Some("written"));
    assert!(graph.node("list.decision").is_none());
}

#[workflow(decider = by_rules)]
async fn decided_out_of_order(cx: &Context, number: u32) -> Result<Vec<u32>, Failed> {
    let written = decider_write(cx, cx.inject()?, number).await?;
    #[node(unordered)]
    let beside = double(number).await?;
    Ok(vec![written, beside])
}

#[test]
fn what_is_out_of_order_is_decided_on_out_of_order() {
    let graph = decided_out_of_order::workflow().graph();
    for name in ["beside", "beside.decision"] {
        let order = &graph.node(name).unwrap().order;
        assert!(order.iter().all(|edge| edge.node != "written"), "{name}: {order:?}");
    }
}
