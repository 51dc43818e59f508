//! Tests source order: steps with side effects run at their position, and all nodes below a gate or
//! a check wait for it.

use agentflow::workflow::Graph;
use agentflow::{Approval, Context, Error, Result};

use crate::expanded::expanded;
use crate::{Handle, Node, Steps, step};

/// Reads.
#[agentflow::tool(effects = "read")]
async fn look(n: u64) -> u64 {
    n
}

/// Writes.
#[agentflow::tool]
async fn mail(n: u64) -> u64 {
    n
}

fn looks(steps: &mut Steps<'_>, name: &'static str, n: Handle<u64>) -> Handle<u64> {
    step!(steps, Node::new(name), [look], (n,), |_: Context, (n,)| async move {
        Ok::<u64, Error>(look(n).await)
    })
}

fn mails(steps: &mut Steps<'_>, node: Node, n: Handle<u64>) -> Handle<u64> {
    step!(
        steps,
        node,
        [mail],
        (n,),
        |_: Context, (n,)| async move { Ok::<u64, Error>(mail(n).await) }
    )
}

/// Returns the order edges of each node that has any.
fn order(graph: &Graph) -> Vec<String> {
    let nodes = graph.nodes.iter().filter(|node| !node.order.is_empty());
    let of = |node: &agentflow::workflow::GraphNode| {
        let edges =
            node.order.iter().map(|edge| format!("{} ({})", edge.node, edge.reason.as_str()));
        format!("{}: {}", node.name, edges.collect::<Vec<_>>().join(", "))
    };
    nodes.map(of).collect()
}

expanded!(writes, u64 => u64, |steps, n| {
    let a = mails(steps, Node::new("a"), n);
    looks(steps, "free", n);
    mails(steps, Node::new("b"), n);
    // It reads the output of `a` and waits for `b`.
    mails(steps, Node::new("c"), a);
    mails(steps, Node::new("apart").unordered(), n);
    step!(steps, Node::new("marked").write(), [], (n,), |_: Context, (n,)| async move { Ok::<u64, Error>(n) });
    n
});

#[test]
fn writes_keep_their_order() {
    assert_eq!(
        order(&writes::workflow().graph()),
        ["free: a (write)", "b: free (above)", "c: b (write)", "marked: c (write)"]
    );
}

expanded!(barriers, u64 => u64, |steps, n| {
    let a = mails(steps, Node::new("a"), n);
    let ok: Handle<Approval> = steps.gate(Node::new("ok"), (n,), |(n,)| Ok(("go?".to_owned(), n)));
    looks(steps, "look", n);
    steps.value::<_, u64, _>(Node::new("value"), (n,), |(n,)| Ok(n));
    // It reads the answer, so it already has an edge.
    steps.value::<_, u64, _>(Node::new("reads"), (ok, a), |(_, a)| Ok(a));
    mails(steps, Node::new("b").unordered(), n);
    mails(steps, Node::new("c"), n);
    let _ = steps.check::<_, _, _>(Node::new("check"), (n,), |args| async move {
        let (_cx, (_n,)) = args.calling([]).await;
        Ok::<(), Error>(())
    });
    steps.value::<_, u64, _>(Node::new("output"), (n,), |(n,)| Ok(n))
});

#[test]
fn all_below_a_gate_or_a_check_waits() {
    assert_eq!(
        order(&barriers::workflow().graph()),
        [
            "ok: a (write)",
            "look: ok (gate)",
            "value: ok (gate)",
            "b: ok (gate)",
            "c: ok (gate), look (above), value (above), reads (above)",
            "check: ok (gate), c (write)",
            "output: check (check)"
        ]
    );
}

expanded!(arms, u64 => u64, |steps, n| {
    mails(steps, Node::new("a"), n);
    let router = steps.route(Node::new("which"), &["small", "big"], (n,), |(n,)| {
        Ok::<&'static str, Error>(if n < 10 { "small" } else { "big" })
    });
    let small = steps.arm(router, "small", |steps| mails(steps, Node::new("b"), n));
    let big = steps.arm(router, "big", |steps| {
        let _: Handle<Approval> = steps.gate(Node::new("ok"), (n,), |(n,)| Ok(("go?".to_owned(), n)));
        mails(steps, Node::new("c"), n)
    });
    let end = steps.join(router, agentflow::__private::arms::<u64>().arm(small).arm(big));
    let d = mails(steps, Node::new("d"), n);
    steps.value::<_, u64, _>(Node::new("output"), (end, d), |(end, _)| Ok(end))
});

#[test]
fn arms_begin_with_the_order_at_the_router_and_end_in_a_union() {
    assert_eq!(
        order(&arms::workflow().graph()),
        [
            "which: a (write)",
            "which/big/c: which/big/ok (gate)",
            "d: which/small/b (write), which/big/ok (gate), which/big/c (write)",
        ]
    );
}

#[tokio::test]
async fn a_workflow_with_order_runs() -> Result<()> {
    assert_eq!(arms::call(None, 3).await?, 3);
    assert_eq!(writes::call(None, 3).await?, 3);
    Ok(())
}
