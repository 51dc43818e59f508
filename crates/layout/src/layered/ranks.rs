//! Assigns layers to the boxes of a component.

use super::{LevelEdge, LevelNode, LevelRole};

/// Returns the layer of each box, from 0. Every edge leads at least one layer further, an edge with
/// a label at least two.
pub(super) fn layers(nodes: &[LevelNode], edges: &[LevelEdge]) -> Vec<usize> {
    let mut leaving: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut entering: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (index, edge) in edges.iter().enumerate() {
        leaving[edge.from].push(index);
        entering[edge.to].push(index);
    }
    let order = topological_order(edges, &leaving, &entering);
    let mut layer = vec![0; nodes.len()];
    for &node in &order {
        for &edge in &entering[node] {
            layer[node] = layer[node].max(layer[edges[edge].from] + min_length(&edges[edge]));
        }
    }
    let last = layer.iter().copied().max().unwrap_or_default();
    for (node, layer) in nodes.iter().zip(&mut layer) {
        if node.role == LevelRole::Exit {
            *layer = last;
        }
    }
    shorten(nodes, edges, &order, &leaving, &entering, &mut layer);
    layer
}

/// Moves boxes towards their successors where that makes the edges shorter in total. The longest
/// paths put a box as early as possible, so an input that is needed late would be far from its
/// reader.
fn shorten(
    nodes: &[LevelNode],
    edges: &[LevelEdge],
    order: &[usize],
    leaving: &[Vec<usize>],
    entering: &[Vec<usize>],
    layer: &mut [usize],
) {
    // Boxes whose only successor can pull them and everything before them along without making an
    // edge longer.
    let mut follows = vec![false; nodes.len()];
    for &node in order {
        follows[node] = nodes[node].role == LevelRole::Box
            && leaving[node].len() == 1
            && entering[node].iter().all(|edge| follows[edges[*edge].from]);
    }
    for &node in order.iter().rev() {
        let staying = entering[node].iter().filter(|edge| !follows[edges[**edge].from]).count();
        if nodes[node].role != LevelRole::Box || leaving[node].len() <= staying {
            continue;
        }
        let latest = leaving[node]
            .iter()
            .map(|edge| layer[edges[*edge].to] - min_length(&edges[*edge]))
            .min();
        layer[node] = latest.unwrap_or(layer[node]).max(layer[node]);
    }
    // The boxes of the first layers may all have moved.
    let first = layer.iter().copied().min().unwrap_or_default();
    layer.iter_mut().for_each(|layer| *layer -= first);
}

fn min_length(edge: &LevelEdge) -> usize {
    if edge.label.is_some() { 2 } else { 1 }
}

/// Returns the boxes so that each comes after its predecessors.
fn topological_order(
    edges: &[LevelEdge],
    leaving: &[Vec<usize>],
    entering: &[Vec<usize>],
) -> Vec<usize> {
    let mut open: Vec<usize> = entering.iter().map(Vec::len).collect();
    let mut order: Vec<usize> = (0..open.len()).filter(|node| open[*node] == 0).collect();
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        next += 1;
        for &edge in &leaving[node] {
            let to = edges[edge].to;
            open[to] -= 1;
            if open[to] == 0 {
                order.push(to);
            }
        }
    }
    order
}
