//! Tests bodies of several steps: each item, round or branch is a workflow below the node.

use std::time::Duration;

use agentflow::__private::branches;
use agentflow::store::{MemoryStore, Store};
use agentflow::{Approval, Context, Error, Result};
use agentflow_testing::{CrashTest, TestClock, test_runtime};

use crate::expanded::expanded;
use crate::{Handle, Node, Seen, Steps, step};

thread_local! {
    static SEEN: Seen = const { Seen::new() };
}

fn plus(steps: &mut Steps<'_>, name: &'static str, a: Handle<u64>, b: Handle<u64>) -> Handle<u64> {
    step!(steps, name, (a, b), |cx: Context, (a, b): (u64, u64)| async move {
        tokio::time::sleep(Duration::from_millis(a)).await;
        let what = format!("{} {a}+{b}", cx.path());
        SEEN.with(|seen| seen.note(what));
        if a == 13 { Err(Error::Lost { reason: "13".to_owned() }) } else { Ok(a + b) }
    })
}

fn list(steps: &mut Steps<'_>, n: Handle<u64>) -> Handle<Vec<u64>> {
    steps.value::<_, Vec<u64>, _>(Node::new("list"), (n,), |(n,)| Ok((n..n + 3).collect()))
}

// let sums = map!(list, |x| { let total = plus(x, n).await?; plus(total, n).await? }); Ok(sums)
expanded!(mapped, u64 => Vec<u64>, |steps, n| {
    let list = list(steps, n);
    steps.map_body(Node::new("sums"), list, (n,), |steps, x, (n,)| {
        let total = plus(steps, "n", x, n);
        plus(steps, "item", total, n)
    })
});

// for x in list { plus(x, n).await?; } Ok(after(n))
expanded!(looped, u64 => u64, |steps, n| {
    let list = list(steps, n);
    let done: Handle<()> = steps.for_each(Node::new("all"), list, (n,), |steps, x, (n,)| {
        let sum = plus(steps, "sum", x, n);
        steps.value::<_, (), _>(Node::new("output"), (sum,), |_| Ok(()))
    });
    plus(steps, "after", n, n);
    steps.value::<_, u64, _>(Node::new("output"), (done, n), |((), n)| Ok(n))
});

expanded!(repeated, u64 => u64, |steps, n| {
    steps.repeat_body(Node::new("grow"), n, (n,), (9, |n| *n > 20), |steps, last, (n,)| {
        let sum = plus(steps, "sum", last, n);
        plus(steps, "more", sum, n)
    })
});

expanded!(raced, u64 => u64, |steps, n| {
    let slow = steps.branch_body("slow", (n,), |steps, (n,)| {
        let sum = plus(steps, "sum", n, n);
        plus(steps, "more", sum, n)
    });
    let fast = steps.branch::<_, u64, _, _>("fast", (n,), |args| async move {
        let (_cx, (n,)) = args.calling([]).await;
        Ok::<_, Error>(n)
    });
    steps.fallback(Node::new("first"), branches::<u64>().branch(slow).branch(fast))
});

#[tokio::test(start_paused = true)]
async fn each_form_gives_what_its_steps_give() -> Result<()> {
    assert_eq!(mapped::call(None, 1).await?, [3, 4, 5]);
    SEEN.with(Seen::take);
    assert_eq!(looped::call(None, 1).await?, 1);
    let seen: Vec<String> =
        SEEN.with(Seen::take).into_iter().filter(|seen| !seen.starts_with("after")).collect();
    assert_eq!(seen, ["all[0]/sum 1+1", "all[1]/sum 2+1", "all[2]/sum 3+1"]);
    assert_eq!(repeated::call(None, 4).await?, 28);
    assert_eq!(SEEN.with(Seen::take).last().unwrap(), "grow[2]/more 24+4");
    assert_eq!(raced::call(None, 2).await?, 6);
    assert_eq!(raced::call(None, 13).await?, 13);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn each_form_survives_crashes() {
    CrashTest::new(&mapped::workflow(), || 1).run().await;
    CrashTest::new(&looped::workflow(), || 1).run().await;
    CrashTest::new(&repeated::workflow(), || 4).run().await;
    CrashTest::new(&raced::workflow(), || 2).run().await;
}

#[tokio::test(start_paused = true)]
async fn an_error_within_a_body_is_the_callers_own() {
    let error = mapped::call(None, 12).await.unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    let error = mapped::workflow().run(&test_runtime().build(), 12).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the step `sums` failed: the step `sums[1]/n` failed: the run's task ended without a result: 13"
    );
    assert_eq!(error.kind(), Error::Lost { reason: String::new() }.kind());
}

// map!(list, |x| { map!(list, |y| { plus(x, y).await? }) })
expanded!(deep, u64 => Vec<Vec<u64>>, |steps, n| {
    let outer = list(steps, n);
    steps.map_body(Node::new("rows"), outer, (outer,), |steps, x, (all,)| {
        steps.map_body(Node::new("row"), all, (x,), |steps, y, (x,)| plus(steps, "sum", y, x))
    })
});

#[tokio::test(start_paused = true)]
async fn bodies_within_bodies() {
    assert_eq!(deep::call(None, 0).await.unwrap(), [[0, 1, 2], [1, 2, 3], [2, 3, 4]]);
    let error = deep::workflow().run(&test_runtime().build(), 11).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the step `rows` failed: the step `rows[0]/row[2]/sum` failed: the run's task ended without a result: 13"
    );
    CrashTest::new(&deep::workflow(), || 1).run().await;
}

// for x in list { let ok = gate!("{x}?").await?; plus(x, n).await?; }
expanded!(asked, u64 => u64, |steps, n| {
    let list = list(steps, n);
    let done: Handle<()> = steps.for_each(Node::new("notes"), list, (n,), |steps, x, (n,)| {
        let ok: Handle<Approval> = steps.gate(Node::new("approval"), (x,), |(x,)| Ok((format!("{x}?"), x)));
        let sum = plus(steps, "sum", x, n);
        steps.value::<_, (), _>(Node::new("output"), (sum, ok), |_| Ok(()))
    });
    steps.value::<_, u64, _>(Node::new("output"), (done, n), |((), n)| Ok(n))
});

#[tokio::test(start_paused = true)]
async fn operators_reach_the_gates_of_bodies() -> Result<()> {
    SEEN.with(Seen::take);
    let granted = Approval::granted;
    let store = MemoryStore::new();
    let clock = TestClock::new();
    let process = || {
        test_runtime()
            .clock(clock.clone())
            .store(store.clone())
            .workflow(&asked::workflow())
            .build()
    };
    let runtime = process();
    let mut handle = runtime.start(asked::workflow(), 1).await?;
    let run = handle.run_id().clone();
    tokio::time::sleep(Duration::from_secs(1)).await;
    runtime.run(&run).answer("notes[0]/approval", &granted(), "ada").await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.abandon();
    tokio::task::yield_now().await;
    // No process executes the run now.
    let runtime = process();
    let wrong = runtime.run(&run).answer("notes[1]/approval", "yes", "ada").await.unwrap_err();
    assert!(wrong.to_string().contains("does not fit"), "{wrong}");
    runtime.run(&run).answer("notes[1]/approval", &granted(), "ada").await?;
    handle = runtime.run(&run).resume_as(&asked::workflow()).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    runtime.run(&run).answer("notes[2]/approval", &granted(), "ada").await?;
    assert_eq!(handle.result().await?, 1);
    assert_eq!(SEEN.with(Seen::take), ["notes[0]/sum 1+1", "notes[1]/sum 2+1", "notes[2]/sum 3+1"]);
    agentflow_testing::check_events(&store.read(&run, 0, 1000).await?).unwrap();
    CrashTest::new(&asked::workflow(), || 1)
        .answer("notes[0]/approval", granted())
        .answer("notes[1]/approval", granted())
        .answer("notes[2]/approval", granted())
        .run()
        .await;
    Ok(())
}

#[test]
fn the_graph_holds_the_bodies() {
    let graph = mapped::workflow().graph();
    let body = graph.node("sums").unwrap().body.as_deref().unwrap();
    assert_eq!(
        body.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(),
        ["outer.item", "outer.n", "n", "item"]
    );
    assert_eq!(body.name, "mapped/sums");
    assert_eq!(
        raced::workflow().graph().node("first").unwrap().branch_bodies.keys().collect::<Vec<_>>(),
        ["slow"]
    );
}

thread_local! {
    static FAILS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

// for x in list { let id = new_id(); mail(x, id).await?; flaky(x, id).await?; }
expanded!(mailing, u64 => u64, |steps, n| {
    let list = list(steps, n);
    let node = Node::new("all").retry(1);
    let done: Handle<()> = steps.for_each(node, list, (), |steps, x, ()| {
        let id = steps.value::<_, u64, _>(Node::new("id"), (), |()| {
            Ok(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
        });
        let mail = step!(steps, Node::new("mail").write().repeatable(false), [], (x, id), |_: Context, (x, id): (u64, u64)| async move {
            SEEN.with(|seen| seen.note(format!("mail {x}")));
            Ok::<u64, Error>(id)
        });
        let flaky = step!(steps, "flaky", (x, id, mail), |_: Context, (x, id, mailed): (u64, u64, u64)| async move {
            assert_eq!(id, mailed, "a value is computed once");
            match FAILS.get().checked_sub(1).filter(|_| x == 2) {
                Some(left) => {
                    FAILS.set(left);
                    Err(Error::Lost { reason: "not yet".to_owned() })
                }
                None => {
                    SEEN.with(|seen| seen.note(format!("done {x}")));
                    Ok::<u64, Error>(x)
                }
            }
        });
        steps.value::<_, (), _>(Node::new("output"), (flaky,), |_| Ok(()))
    });
    steps.value::<_, u64, _>(Node::new("output"), (done, n), |((), n)| Ok(n))
});

#[tokio::test(start_paused = true)]
async fn a_further_attempt_at_a_body_mails_nobody_twice() -> Result<()> {
    let all = ["mail 1", "done 1", "mail 2", "done 2", "mail 3", "done 3"];
    // By the node's own retry policy, in memory and with a store.
    FAILS.set(1);
    assert_eq!(mailing::call(None, 1).await?, 1);
    assert_eq!(SEEN.with(Seen::take), all);
    // By an operator, in the next process.
    FAILS.set(3);
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let process = || test_runtime().clock(clock.clone()).store(store.clone()).build();
    let handle = process().start(mailing::workflow(), 1).await?;
    let run = handle.run_id().clone();
    let error = handle.result().await.unwrap_err();
    assert!(error.to_string().ends_with(
        "the step `all[1]/flaky` failed: the run's task ended without a result: not yet"
    ));
    for _ in 0..2 {
        let runtime = process();
        runtime.run(&run).retry("all", "ada").await?;
        let handle = runtime.run(&run).resume_as(&mailing::workflow()).await?;
        drop(handle.result().await);
    }
    assert_eq!(SEEN.with(Seen::take), all);
    agentflow_testing::check_events(&store.read(&run, 0, 1000).await?).unwrap();
    CrashTest::new(&mailing::workflow(), || 7).twice().run().await;
    Ok(())
}

expanded!(empty, u64 => u64, |steps, n| {
    let list = steps.value::<_, Vec<u64>, _>(Node::new("list"), (), |()| Ok(Vec::new()));
    let done: Handle<()> = steps.for_each(Node::new("all"), list, (), |steps, x, ()| {
        steps.value::<_, (), _>(Node::new("output"), (x,), |_| Ok(()))
    });
    let many = agentflow::__private::And((n, n), (done, n));
    steps.value::<_, u64, _>(Node::new("output"), many, |((a, b), ((), c))| Ok(a + b + c))
});

#[tokio::test]
async fn a_loop_over_nothing_and_more_reads_than_a_tuple_holds() {
    assert_eq!(empty::call(None, 2).await.unwrap(), 6);
}
