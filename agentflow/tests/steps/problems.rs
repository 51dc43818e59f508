//! Mistakes that are found while a workflow is built, and failures in user code that is not a step.

use std::cell::{Cell, RefCell};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use agentflow::store::{MemoryStore, Store};
use agentflow::workflow::{Builder, Handle, Node, StopPolicy};
use agentflow::{Approval, Error, Workflow};
use agentflow_testing::{CrashTest, TestClock, check_events, test_runtime};

use crate::expanded::expanded;

type Step<T> = Result<T, String>;

fn problem<T: agentflow::value::NodeValue>(
    nodes: impl FnOnce(&mut Builder, Handle<u64>) -> Handle<T>,
) -> String {
    let built = Workflow::<(u64,), T>::build("w", ["n"], |b, (n,)| nodes(b, n));
    match built.unwrap_err() {
        Error::Build { problem, .. } => problem,
        other => panic!("{other}"),
    }
}

#[test]
fn what_others_could_change_is_no_value() {
    let shared = |problem: String, what: &str| {
        let start = format!("the node `a` gives a `{what}");
        assert!(
            problem.starts_with(&start)
                && problem.contains("`, which can be changed after it was recorded; "),
            "{problem}"
        );
    };
    shared(problem(|b, n| b.value("a", (n,), |(n,)| Step::Ok(Cell::new(n)))), "Cell");
    shared(problem(|b, n| b.value("a", (n,), |(n,)| Step::Ok(vec![RefCell::new(n)]))), "RefCell");
    shared(
        problem(|b, n| b.node("a", (n,), |_, (n,)| async move { Step::Ok(Some(Mutex::new(n))) })),
        "Mutex",
    );
    shared(problem(|b, n| b.value("a", (n,), |(n,)| Step::Ok((n, AtomicU64::new(n))))), "Atomic");
}

#[test]
fn a_repetition_has_a_round() {
    let repeated = |b: &mut Builder, n| {
        b.repeat("a", n, (), 0, |_| false, |_, n, ()| async move { Step::Ok(n) })
    };
    assert_eq!(problem(repeated), "the node `a` is repeated at most 0 times; give it at least 1");
}

#[tokio::test(start_paused = true)]
async fn an_until_that_panics_fails_its_node() {
    let flow = Workflow::<(u64,), u64>::build("w", ["n"], |b, (n,)| {
        let until = |n: &u64| {
            assert!(*n < 3, "too many");
            false
        };
        b.repeat("a", n, (), 9, until, |_, n, ()| async move { Step::Ok(n + 1) })
    })
    .unwrap();
    let error = flow.run(&test_runtime().build(), 0).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the step `a` failed: whether the repetition is over is not known: the step panicked: too many"
    );
    assert_eq!(error.kind(), "panicked");
    CrashTest::new(&flow, || 0).fails().run().await;
}

expanded!(wrong, u64 => u64, |steps, n| {
    steps.value::<_, u64, _>(Node::new("same"), (n,), |(n,)| Ok(n));
    steps.value::<_, u64, _>(Node::new("same"), (n,), |(n,)| Ok(n))
});

#[tokio::test]
async fn a_workflow_that_cannot_be_built_is_an_error() {
    for _ in 0..2 {
        let error = wrong::call(None, 1).await.unwrap_err();
        assert!(matches!(error, Error::Build { .. }), "{error}");
        assert!(error.to_string().contains("two nodes are named `same`; rename one"), "{error}");
    }
}

// With the stop policy `best_effort`, no node below a failed gate or check starts.
expanded!(held, u64 => u64, |steps, n| {
    steps.stop_policy(StopPolicy::BestEffort);
    let _: Handle<Approval> = steps.gate(Node::new("ok"), (n,), |(n,)| match n {
        1 => Err(Error::Lost { reason: "no".to_owned() }),
        _ => Ok(("go?".to_owned(), n)),
    });
    steps.step::<_, u64, _, _>(Node::new("below"), (n,), |args| async move {
        let (_cx, (_,)) = args.calling([]).await;
        panic!("it began")
    })
});

#[tokio::test]
async fn nothing_begins_below_a_gate_that_failed() {
    let handle = test_runtime().build().start(held::workflow(), 1).await.unwrap();
    let error = handle.result().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the step `ok` failed: the run's task ended without a result: no"
    );
    let skipped =
        handle.recorded().iter().find(|event| event.path.to_string() == "below").cloned().unwrap();
    assert_eq!(
        serde_json::to_value(&skipped.kind).unwrap()["payload"]["reason"],
        "`ok` failed",
        "{skipped:?}"
    );
}

static OVER: AtomicBool = AtomicBool::new(false);

#[tokio::test(start_paused = true)]
async fn a_round_that_began_counts_whatever_until_says_later() {
    let flow = Workflow::<(u64,), u64>::build("w", ["n"], |b, (n,)| {
        let until = |_: &u64| OVER.load(Ordering::SeqCst);
        b.repeat("a", n, (), 9, until, |_, n, ()| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Step::Ok(n + 1)
        })
    })
    .unwrap();
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let process = || test_runtime().clock(clock.clone()).store(store.clone()).build();
    let handle = process().start(flow.clone(), 0).await.unwrap();
    let run = handle.run_id().clone();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    handle.abandon();
    tokio::task::yield_now().await;
    // Two rounds are done and the third has started. For the next process, the first round would be
    // enough.
    OVER.store(true, Ordering::SeqCst);
    let handle = process().run(&run).resume_as(&flow).await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 3);
    check_events(&store.read(&run, 0, 100).await.unwrap()).unwrap();
}
