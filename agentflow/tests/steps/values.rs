//! Tests that values are computed once in a run, live and after a restart.

use std::sync::atomic::{AtomicU64, Ordering};

use agentflow::event::EventKind;
use agentflow::store::{MemoryStore, Store};
use agentflow::{Context, Error, Result, Runtime};
use agentflow_testing::{CrashTest, test_runtime, within};

use crate::expanded::expanded;
use crate::{Handle, Node, Steps, step};

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Returns a new number with each call.
fn new_id() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

async fn same(_: Context, (id, n): (u64, u64)) -> Result<u64> {
    tokio::time::sleep(std::time::Duration::from_millis(n)).await;
    Ok(id)
}

// let id = new_id(); let a = same(id, n).await?; let b = same(id, n).await?; Ok((a, b, id))
expanded!(ids, u64 => Vec<u64>, |steps, n| {
    let id = steps.value::<_, u64, _>(Node::new("id"), (), |()| Ok(new_id()));
    let a = step!(steps, "a", (id, n), same);
    let b = step!(steps, "b", (id, n), same);
    steps.value::<_, Vec<u64>, _>(Node::new("output"), (a, b, id), |(a, b, id)| Ok(vec![a, b, id]))
});

#[tokio::test(start_paused = true)]
async fn all_readers_see_one_value() {
    let seen = ids::call(None, 3).await.unwrap();
    assert!(seen[0] == seen[1] && seen[1] == seen[2], "{seen:?}");
}

fn check_ids(steps: &mut Steps<'_>, ids: Handle<Vec<u64>>) -> Handle<bool> {
    steps.value::<_, bool, _>(Node::new("output"), (ids,), |(ids,)| {
        Ok(ids[0] == ids[1] && ids[1] == ids[2])
    })
}

// Like `ids`, with an output that is the same in all runs if the three numbers are equal.
expanded!(one_id, u64 => bool, |steps, n| {
    let id = steps.value::<_, u64, _>(Node::new("id"), (), |()| Ok(new_id()));
    let a = step!(steps, "a", (id, n), same);
    let b = step!(steps, "b", (a, n), |cx, (_, n)| same(cx, (n, n)));
    let all = steps.value::<_, Vec<u64>, _>(Node::new("all"), (a, b, id), |(a, _, id)| Ok(vec![a, id, a]));
    check_ids(steps, all)
});

#[tokio::test(start_paused = true)]
async fn a_value_is_the_same_after_each_crash() {
    let report = CrashTest::new(&one_id::workflow(), || 3).twice().run().await;
    assert!(report.writes() >= 4, "{report}");
    assert!(one_id::call(None, 1).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_value_is_one_event_of_a_run_that_is_kept() {
    let store = MemoryStore::new();
    let runtime = test_runtime().store(store.clone()).build();
    let handle = runtime.start(ids::workflow(), 1).await.unwrap();
    let run = handle.run_id().clone();
    handle.result().await.unwrap();
    let events = store.read(&run, 0, 100).await.unwrap();
    let of_id: Vec<_> =
        events.iter().filter(|event| event.path.to_string() == "id").map(|e| e.name()).collect();
    assert_eq!(of_id, ["workflow.node.completed"]);
    // The output is recorded once, by the end of the run.
    assert!(!events.iter().any(|event| event.path.to_string() == "output"));

    let runtime: Runtime = test_runtime().build();
    let handle = runtime.start(ids::workflow(), 1).await.unwrap();
    let mut events = handle.events();
    handle.result().await.unwrap();

    while let Some(event) =
        within("the next event", futures_util::StreamExt::next(&mut events)).await
    {
        assert!(event.path.to_string() != "id", "{}", event.name());
        assert!(!matches!(event.kind, EventKind::NodeFailed { .. }));
    }
}

// let ok = n > 1; assert!(ok); Ok(n)
expanded!(checked, u64 => u64, |steps, n| {
    let _ = steps.check::<_, _, _>(Node::new("check").line(7), (n,), |args| async move {
        let (_cx, (n,)) = args.calling([]).await;
        assert!(n > 1, "n is {n}");
        Ok::<(), Error>(())
    });
    step!(steps, "after", (n,), |_, (n,)| async move { Ok(n + 1) })
});

#[tokio::test]
async fn a_check_that_fails_fails_the_run() {
    assert_eq!(checked::call(None, 2).await.unwrap(), 3);
    let error = checked::call(None, 1).await.unwrap_err();
    assert_eq!(error.to_string(), "the step `check` failed: the step panicked: n is 1");
}

// let half = half(n)?; Ok(half)
fn half(n: u64) -> Result<u64> {
    if n.is_multiple_of(2) { Ok(n / 2) } else { Err(Error::Lost { reason: "odd".to_owned() }) }
}

expanded!(halved, u64 => u64, |steps, n| {
    steps.value_call::<_, u64, _, _>(Node::new("half"), (n,), |args| async move {
        let f0 = half;
        let (_cx, (n,)) = args.calling([agentflow::__private::function_id(&f0)]).await;
        f0(n)
    })
});

#[tokio::test]
async fn a_value_that_calls_a_function() {
    assert_eq!(halved::call(None, 8).await.unwrap(), 4);
    assert!(matches!(halved::call(None, 7).await.unwrap_err(), Error::Lost { .. }));
}

/// A tool that is not async.
#[agentflow::tool]
fn wipe(n: u64) -> u64 {
    n
}

expanded!(wiped, u64 => u64, |steps, n| {
    steps.value_call::<_, u64, _, _>(Node::new("gone").calls("wipe").text("wipe(n)").direct(), (n,), |args| async move {
        let f0 = wipe;
        let (_cx, (n,)) = args.calling([agentflow::__private::function_id(&f0)]).await;
        Ok(f0(n))
    })
});

#[test]
fn a_value_that_calls_a_tool_is_a_step_with_its_policy() {
    let graph = wiped::workflow().graph();
    let node = graph.node("gone").unwrap();
    assert_eq!(node.policy.repeatable, Some(false));
    assert_eq!((node.kind, node.writes), (agentflow::workflow::NodeKind::Step, true));
}
