//! Divides a level into the parts that no edge connects, lays out each, and packs them.

use super::alignment::cross_positions;
use super::ordering::ordered_layers;
use super::ranks::layers;
use super::routes::PlacedComponent;
use super::vertices::Vertices;
use super::{LevelEdge, LevelLayout, LevelNode, Route, Spacing};

/// Proportion of the extents along the main and the cross axis of boxes without edges.
const SINGLES_PROPORTION: f64 = 2.0;

/// The boxes and edges of one level. The edges have no cycle.
#[derive(Clone, Debug, Default)]
pub(crate) struct LevelGraph {
    pub(crate) nodes: Vec<LevelNode>,
    pub(crate) edges: Vec<LevelEdge>,
}

impl LevelGraph {
    /// Computes the positions. Parts of the level follow each other along the cross axis in the
    /// order of their first boxes; boxes without edges come last, in rows.
    pub(crate) fn layout(&self, spacing: Spacing) -> LevelLayout {
        let mut layout = LevelLayout {
            starts: vec![(0.0, 0.0); self.nodes.len()],
            routes: vec![Route::default(); self.edges.len()],
            ..LevelLayout::default()
        };
        let (parts, singles) = self.parts();
        // Index of each box in its part.
        let mut local = vec![0; self.nodes.len()];
        for part in parts {
            for (index, node) in part.nodes.iter().enumerate() {
                local[*node] = index;
            }
            let start = if layout.cross > 0.0 { layout.cross + spacing.parts } else { 0.0 };
            let placed = part.layout(self, &local, spacing);
            for (node, (main, cross)) in part.nodes.iter().zip(placed.starts) {
                layout.starts[*node] = (main, cross + start);
            }
            for (edge, mut route) in part.edges.iter().zip(placed.routes) {
                route.stations.iter_mut().for_each(|station| station.cross += start);
                route.label = route.label.map(|(main, cross)| (main, cross + start));
                layout.routes[*edge] = route;
            }
            layout.main = layout.main.max(placed.main);
            layout.cross = start + placed.cross;
        }
        self.place_singles(&singles, spacing, &mut layout);
        layout
    }

    /// Places boxes without edges in rows along the main axis.
    fn place_singles(&self, singles: &[usize], spacing: Spacing, layout: &mut LevelLayout) {
        let gap = spacing.boxes;
        let area: f64 = singles
            .iter()
            .map(|single| (self.nodes[*single].main + gap) * (self.nodes[*single].cross + gap))
            .sum();
        let length = (area * SINGLES_PROPORTION).sqrt().max(layout.main);
        let mut row = if layout.cross > 0.0 { layout.cross + spacing.parts } else { 0.0 };
        let (mut main, mut cross) = (0.0, 0.0_f64);
        for single in singles {
            let node = self.nodes[*single];
            if main > 0.0 && main + node.main > length {
                row += cross + gap;
                (main, cross) = (0.0, 0.0);
            }
            layout.starts[*single] = (main, row);
            layout.main = layout.main.max(main + node.main);
            layout.cross = layout.cross.max(row + node.cross);
            cross = cross.max(node.cross);
            main += node.main + gap;
        }
    }

    /// Returns the connected parts and the boxes without edges.
    fn parts(&self) -> (Vec<Part>, Vec<usize>) {
        let mut leader: Vec<usize> = (0..self.nodes.len()).collect();
        for edge in &self.edges {
            let (from, to) = (find(&mut leader, edge.from), find(&mut leader, edge.to));
            // The box that comes first leads its part.
            leader[from.max(to)] = from.min(to);
        }
        let mut has_edges = vec![false; self.nodes.len()];
        for edge in &self.edges {
            has_edges[edge.from] = true;
            has_edges[edge.to] = true;
        }
        let mut parts: Vec<Part> = Vec::new();
        let mut part_of_leader = vec![None; self.nodes.len()];
        let mut singles = Vec::new();
        for node in 0..self.nodes.len() {
            if !has_edges[node] {
                singles.push(node);
                continue;
            }
            let leader = find(&mut leader, node);
            let part = *part_of_leader[leader].get_or_insert_with(|| {
                parts.push(Part::default());
                parts.len() - 1
            });
            parts[part].nodes.push(node);
        }
        for (index, edge) in self.edges.iter().enumerate() {
            if let Some(part) = part_of_leader[find(&mut leader, edge.from)] {
                parts[part].edges.push(index);
            }
        }
        (parts, singles)
    }
}

/// Returns the leader of a part, and shortens the way to it.
fn find(leader: &mut [usize], mut node: usize) -> usize {
    while leader[node] != node {
        leader[node] = leader[leader[node]];
        node = leader[node];
    }
    node
}

/// A connected part of a level.
#[derive(Debug, Default)]
struct Part {
    nodes: Vec<usize>,
    edges: Vec<usize>,
}

impl Part {
    fn layout(&self, level: &LevelGraph, local: &[usize], spacing: Spacing) -> PlacedComponent {
        let nodes: Vec<LevelNode> = self.nodes.iter().map(|node| level.nodes[*node]).collect();
        let mut edges = Vec::new();
        for edge in &self.edges {
            let mut edge: LevelEdge = level.edges[*edge].clone();
            edge.from = local[edge.from];
            edge.to = local[edge.to];
            edges.push(edge);
        }
        let layers = layers(&nodes, &edges);
        let vertices = Vertices::new(&nodes, &edges, &layers);
        let order = ordered_layers(&vertices);
        let middles = cross_positions(&vertices, &order, spacing);
        PlacedComponent::new(&nodes, &edges, &vertices, middles, spacing)
    }
}
