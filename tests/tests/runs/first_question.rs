//! Tests workflows that need approval before they start, and gates that only ask under a condition.

use std::time::Duration;

use agentflow::error::FailureKind;
use agentflow::prelude::*;
use agentflow::store::{MemoryStore, RunFilter, RunStatus, Store};
use agentflow::workflow::Node;
use agentflow::{RunId, Workflow};
use agentflow_testing::{CrashTest, EffectLog, check_events, test_runtime};

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Deploys.
#[tool]
async fn first_deploy(
    cx: &Context,
    log: Inject<EffectLog>,
    what: String,
) -> Result<String, String> {
    log.note(cx);
    Ok(format!("deployed {what}"))
}

#[workflow(approve = "deploy it?", approve_timeout = "1h", on_timeout = deny)]
async fn deploys(cx: &Context, what: String) -> Result<String, Failed> {
    let upper = what.to_uppercase();
    let deployed = first_deploy(cx, cx.inject()?, upper).await?;
    Ok(deployed)
}

fn by_hand() -> Workflow<(u32,), u32> {
    Workflow::build("by_hand", ["n"], |b, (n,)| {
        b.approve("start");
        let twice = b.node("twice", (n,), |_, (n,)| async move { Ok::<_, String>(n * 2) });
        b.node("apart", (), |_, ()| async { Err::<u32, _>("it ran".to_owned()) });
        twice
    })
    .unwrap()
}

fn id() -> RunId {
    RunId::new("run-1")
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_before_the_word_and_nothing_after_a_denial() {
    for (answer, said) in [
        (Some(Approval::granted()), "deployed A"),
        (
            Some(Approval::denied("not today")),
            "the step `start` failed: approval denied: not today",
        ),
        (None, "the step `start` failed: approval denied: nobody answered within 3600s"),
    ] {
        let (store, log) = (MemoryStore::new(), EffectLog::new());
        let runtime = test_runtime().store(store.clone()).resource(log.clone()).build();
        let run = runtime.start(deploys::workflow(), "a".to_owned()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(store.record(&id()).await.unwrap().unwrap().status, RunStatus::Paused);
        let question = runtime.runs().questions(RunFilter::new()).await.unwrap().remove(0);
        assert_eq!((question.path.as_str(), question.message.as_str()), ("start", "deploy it?"));
        assert_eq!(question.about.to_string(), r#"{"what":"a"}"#);
        if let Some(answer) = answer {
            runtime.run(&id()).approve("start", answer, "ada").await.unwrap();
        }
        let ended = run.result().await;
        assert_eq!(log.counts().len(), usize::from(ended.is_ok()));
        if let Err(error) = &ended {
            assert_eq!(error.kind(), FailureKind::Denied);
        }
        assert_eq!(ended.unwrap_or_else(|error| error.to_string()), said);
        check_events(&store.read(&id(), 0, usize::MAX).await.unwrap()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_workflow_by_hand_waits_too() {
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let run = runtime.start(by_hand(), 2).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    runtime.run(&id()).approve("start", Approval::denied("no"), "ada").await.unwrap();
    let error = run.result().await.unwrap_err().to_string();
    assert_eq!(error, "the step `start` failed: approval denied: no");
    let late = Workflow::<(u32,), u32>::build("late", ["n"], |b, (n,)| {
        let twice = b.node("twice", (n,), |_, (n,)| async move { Ok::<_, String>(n * 2) });
        b.approve(Node::new("start"));
        twice
    });
    assert!(late.unwrap_err().to_string().contains("`approve` is called after a node was added"));
}

#[tokio::test(start_paused = true)]
async fn the_first_question_survives_a_crash_at_every_write() {
    let effects = EffectLog::new();
    let log = effects.clone();
    CrashTest::new(&deploys::workflow(), || "a".to_owned())
        .runtime(move |runtime| runtime.resource(log.clone()))
        .effects(&effects)
        .answer("start", Approval::granted())
        .run()
        .await;
}

/// Asks only for larger amounts: the gate is within an `if`.
#[workflow]
async fn asks_above(cents: u32) -> Result<bool> {
    let granted = if cents > 100 {
        let approval = gate!("pay {cents}?").await?;
        approval.is_granted()
    } else {
        true
    };
    Ok(granted)
}

#[tokio::test(start_paused = true)]
async fn a_condition_decides_whether_a_gate_asks() {
    let runtime = test_runtime().store(MemoryStore::new()).build();
    assert!(runtime.start(asks_above::workflow(), 100).await.unwrap().result().await.unwrap());
    let run = runtime.start(asks_above::workflow(), 101).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let question = runtime.runs().questions(RunFilter::new()).await.unwrap().remove(0);
    assert_eq!(question.message, "pay 101?");
    runtime
        .run(&question.run)
        .approve(&question.path, Approval::denied("no"), "ada")
        .await
        .unwrap();
    assert!(!run.result().await.unwrap());
}
