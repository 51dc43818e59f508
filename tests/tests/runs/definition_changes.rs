//! Tests runs whose workflow has changed. Resuming is refused with the names of the nodes that
//! would run again, or reuses the output of every unchanged node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::store::{MemoryStore, Store};
use agentflow::workflow::{Builder, Handle, Node};
use agentflow::{Error, Event, RunId, Runtime, Workflow};
use agentflow_testing::{TestClock, check_events, test_runtime};

type Step<T> = Result<T, String>;

/// Number of completed executions of each step's body.
#[derive(Clone, Default)]
struct Ran(Arc<Mutex<BTreeMap<String, u32>>>);

impl Ran {
    fn take(&self) -> String {
        let counts = std::mem::take(&mut *self.0.lock().unwrap());
        counts
            .into_iter()
            .map(|(name, count)| format!("{name} {count}"))
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn step(&self, b: &mut Builder, node: impl Into<Node>, reads: Handle<i64>) -> Handle<i64> {
        let ran = self.clone();
        b.node(node, (reads,), move |cx, (n,)| {
            let ran = ran.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                *ran.0.lock().unwrap().entry(cx.path().to_string()).or_default() += 1;
                Step::Ok(n + 1)
            }
        })
    }
}

/// Returns the original workflow: `a`, then `c` and `d` concurrently, then `end` after an approval.
fn first(ran: &Ran) -> Workflow<(i64,), i64> {
    Workflow::build("flow", ["n"], |b, (n,)| {
        let a = ran.step(b, "a", n);
        let c = ran.step(b, "c", a);
        let d = ran.step(b, "d", a);
        ending(b, ran, c, d)
    })
    .unwrap()
}

fn ending(b: &mut Builder, ran: &Ran, c: Handle<i64>, d: Handle<i64>) -> Handle<i64> {
    let ok: Handle<bool> = b.gate("ok", (), |()| Step::Ok(("continue?".to_owned(), 0)));
    let sum = b.value("sum", (c, d, ok), |(c, d, _)| Step::Ok(c + d));
    ran.step(b, "end", sum)
}

/// Starts the original workflow, runs it up to the gate and abandons it.
async fn open_run(ran: &Ran) -> (MemoryStore, TestClock, RunId) {
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let handle = process(&store, &clock).start(first(ran), 0).await.unwrap();
    let run = handle.run_id().clone();
    tokio::time::sleep(Duration::from_secs(60)).await;
    handle.abandon();
    tokio::task::yield_now().await;
    assert_eq!(ran.take(), "a 1, c 1, d 1");
    (store, clock, run)
}

fn process(store: &MemoryStore, clock: &TestClock) -> Runtime {
    test_runtime().clock(clock.clone()).store(store.clone()).build()
}

/// Checks that `resume` refuses the change with the names in `named`. With `Changes::AcceptAll`,
/// the steps in `again` must run again and give this output.
async fn changed(
    flow: impl Fn(&Ran) -> Workflow<(i64,), i64>,
    named: &str,
    again: &str,
    output: i64,
) {
    let ran = Ran::default();
    let (store, clock, run) = open_run(&ran).await;
    let flow = flow(&ran);
    let runtime = process(&store, &clock);
    let before = store.read(&run, 0, 1000).await.unwrap();
    let error = runtime.run(&run).resume_as(&flow).await.unwrap_err();
    assert!(matches!(error, Error::DefinitionChanged { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        format!(
            "the workflow `flow` has changed since the run began: {named} would run again; to continue all the same, accept it \
             with `Changes::AcceptAll`, or by `agentwf runs resume --changes accept-all`"
        )
    );
    assert_eq!(store.read(&run, 0, 1000).await.unwrap(), before, "refused, nothing is written");

    let handle = runtime
        .with_changes(agentflow::runtime::Changes::AcceptAll)
        .run(&run)
        .resume_as(&flow)
        .await
        .unwrap();
    // The process ends before the answer. The accepted definition is then the definition of the
    // run.
    tokio::time::sleep(Duration::from_secs(60)).await;
    handle.abandon();
    tokio::task::yield_now().await;
    let third = process(&store, &clock);
    let handle = third.run(&run).resume_as(&flow).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    third.run(&run).answer("ok", &true, "ada").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), output);
    assert_eq!(ran.take(), again);
    check_events(&store.read(&run, 0, 1000).await.unwrap()).unwrap();
    let record = store.record(&run).await.unwrap().unwrap();
    assert_eq!(record.definition.as_deref(), Some(&*flow.graph().hash()));
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_workflow_is_resumed() {
    let ran = Ran::default();
    let (store, clock, run) = open_run(&ran).await;
    // The concurrency limit and line numbers are not part of the definition.
    let flow = Workflow::<(i64,), i64>::build("flow", ["n"], |b, (n,)| {
        b.concurrency(1);
        let a = ran.step(b, Node::new("a").line(7), n);
        let c = ran.step(b, "c", a);
        let d = ran.step(b, "d", a);
        ending(b, &ran, c, d)
    })
    .unwrap();
    let runtime = process(&store, &clock);
    let handle = runtime.run(&run).resume_as(&flow).await.unwrap();
    runtime.run(&run).answer("ok", &true, "ada").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 5);
    assert_eq!(ran.take(), "end 1");
}

#[tokio::test(start_paused = true)]
async fn a_node_is_added() {
    let flow = |ran: &Ran| {
        Workflow::<(i64,), i64>::build("flow", ["n"], |b, (n,)| {
            let a = ran.step(b, "a", n);
            let c = ran.step(b, "c", a);
            let between = ran.step(b, "between", a);
            let d = ran.step(b, "d", between);
            ending(b, ran, c, d)
        })
        .unwrap()
    };
    changed(flow, "`between`, `d`, `sum`, `end`", "between 1, d 1, end 1", 6).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_is_removed() {
    let flow = |ran: &Ran| {
        Workflow::<(i64,), i64>::build("flow", ["n"], |b, (n,)| {
            let a = ran.step(b, "a", n);
            let c = ran.step(b, "c", a);
            ending(b, ran, c, a)
        })
        .unwrap()
    };
    changed(flow, "`sum`, `end`", "end 1", 4).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_is_renamed() {
    let flow = |ran: &Ran| {
        Workflow::<(i64,), i64>::build("flow", ["n"], |b, (n,)| {
            let a = ran.step(b, "a", n);
            let c = ran.step(b, "see", a);
            let d = ran.step(b, "d", a);
            ending(b, ran, c, d)
        })
        .unwrap()
    };
    changed(flow, "`see`, `sum`, `end`", "end 1, see 1", 5).await;
}

#[tokio::test(start_paused = true)]
async fn the_type_of_a_node_is_another() {
    let flow = |ran: &Ran| {
        let inner = ran.clone();
        Workflow::<(i64,), i64>::build("flow", ["n"], |b, (n,)| {
            let a = ran.step(b, "a", n);
            let text = b.node("c", (a,), move |cx, (n,)| {
                *inner.0.lock().unwrap().entry(cx.path().to_string()).or_default() += 1;
                async move { Step::Ok(format!("{n}")) }
            });
            let c = b.value("length", (text,), |(text,)| Step::Ok(text.len() as i64));
            let d = ran.step(b, "d", a);
            ending(b, ran, c, d)
        })
        .unwrap()
    };
    changed(flow, "`c`, `length`, `sum`, `end`", "c 1, end 1", 4).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_before_all_others_is_another() {
    let flow = |ran: &Ran| {
        Workflow::<(i64,), i64>::build("flow", ["n"], |b, (n,)| {
            let a = ran.step(b, Node::new("a").calls("better"), n);
            let c = ran.step(b, "c", a);
            let d = ran.step(b, "d", a);
            ending(b, ran, c, d)
        })
        .unwrap()
    };
    changed(flow, "`a`, `c`, `d`, `sum`, `end`", "a 1, c 1, d 1, end 1", 5).await;
}

#[tokio::test(start_paused = true)]
async fn the_inputs_are_others() {
    let ran = Ran::default();
    let (store, clock, run) = open_run(&ran).await;
    let flow =
        Workflow::<(i64, i64), i64>::build("flow", ["n", "m"], |b, (n, _)| ran.step(b, "a", n))
            .unwrap();
    let runtime = process(&store, &clock);
    let error = runtime
        .with_changes(agentflow::runtime::Changes::AcceptAll)
        .run(&run)
        .resume_as(&flow)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the input does not fit the workflow `flow`: the input `m` is missing"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_open_is_gone() {
    let (store, clock, ran) = (MemoryStore::new(), TestClock::new(), Ran::default());
    let runtime = process(&store, &clock);
    let handle = runtime.start(first(&ran), 0).await.unwrap();
    let run = handle.run_id().clone();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    handle.abandon();
    tokio::task::yield_now().await;
    // `c`, `d` and the gate have started and not ended.
    let flow = Workflow::<(i64,), i64>::build("flow", ["n"], |b, (n,)| {
        let a = ran.step(b, "a", n);
        ran.step(b, "new", a)
    })
    .unwrap();
    let second = process(&store, &clock);
    let handle = second
        .with_changes(agentflow::runtime::Changes::AcceptAll)
        .run(&run)
        .resume_as(&flow)
        .await
        .unwrap();
    assert_eq!(handle.result().await.unwrap(), 2);
    assert_eq!(ran.take(), "a 1, new 1");
}

#[tokio::test]
async fn a_journal_of_a_newer_release_is_left_alone() {
    let flow = Workflow::<(u32,), u32>::build("newer", ["n"], |b, (n,)| {
        b.node("step", (n,), |_, (n,)| async move { Ok::<_, String>(n) })
    })
    .unwrap();
    let run =
        test_runtime().store(MemoryStore::new()).build().start(flow.clone(), 1).await.unwrap();
    run.result().await.unwrap();
    let mut first = serde_json::to_value(&run.recorded()[0]).unwrap();
    first["payload"]["version"] = 99.into();
    let first: Event = serde_json::from_value(first).unwrap();
    let store = MemoryStore::new();
    store.create(&first.run_id, vec![first.clone()]).await.unwrap();
    let error = test_runtime()
        .store(store.clone())
        .build()
        .run(&first.run_id)
        .resume_as(&flow)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), "newer_version");
    assert!(
        error.to_string().ends_with("(version 99, this one knows 1); update agentflow"),
        "{error}"
    );
    assert_eq!(store.read(&first.run_id, 0, 10).await.unwrap(), [first]);
}
