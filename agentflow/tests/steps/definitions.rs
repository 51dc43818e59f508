//! Tests changed definitions: the parts that affect the hash, and the reaction of a run that
//! started with another definition.

use std::time::Duration;

use agentflow::store::MemoryStore;
use agentflow::workflow::{Builder, Handle, Node, OnError};
use agentflow::{Approval, Context, Error, RunId, Runtime, Workflow};
use agentflow_testing::{TestClock, test_runtime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::expanded::expanded;
use crate::step;

type Step<T> = Result<T, String>;

fn hash<T: agentflow::value::NodeValue>(
    node: impl Fn(&mut Builder, Handle<u64>) -> Handle<T>,
) -> String {
    Workflow::<(u64,), T>::build("w", ["n"], |b, (n,)| node(b, n)).unwrap().graph().hash()
}

fn of_node(node: impl Fn(Node) -> Node) -> String {
    hash(|b, n| {
        let before = b.node("before", (n,), |_, (n,)| async move { Step::Ok(n) });
        b.node(node(Node::new("a").after(before)), (n,), |_, (n,)| async move { Step::Ok(n) })
    })
}

#[test]
fn what_a_node_does_and_its_policy_count() {
    let plain = of_node(|node| node);
    assert_eq!(plain, of_node(|node| node.line(7)));
    let others = [
        of_node(|node| node.code(1)),
        of_node(|node| node.code(2)),
        of_node(|node| node.retry(1)),
        of_node(|node| node.timeout(Duration::from_secs(1))),
        of_node(|node| node.on_error(OnError::Skip)),
        of_node(|node| node.approve("sure?")),
        of_node(|node| node.concurrency(2)),
        of_node(|node| node.repeatable(true)),
        of_node(|node| node.calls("f")),
    ];
    for (at, other) in others.iter().enumerate() {
        assert!(*other != plain && !others[..at].contains(other), "{at}");
    }
}

/// An order.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Order")]
struct Told {
    /// Title of the order.
    title: String,
    description: Vec<Option<u8>>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Order2")]
struct Untold {
    title: String,
    description: Vec<Option<u8>>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Other {
    name: String,
    description: Vec<Option<u8>>,
}

#[test]
fn comments_do_not_count_and_properties_do() {
    let of = |described: String| described;
    let told = of(hash(|b, n| b.value("a", (n,), |_| Err::<Told, String>(String::new()))));
    let untold = of(hash(|b, n| b.value("a", (n,), |_| Err::<Untold, String>(String::new()))));
    let other = of(hash(|b, n| b.value("a", (n,), |_| Err::<Other, String>(String::new()))));
    assert_eq!(told, untold);
    assert_ne!(told, other);
}

// Two workflows that call each other; one of them also calls itself.
expanded!(ping, u64 => u64, |steps, n| {
    let a = step!(steps, Node::new("a"), [ping_fn, pong_fn], (n,), |_: Context, (n,)| async move {
        Ok::<u64, Error>(n)
    });
    steps.value::<_, u64, _>(Node::new("output"), (a,), |(a,)| Ok(a))
});

expanded!(pong, u64 => u64, |steps, n| {
    step!(steps, Node::new("b"), [ping_fn], (n,), |_: Context, (n,)| async move {
        Ok::<u64, Error>(n)
    })
});

async fn ping_fn(n: u64) -> agentflow::Result<u64> {
    ping::call(None, n).await
}

async fn pong_fn(n: u64) -> agentflow::Result<u64> {
    pong::call(None, n).await
}

macro_rules! link {
    ($function:ident, $workflow:ident) => {
        agentflow::__private::inventory::submit! {
            agentflow::__private::Linked {
                function: || agentflow::__private::function_id(&$function),
                item: || Box::new(agentflow::__private::LinkedWorkflow::new(
                    stringify!($workflow),
                    (file!(), line!()),
                    <$workflow as agentflow::__private::WorkflowFn1>::GRAPH,
                )),
            }
        }
    };
}

link!(ping_fn, ping);
link!(pong_fn, pong);

#[test]
fn workflows_that_call_each_other_have_hashes() {
    let (first, second) = (ping::workflow().graph(), pong::workflow().graph());
    let a = first.node("a").unwrap();
    assert_eq!(a.workflows.keys().collect::<Vec<_>>(), ["ping", "pong"]);
    // Each hash covers all workflows that can be reached. From both workflows, both can be reached.
    assert_eq!(a.workflows["ping"], a.workflows["pong"]);
    assert_eq!(second.node("b").unwrap().workflows["ping"], a.workflows["ping"]);
    assert!(a.writes, "a workflow that calls itself counts as one that writes");
    assert_ne!(first.hash(), second.hash());
}

/// Builds a workflow with `a`, then `mail` with a side effect, then a gate, then `end`.
fn flow(a: u64, mail: u64, end: u64, more: bool) -> Workflow<(u64,), u64> {
    Workflow::build("flow", ["n"], |b, (n,)| {
        let step = |b: &mut Builder, node: Node, n| {
            b.node(node, (n,), |_, (n,)| async move { Step::Ok(n + 1) })
        };
        let a = step(b, Node::new("a").code(a), n);
        let name = if mail == 0 { "post" } else { "mail" };
        let mail = step(b, Node::new(name).code(mail).write(), n);
        let ok: Handle<Approval> =
            b.gate("ok", (mail,), |_| Step::Ok(("continue?".to_owned(), ())));
        let n = b.value("n2", (a, mail, ok), |(a, mail, _)| Step::Ok(a + mail));
        let n = if more { step(b, Node::new("more"), n) } else { n };
        step(b, Node::new("end").code(end), n)
    })
    .unwrap()
}

async fn resumed(with: &Workflow<(u64,), u64>) -> Result<u64, Error> {
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let process =
        || -> Runtime { test_runtime().clock(clock.clone()).store(store.clone()).build() };
    let runtime = process();
    let handle = runtime.start(flow(1, 1, 1, false), 0).await?;
    let run: RunId = handle.run_id().clone();
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.abandon();
    tokio::task::yield_now().await;
    let runtime = process();
    let handle = runtime
        .with_changes(agentflow::runtime::Changes::AcceptAll)
        .run(&run)
        .resume_as(with)
        .await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    runtime.run(&run).answer("ok", &Approval::granted(), "ada").await?;
    handle.result().await
}

#[tokio::test(start_paused = true)]
async fn a_write_that_began_is_neither_repeated_nor_left_out() {
    // Nodes that have not started may change, and so may nodes without side effects.
    assert_eq!(resumed(&flow(1, 1, 2, true)).await.unwrap(), 4);
    assert_eq!(resumed(&flow(2, 1, 1, false)).await.unwrap(), 3);
    for changed in [flow(1, 2, 1, false), flow(1, 0, 1, false)] {
        let error = resumed(&changed).await.unwrap_err();
        assert!(matches!(error, Error::WriteForgotten { .. }), "{error}");
        assert_eq!(
            error.to_string(),
            "the workflow `flow` has changed since the run began: `mail` may have had an effect already, which would \
             be repeated or left out; keep what has begun as it was and under its name, or cancel the run"
        );
    }
}
