//! Tests durable runs: resuming from every prefix of a journal gives the same result.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::event::EventKind;
use agentflow::store::{MemoryStore, RunStatus, Store};
use agentflow::workflow::{Branch, Handle, Node, NodePolicy};
use agentflow::{Context, Event, Runtime, Workflow};
use agentflow_testing::{check_events, test_runtime, within};

/// Number of executions of each step's body, over all processes.
#[derive(Clone, Default)]
struct Ran(Arc<Mutex<BTreeMap<String, u32>>>);

impl Ran {
    fn note(&self, cx: &Context) {
        *self.0.lock().unwrap().entry(cx.path().to_string()).or_default() += 1;
    }

    fn counts(&self) -> BTreeMap<String, u32> {
        self.0.lock().unwrap().clone()
    }
}

/// Returns a workflow that uses every form.
fn everything(ran: &Ran) -> Workflow<(Vec<u32>,), String> {
    let ran = ran.clone();
    Workflow::build("everything", ["xs"], |b, (xs,)| {
        let step =
            |b: &mut agentflow::workflow::Builder, node: Node, reads: Handle<u32>| -> Handle<u32> {
                let ran = ran.clone();
                b.node(node, (reads,), move |cx, (n,)| {
                    ran.note(&cx);
                    async move {
                        tokio::time::sleep(Duration::from_millis(u64::from(n))).await;
                        Ok::<_, String>(n + 1)
                    }
                })
            };
        let first = b.value("first", (xs,), |(xs,): (Vec<u32>,)| Ok::<_, String>(xs[0]));
        let a = step(b, Node::new("a"), first);
        let c = step(b, Node::new("c").policy(NodePolicy::default().repeatable(false)), a);
        let inner = ran.clone();
        let squares = b.map(
            Node::new("squares").policy(NodePolicy::default().concurrency(2)),
            xs,
            (a,),
            move |cx, x, (a,)| {
                inner.note(&cx);
                async move {
                    tokio::task::yield_now().await;
                    Ok::<_, String>(x * x + a)
                }
            },
        );
        let total = b.value("total", (squares,), |(xs,): (Vec<u32>,)| {
            Ok::<_, String>(xs.iter().sum::<u32>())
        });
        let router = b.route("size", ["small", "large"], (total,), |(n,)| {
            Ok::<_, String>(usize::from(n > 3))
        });
        let small = b.arm(router, 0, |b| step(b, Node::new("s"), total));
        let large = b.arm(router, 1, |b| {
            let one = step(b, Node::new("l1"), total);
            step(b, Node::new("l2"), one)
        });
        let size = b.join(router, [small, large]);
        let noted = ran.clone();
        let raced = b.race(
            "raced",
            [
                Branch::new("slow", (size,), |_, _| std::future::pending::<Result<u32, String>>()),
                Branch::new("fast", (size,), move |cx, (n,)| {
                    noted.note(&cx);
                    async move { Ok::<_, String>(n) }
                }),
            ],
        );
        let sub = part(&ran);
        let nested = b.node("nested", (raced,), move |cx, (n,)| {
            let sub = sub.clone();
            async move { sub.run_in(&cx, n).await }
        });
        b.value("text", (nested, c, squares), |(n, c, xs)| {
            Ok::<_, String>(format!("{n} {c} {xs:?}"))
        })
    })
    .unwrap()
}

/// Returns the inner workflow.
fn part(ran: &Ran) -> Workflow<(u32,), u32> {
    let ran = ran.clone();
    Workflow::build("part", ["n"], |b, (n,)| {
        let one = ran.clone();
        let x = b.node("x", (n,), move |cx, (n,)| {
            one.note(&cx);
            async move { Ok::<_, String>(n * 10) }
        });
        b.node("y", (x,), move |cx, (n,)| {
            ran.note(&cx);
            async move { Ok::<_, String>(n + 7) }
        })
    })
    .unwrap()
}

fn runtime(store: &MemoryStore) -> Runtime {
    test_runtime().store(store.clone()).build()
}

async fn store_with(events: &[Event]) -> MemoryStore {
    let store = MemoryStore::new();
    store.create(&events[0].run_id, events.to_vec()).await.unwrap();
    store
}

/// Retries every interrupted step, like an operator.
async fn decide(runtime: &Runtime, handle: &mut agentflow::RunHandle<String>) -> String {
    within("the end of the run", async {
        loop {
            tokio::select! {
                biased;
                result = handle.result() => return result.unwrap(),
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
            for event in handle.recorded() {
                if let EventKind::NodeFailed { error, .. } = &event.kind
                    && error.kind == "interrupted"
                {
                    // The node may have been retried already.
                    let _ =
                        runtime.run(handle.run_id()).retry(&event.path.to_string(), "test").await;
                }
            }
        }
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn every_prefix_of_a_journal_resumes_to_the_same_result() {
    let ran = Ran::default();
    let workflow = everything(&ran);
    let store = MemoryStore::new();
    let handle = runtime(&store).start(workflow.clone(), vec![1, 2, 3]).await.unwrap();
    let expected = handle.result().await.unwrap();
    let events = handle.recorded();
    check_events(&events).unwrap();
    assert_eq!(store.read(handle.run_id(), 0, 1000).await.unwrap(), events);
    let once = ran.counts();
    assert!(once.values().all(|count| *count == 1), "{once:?}");

    for cut in 1..events.len() {
        let store = store_with(&events[..cut]).await;
        let ran = Ran::default();
        let workflow = everything(&ran);
        let runtime = runtime(&store);
        let mut handle = runtime.run(&events[0].run_id).resume_as(&workflow).await.unwrap();
        let result = decide(&runtime, &mut handle).await;
        assert_eq!(result, expected, "cut after {cut}");
        let all = handle.recorded();
        if let Err(problems) = check_events(&all) {
            panic!("cut after {cut}: {problems}\n{:#?}", agentflow_testing::trace(&all));
        }
        let done: Vec<String> = events[..cut]
            .iter()
            .filter(|event| matches!(event.kind, EventKind::NodeCompleted { .. }))
            .map(|event| event.path.to_string())
            .collect();
        for path in ran.counts().keys() {
            assert!(!done.contains(path), "cut after {cut}: `{path}` was done and ran again");
        }
        assert_eq!(
            store.record(&events[0].run_id).await.unwrap().unwrap().status,
            RunStatus::Success
        );
    }
}

/// Returns a workflow of two thousand sequential steps, followed by a router.
fn long(ran: &Ran) -> Workflow<(u32,), u32> {
    let ran = ran.clone();
    Workflow::build("long", ["n"], |b, (n,)| {
        let mut last = n;
        for at in 0..2000 {
            let ran = ran.clone();
            last = b.node(Node::new(format!("s{at}")), (last,), move |cx, (n,)| {
                ran.note(&cx);
                async move { Ok::<_, String>(n + 1) }
            });
        }
        let router = b.route("way", ["on"], (last,), |(_,): (u32,)| Ok::<_, String>(0));
        let end = b.arm(router, 0, |b| {
            b.node("end", (last,), |_, (n,)| async move { Ok::<_, String>(n + 1) })
        });
        b.join(router, [end])
    })
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_long_run_is_resumed_from_its_snapshot() {
    let store = MemoryStore::new();
    let handle = runtime(&store).start(long(&Ran::default()), 0).await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 2001);
    let events = handle.recorded();
    let run = events[0].run_id.clone();
    let snapshot = store.snapshot(&run).await.unwrap().expect("there is a snapshot");
    assert!(
        snapshot.seq > 2000
            && snapshot.events.len() < usize::try_from(snapshot.seq).unwrap() * 2 / 3
    );

    // Cuts the journal right after the snapshot and some events later.
    for more in [0, 1, 500] {
        let cut = usize::try_from(snapshot.seq).unwrap() + more;
        let store = store_with(&events[..cut]).await;
        let epoch = store.open(&run).await.unwrap();
        store.put_snapshot(&run, epoch, snapshot.clone()).await.unwrap();
        let ran = Ran::default();
        let workflow = long(&ran);
        let handle = runtime(&store).run(&run).resume_as(&workflow).await.unwrap();
        assert_eq!(handle.result().await.unwrap(), 2001);
        let done = events[..cut]
            .iter()
            .filter(|event| matches!(event.kind, EventKind::NodeCompleted { .. }))
            .count();
        assert_eq!(ran.counts().len(), 2000 - done, "{more} after the snapshot");
        let all = store.read(&run, 0, 10_000).await.unwrap();
        check_events(&all).unwrap();
    }
}
