//! Large diagrams: time, extreme forms, and the effect of an additional node.

mod checks;

use std::time::Instant;

use agentflow_layout::{
    Diagram, DiagramEdge, DiagramGroup, DiagramNode, LayoutDirection, LayoutOptions, SvgWriter,
};

/// A generator of numbers that needs no crate.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// Creates a diagram like a workflow: rows of 20 nodes, one or two edges from the row before, and
/// some from earlier rows.
fn workflow(nodes: usize, seed: u64) -> Diagram {
    let mut numbers = Numbers(seed);
    let mut diagram = Diagram::new("workflow");
    for node in 0..nodes {
        diagram.nodes.push(DiagramNode::new(format!("n{node}"), format!("step_{node}\ntool")));
        let row = node / 20;
        if row == 0 {
            continue;
        }
        for _ in 0..1 + numbers.below(2) {
            let from = (row - 1) * 20 + numbers.below(20);
            diagram.edges.push(DiagramEdge::new(format!("n{from}"), format!("n{node}")));
        }
        if numbers.below(20) == 0 {
            let back = 1 + numbers.below(row.min(5));
            let from = (row - back) * 20 + numbers.below(20);
            diagram.edges.push(DiagramEdge::new(format!("n{from}"), format!("n{node}")));
        }
    }
    diagram
}

/// Creates a diagram as people write workflows: steps one after another, branches that meet again,
/// and now and then a step that reads an earlier output.
fn written_workflow(nodes: usize, seed: u64) -> Diagram {
    let mut numbers = Numbers(seed);
    let mut diagram = Diagram::new("workflow");
    let mut ends: Vec<usize> = Vec::new();
    while diagram.nodes.len() < nodes {
        let starts = std::mem::take(&mut ends);
        let branches = if numbers.below(2) == 0 { 1 } else { 2 + numbers.below(3) };
        for _ in 0..branches {
            let mut before = starts.clone();
            for _ in 0..1 + numbers.below(3) {
                let node = diagram.nodes.len();
                diagram.nodes.push(DiagramNode::new(format!("n{node}"), format!("step_{node}")));
                if node > 4 && numbers.below(6) == 0 {
                    before.push(node - 1 - numbers.below(node.min(20)));
                }
                for from in before {
                    diagram.edges.push(DiagramEdge::new(format!("n{from}"), format!("n{node}")));
                }
                before = vec![node];
            }
            ends.extend(before);
        }
    }
    diagram
}

#[test]
#[ignore = "measures times, which are only useful in a release build"]
#[expect(clippy::print_stdout, reason = "the times are the result")]
fn time_of_large_diagrams() {
    let mut without_edges = workflow(10_000, 42);
    without_edges.edges.clear();
    let diagrams = [
        ("written", written_workflow(1000, 42)),
        ("100", workflow(100, 42)),
        ("1,000", workflow(1000, 42)),
        ("10,000", workflow(10_000, 42)),
        ("10,000 written", written_workflow(10_000, 42)),
        ("chain with inputs", chain_with_inputs(3000)),
        ("dense", dense(150)),
        ("no edges", without_edges),
    ];
    for (name, diagram) in diagrams {
        let began = Instant::now();
        let layout = diagram.layout();
        let laid_out = began.elapsed();
        let svg = SvgWriter::new().write(&layout);
        println!(
            "{name}: {} nodes, {} edges: layout {laid_out:?}, with SVG {:?}, {} bytes, {} x {}",
            diagram.nodes.len(),
            diagram.edges.len(),
            began.elapsed(),
            svg.len(),
            layout.width,
            layout.height
        );
    }
}

/// Returns the median and the largest distance by which nodes move, relative to the median move of
/// all nodes, and the number of nodes that move further than 100 pixels.
fn moves(before: &Diagram, after: &Diagram) -> (f64, f64, usize) {
    let options = LayoutOptions::default().direction(LayoutDirection::LeftToRight);
    let (one, two) = (before.layout_with(options), after.layout_with(options));
    let mut by: Vec<(f64, f64)> = Vec::new();
    for node in &one.nodes {
        let same = two.nodes.iter().find(|other| other.id == node.id).unwrap();
        by.push((same.area.x - node.area.x, same.area.y - node.area.y));
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let x = median(by.iter().map(|move_of| move_of.0).collect());
    let y = median(by.iter().map(|move_of| move_of.1).collect());
    let distances: Vec<f64> = by.iter().map(|by| (by.0 - x).hypot(by.1 - y)).collect();
    let largest = distances.iter().copied().fold(0.0, f64::max);
    let far = distances.iter().filter(|distance| **distance > 100.0).count();
    (median(distances), largest, far)
}

/// Adds a node at the end of diagrams of 60 nodes. Returns the median of the nodes' moves, and the
/// part of the nodes that move further than 100 pixels.
#[expect(clippy::print_stdout, reason = "the distances are worth seeing")]
fn effect_of_one_more_node(create: impl Fn(u64) -> Diagram) -> (f64, f64) {
    let (mut nodes, mut far) = (0, 0);
    let mut medians = Vec::new();
    for seed in 0..40 {
        let before = create(seed);
        let from = Numbers(seed).below(before.nodes.len());
        let after = before
            .clone()
            .with_node(DiagramNode::new("new", "new\ntool"))
            .with_edge(DiagramEdge::new(format!("n{from}"), "new"));
        let (median, largest, of_diagram) = moves(&before, &after);
        println!("seed {seed}: median {median:.0}, largest {largest:.0}, far {of_diagram}");
        nodes += before.nodes.len();
        far += of_diagram;
        medians.push(median);
    }
    medians.sort_by(f64::total_cmp);
    println!("median of medians {:.0}, far {far} of {nodes}", medians[20]);
    (medians[20], far as f64 / nodes as f64)
}

#[test]
fn one_more_node_moves_few_others() {
    let (median, far) = effect_of_one_more_node(|seed| written_workflow(60, seed));
    assert!(median <= 10.0 && far <= 0.04, "median {median}, far {far}");
    // Random edges have no order that fits them all, so the order of the layers is less stable.
    let (median, far) = effect_of_one_more_node(|seed| workflow(60, seed));
    assert!(median <= 10.0 && far <= 0.2, "median {median}, far {far}");
}

/// Creates a chain in which every node also reads the first one.
fn chain_with_inputs(nodes: usize) -> Diagram {
    let mut diagram = Diagram::new("chain");
    for node in 0..nodes {
        diagram.nodes.push(DiagramNode::new(node.to_string(), "step"));
        diagram.edges.push(DiagramEdge::new(node.to_string(), (node + 1).to_string()));
        diagram.edges.push(DiagramEdge::new("0", node.to_string()).label("input"));
    }
    diagram
}

/// Creates a diagram with an edge with a label between each two nodes.
fn dense(nodes: usize) -> Diagram {
    let mut diagram = Diagram::new("dense");
    for node in 0..nodes {
        diagram.nodes.push(DiagramNode::new(node.to_string(), "step"));
        for before in 0..node {
            diagram.edges.push(DiagramEdge::new(before.to_string(), node.to_string()).label("x"));
        }
    }
    diagram
}

#[test]
fn a_long_chain_is_laid_out() {
    // The edges from the first node have too many points, so most are led around the chain.
    let layout = chain_with_inputs(150).layout();
    assert!(!layout.is_left_to_right);
    assert_eq!(layout.nodes.len(), 150);
    checks::check_edges(&layout);
}

#[test]
fn a_dense_diagram_is_laid_out() {
    let layout = dense(25).layout();
    assert_eq!(layout.edges.len(), 25 * 24 / 2);
    checks::check_edges(&layout);
}

#[test]
fn groups_in_groups_are_bounded() {
    let mut diagram = Diagram::new("deep");
    for group in 0..500_usize {
        let around = group.saturating_sub(1);
        diagram
            .groups
            .push(DiagramGroup::new(format!("g{group}"), "group").in_group(format!("g{around}")));
    }
    diagram.nodes.push(DiagramNode::new("n", "n").in_group("g499"));
    let layout = diagram.layout();
    let inner = layout.groups.iter().find(|group| group.id == "g499").unwrap();
    assert!(inner.area.contains(&layout.nodes[0].area));
    assert!(layout.groups.iter().all(|group| group.depth <= 64));
}
