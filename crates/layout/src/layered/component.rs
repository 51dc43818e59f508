//! Divides a level into the parts that no edge connects, lays out each, and packs them.

use super::alignment::cross_positions;
use super::ordering::ordered_layers;
use super::ranks::layers;
use super::routes::PlacedComponent;
use super::vertices::Vertices;
use super::{EdgeRoute, LevelEdge, LevelLayout, LevelNode, Spacing};

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
    /// order of their first boxes. Consecutive boxes without edges form rows.
    pub(crate) fn layout(&self, spacing: Spacing) -> LevelLayout {
        let mut layout = LevelLayout {
            starts: vec![(0.0, 0.0); self.nodes.len()],
            routes: vec![EdgeRoute::default(); self.edges.len()],
            ..LevelLayout::default()
        };
        let parts = self.parts();
        // Index of each box in its part.
        let mut local = vec![0; self.nodes.len()];
        for part in &parts {
            for (index, node) in part.nodes.iter().enumerate() {
                local[*node] = index;
            }
        }
        for group in parts.chunk_by(|one, next| one.edges.is_empty() && next.edges.is_empty()) {
            let start = if layout.cross > 0.0 { layout.cross + spacing.parts } else { 0.0 };
            match group {
                [part] if !part.edges.is_empty() => {
                    let placed = part.layout(self, &local, spacing);
                    layout.add(part, placed, start);
                }
                singles => self.place_singles(singles, start, spacing, &mut layout),
            }
        }
        layout
    }

    /// Places boxes without edges in rows along the main axis.
    fn place_singles(
        &self,
        singles: &[LevelPart],
        start: f64,
        spacing: Spacing,
        layout: &mut LevelLayout,
    ) {
        let gap = spacing.boxes;
        let nodes = || singles.iter().flat_map(|part| &part.nodes).copied();
        let area: f64 = nodes()
            .map(|single| (self.nodes[single].reserved + gap) * (self.nodes[single].cross + gap))
            .sum();
        let length = (area * SINGLES_PROPORTION).sqrt().max(layout.main);
        let (mut row, mut main, mut cross) = (start, 0.0, 0.0_f64);
        for single in nodes() {
            let node = self.nodes[single];
            if main > 0.0 && main + node.reserved > length {
                row += cross + gap;
                (main, cross) = (0.0, 0.0);
            }
            layout.starts[single] = (main, row);
            layout.main = layout.main.max(main + node.reserved);
            layout.cross = layout.cross.max(row + node.cross);
            cross = cross.max(node.cross);
            main += node.reserved + gap;
        }
    }

    /// Returns the connected parts in the order of their first boxes. A box without edges is a
    /// separate part.
    fn parts(&self) -> Vec<LevelPart> {
        let mut leader: Vec<usize> = (0..self.nodes.len()).collect();
        for edge in &self.edges {
            let (from, to) = (find(&mut leader, edge.from), find(&mut leader, edge.to));
            // The box that comes first leads its part.
            leader[from.max(to)] = from.min(to);
        }
        let mut parts: Vec<LevelPart> = Vec::new();
        let mut part_of = vec![0; self.nodes.len()];
        for node in 0..self.nodes.len() {
            let leader = find(&mut leader, node);
            if leader == node {
                part_of[node] = parts.len();
                parts.push(LevelPart::default());
            }
            part_of[node] = part_of[leader];
            parts[part_of[leader]].nodes.push(node);
        }
        for (index, edge) in self.edges.iter().enumerate() {
            parts[part_of[edge.from]].edges.push(index);
        }
        parts
    }
}

impl LevelLayout {
    /// Adds the positions of a part that starts at a position of the cross axis.
    fn add(&mut self, part: &LevelPart, placed: PlacedComponent, start: f64) {
        for (node, (main, cross)) in part.nodes.iter().zip(placed.starts) {
            self.starts[*node] = (main, cross + start);
        }
        for (edge, mut route) in part.edges.iter().zip(placed.routes) {
            route.stations.iter_mut().for_each(|station| station.cross += start);
            route.label = route.label.map(|(main, cross)| (main, cross + start));
            self.routes[*edge] = route;
        }
        self.main = self.main.max(placed.main);
        self.cross = start + placed.cross;
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
struct LevelPart {
    nodes: Vec<usize>,
    edges: Vec<usize>,
}

impl LevelPart {
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
