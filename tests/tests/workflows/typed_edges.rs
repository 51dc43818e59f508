//! Graph features in typed workflows: optional reads, conditional edges, routers that select
//! several arms, and nodes that start early, follow a failure or end the workflow. With crashes at
//! every write.

use std::time::Duration;

use agentflow::Workflow;
use agentflow::error::FailureKind;
use agentflow::prelude::*;
use agentflow::workflow::{Begins, Builder, Condition, Handle, Mapping, Node, NodeEdge};
use agentflow_testing::{CrashTest, EffectLog};
use serde_json::json;

type Step<T> = Result<T, String>;

/// Adds a step that takes this many milliseconds. If `fails`, it fails for an odd number.
fn step(
    b: &mut Builder,
    effects: &EffectLog,
    node: impl Into<Node>,
    millis: u64,
    reads: Handle<u32>,
    fails: bool,
) -> Handle<u32> {
    let effects = effects.clone();
    b.node(node, (reads,), move |cx, (n,)| {
        let effects = effects.clone();
        async move {
            effects.note(&cx);
            tokio::time::sleep(Duration::from_millis(millis)).await;
            if fails && n % 2 == 1 { Err(format!("{n} is odd")) } else { Step::Ok(n + 1) }
        }
    })
}

fn sets(effects: &EffectLog) -> Workflow<(u32,), String> {
    Workflow::build("typed-sets", ["n"], |b, (n,)| {
        let way = b.route_all("way", ["two", "three", "many"], (n,), |(n,)| {
            let all = [n % 2 == 0, n % 3 == 0, n > 5];
            Step::Ok((0..3).filter(|at| all[*at]).collect())
        });
        let of = |b: &mut Builder, name: &str, arm: usize, millis| {
            step(b, effects, Node::new(name).edge(NodeEdge::arm(way, arm)), millis, n, false)
        };
        let (two, three, many) = (of(b, "two", 0, 3), of(b, "three", 1, 5), of(b, "many", 2, 9));
        let joined = [two, three, many]
            .into_iter()
            .fold(Node::new("joined"), |node, from| node.edge(NodeEdge::from(from)));
        let reads = (two.optional(), three.optional(), many.optional());
        b.value(joined.begins(Begins::Barrier(2)), reads, |all| Step::Ok(format!("{all:?}")))
    })
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_router_takes_a_set_of_arms() {
    let runtime = Runtime::default();
    let run = async |n: u32| sets(&EffectLog::new()).run(&runtime, n).await;
    assert_eq!(run(6).await.unwrap(), "(Some(7), Some(7), Some(7))");
    assert_eq!(run(8).await.unwrap(), "(Some(9), None, Some(9))");
    let error = run(5).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::RouteUnmatched);
    assert!(
        error.to_string().contains("the router chose no arm, and takes one at least"),
        "{error}"
    );
    // One of three edges is not enough.
    let error = run(3).await.unwrap_err().to_string();
    assert!(error.contains("1 of its 3 edges are taken, and it needs 2"), "{error}");
    let effects = EffectLog::new();
    CrashTest::new(&sets(&effects), || 8).effects(&effects).twice().run().await;
}

fn rescued(effects: &EffectLog) -> Workflow<(u32,), String> {
    Workflow::build("typed-rescue", ["n"], |b, (n,)| {
        let tried = step(b, effects, "tried", 3, n, true);
        let other = Node::new("other").edge(NodeEdge::failed(tried));
        let why = b.value(other, (tried.failure(),), |(failure,)| {
            Step::Ok(failure.map(|failure| failure.message))
        });
        let large = Condition::Equals(Mapping::from("n"), Mapping::Value(json!(4)));
        let four =
            step(b, effects, Node::new("four").edge(NodeEdge::when(tried, large)), 2, n, false);
        b.value("said", (tried.optional(), why.optional(), four.optional()), |all| {
            Step::Ok(format!("{all:?}"))
        })
    })
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_failure_leads_to_a_node() {
    let runtime = Runtime::default();
    let run = async |n: u32| rescued(&EffectLog::new()).run(&runtime, n).await.unwrap();
    assert_eq!(run(3).await, "(None, Some(Some(\"3 is odd\")), None)");
    assert_eq!(run(2).await, "(Some(3), None, None)");
    assert_eq!(run(4).await, "(Some(5), None, Some(5))");
    for n in [3, 4] {
        let effects = EffectLog::new();
        CrashTest::new(&rescued(&effects), move || n).effects(&effects).twice().run().await;
    }
}

fn first(effects: &EffectLog) -> Workflow<(u32,), u32> {
    Workflow::build("typed-first", ["n"], |b, (n,)| {
        let slow = step(b, effects, "slow", 50, n, false);
        let quick = step(b, effects, "quick", 2, n, true);
        let either = Node::new("either")
            .edge(NodeEdge::from(slow))
            .edge(NodeEdge::from(quick))
            .begins(Begins::Any)
            .ends();
        b.value(either, (slow.optional(), quick.optional()), |(slow, quick)| {
            Step::Ok(quick.unwrap_or_else(|| slow.unwrap_or_default() * 100))
        });
        let rest = step(b, effects, "rest", 90, slow, false);
        // A handled failure does not fail the run.
        b.value(Node::new("noted").edge(NodeEdge::failed(quick)), (), |()| Step::Ok(0));
        rest
    })
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_first_begins_a_node_that_ends_the_workflow() {
    let runtime = Runtime::default();
    assert_eq!(first(&EffectLog::new()).run(&runtime, 2).await.unwrap(), 3);
    assert_eq!(first(&EffectLog::new()).run(&runtime, 3).await.unwrap(), 400);
    let effects = EffectLog::new();
    CrashTest::new(&first(&effects), || 3).effects(&effects).run().await;
}

#[test]
fn mistakes_are_named_when_it_is_built() {
    let problems = |build: &dyn Fn(&mut Builder, Handle<u32>) -> Handle<u32>| {
        let built = Workflow::<(u32,), u32>::build("typed-wrong", ["n"], |b, (n,)| build(b, n));
        built.unwrap_err().to_string()
    };
    let value =
        |b: &mut Builder, node: Node, n: Handle<u32>| b.value(node, (n,), |(n,)| Step::Ok(n));
    let late = problems(&|b, n| {
        let a = value(b, Node::new("a"), n);
        let other = value(b, Node::new("b"), n);
        let node = Node::new("early")
            .edge(NodeEdge::from(a))
            .edge(NodeEdge::from(other))
            .begins(Begins::Any);
        value(b, node, a)
    });
    assert!(
        late.contains("the node `early` may begin before `a` has an output; read `a.optional()`"),
        "{late}"
    );
    let few = problems(&|b, n| {
        value(b, Node::new("few").edge(NodeEdge::from(n)).begins(Begins::Join(2)), n)
    });
    assert!(
        few.contains("the node `few` begins when 2 of its edges are taken, and 1 lead to it"),
        "{few}"
    );
    let unknown = problems(&|b, n| {
        let node = Node::new("x").edge(NodeEdge::when(n, Condition::Is(Mapping::from("nn"))));
        value(b, node, n)
    });
    assert!(
        unknown.contains(
            "the condition of an edge to `x` looks at `nn`, and no such node precedes it"
        ),
        "{unknown}"
    );
    let no_arm = problems(&|b, n| {
        let way = b.route_all("way", ["a"], (n,), |(_,)| Step::Ok(vec![0]));
        value(b, Node::new("x").edge(NodeEdge::arm(way, 3)), n)
    });
    assert!(no_arm.contains("the router `way` has no arm 3, which leads to `x`"), "{no_arm}");
    let other_type = problems(&|b, n| {
        b.value(Node::new("text").edge(NodeEdge::from(n)).ends(), (n,), |(n,)| {
            Step::Ok(n.to_string())
        });
        n
    });
    assert!(
        other_type.contains(
            "the node `text` ends the workflow with a `alloc::string::String`, and the workflow gives a `u32`"
        ),
        "{other_type}"
    );
}
