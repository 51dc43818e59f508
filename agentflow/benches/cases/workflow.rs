//! Benchmark cases: workflows in memory. The shapes are chains, fans, and layers of ten nodes that
//! each read all ten nodes of the previous layer.
//!
//! The hand-written chain is a loop over async closures, and a hand-written layer is a `JoinSet`.
//! Both use serde at every edge, as agentflow does. The steps do almost nothing, so the cases
//! measure the overhead.

use std::sync::Arc;

use agentflow::workflow::{Builder, Handle, Node};
use agentflow::{Runtime, Workflow, serde_json};
use tokio::task::JoinSet;

use super::Case;

const WIDE: usize = 10;

async fn next(n: u64) -> Result<u64, String> {
    Ok(n.wrapping_add(1))
}

async fn sum(all: [u64; WIDE]) -> Result<u64, String> {
    Ok(all.iter().fold(1, |sum, n| sum.wrapping_add(*n)))
}

/// Ten handles that are read together.
type Ten = (
    Handle<u64>,
    Handle<u64>,
    Handle<u64>,
    Handle<u64>,
    Handle<u64>,
    Handle<u64>,
    Handle<u64>,
    Handle<u64>,
    Handle<u64>,
    Handle<u64>,
);

fn ten(handles: &[Handle<u64>]) -> Ten {
    let [a, b, c, d, e, f, g, h, i, j] = handles.try_into().expect("ten handles");
    (a, b, c, d, e, f, g, h, i, j)
}

fn layer(b: &mut Builder, layer: usize, before: &[Handle<u64>]) -> Vec<Handle<u64>> {
    (0..WIDE)
        .map(|at| {
            b.node(
                Node::new(format!("n{layer}_{at}")),
                ten(before),
                |_, (a, b, c, d, e, f, g, h, i, j)| sum([a, b, c, d, e, f, g, h, i, j]),
            )
        })
        .collect()
}

pub(crate) fn chain(nodes: usize) -> Workflow<(u64,), u64> {
    Workflow::build("chain", ["n"], |b, (n,)| {
        (0..nodes)
            .fold(n, |before, at| b.node(Node::new(format!("n{at}")), (before,), |_, (n,)| next(n)))
    })
    .expect("a chain")
}

pub(crate) fn layers(nodes: usize) -> Workflow<(u64,), u64> {
    Workflow::build("layers", ["n"], |b, (n,)| {
        let first = vec![n; WIDE];
        (0..nodes / WIDE).fold(first, |before, at| layer(b, at, &before))[0]
    })
    .expect("layers")
}

/// Builds one node, many nodes that read it, and a tree that joins their outputs.
pub(crate) fn fan(nodes: usize) -> Workflow<(u64,), u64> {
    Workflow::build("fan", ["n"], |b, (n,)| {
        let mut row: Vec<Handle<u64>> = (0..nodes * 9 / 10)
            .map(|at| b.node(Node::new(format!("f{at}")), (n,), |_, (n,)| next(n)))
            .collect();
        let mut joins = 0;
        while row.len() >= WIDE {
            row = row
                .chunks(WIDE)
                .map(|chunk| match chunk.len() {
                    WIDE => {
                        joins += 1;
                        b.node(
                            Node::new(format!("j{joins}")),
                            ten(chunk),
                            |_, (a, b, c, d, e, f, g, h, i, j)| sum([a, b, c, d, e, f, g, h, i, j]),
                        )
                    }
                    _ => chunk[0],
                })
                .collect();
        }
        row[0]
    })
    .expect("a fan")
}

fn encode(n: u64) -> Arc<str> {
    serde_json::to_string(&n).expect("a number has a JSON form").into()
}

fn decode(text: &str) -> u64 {
    serde_json::from_str(text).expect("it was written by us")
}

async fn chain_by_hand(nodes: usize) -> usize {
    let mut value = encode(1);
    for _ in 0..nodes {
        value = encode(next(decode(&value)).await.expect("it does not fail"));
    }
    value.len()
}

/// Each layer waits for the previous one, and each node is a task.
async fn layers_by_hand(layers: impl Iterator<Item = usize>) -> usize {
    let mut values: Vec<Arc<str>> = vec![encode(1); WIDE];
    for wide in layers {
        let mut set = JoinSet::new();
        for at in 0..wide {
            let before = values.clone();
            set.spawn(async move {
                let read = std::array::from_fn(|at| decode(&before[at % before.len()]));
                (at, encode(sum(read).await.expect("it does not fail")))
            });
        }
        let mut after = vec![Arc::clone(&values[0]); wide];
        while let Some(done) = set.join_next().await {
            let (at, value) = done.expect("it does not panic");
            after[at] = value;
        }
        after.truncate(WIDE.max(wide.min(WIDE)));
        values = after;
    }
    values[0].len()
}

async fn fan_by_hand(nodes: usize) -> usize {
    let value = encode(1);
    let mut set = JoinSet::new();
    for at in 0..nodes * 9 / 10 {
        let value = Arc::clone(&value);
        set.spawn(
            async move { (at, encode(next(decode(&value)).await.expect("it does not fail"))) },
        );
    }
    let mut row = vec![Arc::clone(&value); nodes * 9 / 10];
    while let Some(done) = set.join_next().await {
        let (at, value) = done.expect("it does not panic");
        row[at] = value;
    }
    while row.len() >= WIDE {
        let mut set = JoinSet::new();
        let mut after = Vec::new();
        for chunk in row.chunks(WIDE) {
            after.push(Arc::clone(&chunk[0]));
            if chunk.len() == WIDE {
                let (at, chunk) = (after.len() - 1, chunk.to_vec());
                set.spawn(async move {
                    let read = std::array::from_fn(|at| decode(&chunk[at]));
                    (at, encode(sum(read).await.expect("it does not fail")))
                });
            }
        }
        while let Some(done) = set.join_next().await {
            let (at, value) = done.expect("it does not panic");
            after[at] = value;
        }
        row = after;
    }
    row[0].len()
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for nodes in [10_u32, 100, 1_000, 10_000] {
        let n = nodes as usize;
        cases.push(case("chain", nodes, 16.0, chain(n), move || chain_by_hand(n)));
        cases.push(case("layers", nodes, 3.0, layers(n), move || {
            layers_by_hand((0..n / WIDE).map(|_| WIDE))
        }));
        cases.push(case("fan", nodes, 3.0, fan(n), move || fan_by_hand(n)));
    }
    cases
}

fn case<F: Future<Output = usize> + 'static>(
    shape: &str,
    nodes: u32,
    target: f64,
    workflow: Workflow<(u64,), u64>,
    by_hand: impl Fn() -> F + 'static,
) -> Case {
    let tokio =
        || tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let (for_floor, for_ours) = (tokio(), tokio());
    let runtime = Runtime::builder().build();
    Case {
        name: format!("workflow {shape}, {nodes} nodes"),
        units: nodes,
        target,
        floor: Box::new(move || for_floor.block_on(by_hand())),
        ours: Box::new(move || {
            usize::try_from(for_ours.block_on(workflow.run(&runtime, 1)).expect("it does not fail"))
                .unwrap_or(0)
        }),
    }
}
